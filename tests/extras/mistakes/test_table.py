"""errors.tsv: one line per mistake, whatever the texts are."""

import csv
from types import SimpleNamespace

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras.mistakes import table
from extras.mistakes.table import Mistakes


@pytest.mark.parametrize(
    "value, expected",
    [
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("C:\\temp", r"C:\\temp"),
        ("\x00\x07\x1b\x7f\x85", r"\x00\x07\x1b\x7f\x85"),
        ("\u2028\u2029\ud800", r"\u2028\u2029\ud800"),
        ("\u00fcber \u4e2d\u6587 \U0001f600 \u200d", None),
        ('"quoted"', None),
        (7, "7"),
        (0.5, "0.5000"),
        (None, ""),
    ],
)
def test_cells(value, expected):
    assert table.cell(value) == (value if expected is None else expected)


@hypothesis.settings(max_examples=50)
@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=5))
def test_every_text_comes_back(rows):
    lines = table.lines(("a", "b"), rows)
    text = "\n".join(lines) + "\n"
    assert text.encode().count(b"\n") == len(rows) + 1
    assert len(text.splitlines()) == len(rows) + 1
    read = list(
        csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    )
    assert read[0] == ["a", "b"]

    def unescaped(cell):
        # The letters beyond Latin-1 are no escapes.
        return cell.encode("latin-1", "backslashreplace").decode(
            "unicode_escape"
        )

    found = [[unescaped(cell) for cell in row] for row in read[1:]]
    assert found == rows


def test_the_largest_mistake_comes_first():
    found = table.worst(
        ("id", "size", "text"),
        ["a", "b", "c", "d"],
        [1, 0, 1, 0],
        [0, 1, 1, 1],
        [0.5, 0.75, 0.8, -0.75],
        [["A"], ["B"], ["C"], ["D"]],
    )
    assert found.header == ("id", "truth", "prediction", "size", "text")
    assert found.rows == [
        ("b", 0, 1, 0.75, "B"),
        ("d", 0, 1, -0.75, "D"),
        ("a", 1, 0, 0.5, "A"),
    ]
    assert found.num_scored == 4


def test_the_file_and_its_summary(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    path = tmp_path / "errors.tsv"

    def write(found: Mistakes, count: int) -> None:
        settings = SimpleNamespace(output_dir=str(tmp_path), num_errors=count)
        table.Report(settings).errors(found)

    rows = [("a", "b\tc"), ("d", None), ("e", "f")]
    write(Mistakes(("id", "text"), rows, 1200), 0)
    assert not path.exists()
    write(Mistakes(("id", "text"), rows, 1200), 2)
    assert path.read_text() == "id\ttext\na\tb\\tc\nd\t\n"
    assert caplog.messages[-1] == (
        f"Wrote {path}: the worst 2 of 3 mistakes in 1,200 examples"
    )
    write(Mistakes(("id",), [], 5, "questions"), 2)
    assert path.read_text() == "id\n"
    assert caplog.messages[-1].endswith("all 0 mistakes in 5 questions")
