"""Tables and Figure 5, against values computed by hand."""

import math

import pytest

from tools.reproduction import report, tables
from tools.reproduction.paper import PAPER
from tools.reproduction.scales import Size
from tools.reproduction.steps import Row
from tools.reproduction.tables import (
    DEGENERATE,
    FAILED,
    NOT_RUN,
    Cell,
    Run,
    Table,
)

# The paper's numbers, typed a second time as it prints its tables.
TABLE_1 = """
BERT            84.6 83.4 71.2 90.5 93.5 52.1 85.8 88.9 66.4 79.6
BERT-Large      86.7 85.9 72.1 92.7 94.9 60.5 86.5 89.3 70.1 82.1
"""
TABLE_2 = """
Single              84.1 90.9
Ensemble            85.8 91.8
Single, TriviaQA    84.2 91.1
Ensemble, TriviaQA  86.2 92.2
Single, BERT-Base   80.8 88.5
"""
TABLE_7 = """
Fine-tuning                    96.4
Embeddings                     91.0
Second-to-Last Hidden          95.6
Last Hidden                    94.9
Weighted Sum Last Four Hidden  95.9
Concat Last Four Hidden        96.1
Weighted Sum All Layers        95.5
Fine-tuning, BERT-Large        96.6
"""
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


def cell(*values, key="eval_accuracy"):
    """Return a cell of some runs: scores, or the states of runs."""
    runs = [Run(state=v) if isinstance(v, str) else Run(v) for v in values]
    return Cell(key, steps=[""] * len(runs), runs=runs)


def row(label, step=0):
    """Return a row of a table."""
    return Row(label, Size(4, 32, 2), step=step)


def table_of(name, labels, **columns):
    """Return a table with the cells of its rows by column."""
    cells = {
        (label, column): value
        for column, values in columns.items()
        for label, value in zip(labels, values, strict=True)
        if value
    }
    return Table(name, list(columns), [*map(row, labels)], cells, {})


def table5(**columns):
    """Return Table 5 with the cells of its four rows by column."""
    return table_of("table5", PAPER["table5"].numbers, **columns)


def test_scores_of_steps_are_read_and_written():
    names = ["good", "lost", "absent", "nan", "bad"]
    table = table_of("table8", ["a"], NER=[Cell("f1", 100.0, "NER", names)])
    found = {
        "good": {"f1": 1 / 3},
        "lost": {},
        "absent": {},
        "nan": {"f1": math.nan},
        "bad": {"f1": 0.1, "degenerate": 1.0},
    }
    table = tables.with_scores(table, found, ["lost"])
    own = table.cell("a", "NER")
    assert own.values == [pytest.approx(100 / 3)]
    states = (FAILED, NOT_RUN, DEGENERATE)
    assert [own.count(state) for state in states] == [2, 1, 1]
    assert tables.as_csv(table).splitlines() == [
        "row,column,run,score,state",
        "a,NER,good,33.33333333,",
        "a,NER,lost,,failed",
        "a,NER,absent,,not run",
        "a,NER,nan,,failed",
        "a,NER,bad,10,degenerate",
    ]


def test_the_average_of_glue_is_that_of_the_paper():
    """Of nine numbers, without WNLI."""
    paper = dict(
        zip(
            PAPER["table1"].columns,
            PAPER["table1"].numbers["BERT"],
            strict=True,
        )
    )
    average = paper.pop("Average")
    cells = {c: [Cell("f1", 1.0, c, [c])] for c in [*paper, "WNLI"]}
    table = table_of("table1", ["BERT"], **cells)
    found = {name: {"f1": paper.get(name, 0.0)} for name in cells}
    own = tables.with_scores(table, found, []).cell("BERT", "Average")
    assert round(own.mean, 1) == average
    failed = tables.with_scores(table, found, ["QQP"])
    assert failed.cell("BERT", "Average").mean is None


def test_means_and_deviations():
    """80, 82 and 87: mean 83, squares 9 + 1 + 16 = 26, 26 / 2 = 13."""
    own = cell(80.0, 82.0, 87.0, FAILED)
    assert own.mean == 83 and own.deviation == pytest.approx(13**0.5)
    assert cell(80.0).deviation is None and cell(FAILED).mean is None


