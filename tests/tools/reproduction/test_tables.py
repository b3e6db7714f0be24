"""Tables, claims and pictures, against values computed by hand."""

import csv
import io
import math

import pytest

from tools.reproduction import claims, plots, tables
from tools.reproduction.experiments import Cell, Experiment
from tools.reproduction.paper import PAPER
from tools.reproduction.steps import Row
from tools.reproduction.tables import Results, Score

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


def score(*values, key="eval_accuracy", **counts):
    """Return a score of some runs."""
    return Score(values, key=key, **counts)


def results_of(name, labels, **columns):
    """Return a table with the scores of its rows by column."""
    rows = [Row(label) for label in labels]
    scores = {
        (label, column): value
        for column, values in columns.items()
        for label, value in zip(labels, values, strict=True)
        if value
    }
    return Results(Experiment(name, list(columns), rows, {}, {}), scores)


def table5(**columns):
    """Return Table 5 with scores of its four rows by column."""
    return results_of("table5", PAPER["table5"].numbers, **columns)


def numbers_of(name, row):
    """Return the paper's numbers of a row by column."""
    return dict(zip(PAPER[name].columns, PAPER[name].numbers[row], strict=True))


def test_scores_of_steps_are_counted():
    cell = Cell("f1", 100.0, ["good", "lost", "absent", "nan", "bad"], "NER")
    cells = {("a", "NER"): cell}
    experiment = Experiment("table8", ["NER"], [Row("a")], cells, {})
    found = {
        "good": {"f1": 0.5},
        "lost": {},
        "absent": {},
        "nan": {"f1": math.nan},
        "bad": {"f1": 0.1, "degenerate": 1.0},
    }
    results = tables.collect(experiment, found, ["lost"])
    assert results.score("a", "NER") == Score(
        (50.0,), failed=2, degenerate=(10.0,), missing=1, key="f1"
    )


def test_the_average_of_glue_is_that_of_the_paper():
    """Of nine numbers, without WNLI; of as many runs as all tasks have."""
    paper = numbers_of("table1", "BERT")
    columns = [*paper, "WNLI"]
    columns.remove("Average")
    cells = {
        ("BERT", c): Cell("f1", 1.0, [f"{c}1", f"{c}2"], c) for c in columns
    }
    cells["BERT", "RTE"].steps.append("RTE3")
    experiment = Experiment("table1", columns, [Row("BERT")], cells, {})

    names = [f"{column}{n}" for column in columns for n in (1, 2, 3)]
    read = {
        name: {"f1": paper.get(name[:-1], 0.0) + (name[-1] == "2")}
        for name in names
    }
    found = tables.collect(experiment, read, []).score("BERT", "Average")
    first, second = found.values
    assert round(first, 1) == paper["Average"]
    assert second == pytest.approx(first + 1)
    failed = tables.collect(experiment, read, ["QQP1", "QQP2"])
    assert failed.score("BERT", "Average").mean is None
    # Not of the first run of one task and the second of another.
    failed = tables.collect(experiment, read, ["QQP1"])
    assert failed.score("BERT", "Average").values == (second,)
    failed = tables.collect(experiment, read, ["QQP1", "RTE2"])
    assert failed.score("BERT", "Average").mean is None


def test_csv_has_means_deviations_and_differences():
    """80, 82 and 87: mean 83, squares 9 + 1 + 16 = 26, 26 / 2 = 13.

    A run of the more frequent class alone, 67, is part of another mean.
    """
    first = score(80.0, 82.0, 87.0, degenerate=(67.0,))
    results = table5(MRPC=[first, score(82.5), score(failed=2), None])
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(results))))
    assert lines[0] == {
        "row": "BERT",
        "column": "MRPC",
        "mean": "83",
        "standard_deviation": "3.605551275",
        "runs": "3",
        "failed": "0",
        "degenerate": "1",
        "mean_with_degenerate": "79",
        "missing": "0",
        "difference_to_first_row": "0",
        "paper": "86.7",
        "paper_difference_to_first_row": "0",
        "scores": "80 82 87",
    }
    assert lines[1]["standard_deviation"] == ""
    assert lines[1]["difference_to_first_row"] == "-0.5"
    assert lines[1]["paper_difference_to_first_row"] == "-0.2"
    assert lines[2]["failed"] == "2" and lines[2]["mean"] == ""
    assert lines[3]["difference_to_first_row"] == ""


