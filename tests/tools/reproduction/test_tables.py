"""Tables, claims and pictures, against values computed by hand."""

import csv
import io
import itertools
import math

import pytest

from tools.reproduction import claims, paper_numbers, plots, tables
from tools.reproduction.experiments import PERPLEXITY, Cell, Experiment, Row
from tools.reproduction.paper_numbers import PAPER
from tools.reproduction.tables import Results, Score

# The paper's numbers, typed a second time as it prints its tables.
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


def score(*values, key="eval_accuracy", **more):
    """Return a score of some runs."""
    counts = {"failed": 0, "degenerate": 0, "missing": 0, **more}
    return Score(values, key=key, **counts)


def table5(**columns):
    """Return Table 5 with scores of its four rows by column."""
    labels = ("BERT", "No NSP", "LTR & No NSP", "+ BiLSTM")
    experiment = Experiment(
        "table5", tuple(columns), tuple(Row(name, {}) for name in labels), {}
    )
    scores = {
        (label, column): value
        for column, values in columns.items()
        for label, value in zip(labels, values, strict=True)
        if value
    }
    return Results(experiment, scores)


def table6(*labels, **columns):
    """Return Table 6 with some sizes, and scores of them by column."""
    rows = tuple(Row(label, {}) for label in labels)
    scores = {
        (label, column): value
        for column, values in columns.items()
        for label, value in zip(labels, values, strict=True)
    }
    return Results(Experiment("table6", tuple(columns), rows, {}), scores)


def test_means_and_deviations_are_those_of_samples():
    """80, 82 and 87: mean 83, squares 9 + 1 + 16 = 26, 26 / 2 = 13."""
    one = score(80.0, 82.0, 87.0)
    assert one.mean == 83
    assert one.deviation == pytest.approx(math.sqrt(13))
    assert score(80.0).deviation is None
    assert score().mean is None


def test_scores_of_steps_are_counted():
    cell = Cell("f1", 100.0, ["good", "lost", "absent", "nan", "bad"], "NER")
    experiment = Experiment(
        "table8", ("NER",), (Row("80/10/10", {"NER": cell}),), {}
    )
    found = {
        "good": {"f1": 0.5},
        "nan": {"f1": math.nan},
        "bad": {"f1": 0.1, "degenerate": 1.0},
    }
    results = tables.collect(
        experiment, lambda name: found.get(name, {}), ["lost"]
    )
    assert results.scores["80/10/10", "NER"] == Score(
        (50.0, 10.0), failed=2, degenerate=1, missing=1, key="f1"
    )


def test_differences_are_to_the_first_row():
    results = table5(MRPC=[score(80.0), score(79.5), score(70.0), None])
    assert results.difference("No NSP", "MRPC") == -0.5
    assert results.paper_difference("No NSP", "MRPC") == pytest.approx(-0.2)
    assert results.paper_difference("+ BiLSTM", "SQuAD") == pytest.approx(-3.6)
    assert results.difference("+ BiLSTM", "MRPC") is None


def test_the_papers_differences_are_to_the_row_that_ours_are_to():
    """Own sizes of Table 6, which begin with the paper's fourth row."""
    results = table6("L12_H768_A12", "L12_H1024_A16", "own")
    # 86.7 and 86.9 in the paper; its first row, L3_H768_A12, has 79.8.
    assert results.paper_difference("L12_H1024_A16", "MRPC") == pytest.approx(
        0.2
    )
    assert results.paper_difference("own", "MRPC") is None


def test_perplexities_of_different_tasks_have_no_difference():
    masked, left = "masked_lm_perplexity", "lm_perplexity"
    results = table5(
        perplexity=[
            score(10.0, key=masked),
            score(11.0, key=masked),
            score(30.0, key=left),
            None,
        ]
    )
    assert results.difference("No NSP", "perplexity") == 1
    assert results.difference("LTR & No NSP", "perplexity") is None


def test_csv_has_a_line_for_each_cell():
    results = table5(MRPC=[score(80.0, 81.0), score(failed=2), None, None])
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(results))))
    assert len(lines) == 4
    assert lines[0] == {
        "row": "BERT",
        "column": "MRPC",
        "mean": "80.5",
        "standard_deviation": "0.7071067812",
        "runs": "2",
        "failed": "0",
        "degenerate": "0",
        "missing": "0",
        "difference_to_first_row": "0",
        "paper": "86.7",
        "paper_difference_to_first_row": "0",
    }
    assert lines[1]["failed"] == "2" and lines[1]["mean"] == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (score(), ""),
        (score(missing=1), "not run"),
        (score(failed=1), "failed"),
        (score(84.44), "84.4 (1)"),
        (score(84.0, 85.0), "84.5 ± 0.7 (2)"),
        (
            score(84.0, failed=1, degenerate=1, missing=1),
            "84.0 (1, 1 failed, 1 degenerate, 1 not run)",
        ),
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


