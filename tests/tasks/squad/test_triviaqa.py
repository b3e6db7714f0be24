"""Reading TriviaQA's files: aliases, documents, errors."""

from pathlib import Path

from base.errors import UserError

import pytest
import squad_files

from tasks.squad import triviaqa
from tasks.squad import windows as squad_windows

GOOD = {
    "Question": "Who?",
    "QuestionId": "q1",
    "Answer": {"Value": "Puzo", "Aliases": []},
    "EntityPages": [{"Filename": "Doc.txt"}, {"Filename": "Gone.txt"}],
}


def read(folder: Path, question: dict, text: str = "Puzo"):
    """Read a file of one question, with one of its documents there."""
    (folder / "wikipedia").mkdir(exist_ok=True)
    (folder / "wikipedia" / "Doc.txt").write_text(text)
    path = squad_files.write(folder, {"Data": [question]})
    return triviaqa.read_triviaqa([path], str(folder))


def test_the_first_alias_is_the_answer(tmp_path, tokenizer, caplog):
    text = "Nobody knew.\n\nThe MARIO  Puzo book by mario puzo " + "x " * 500
    answer = {"Value": "Puzo", "Aliases": ["Mario Puzo", "Maria"]}
    data = read(tmp_path, GOOD | {"Answer": answer}, text)
    (example,) = data.examples
    assert example.qas_id == "q1--wikipedia/Doc.txt"
    (paragraph,) = data.paragraphs
    assert len(paragraph.starts) == 400
    assert paragraph.text[slice(*example.place)] == "MARIO  Puzo"
    assert "1 documents are not in" in caplog.text
    lengths = squad_windows.Lengths(64, 32, 16)
    windows = squad_windows.convert(data, tokenizer, lengths)
    assert (windows.start_positions > 0).sum() >= 1
    data = read(tmp_path, GOOD | {"Answer": {"Value": "Ann"}}, "Anna and Ann.")
    assert data.examples[0].place == (9, 12)  # a whole word
    # Not the first "7" of the word that the answer is in.
    data = read(tmp_path, GOOD | {"Answer": {"Value": "7"}}, "It was a7-7.")
    windows = squad_windows.convert(data, tokenizer, lengths)
    pieces = [tokenizer.inv_vocab[i] for i in windows.documents[0].tolist()]
    assert pieces == ["it", "was", "a", "##7", "-", "7", "."]
    assert windows.start_positions.tolist() == [2 + 2 + 5]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"QuestionId": None}, "'QuestionId' is None, wanted a string"),
        ({"Answer": {"Value": "a", "Aliases": "ab"}}, "'Aliases' is 'ab',"),
        ({"Answer": {"Value": "a", "Aliases": [5]}}, "'Aliases' is 5, wanted"),
        ({"Answer": {"Value": " "}}, "Value and Aliases are empty"),
        ({"EntityPages": {}}, "'EntityPages' is {}, wanted a list"),
        ({"EntityPages": ["x"]}, r"EntityPages\[0\]: found str, wanted an obj"),
        ({"SearchResults": [{"Filename": 3}]}, "'Filename' is 3, wanted a"),
        ({"EntityPages": [{"Filename": "a\0b"}]}, "no document with an answer"),
        ({"EntityPages": [{"Filename": "\ud800"}]}, "no document with an a"),
        (
            {"EntityPages": [{"Filename": "../wikipedia/Doc.txt"}]},
            r"EntityPages\[0\].Filename is '../wikipedia/Doc.txt', which leads",
        ),
        ({"SearchResults": [{"Filename": "a/../../.."}]}, "leads out of"),
        ({"EntityPages": [{"Filename": "/proc/version"}]}, "no document with"),
        ({"EntityPages": [{"Title": "a"}]}, "no document with an answer"),
    ],
)
def test_files_of_another_form(tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        read(tmp_path, GOOD | changes)


def test_an_answer_behind_the_first_words(tmp_path):
    with pytest.raises(UserError, match="no document with an answer"):
        read(tmp_path, GOOD, "x " * 400 + "Puzo")


def test_documents_that_come_later(tmp_path):
    """Records of half of the evidence are not those of all of it."""
    found = []
    for name, text in (
        ("wikipedia/Doc.txt", "Puzo"),
        ("wikipedia/Gone.txt", "Puzo"),
        ("wikipedia/Doc.txt", "Puzo, changed"),
        ("web/7/7_1.txt", "Puzo"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        evidence = triviaqa.evidence_in(str(tmp_path))
        assert evidence == triviaqa.evidence_in(str(tmp_path))
        assert evidence not in found
        found.append(evidence)