def test_the_papers_differences_are_to_the_row_that_ours_are_to():
    """Own sizes of Table 6, which begin with the paper's fourth row."""
    results = results_of("table6", ["L12_H768_A12", "L12_H1024_A16", "own"])
    # 86.7 and 86.9 in the paper; its first row, L3_H768_A12, has 79.8.
    found = results.papers.difference("L12_H1024_A16", "MRPC")
    assert found == pytest.approx(0.2)
    assert results.papers.difference("own", "MRPC") is None


def test_perplexities_of_different_tasks_have_no_difference():
    masked = [score(value, key="masked_lm") for value in (10.0, 11.0)]
    left = [score(30.0, key="lm"), None]
    results = table5(perplexity=[*masked, *left])
    assert results.difference("No NSP", "perplexity") == 1
    assert results.difference("LTR & No NSP", "perplexity") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (score(), ""),
        (score(missing=1), "not run"),
        (score(failed=1), "failed"),
        (score(84.44), "84.4 (1)"),
        (score(84.0, 85.0), "84.5 ± 0.7 (2)"),
        (
            score(84.0, failed=1, degenerate=(50.0,), missing=1),
            "84.0 (1, 1 degenerate, 1 failed, 1 not run)",
        ),
        (score(degenerate=(50.0,), failed=1), "degenerate"),
    ],
)
def test_cells_tell_what_is_missing(value, text):
    assert tables.cell_text(value, 1) == text


def test_markdown_has_ours_and_the_papers_differences_side_by_side():
    results = table5(MRPC=[score(80.0), score(81.0), None, None])
    text = tables.as_markdown(results)
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
    """And no claim about them has the other direction."""
    lines = [line.rsplit(None, len(columns)) for line in text.split("\n")]
    table = PAPER[name]
    assert list(table.columns) == columns
    assert table.numbers == {
        label: list(map(float, numbers))
        for label, *numbers in filter(None, lines)
    }
    ours = {
        column: list(map(score, numbers))
        for column, *numbers in zip(
            columns, *table.numbers.values(), strict=True
        )
    }
    found = list(claims.sentences(results_of(name, table.numbers, **ours)))
    assert bool(found) == (name != "table1")  # which has one row of ours
    for sentence in found:
        assert "another" not in sentence and "not show" not in sentence


@pytest.mark.parametrize(
    ("difference", "one", "other", "found"),
    [
        # sqrt((0.3^2 + 0.4^2) / 2) = 0.354
        (-0.4, 0.3, 0.4, "shows"),
        (0.4, 0.3, 0.4, "does not show"),
        (-0.3, 0.3, 0.4, "within one standard deviation, 0.4"),
        (0.3, 0.3, 0.4, "within one standard deviation, 0.4"),
        (-5.0, None, 0.4, "the same direction, one run has no spread"),
        (5.0, None, None, "another direction, one run has no spread"),
        (0.0, None, None, "no direction, one run has no spread"),
    ],
)
def test_verdicts(difference, one, other, found):
    assert claims.verdict(difference, one, other) == found


