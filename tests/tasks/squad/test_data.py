"""Reading SQuAD's files: words, answers, versions, errors."""

import gzip

from base.errors import UserError

import pytest
from squad_files import content, question, write

from tasks.squad import data as squad_data


def reading_error(tmp_path, value, training=True, version_2=False, **more):
    path = write(tmp_path, value)
    with pytest.raises(UserError) as error:
        squad_data.read_squad([path], training, version_2, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_first_answer_is_trained_on(tmp_path):
    """With the words that hold it, as in the module's docstring."""
    qas = [question("1", "Who left?", ("Steve Jobs", 13))]
    qas.append(question("2", "Who?", ("Steve", 13), ("Jobs", 19)))
    path = write(tmp_path, content(("The founder (Steve Jobs) left.", qas)))
    data = squad_data.read_squad([path], True, False, strict=True)
    words = data.paragraphs[0].words()
    assert words == ["The", "founder", "(Steve", "Jobs)", "left."]
    first, several = data.examples
    assert (first.start_position, first.end_position) == (2, 3)
    assert (several.start_position, several.end_position) == (2, 2)
    assert several.answers == ("Steve", "Jobs")


def test_other_spaces_part_words():
    """A no-break space does, unlike in the original."""
    found = squad_data.make_paragraph("It cost 5\u00a0pounds\u2003then.")
    assert found.words() == ["It", "cost", "5", "pounds", "then."]


def test_answers_that_are_elsewhere(tmp_path, caplog):
    questions = {
        "right": ("two", 4),
        "near": ("two", 5),  # the word still holds it
        "gone": ("two", 8),
        "empty": ("", 0),  # not an answer
        "control": ("a\x0cb", 14),  # a form feed parts no words
    }
    qas = [question(key, "?", answer) for key, answer in questions.items()]
    value = content(("one two three a\x0cb", qas))
    path = write(tmp_path, value)
    data = squad_data.read_squad([path], True, False)
    kept = [example.qas_id for example in data.examples]
    assert kept == ["right", "near", "control"]
    assert "3 answers are not where answer_start points" in caplog.text
    assert "(near): answer_start 5 is not where 'two' is" in caplog.text
    assert "2 questions are left out" in caplog.text
    value["data"][0]["paragraphs"][0]["qas"].append(question("none"))
    data = squad_data.read_squad([write(tmp_path, value)], False, False)
    assert len(data.examples) == 6
    assert "1 of 6 questions have no answers to compare with" in caplog.text
    line = reading_error(tmp_path, value, strict=True)
    assert "(near): answer_start 5" in line and "--strict" in line


def test_an_impossible_question_with_answers(tmp_path):
    qas = [question("a", "?", ("one", 0), is_impossible=True)]
    path = write(tmp_path, content(("one", qas)))
    (scored,) = squad_data.read_squad([path], False, True).examples
    assert scored.answers == ("one",)
    (trained,) = squad_data.read_squad([path], True, True).examples
    assert trained.start_position == -1


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"data": [}', "not JSON: Expecting value: column 11"),
        (b'{"data":\n }', "line 2 column 2"),
        (b"[" * 100_000, "not JSON: .*nested too deeply"),
        (gzip.compress(b"{}", mtime=0), "is compressed .gzip.: unpack it"),
        (b'{"data": "\xff"}', "not UTF-8 at byte 10"),
        (None, "cannot be read"),
    ],
    ids=["JSON", "line", "deep", "gzip", "UTF-8", "none"],
)
def test_files_that_are_not_json(tmp_path, data, words):
    path = tmp_path / "b.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UserError, match=words):
        squad_data.read_squad([str(path)], True, False)


def of_question(qa: dict) -> dict:
    return content(("a b", [qa]))


@pytest.mark.parametrize(
    "value, words",
    [
        ([], "f.json is list, wanted an object with the key 'data'"),
        ({"date": []}, "no key 'data'"),
        ({"data": None}, "f.json: data is NoneType, wanted list"),
        ({"data": []}, "no question found"),
        ({"Data": []}, "with --triviaqa_evidence_dir"),
        (
            {"data": [{"paragraphs": [{"qas": []}]}]},
            "data[0].paragraphs[0] has no key 'context'",
        ),
        (
            of_question({"id": "x"}),
            "data[0].paragraphs[0].qas[0] has no key 'question'",
        ),
        (of_question(question(True)), "qas[0].id is True, wanted a string"),
        (
            of_question(question("x", is_impossible="false")),
            "is_impossible is str, wanted bool",
        ),
        (
            of_question(question("x", "Who?", ("a", False))),
            "answers[0].answer_start is bool, wanted int",
        ),
        (of_question(question("x")), "(x) has no answer to train on"),
        (
            of_question(question("x", is_impossible=True)),
            "1 of 1 questions have no answer: this is SQuAD 2.0, give --ver",
        ),
        (
            content(("a b", [question("x", "Who?", ("a", 0))] * 2)),
            "qas[1]: id 'x' is used at",
        ),
        (
            of_question(question("x", "Who?", ("b", -70))),
            "no question found that can be trained on, of 1; the first problem",
        ),
    ],
    ids=str,
)
def test_files_of_another_form(tmp_path, value, words):
    assert words in reading_error(tmp_path, value)


def test_version_1_is_not_read_as_version_2(tmp_path):
    plain = of_question(question("x", "Who?", ("a", 0)))
    line = reading_error(tmp_path, plain, version_2=True)
    assert "leave --version_2_with_negative out" in line
