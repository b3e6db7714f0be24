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


# --- Words -------------------------------------------------------------------


def test_the_example_of_the_module_docstring(tmp_path):
    qas = [question("1", "Who left?", ("Steve Jobs", 13))]
    path = write(tmp_path, content(("The founder (Steve Jobs) left.", qas)))
    data = squad_data.read_squad([path], True, False, strict=True)
    words = data.paragraphs[0].words()
    assert words == ["The", "founder", "(Steve", "Jobs)", "left."]
    (example,) = data.examples
    assert (example.start_position, example.end_position) == (2, 3)


def test_other_spaces_part_words(tmp_path):
    """A no-break space does, unlike in the original."""
    path = write(
        tmp_path,
        content(("It cost 5\u00a0pounds\u2003then.", [question("a")])),
    )
    data = squad_data.read_squad([path], False, False)
    words = data.paragraphs[0].words()
    assert words == ["It", "cost", "5", "pounds", "then."]


def test_empty_answers_and_control_characters(tmp_path, caplog):
    """An empty text is not an answer; a control character parts no words."""
    value = content(
        (
            "one two",
            [question("a", "?", ("", 0)), question("b", "?", ("two", 4))],
        ),
        ("x a\x0cb", [question("c", "?", ("a\x0cb", 2))]),
    )
    data = squad_data.read_squad([write(tmp_path, value)], True, False)
    assert [example.qas_id for example in data.examples] == ["b", "c"]
    assert "1 questions are left out" in caplog.text


def test_answers_that_are_elsewhere(tmp_path, caplog):
    value = content(
        (
            "one two three",
            [
                question("right", "?", ("two", 4)),
                question("near", "?", ("two", 5)),  # the word still holds it
                question("gone", "?", ("two", 8)),
            ],
        )
    )
    path = write(tmp_path, value)
    data = squad_data.read_squad([path], True, False)
    assert [example.qas_id for example in data.examples] == ["right", "near"]
    assert "2 answers are not where answer_start points" in caplog.text
    assert "1 questions are left out" in caplog.text
    squad_data.read_squad([path], False, False)
    assert caplog.text.count("2 answers are not where") == 2
    assert "(near): answer_start 5 is not where 'two' is" in caplog.text
    value["data"][0]["paragraphs"][0]["qas"].append(question("none"))
    squad_data.read_squad([write(tmp_path, value)], False, False)
    assert "1 of 4 questions have no answers to compare with" in caplog.text
    line = reading_error(tmp_path, value, strict=True)
    assert "(near): answer_start 5" in line and "--strict" in line


# --- What is not SQuAD's format ----------------------------------------------


def test_files_that_are_not_json(tmp_path):
    line = reading_error(tmp_path, '{"data": [}')
    assert "not JSON at line 1, column 11" in line
    line = reading_error(tmp_path, "[" * 100_000)
    assert "JSON that cannot be read" in line
    (tmp_path / "b.json").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UserError, match="is compressed .gzip.: unpack it"):
        squad_data.read_squad([str(tmp_path / "b.json")], True, False)
    (tmp_path / "b.json").write_bytes(b'{"data": "\xff"}')
    with pytest.raises(UserError, match="not UTF-8 at byte 10"):
        squad_data.read_squad([str(tmp_path / "b.json")], True, False)
    with pytest.raises(UserError, match="nowhere.json: cannot be read"):
        squad_data.read_squad(["/nowhere.json"], True, False)


@pytest.mark.parametrize(
    "value, words",
    [
        ([], "f.json is list, wanted an object with the key 'data'"),
        ({"date": []}, "no key 'data'"),
        ({"data": {}}, "data is dict, wanted list"),
        ({"data": None}, "f.json: data is NoneType, wanted list"),
        ({"data": []}, "no question found"),
        ({"Data": []}, "with --triviaqa_evidence_dir"),
        (
            {"data": [{"paragraphs": [{"qas": []}]}]},
            "data[0].paragraphs[0] has no key 'context'",
        ),
    ],
)
def test_articles_and_paragraphs_of_another_form(tmp_path, value, words):
    assert words in reading_error(tmp_path, value)


@pytest.mark.parametrize(
    "qa, words",
    [
        ({"id": "x"}, "data[0].paragraphs[0].qas[0] has no key 'question'"),
        *(
            (question(odd), f"qas[0].id is {odd!r}, wanted a string")
            for odd in (None, [1], True, 1.5)
        ),
        (
            question("x", is_impossible="false"),
            "is_impossible is str, wanted bool",
        ),
        (question("x") | {"answers": 5}, "answers is int, wanted list"),
        (
            question("x", "Who?", ("a", False)),
            "answer_start is bool, wanted int",
        ),
        (
            question("x", "Who?", ("a", "0")),
            "answers[0].answer_start is str",
        ),
        (question("x"), "(x) has no answer to train on"),
    ],
    ids=str,
)
def test_questions_of_another_form(tmp_path, qa, words):
    assert words in reading_error(tmp_path, content(("a b", [qa])))


def test_ids_are_unique(tmp_path):
    twice = [question("x", "Who?", ("a", 0))] * 2
    line = reading_error(tmp_path, content(("a b", twice)))
    assert "qas[1]: id 'x' is used at" in line and "qas[0]" in line


def test_the_version_is_checked(tmp_path):
    impossible = [question("x", is_impossible=True)]
    line = reading_error(tmp_path, content(("a b", impossible)))
    assert "1 of 1 questions have no answer" in line
    assert "this is SQuAD 2.0, give --version_2_with_negative" in line
    plain = [question("x", "Who?", ("a", 0))]
    line = reading_error(tmp_path, content(("a b", plain)), version_2=True)
    assert "leave --version_2_with_negative out" in line


def test_no_question_to_train_on(tmp_path):
    gone = content(("a b", [question("x", "Who?", ("b", -70))]))
    line = reading_error(tmp_path, gone)
    assert "no question found that can be trained on, of 1; the" in line
    assert "(x): answer_start -70 is not where 'b' is" in line
