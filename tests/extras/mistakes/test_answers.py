"""Wrong answers in order, and scores by the length of the right answer."""

import os
from types import SimpleNamespace

import pytest

from extras.mistakes import answers as mistakes
from extras.mistakes.table import Report
from tasks.squad import scores
from tasks.squad.data import SquadData, SquadExample, make_paragraph
from tasks.squad.decoding import Candidate, Span

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
SURE = {"a": 0.9, "b": 0.3, "c": 0.95, "d": 0.6}
ANSWERS = {k: Candidate(v, SURE.get(k), 0.0, 0.0) for k, v in TEXTS.items()}


def wrong(is_version_2=True):
    data = DATA._replace(is_version_2=is_version_2)
    found = scores.score_each(data, TEXTS)
    return mistakes.wrong_answers(data, ANSWERS, found)


def report(folder, num_errors: int, pictures: bool) -> Report:
    folder.mkdir()
    settings = SimpleNamespace(
        output_dir=str(folder),
        num_errors=num_errors,
        training=SimpleNamespace(pictures=pictures),
    )
    return Report(settings)


def test_answers_without_a_right_word_come_first():
    found = wrong()
    assert [row[0] for row in found.rows] == ["d", "b", "e", "c", "a"]
    assert found.num_scored == 5  # f has no prediction
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
    # By the rules of version 1 a missing answer is wrong.
    found = wrong(is_version_2=False)
    assert found.num_scored == 6
    assert [row[0] for row in found.rows] == ["d", "b", "e", "f", "c", "a"]


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
        scored = scores.score_each(data, {"a": "x"})
        found = mistakes.wrong_answers(data, given, scored)
        assert found.rows[0][-1] == wanted
    assert mistakes.context_of("short", (0, 0)) == "short"


def test_scores_by_length():
    answers = TEXTS | {"b": "Rome", "d": "", "f": "Mia"}
    more = [  # long answers share a bar
        SquadExample(str(size), "?", 0, (" ".join(["w"] * size),))
        for size in (4, 5, 6, 15, 16)
    ]
    data = DATA._replace(examples=DATA.examples + more)
    answers |= {example.qas_id: example.answers[0] for example in more}
    found = scores.score_each(data, answers)
    bars = mistakes.by_length(data, found)
    assert [bar[:2] for bar in bars] == [
        ("1", 3),  # b, e, f
        ("2", 1),  # a, by its first answer
        ("3", 1),
        ("4", 1),
        ("5-6", 2),
        ("11-15", 1),
        ("16+", 1),
        (mistakes.NO_ANSWER, 1),
    ]
    exact, f1 = ([getattr(b, n) for b in bars] for n in ("exact", "f1"))
    assert exact == pytest.approx([200 / 3, 0, 0] + [100] * 5)
    assert f1 == pytest.approx([200 / 3, 200 / 3, 80] + [100] * 5)


def test_the_list_and_the_picture_are_written_alone(tmp_path):
    pytest.importorskip("matplotlib")
    mistakes.write_answers(DATA, ANSWERS, report(tmp_path / "a", 0, True))
    assert os.listdir(tmp_path / "a") == [mistakes.FILES[1]]
    assert (tmp_path / "a" / mistakes.FILES[1]).stat().st_size < 60_000
    mistakes.write_answers(DATA, ANSWERS, report(tmp_path / "b", 2, False))
    assert os.listdir(tmp_path / "b") == ["errors.tsv"]
    lines = (tmp_path / "b" / "errors.tsv").read_text().splitlines()
    assert len(lines) == 3 and "Where\\n?" in lines[2]
