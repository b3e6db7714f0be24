"""errors.tsv: a line for each mistake, by hand, and whatever the texts are."""

import csv
from types import SimpleNamespace

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras import mistakes
from extras.mistakes import Mistakes
from tasks.classifier.task_files import Columns, DataFile, Example
from tasks.job import DataSet
from tasks.ner.data import File, Sentence
from tasks.squad.data import SquadData, SquadExample, make_paragraph
from tasks.squad.decoding import Candidate, Span
from tasks.swag.task import Question


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
    assert mistakes.cell(value) == (value if expected is None else expected)


@hypothesis.settings(max_examples=50)
@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=5))
def test_every_text_comes_back(rows):
    lines = mistakes.lines(("a", "b"), rows)
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
    found = mistakes.worst(
        ("id", "size", "text"),
        "abcd",
        (
            np.array([1, 0, 1, 0]),
            np.array([0, 1, 1, 1]),
            np.array([0.5, 0.75, 0.8, -0.75]),
        ),
        "ABCD",
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
        mistakes.write_errors(settings, found)

    rows = [("a", "b\tc"), ("d", None), ("e", "f")]
    write(Mistakes(("id", "text"), rows, 1200), 0)
    assert not path.exists()
    write(Mistakes(("id", "text"), rows, 1200), 2)
    assert path.read_text() == "id\ttext\na\tb\\tc\nd\t\n"
    assert caplog.messages[-1] == (
        f"3 mistakes in 1,200 examples; {path} lists the worst 2"
    )
    write(Mistakes(("id",), [], 5, "questions"), 2)
    assert path.read_text() == "id\n"
    assert caplog.messages[-1] == (
        f"0 mistakes in 5 questions; {path} lists them all"
    )


def test_wrong_classes():
    examples = [
        Example("1", "b\tfilm"),
        Example("2", "c film", "bad"),
        Example("3", "d"),
    ]
    logits = np.log([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.1, 0.8, 0.1]])
    job = SimpleNamespace(
        files=SimpleNamespace(labels=("no", "yes", "maybe")),
        is_regression=False,
        examples=lambda data: examples,
    )
    data = DataSet("eval", "dev", DataFile("dev.tsv", Columns("a", guid="id")))
    found = mistakes.wrong_examples(job, data, logits, np.array([1, 1, 1]))
    assert found.header == (
        *("guid", "truth", "prediction", "confidence"),
        *("text_a", "text_b"),
    )
    assert found.rows == [
        ("2", "yes", "maybe", pytest.approx(0.7), "c film", "bad"),
        ("1", "yes", "no", pytest.approx(0.6), "b\tfilm", None),
    ]


def test_wrong_choices():
    questions = [
        Question("q0", "He runs.", ("He stops.", "He flies."), 0),
        Question("q1", "She reads.", ("She eats.", "She writes."), 1),
        Question("q2", "It rains.", ("It snows.", "It stops."), 1),
    ]
    scores = np.log([[0.4, 0.6], [0.1, 0.9], [0.8, 0.2]])
    labels = np.array([0, 1, 1])
    found = mistakes.wrong_choices(questions, scores, labels)
    assert found.rows[0] == (
        *("q2", 1, 0),
        pytest.approx(0.8),
        *("It rains.", "It stops.", "It snows."),
    )
    assert [row[0] for row in found.rows] == ["q2", "q0"]
    assert (found.num_scored, found.what) == (3, "questions")


# --- Entities ----------------------------------------------------------------

SENTENCES = [
    Sentence(
        ["Ann", "Lee", "saw", "Paris"],
        ["B-PER", "I-PER", "O", "B-LOC"],
        [1, 2, 3, 4],
        0,
    ),
    Sentence(["In", "May", "UN", "met"], ["O", "O", "B-ORG", "O"], [6] * 4, 0),
]
FILE = File("dev.txt", [], " ", SENTENCES)


def test_every_kind_of_mistake():
    predicted = [["B-PER", "O", "O", "B-PER"], ["O", "B-LOC", "O", "O"]]
    sure = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.95, 0.3, 0.2])
    found = mistakes.wrong_entities(FILE, predicted, sure)
    texts = [" ".join(sentence.words) for sentence in SENTENCES]
    assert found.rows == [
        (6, "invented", None, "LOC: May", pytest.approx(0.95), texts[1]),
        (1, "other words", "PER: Ann Lee", "PER: Ann", 0.9, texts[0]),
        (4, "other type", "LOC: Paris", "PER: Paris", 0.6, texts[0]),
        (6, "missed", "ORG: UN", None, 0.3, texts[1]),
    ]
    # Three are right and three predicted, none of them both.
    assert found.num_scored == 6
    assert found.what == "right or predicted entities"
    tags = [sentence.tags for sentence in SENTENCES]
    assert not mistakes.wrong_entities(FILE, tags, sure).rows


# --- Answers -----------------------------------------------------------------

TEXT = "Mia met Tom Smith of the old red barn in Rome"
DATA = SquadData(
    [make_paragraph(TEXT)],
    [
        SquadExample("a", "Who?", 0, ("Tom Smith", "Tom", "Tom Smith")),
        SquadExample("b", "Where\n?", 0, ("Rome",)),
        SquadExample("c", "Of what?", 0, ("old red barn",)),
        SquadExample("d", "When?", 0, (), is_impossible=True),
        SquadExample("e", "How?", 0, ("barn",)),
        SquadExample("f", "Who met?", 0, ("Mia",)),
    ],
    is_version_2=True,
)
TEXTS = {"a": "Smith", "b": "Mia", "c": "red barn", "d": "Tom", "e": "Mia"}
TEXTS["f"] = "Mia"
SURE = {"a": 0.9, "b": 0.3, "c": 0.95, "d": 0.6}
ANSWERS = {k: Candidate(v, SURE.get(k), 0.0, 0.0) for k, v in TEXTS.items()}


def test_answers_without_a_right_word_come_first():
    found = mistakes.wrong_answers(DATA, ANSWERS)
    assert [row[0] for row in found.rows] == ["d", "b", "e", "c", "a"]
    assert found.num_scored == 6
    rows = {
        row[0]: dict(zip(found.header, row, strict=True)) for row in found.rows
    }
    assert rows["a"] == {
        "id": "a",
        "question": "Who?",
        "answers": "Tom Smith | Tom",
        "prediction": "Smith",
        "f1": pytest.approx(2 / 3),
        "exact": 0,
        "confidence": 0.9,
        "context": TEXT,
    }
    assert rows["d"]["answers"] == "" and rows["d"]["prediction"] == "Tom"
    assert rows["e"]["confidence"] is None


def test_the_context_is_around_the_place_of_the_answer():
    """Not around another one of the same text."""
    text = "Rome " + "x " * 100 + "Rome fell. " + "y " * 100
    question = SquadExample("a", "Where?", 0, ("Rome",), (205, 209))
    data = SquadData([make_paragraph(text)], [question])
    given = {"a": Candidate("x", None, 0.0, 0.0, Span(9, 5, 6))}
    for example, wanted in (
        (question, f"... {text[125:289].strip()} ..."),
        (question._replace(place=None), f"{text[:86].strip()} ..."),
    ):
        data = data._replace(examples=[example])
        found = mistakes.wrong_answers(data, given)
        assert found.rows[0][-1] == wanted
    assert mistakes.context_of("short", (0, 0)) == "short"