def test_the_papers_differences_are_to_the_row_that_ours_are_to():
    """Own sizes of Table 6, which begin with the paper's fourth row."""
    table = table_of("table6", ["L12_H768_A12", "L12_H1024_A16", "own"])
    # 86.7 and 86.9 in the paper; its first row, L3_H768_A12, has 79.8.
    found = table.papers.difference("L12_H1024_A16", "MRPC")
    assert found == pytest.approx(0.2)
    assert table.papers.difference("own", "MRPC") is None


def test_perplexities_of_different_tasks_have_no_difference():
    masked = [cell(value, key="masked_lm") for value in (10.0, 11.0)]
    table = table5(perplexity=[*masked, cell(30.0, key="lm"), None])
    assert table.difference("No NSP", "perplexity") == 1
    assert table.difference("LTR & No NSP", "perplexity") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (cell(), ""),
        (cell(NOT_RUN), "not run"),
        (cell(FAILED), "failed"),
        (cell(84.44), "84.4 (1)"),
        (cell(84.0, 85.0), "84.5 ± 0.7 (2)"),
        (
            cell(84.0, FAILED, DEGENERATE, NOT_RUN),
            "84.0 (1, 1 degenerate, 1 failed, 1 not run)",
        ),
        (cell(DEGENERATE, FAILED), "degenerate"),
    ],
)
def test_cells_tell_what_is_missing(value, text):
    assert tables.cell_text(value, "MRPC") == text


def test_markdown_has_ours_and_the_papers_differences_side_by_side():
    table = table5(MRPC=[cell(80.0), cell(81.0), None, None])
    text = tables.as_markdown(table)
    assert "| No NSP | +1.0 (-0.2) |" in text
    assert "| No NSP | 86.5 |" in text
    assert "| No NSP | 81.0 (1) |" in text
    assert "| LTR & No NSP | (-9.2) |" in text


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        (
            "table1",
            TABLE_1,
            ["MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "STS-B"]
            + ["MRPC", "RTE", "Average"],
        ),
        ("table2", TABLE_2, ["EM", "SQuAD"]),
        ("table5", TABLE_5, ["MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD"]),
        ("table7", TABLE_7, ["NER"]),
        ("table6", TABLE_6, ["perplexity", "MNLI-m", "MRPC", "SST-2"]),
        ("table8", TABLE_8, ["MNLI-m", "NER", "NER-features"]),
    ],
)
def test_numbers_are_the_papers(name, text, columns):
    lines = [line.rsplit(None, len(columns)) for line in text.split("\n")]
    table = PAPER[name]
    assert list(table.columns) == columns
    assert table.numbers == {
        label: list(map(float, numbers))
        for label, *numbers in filter(None, lines)
    }


def test_one_run_has_no_bar_and_two_have(monkeypatch):
    """Of both curves, whose points follow each other."""
    labels = ["BERT, step 10", "LTR, step 10", "BERT, step 20", "LTR, step 20"]
    scores = [cell(70.0, DEGENERATE), cell(60.0), cell(70.0, 72.0), cell()]
    table = table_of("figure5", labels, **{"SST-2": scores})
    rows = [row(label, int(label[-2:])) for label in labels]
    figures = []
    monkeypatch.setattr(
        report.pictures, "save", lambda figure, _: figures.append(figure)
    )
    assert report.draw_figure(table._replace(rows=rows), "a.png")
    (axes,) = figures[0].axes
    bert, ltr = axes.containers
    assert [bert.get_label(), ltr.get_label()] == ["BERT", "LTR"]
    assert bert.lines[0].get_xdata() == pytest.approx([10, 20])
    assert bert.lines[0].get_ydata() == pytest.approx([70, 71])
    assert ltr.lines[0].get_ydata() == pytest.approx(
        [60, math.nan], nan_ok=True
    )
    bars = bert.lines[2][0].get_segments()
    spreads = [float(bar[1][1] - bar[0][1]) for bar in bars if len(bar)]
    spreads = [spread for spread in spreads if not math.isnan(spread)]
    assert spreads == pytest.approx([2 * math.sqrt(2)])


def test_without_numbers_there_is_no_picture(tmp_path):
    path = tmp_path / "figure5.png"
    table = table_of("figure5", ["BERT, step 10"], MRPC=[cell()])
    assert not report.draw_figure(table, str(path))
    assert not path.exists()
