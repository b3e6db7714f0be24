"""The numbers of the paper, arXiv 1810.04805, development sets but Table 1.

Scores are in percent; `perplexity` is that of the masked LM on held-out text.
Figure 5 has no numbers in the paper, only a curve and two sentences: it ends
at the scores of Table 5, and "BERT-Base achieves almost 1.0% additional
accuracy on MNLI when trained on 1M steps compared to 500k steps" (C.1).
"""

# Experiment -> row -> column -> number.
Numbers = dict[str, dict[str, dict[str, float]]]

_TABLE_1 = (
    "MNLI-m",
    "MNLI-mm",
    "QQP",
    "QNLI",
    "SST-2",
    "CoLA",
    "STS-B",
    "MRPC",
    "RTE",
    "Average",
)
_TABLE_5 = ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD")
_TABLE_6 = ("perplexity", "MNLI-m", "MRPC", "SST-2")
_TABLE_8 = ("MNLI-m", "NER", "NER-features")

BERT, NO_NSP = "BERT", "No NSP"
LTR, LTR_BILSTM = "LTR & No NSP", "+ BiLSTM"
SINGLE, ENSEMBLE = "Single", "Ensemble"
TRIVIAQA_SINGLE, TRIVIAQA_ENSEMBLE = "Single, TriviaQA", "Ensemble, TriviaQA"
DOCUMENTS, SHUFFLED = "Documents", "Shuffled sentences"
BOTH_AT_ONCE, LEFT_AND_RIGHT = "Bidirectional", "LTR + RTL"

# Where the numbers stand, and what the paper calls the table.
SOURCES = {
    "table1": "Table 1, section 4.1: GLUE. Its numbers are of the test sets, "
    "which GLUE's server alone scores, ours of the development sets. The "
    "average is of the nine numbers before it, without WNLI",
    "table2": "Table 2, section 4.2: SQuAD 1.1, BERT-Large where no other is "
    "named. Its ensemble is of 7 models with pre-training runs of their own, "
    "ours of the fine-tuning runs of one model",
    "table3": "Table 3, section 4.3: SQuAD 2.0, BERT-Large. The threshold of "
    "no answer is tuned on the development set in both",
    "table4": "Table 4, section 4.4: SWAG",
    "table5": "Table 5, section 5.1: the effect of the pre-training tasks",
    "table6": "Table 6, section 5.2: the effect of the model size",
    "table7": "Table 7, section 5.3: fine-tuning and frozen layers of "
    "BERT-Base on CoNLL-2003, cased, with the document around each sentence",
    "table8": "Table 8, appendix C.2: masking strategies",
    "figure5": "Figure 5, appendix C.1: the number of training steps",
    "sentence_order": 'section 3.1, which has no numbers: "It is critical to '
    "use a document-level corpus rather than a shuffled sentence-level "
    'corpus". Both rows read the same sentences, in documents of the same '
    "lengths, without next sentence prediction",
    "two_directions": "section 5.1, which has no numbers: a left-to-right and "
    'a right-to-left model, concatenated as in ELMo, would be "strictly less '
    'powerful than a deep bidirectional model". Both models together have as '
    "many parameters in their layers as the bidirectional one, without next "
    "sentence prediction. A linear layer on concatenated vectors is the sum of "
    "one on each; here each is fine-tuned with its model, and their logits are "
    "averaged",
}
# Of the final model, appendix A.2: "97%-98% accuracy on NSP".
NEXT_SENTENCE_ACCURACY = "97 to 98"


# Figure 5, MNLI-m: curve -> pre-training step -> score. Its ends are Table 5's.
FIGURE_5_ENDS = {BERT: {1_000_000: 84.4}, LTR: {1_000_000: 82.1}}
# 84.4 less "almost 1.0%".
FIGURE_5_ABOUT = {BERT: {500_000: 83.4}}
FIGURE_5_STEPS = 1_000_000


def _rows(
    columns: tuple[str, ...], rows: dict[str, tuple[float, ...]]
) -> dict[str, dict[str, float]]:
    return {
        row: dict(zip(columns, numbers, strict=True))
        for row, numbers in rows.items()
    }


PAPER: Numbers = {
    "table1": _rows(
        _TABLE_1,
        {
            BERT: (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6),
            "BERT-Large": (
                *(86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1, 82.1),
            ),
        },
    ),
    "table2": _rows(
        ("EM", "SQuAD"),
        {
            SINGLE: (84.1, 90.9),
            ENSEMBLE: (85.8, 91.8),
            TRIVIAQA_SINGLE: (84.2, 91.1),
            TRIVIAQA_ENSEMBLE: (86.2, 92.2),
            "Single, BERT-Base": (80.8, 88.5),
        },
    ),
    "table3": _rows(("EM", "SQuAD 2.0"), {SINGLE: (78.7, 81.9)}),
    "table4": _rows(("SWAG",), {BERT: (81.6,), "BERT-Large": (86.6,)}),
    "table5": _rows(
        _TABLE_5,
        {
            BERT: (84.4, 88.4, 86.7, 92.7, 88.5),
            NO_NSP: (83.9, 84.9, 86.5, 92.6, 87.9),
            LTR: (82.1, 84.3, 77.5, 92.1, 77.8),
            LTR_BILSTM: (82.1, 84.1, 75.7, 91.6, 84.9),
        },
    ),
    # The rows are named as reproduction.scales.Size.name does.
    "table6": _rows(
        _TABLE_6,
        {
            "L3_H768_A12": (5.84, 77.9, 79.8, 88.4),
            "L6_H768_A3": (5.24, 80.6, 82.2, 90.7),
            "L6_H768_A12": (4.68, 81.9, 84.8, 91.3),
            "L12_H768_A12": (3.99, 84.4, 86.7, 92.9),
            "L12_H1024_A16": (3.54, 85.7, 86.9, 93.3),
            "L24_H1024_A16": (3.23, 86.6, 87.8, 93.7),
        },
    ),
    "table7": _rows(
        ("NER",),
        {
            "Fine-tuning": (96.4,),
            "Embeddings": (91.0,),
            "Second-to-Last Hidden": (95.6,),
            "Last Hidden": (94.9,),
            "Weighted Sum Last Four Hidden": (95.9,),
            "Concat Last Four Hidden": (96.1,),
            "Weighted Sum All Layers": (95.5,),
            "Fine-tuning, BERT-Large": (96.6,),
        },
    ),
    # Share of the predicted tokens in percent: [MASK], same, random.
    "table8": _rows(
        _TABLE_8,
        {
            "80/10/10": (84.2, 95.4, 94.9),
            "100/0/0": (84.3, 94.9, 94.0),
            "80/0/20": (84.1, 95.2, 94.6),
            "80/20/0": (84.4, 95.2, 94.7),
            "0/20/80": (83.7, 94.8, 94.6),
            "0/0/100": (83.6, 94.9, 94.6),
        },
    ),
    "figure5": {},
    "sentence_order": {},
    "two_directions": {},
}
