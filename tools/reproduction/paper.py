"""The paper's experiments: titles and numbers (arXiv 1810.04805).

Scores are in percent, of development sets except in Table 1; `perplexity` is
that of the masked LM on held-out text. Figure 5 has no numbers in the paper,
only a curve and two sentences: it ends at the scores of Table 5, and
"BERT-Base achieves almost 1.0% additional accuracy on MNLI when trained on 1M
steps compared to 500k steps" (C.1).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Columns that no task has.
AVERAGE = "Average"
PERPLEXITY, NEXT_SENTENCE = "perplexity", "next sentence"

BERT, NO_NSP = "BERT", "No NSP"
LTR, LTR_BILSTM = "LTR & No NSP", "+ BiLSTM"
SINGLE, ENSEMBLE = "Single", "Ensemble"
TRIVIAQA_SINGLE, TRIVIAQA_ENSEMBLE = "Single, TriviaQA", "Ensemble, TriviaQA"
FINE_TUNED = "Fine-tuning"


class Paper(NamedTuple):
    """What the paper has about an experiment."""

    title: str
    columns: Sequence[str] = ()
    numbers: Mapping[str, Sequence[float]] = {}  # row -> number of each column


# Table 7: row -> --feature_layers of run_ner.py, and the number.
FROZEN_LAYERS = {
    "Embeddings": ("embeddings", 91.0),
    "Second-to-Last Hidden": ("second_to_last", 95.6),
    "Last Hidden": ("last", 94.9),
    "Weighted Sum Last Four Hidden": ("weighted_sum_last_four", 95.9),
    "Concat Last Four Hidden": ("concat_last_four", 96.1),
    "Weighted Sum All Layers": ("weighted_sum_all", 95.5),
}

# In the order of the paper.
PAPER = {
    "table1": Paper(
        "Table 1: GLUE (section 4.1; the paper's numbers are of test sets)",
        ("MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC")
        + ("RTE", AVERAGE),
        {
            BERT: [84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4, 79.6],
            "BERT-Large": [86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3]
            + [70.1, 82.1],
        },
    ),
    "table2": Paper(
        "Table 2: SQuAD 1.1 (section 4.2; the paper's are of BERT-Large)",
        ("EM", "SQuAD"),
        {
            SINGLE: [84.1, 90.9],
            ENSEMBLE: [85.8, 91.8],
            TRIVIAQA_SINGLE: [84.2, 91.1],
            TRIVIAQA_ENSEMBLE: [86.2, 92.2],
            "Single, BERT-Base": [80.8, 88.5],
        },
    ),
    "table3": Paper(
        "Table 3: SQuAD 2.0 (section 4.3; the paper's are of BERT-Large)",
        ("EM", "SQuAD 2.0"),
        {SINGLE: [78.7, 81.9]},
    ),
    "table4": Paper(
        "Table 4: SWAG (section 4.4)",
        ("SWAG",),
        {BERT: [81.6], "BERT-Large": [86.6]},
    ),
    "table5": Paper(
        "Table 5: pre-training tasks (section 5.1)",
        ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD"),
        {
            BERT: [84.4, 88.4, 86.7, 92.7, 88.5],
            NO_NSP: [83.9, 84.9, 86.5, 92.6, 87.9],
            LTR: [82.1, 84.3, 77.5, 92.1, 77.8],
            LTR_BILSTM: [82.1, 84.1, 75.7, 91.6, 84.9],
        },
    ),
    # The rows are named as Size.name does, in scales.py.
    "table6": Paper(
        "Table 6: model size (section 5.2)",
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
        "Table 7: named entities (section 5.3, CoNLL-2003)",
        ("NER",),
        {
            FINE_TUNED: [96.4],
            **{row: [number] for row, (_, number) in FROZEN_LAYERS.items()},
            "Fine-tuning, BERT-Large": [96.6],
        },
    ),
    "table8": Paper(
        "Table 8: percent of [MASK], same and random tokens (appendix C.2)",
        ("MNLI-m", "NER", "NER-features"),
        {
            "80/10/10": [84.2, 95.4, 94.9],
            "100/0/0": [84.3, 94.9, 94.0],
            "80/0/20": [84.1, 95.2, 94.6],
            "80/20/0": [84.4, 95.2, 94.7],
            "0/20/80": [83.7, 94.8, 94.6],
            "0/0/100": [83.6, 94.9, 94.6],
        },
    ),
    "figure5": Paper("Figure 5: pre-training steps (appendix C.1)"),
}
