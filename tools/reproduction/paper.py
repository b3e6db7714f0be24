"""The paper's experiments: titles, numbers and claims (arXiv 1810.04805).

Scores are in percent, of development sets except in Table 1; `perplexity` is
that of the masked LM on held-out text. Figure 5 has no numbers in the paper,
only a curve and two sentences: it ends at the scores of Table 5, and
"BERT-Base achieves almost 1.0% additional accuracy on MNLI when trained on 1M
steps compared to 500k steps" (C.1).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

PERPLEXITY, AVERAGE = "perplexity", "Average"  # columns that no task has

BERT, NO_NSP = "BERT", "No NSP"
LTR, LTR_BILSTM = "LTR & No NSP", "+ BiLSTM"
SINGLE, ENSEMBLE = "Single", "Ensemble"
TRIVIAQA_SINGLE, TRIVIAQA_ENSEMBLE = "Single, TriviaQA", "Ensemble, TriviaQA"
FINE_TUNED, CONCAT_FOUR = "Fine-tuning", "Concat Last Four Hidden"
DOCUMENTS, SHUFFLED = "Documents", "Shuffled sentences"
BOTH_AT_ONCE, LEFT_AND_RIGHT = "Bidirectional", "LTR + RTL"


class Claim(NamedTuple):
    """The cells of a row are below those of another one, or above them."""

    row: str
    other: str
    columns: Sequence[str] = ()  # (): those of all tasks
    without: Sequence[str] = ()  # but these
    is_above: bool = False


class Paper(NamedTuple):
    """What the paper has about an experiment."""

    title: str
    source: str  # where it stands, and how ours differs
    columns: Sequence[str] = ()
    numbers: Mapping[str, Sequence[float]] = {}  # row -> number of each column
    claims: Sequence[Claim] = ()


# Table 7: row -> --feature_layers of run_ner.py, and the number.
FROZEN_LAYERS = {
    "Embeddings": ("embeddings", 91.0),
    "Second-to-Last Hidden": ("second_to_last", 95.6),
    "Last Hidden": ("last", 94.9),
    "Weighted Sum Last Four Hidden": ("weighted_sum_last_four", 95.9),
    CONCAT_FOUR: ("concat_last_four", 96.1),
    "Weighted Sum All Layers": ("weighted_sum_all", 95.5),
}

# In the order of the paper. The last two are of sentences without a table.
PAPER = {
    "table1": Paper(
        "Table 1: GLUE",
        "Table 1, section 4.1: GLUE. Its numbers are of the test sets, which "
        "GLUE's server alone scores, ours of the development sets. The average "
        "is of the nine numbers before it, without WNLI",
        ("MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC")
        + ("RTE", AVERAGE),
        {
            BERT: [84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6],
            "BERT-Large": [86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3]
            + [70.1, 82.1],
        },
    ),
    "table2": Paper(
        "Table 2: SQuAD 1.1",
        "Table 2, section 4.2: SQuAD 1.1, BERT-Large where no other is named. "
        "Its ensemble is of 7 models with pre-training runs of their own, ours "
        "of the fine-tuning runs of one model",
        ("EM", "SQuAD"),
        {
            SINGLE: [84.1, 90.9],
            ENSEMBLE: [85.8, 91.8],
            TRIVIAQA_SINGLE: [84.2, 91.1],
            TRIVIAQA_ENSEMBLE: [86.2, 92.2],
            "Single, BERT-Base": [80.8, 88.5],
        },
        [
            Claim(ENSEMBLE, SINGLE, is_above=True),
            Claim(TRIVIAQA_SINGLE, SINGLE, is_above=True),
        ],
    ),
    "table3": Paper(
        "Table 3: SQuAD 2.0",
        "Table 3, section 4.3: SQuAD 2.0, BERT-Large. The threshold of no "
        "answer is tuned on the development set in both",
        ("EM", "SQuAD 2.0"),
        {SINGLE: [78.7, 81.9]},
    ),
    "table4": Paper(
        "Table 4: SWAG",
        "Table 4, section 4.4: SWAG",
        ("SWAG",),
        {BERT: [81.6], "BERT-Large": [86.6]},
    ),
    "table5": Paper(
        "Table 5: pre-training tasks",
        "Table 5, section 5.1: the effect of the pre-training tasks",
        ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD"),
        {
            BERT: [84.4, 88.4, 86.7, 92.7, 88.5],
            NO_NSP: [83.9, 84.9, 86.5, 92.6, 87.9],
            LTR: [82.1, 84.3, 77.5, 92.1, 77.8],
            LTR_BILSTM: [82.1, 84.1, 75.7, 91.6, 84.9],
        },
        [
            # "Hurts performance significantly on QNLI, MNLI, and SQuAD 1.1".
            Claim(NO_NSP, BERT, ["MNLI-m", "QNLI", "SQuAD"]),
            Claim(LTR, NO_NSP),
            Claim(LTR_BILSTM, LTR, ["SQuAD"], is_above=True),
            Claim(LTR_BILSTM, NO_NSP, ["SQuAD"]),
            Claim(LTR_BILSTM, LTR, without=["SQuAD"]),
        ],
    ),
    # The rows are named as Size.name does, in scales.py.
    "table6": Paper(
        "Table 6: model size",
        "Table 6, section 5.2: the effect of the model size",
        (PERPLEXITY, "MNLI-m", "MRPC", "SST-2"),
        {
            "L3_H768_A12": [5.84, 77.9, 79.8, 88.4],
            "L6_H768_A3": [5.24, 80.6, 82.2, 90.7],
            "L6_H768_A12": [4.68, 81.9, 84.8, 91.3],
            "L12_H768_A12": [3.99, 84.4, 86.7, 92.9],
            "L12_H1024_A16": [3.54, 85.7, 86.9, 93.3],
            "L24_H1024_A16": [3.23, 86.6, 87.8, 93.7],
        },
    ),
    "table7": Paper(
        "Table 7: named entities",
        "Table 7, section 5.3: fine-tuning and frozen layers of BERT-Base on "
        "CoNLL-2003, cased, with the document around each sentence",
        ("NER",),
        {
            FINE_TUNED: [96.4],
            **{row: [number] for row, (_, number) in FROZEN_LAYERS.items()},
            "Fine-tuning, BERT-Large": [96.6],
        },
        [
            Claim(row, best)
            for best, row in product((FINE_TUNED, CONCAT_FOUR), FROZEN_LAYERS)
            if row != best
        ],
    ),
    # Share of the predicted tokens in percent: [MASK], same, random.
    "table8": Paper(
        "Table 8: masking",
        "Table 8, appendix C.2: masking strategies",
        ("MNLI-m", "NER", "NER-features"),
        {
            "80/10/10": [84.2, 95.4, 94.9],
            "100/0/0": [84.3, 94.9, 94.0],
            "80/0/20": [84.1, 95.2, 94.6],
            "80/20/0": [84.4, 95.2, 94.7],
            "0/20/80": [83.7, 94.8, 94.6],
            "0/0/100": [83.6, 94.9, 94.6],
        },
        [
            Claim("0/0/100", "80/10/10"),
            Claim("100/0/0", "80/10/10", ["NER-features"]),
        ],
    ),
    "figure5": Paper(
        "Figure 5: pre-training steps",
        "Figure 5, appendix C.1: the number of training steps. It is a curve "
        "without numbers. Its ends are those of Table 5; its masked LM at "
        "500,000 steps is about 83.4, since the second half of the steps adds "
        '"almost 1.0%" (section C.1)',
    ),
    "sentence_order": Paper(
        "Documents and shuffled sentences",
        'section 3.1, which has no numbers: "It is critical to use a '
        "document-level corpus rather than a shuffled sentence-level "
        'corpus". Both rows read the same sentences, in documents of the same '
        "lengths, without next sentence prediction",
        claims=[Claim(SHUFFLED, DOCUMENTS)],
    ),
    "two_directions": Paper(
        "Two models of one direction, and one of both",
        "section 5.1, which has no numbers: a left-to-right and a "
        'right-to-left model, concatenated as in ELMo, would be "strictly less '
        'powerful than a deep bidirectional model". Both models together have '
        "as many parameters in their layers as the bidirectional one, without "
        "next sentence prediction. A linear layer on concatenated vectors is "
        "the sum of one on each; here each is fine-tuned with its model, and "
        "their logits are averaged",
        ("EM", "SQuAD"),
        claims=[Claim(LEFT_AND_RIGHT, BOTH_AT_ONCE)],
    ),
}

# Of the final model, a footnote of section 3.1: "97%-98% accuracy on NSP".
NEXT_SENTENCE_ACCURACY = "97 to 98"
