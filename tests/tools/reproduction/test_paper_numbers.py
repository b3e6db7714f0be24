"""The paper's numbers, typed a second time as the paper prints its tables."""

import pytest

from tools.reproduction import paper_numbers
from tools.reproduction.paper_numbers import PAPER

TABLE_5 = """
BERT            84.4 88.4 86.7 92.7 88.5
No NSP          83.9 84.9 86.5 92.6 87.9
LTR & No NSP    82.1 84.3 77.5 92.1 77.8
+ BiLSTM        82.1 84.1 75.7 91.6 84.9
"""
TABLE_6 = """
L3_H768_A12     5.84 77.9 79.8 88.4
L6_H768_A3      5.24 80.6 82.2 90.7
L6_H768_A12     4.68 81.9 84.8 91.3
L12_H768_A12    3.99 84.4 86.7 92.9
L12_H1024_A16   3.54 85.7 86.9 93.3
L24_H1024_A16   3.23 86.6 87.8 93.7
"""
TABLE_8 = """
80/10/10        84.2 95.4 94.9
100/0/0         84.3 94.9 94.0
80/0/20         84.1 95.2 94.6
80/20/0         84.4 95.2 94.7
0/20/80         83.7 94.8 94.6
0/0/100         83.6 94.9 94.6
"""


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("table5", TABLE_5, ["MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD"]),
        ("table6", TABLE_6, ["perplexity", "MNLI-m", "MRPC", "SST-2"]),
        ("table8", TABLE_8, ["MNLI-m", "NER", "NER-features"]),
    ],
)
def test_numbers_are_the_papers(name, text, columns):
    lines = [line.rsplit(None, len(columns)) for line in text.split("\n")]
    assert PAPER[name] == {
        label: dict(zip(columns, map(float, numbers), strict=True))
        for label, *numbers in filter(None, lines)
    }


def test_figure_5_ends_at_the_scores_of_table_5():
    for curve, points in paper_numbers.FIGURE_5_ENDS.items():
        wanted = paper_numbers.PAPER["table5"][curve]["MNLI-m"]
        assert points == {paper_numbers.FIGURE_5_STEPS: wanted}
    (end,) = paper_numbers.FIGURE_5_ENDS[paper_numbers.BERT].values()
    (about,) = paper_numbers.FIGURE_5_ABOUT[paper_numbers.BERT].values()
    assert about == pytest.approx(end - 1.0)