# --- Claims ------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("perplexities", "words"),
    [
        ([(4.5, 5.0), (4.49, 4.99)], "within one standard deviation, 0.35"),
        ([(4.5, 5.0), (3.5, 4.0)], "shows"),
        ([(4.5,), (4.6,)], "another direction, one run has no spread"),
    ],
)
def test_claims_about_perplexities_know_the_spread(perplexities, words):
    cells = [score(*values, key="p") for values in perplexities]
    (sentence,) = claims.sentences(table6("small", "large", perplexity=cells))
    begin = "The perplexity of large below that of small: "
    assert sentence.startswith(f"{begin}{words} (")


def test_nothing_follows_from_degenerate_runs():
    """One that answered the more frequent class always, one that learned."""
    results = table5(
        RTE=[score(53.0, 60.0, degenerate=1), score(50.0), score(49.0), None]
    )
    assert list(claims.sentences(results)) == [
        "No NSP below BERT: RTE: nothing follows, degenerate are 1 of 2 runs "
        "of BERT (-6.5).",
        "LTR & No NSP below No NSP: RTE: the same direction, one run has no "
        "spread (-1.0).",
    ]


def test_every_claim_about_the_paper_holds_for_the_papers_numbers():
    """The paper's numbers as ours: no claim has the other direction."""
    for name, rows in PAPER.items():
        if not rows:
            continue
        columns = tuple(next(iter(rows.values())))
        experiment = Experiment(
            name, columns, tuple(Row(label, {}) for label in rows), {}
        )
        scores = {
            (row, column): score(value)
            for row, values in rows.items()
            for column, value in values.items()
        }
        found = list(claims.sentences(Results(experiment, scores)))
        assert found
        for sentence in found:
            assert "another" not in sentence and "not show" not in sentence


# --- Pictures ----------------------------------------------------------------


def test_a_picture_is_a_small_png(tmp_path):
    results = table5(
        **{
            task: [score(80.0, 81.0), score(79.0), score(70.0), score(failed=1)]
            for task in ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD", "RTE")
        }
    )
    path = tmp_path / "table5.png"
    assert plots.draw(results, str(path))
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG") and 10_000 < len(data) < 150_000


def test_names_of_sizes_can_be_read(monkeypatch):
    """They do not cover each other, and stay inside the picture."""
    sizes = ("L2_H128_A2", "L4_H128_A2", "L4_H256_A4")
    columns = (PERPLEXITY, "MRPC", "SST-2")
    experiment = Experiment(
        "table6", columns, tuple(Row(name, {}) for name in sizes), {}
    )
    values = ((47.2, 69.4, 74.0), (78.0, 67.0, 74.8), (60.7, 70.0, 76.0))
    scores = {
        (size, column): score(value)
        for size, row in zip(sizes, values, strict=True)
        for column, value in zip(columns, row, strict=True)
    }
    figures = []
    monkeypatch.setattr(
        plots.pictures, "save", lambda figure, _: figures.append(figure)
    )
    assert plots.draw(Results(experiment, scores), "table6.png")
    figures[0].canvas.draw()
    for axes in figures[0].axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) == len(sizes) + 6  # and those of the paper
        for one, two in itertools.combinations(boxes, 2):
            assert not one.overlaps(two)
        for box in boxes:
            assert figures[0].bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1


def test_models_of_one_size_and_one_score_are_drawn(tmp_path):
    """L6_H768_A3 and L6_H768_A12 have as many parameters."""
    sizes = ("L6_H768_A3", "L6_H768_A12", "L3_H768_A12")
    columns = (PERPLEXITY, "MRPC")
    experiment = Experiment(
        "table6", columns, tuple(Row(name, {}) for name in sizes), {}
    )
    rows = (score(80.0), score(79.0, 81.0), score(78.0))
    scores = {(size, PERPLEXITY): score(9.0) for size in sizes}
    scores |= {(s, "MRPC"): row for s, row in zip(sizes, rows, strict=True)}
    path = tmp_path / "table6.png"
    assert plots.draw(Results(experiment, scores), str(path))
    assert path.exists()


def test_a_table_without_numbers_has_no_picture(tmp_path):
    path = tmp_path / "table5.png"
    assert not plots.draw(table5(MRPC=[score()] * 4), str(path))
    assert not path.exists()


def test_parameters_of_a_size():
    """BERT-Base: 12 layers of 7,087,872, of which 9,984 are vectors."""
    assert plots.parameters_of("L12_H768_A12") == pytest.approx(85.054464)
