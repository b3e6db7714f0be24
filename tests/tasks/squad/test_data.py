"""Reading SQuAD's files: words, answers, versions, errors."""

import gzip

from base.errors import UserError

import pytest
from squad_files import content, question, write

from tasks.squad import data as squad_data
from tasks.squad import scores as squad_scores


def reading_error(tmp_path, value, training=True, version_2=False):
    path = write(tmp_path, value)
    with pytest.raises(UserError) as error:
        squad_data.read_squad([path], training, version_2)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_first_answer_is_trained_on(tmp_path):
    """With its characters, as in the module's docstring."""
    qas = [question("1", "Who left?", ("Steve Jobs", 13))]
    qas.append(question("2", "Who?", ("Steve", 13), ("Jobs", 19)))
    path = write(tmp_path, content(("The founder (Steve Jobs) left.", qas)))
    data = squad_data.read_squad([path], True, False)
    words = data.paragraphs[0].words()
    assert words == ["The", "founder", "(Steve", "Jobs)", "left."]
    first, several = data.examples
    assert (first.place, several.place) == ((13, 23), (13, 18))
    assert several.answers == ("Steve", "Jobs")


def test_questions_without_a_text_are_counted(tmp_path, caplog):
    texts = {"1": "Who?", "2": " ", "3": ""}
    qas = [question(name, text, ("a", 0)) for name, text in texts.items()]
    squad_data.read_squad([write(tmp_path, content(("a b", qas)))], True, False)
    assert "2 questions have no text, the first: 2" in caplog.text


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
        "outside": ("a\x0cb", 10**30),
        "control": ("a\x0cb", 14),  # a form feed parts no words
    }
    qas = [question(key, "?", answer) for key, answer in questions.items()]
    value = content(("one two three a\x0cb", qas))
    path = write(tmp_path, value)
    data = squad_data.read_squad([path], True, False)
    kept = [example.qas_id for example in data.examples]
    assert kept == ["right", "near", "control"]
    assert "4 answers are not where answer_start points" in caplog.text
    assert "(near): answer_start 5 is not where 'two' is" in caplog.text
    assert "3 questions are left out" in caplog.text
    value["data"][0]["paragraphs"][0]["qas"].append(question("none"))
    data = squad_data.read_squad([write(tmp_path, value)], False, False)
    assert len(data.examples) == 7
    assert "1 of 7 questions have no answers to compare with" in caplog.text


def test_an_impossible_question_with_answers(tmp_path):
    qas = [question("a", "?", ("one", 0), is_impossible=True)]
    path = write(tmp_path, content(("one", qas)))
    (scored,) = squad_data.read_squad([path], False, True).examples
    assert scored.answers == ("one",)
    (trained,) = squad_data.read_squad([path], True, True).examples
    assert trained.place is None


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"data": [}', "not JSON: Expecting value: column 11"),
        (b'{"data":\n }', "line 2 column 2"),
        (gzip.compress(b"{}", mtime=0), "is compressed .gzip.: unpack it"),
        (None, "cannot be read"),
    ],
    ids=["JSON", "line", "gzip", "none"],
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
        ([], "f.json: found list, wanted an object with"),
        ({"date": []}, "no key 'data'"),
        ({"data": None}, "f.json: 'data' is None, wanted a list: not in SQuAD"),
        ({"data": []}, "no question found"),
        ({"Data": []}, "with --triviaqa_evidence_dir"),
        (
            {"data": [{"paragraphs": [{"qas": []}]}]},
            "data[0].paragraphs[0]: no key 'context'; it has 'qas'",
        ),
        (of_question({"id": "x"}), "paragraphs[0].qas[0]: no key 'question'"),
        (of_question(question(True)), "qas[0]: 'id' is True, wanted a string"),
        (
            of_question(question("x", is_impossible="false")),
            "'is_impossible' is 'false', wanted true or",
        ),
        (
            of_question(question("x", "Who?", ("a", False))),
            "answers[0]: 'answer_start' is False, wanted a w",
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
    path = write(tmp_path, plain | {"version": "v2.0"})  # a part of 2.0
    assert squad_data.read_squad([path], True, True).examples[0].place == (0, 1)


def test_training_files_are_judged_together(tmp_path, caplog):
    """SQuAD 1.1 with questions of one's own that have no answer."""
    of_1 = of_question(question("x", "Who?", ("a", 0)))
    names = {
        "one": of_1,
        "own": of_question(question("y", is_impossible=True)),
        "bare": content(
            ("a b", [question("z", "Who?", ("a", 0)), question("w")])
        ),
    }
    one, own, bare = (
        write(tmp_path, value, f"{name}.json") for name, value in names.items()
    )
    for files in ([one, own], [own, one], [one, bare]):
        with pytest.raises(UserError, match="--version_2_with_negative$"):
            squad_data.read_squad(files, True, False)
        found = squad_data.read_squad(files, True, True).examples
        assert sum(example.is_impossible for example in found) == 1
    # What a model of 2.0 is asked may all have an answer.
    assert "1.1" not in caplog.text
    assert len(squad_data.read_squad([one], False, True).examples) == 1
    assert "this is SQuAD 1.1, with the answers and scores of" in caplog.text


# With the key, with it in one question, without it.
VERSION_2 = [
    [question("a", "?", ("b", 2), **first), question("b", "?", **second)]
    for first, second in (
        ({"is_impossible": False}, {"is_impossible": True}),
        ({"is_impossible": False}, {}),
        ({}, {}),
    )
]


@pytest.mark.parametrize("qas", VERSION_2, ids=["both", "one", "none"])
def test_version_2_without_is_impossible(tmp_path, qas, caplog):
    """A question without answers has none, as in the official script."""
    path = write(tmp_path, content(("a b", qas)))
    trained = squad_data.read_squad([path], True, True).examples
    assert [x.place for x in trained] == [(2, 3), None]
    assert [x.is_impossible for x in trained] == [False, True]
    data = squad_data.read_squad([path], False, True)
    found = squad_scores.score(data, {"a": "b", "b": ""})
    assert (found["exact"], found["f1"]) == (100.0, 100.0)
    assert (found["HasAns_total"], found["NoAns_total"]) == (1, 1)
    assert not [x for x in caplog.records if x.levelname == "WARNING"]


def test_version_2_without_is_impossible_read_as_version_1(tmp_path, caplog):
    value = content(("a b", VERSION_2[2]))
    assert "--version_2_with_negative" in reading_error(tmp_path, value)
    squad_data.read_squad([write(tmp_path, value)], False, False)
    assert "1 of 2 questions have no answers" in caplog.text
    assert "Is this SQuAD 2.0? Then give --version_2" in caplog.text


def test_a_file_without_any_answer_is_not_trained_on(tmp_path):
    """It is one to predict, not one of impossible questions."""
    value = of_question(question("x"))
    line = reading_error(tmp_path, value, version_2=True)
    assert "a file to predict, not to train on" in line
    data = squad_data.read_squad([write(tmp_path, value)], False, True)
    assert not data.has_answers()
    del value["data"][0]["paragraphs"][0]["qas"][0]["answers"]
    line = reading_error(tmp_path, value, version_2=True)
    assert "(x) has no answer to train on" in line
