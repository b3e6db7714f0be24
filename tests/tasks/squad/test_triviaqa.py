"""Reading TriviaQA's files: aliases, documents, errors."""

import json
from pathlib import Path

from base.errors import UserError

import pytest
import squad_files

from tasks.squad import triviaqa
from tasks.squad import windows as squad_windows


def trivia(folder: Path, text: str, value: str, aliases: list[str]) -> tuple:
    (folder / "wikipedia").mkdir(exist_ok=True)
    (folder / "wikipedia" / "Doc.txt").write_text(text)
    question = {
        "Question": "Who?",
        "QuestionId": "q1",
        "Answer": {"Value": value, "Aliases": aliases},
        "EntityPages": [{"Filename": "Doc.txt"}, {"Filename": "Gone.txt"}],
    }
    return [squad_files.write(folder, {"Data": [question]})], str(folder)


def test_triviaqa_first_alias_is_the_answer(tmp_path, tokenizer, caplog):
    text = "Nobody knew.\n\nThe MARIO  Puzo book by mario puzo " + "x " * 500
    files, folder = trivia(tmp_path, text, "Puzo", ["Mario Puzo", "Maria"])
    data = triviaqa.read_triviaqa(files, folder, 400)
    (example,) = data.examples
    assert example.qas_id == "q1--wikipedia/Doc.txt"
    assert example.orig_answer_text == "MARIO  Puzo"
    paragraph = data.paragraphs[example.paragraph]
    assert len(paragraph.starts) == 400
    words = paragraph.words(example.start_position, example.end_position)
    assert words == ["MARIO", "Puzo"]
    assert "1 documents are not in" in caplog.text
    windows = squad_windows.convert(
        data, tokenizer, squad_windows.Lengths(64, 32, 16), 1
    )
    assert (windows.start_positions > 0).sum() >= 1


def test_triviaqa_without_an_answer(tmp_path):
    files, folder = trivia(tmp_path, "x " * 10 + "Puzo", "Puzo", [])
    with pytest.raises(UserError, match="no document with an answer"):
        triviaqa.read_triviaqa(files, folder, 10)
    with pytest.raises(UserError, match="no document with an answer"):
        triviaqa.read_triviaqa(files, str(tmp_path / "no"), 400)
    path = squad_files.write(tmp_path, {"Data": [{"Question": "Who?"}]})
    with pytest.raises(UserError, match=r"'QuestionId': not in TriviaQA's"):
        triviaqa.read_triviaqa([path], folder)
    files, folder = trivia(tmp_path, "Puzo", "Puzo", [5])
    with pytest.raises(UserError, match="Aliases holds 5, wanted strings"):
        triviaqa.read_triviaqa(files, folder)
    files, folder = trivia(tmp_path, "Puzo", "Puzo", [])
    good = json.loads(Path(files[0]).read_text())["Data"][0]
    for changes, words in (
        ({"Answer": {"Value": "a", "Aliases": "ab"}}, "Aliases is str, wanted"),
        (
            {"EntityPages": {"Filename": "x"}},
            "EntityPages is dict, wanted list",
        ),
        ({"EntityPages": ["x"]}, r"EntityPages\[0\] is str, wanted an object"),
        ({"SearchResults": [{"Filename": 3}]}, "Filename is int, wanted str"),
        ({"EntityPages": [{"Filename": "a\0b"}]}, "no document with an answer"),
    ):
        path = squad_files.write(tmp_path, {"Data": [good | changes]})
        with pytest.raises(UserError, match=words):
            triviaqa.read_triviaqa([path], folder)


def test_triviaqa_documents_that_come_later(tmp_path):
    """Records of half of the evidence are not those of all of it."""
    _, folder = trivia(tmp_path, "Puzo", "Puzo", [])
    before = triviaqa.evidence_in(folder)
    assert triviaqa.evidence_in(folder) == before
    (tmp_path / "wikipedia" / "Gone.txt").write_text("Puzo")
    between = triviaqa.evidence_in(folder)
    assert between != before
    (tmp_path / "wikipedia" / "Doc.txt").write_text("Puzo, changed")
    changed = triviaqa.evidence_in(folder)
    assert changed["wikipedia"] != between["wikipedia"]
    (tmp_path / "web" / "7").mkdir(parents=True)
    (tmp_path / "web" / "7" / "7_1.txt").write_text("Puzo")
    assert triviaqa.evidence_in(folder)["web"] != changed["web"]
    # An entry may name no file.
    entry = {"Title": "no file"}
    question = {
        "Question": "Who?",
        "QuestionId": "q1",
        "Answer": {"Value": "Puzo", "Aliases": None},
        "EntityPages": [entry, {"Filename": "Doc.txt"}],
    }
    path = squad_files.write(tmp_path, {"Data": [question]})
    assert len(triviaqa.read_triviaqa([path], folder).examples) == 1


def test_an_alias_is_a_whole_word(tmp_path):
    files, folder = trivia(tmp_path, "Anna and Ann.", "Ann", [])
    data = triviaqa.read_triviaqa(files, folder)
    assert data.examples[0].start_position == 2