def test_claims_of_table_5_name_both_differences():
    results = table5(
        SQuAD=[
            score(60.0, 60.2),
            score(60.0, 60.6),
            score(50.0, 50.2),
            score(55.0, 55.2),
        ],
        perplexity=[score(9.0), score(9.0), score(9.0), None],
    )
    # Deviations 0.141 and 0.424: together sqrt((0.02 + 0.18) / 2) = 0.316.
    assert list(claims.sentences(results)) == [
        "No NSP below BERT: SQuAD: within one standard deviation, 0.3 (+0.2; "
        "in the paper -0.6).",
        "LTR & No NSP below No NSP: SQuAD: shows (-10.2; in the paper -10.1).",
        "+ BiLSTM above LTR & No NSP: SQuAD: shows (+5.0; in the paper +7.1).",
        "+ BiLSTM below No NSP: SQuAD: shows (-5.2; in the paper -3.0).",
    ]


def test_a_claim_about_perplexities_knows_the_spread():
    cells = [score(4.5, 5.0), score(3.5, 4.0)]
    results = results_of("table6", ["small", "large"], perplexity=cells)
    (sentence,) = claims.sentences(results)
    begin = "large below small: perplexity: shows (-1.00"
    assert sentence.startswith(begin)


def test_nothing_follows_from_degenerate_runs():
    """One that answered the more frequent class always, one that learned."""
    bert = score(60.0, degenerate=(53.0,))
    none = score(degenerate=(53.0,))
    results = table5(QNLI=[bert, score(50.0), none, None])
    assert list(claims.sentences(results)) == [
        "No NSP below BERT: QNLI: the same direction, one run has no spread, "
        "degenerate are 1 of 2 runs of BERT, left out (-10.0; in the paper "
        "-3.5).",
        "LTR & No NSP below No NSP: QNLI: nothing follows, degenerate are 1 of "
        "1 runs of LTR & No NSP.",
    ]


@pytest.mark.parametrize(
    ("name", "labels", "places", "heights"),
    [
        ("table5", ["BERT", "No NSP"], [0, 1], [0, 1]),
        ("table6", ["L2_H64_A2", "L4_H64_A2"], [0.099968, 0.199936], [70, 71]),
        ("figure5", ["a", "b"], [10, 20], [70, 71]),
    ],
)
def test_one_run_has_no_bar_and_two_have(
    name, labels, places, heights, monkeypatch
):
    results = results_of(
        name,
        labels,
        **{"SST-2": [score(70.0, degenerate=(0.0,)), score(70.0, 72.0)]},
        perplexity=[score(degenerate=(560.0,)), score(50.0)],
    )
    rows = [
        row._replace(step=10 * n, curve="BERT")
        for n, row in enumerate(results.experiment.rows, 1)
    ]
    experiment = results.experiment._replace(rows=rows)
    figures = []
    monkeypatch.setattr(
        plots.pictures, "save", lambda figure, _: figures.append(figure)
    )
    assert plots.draw(results._replace(experiment=experiment), "a.png")
    (axes,) = figures[0].axes
    ours = axes.containers[0]
    assert ours.lines[0].get_xdata() == pytest.approx(places)
    assert ours.lines[0].get_ydata() == pytest.approx(heights)
    bars = ours.lines[2][0].get_segments()
    spreads = [float(bar[1][1] - bar[0][1]) for bar in bars if len(bar)]
    spreads = [spread for spread in spreads if not math.isnan(spread)]
    assert spreads == pytest.approx([2 * math.sqrt(2)])


def test_models_of_one_size_and_one_score_are_drawn(tmp_path):
    """L6_H768_A3 and L6_H768_A12 have as many parameters."""
    results = results_of(
        "table6",
        ["L6_H768_A3", "L6_H768_A12", "L3_H768_A12"],
        perplexity=[score(9.0)] * 3,
        MRPC=[score(80.0), score(79.0, 81.0), score(78.0)],
    )
    assert plots.draw(results, str(tmp_path / "table6.png"))
    # BERT-Base: 12 layers of 7,087,872, of which 9,984 are vectors.
    assert plots.parameters_of("L12_H768_A12") == pytest.approx(85.054464)
    path = tmp_path / "table5.png"
    assert not plots.draw(table5(MRPC=[score()] * 4), str(path))
    assert not path.exists()
