"""Official scores and the tuned threshold, by hand."""

import doctest

import pytest

from tasks.squad import data as squad_data
from tasks.squad import scores as squad_scores


def scored(
    answers: dict[str, list[str]], is_version_2: bool = False, **more
) -> squad_data.SquadData:
    examples = [
        squad_data.SquadExample(
            key, "?", 0, tuple(texts), is_impossible=not texts
        )
        for key, texts in answers.items()
    ]
    paragraphs = [squad_data.make_paragraph("x")]
    return squad_data.SquadData(
        paragraphs, examples, is_version_2=is_version_2, **more
    )


def test_normalized():
    assert doctest.testmod(squad_scores) == (0, 1)
    assert squad_scores.normalize("A theater") == "theater"
    assert squad_scores.normalize("the") == ""


def test_version_1_by_hand():
    data = scored({"a": ["the cat sat", "dog"], "b": ["x"], "c": ["y z"]})
    given = {"a": "cat sat down", "b": "X!", "c": ""}
    found = squad_scores.score(data, given)
    # a: 2 shared of 3 given and 2 wanted; b is exact; c counts 0.
    first = 2 * (2 / 3) * 1.0 / (2 / 3 + 1.0)
    assert found == {"exact_match": 100 / 3, "f1": 100.0 * (first + 1) / 3}


def test_articles_alone_differ_between_versions():
    data, given = scored({"a": ["the"]}), {"a": "an"}
    assert squad_scores.score(data, given) == {"exact_match": 100.0, "f1": 0.0}
    found = squad_scores.score(data._replace(is_version_2=True), given)
    assert found["exact"] == found["f1"] == 100.0


def test_version_2_by_hand():
    data = scored({"a": ["cat"], "b": [], "c": ["big dog"], "d": []}, True)
    given = {"a": "cat", "b": "", "c": "dog", "d": "mouse"}
    odds = {"a": -5.0, "c": -1.0, "d": -3.0, "b": 2.0}
    found = squad_scores.score(data, given, odds)
    half = 2 * 1.0 * 0.5 / 1.5
    assert found == {
        "exact": 50.0,
        "f1": 100.0 * (1 + 1 + half) / 4,
        "total": 4,
        "HasAns_exact": 50.0,
        "HasAns_f1": 100.0 * (1 + half) / 2,
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
        # Nothing answered: 2 right. a: 3. d: 2. c: 2 and a half. b: as before.
        "best_exact": 75.0,
        "best_exact_thresh": -5.0,
        "best_f1": 75.0,
        "best_f1_thresh": -5.0,
    }


@pytest.mark.parametrize(
    "scoring, answer, given, exact, f1",
    [
        # 2 characters of 2, and of 3: a word with its ending.
        ("korquad", "한국", "한국은", 0.0, 80.0),
        ("squad", "한국", "한국은", 0.0, 0.0),
        # In any order, without blanks and marks.
        ("korquad", "《서울 시》", "시 서울!", 0.0, 100.0),
        ("korquad", "The U.S.", "the (us)", 100.0, 100.0),
        ("korquad", "a cat", "cat", 0.0, 100 * 2 * 0.75 / 1.75),
        # The longest run, 3 of 4 and 3 of 5 units.
        ("cmrc", "北京大学", "京大学北京", 0.0, 100 * 2 / 3),
        ("cmrc", "1998年，冬", "1998年冬", 100.0, 100.0),
        # A number is a unit: 1 of 2 and 1 of 1.
        ("cmrc", "1998年", "1998", 0.0, 100 * 2 / 3),
        ("cmrc", "1998年", "98年", 0.0, 50.0),
        ("cmrc", "the Cat 猫", "the dog", 0.0, 40.0),
    ],
)
def test_other_scripts_by_hand(scoring, answer, given, exact, f1):
    data = scored({"a": [answer]}, scoring=scoring)
    found = squad_scores.score(data, {"a": given})
    assert found == pytest.approx({"exact_match": exact, "f1": f1})
    data = scored({"a": [answer], "b": []}, True, scoring=scoring)
    found = squad_scores.score(data, {"a": given, "b": ""})
    assert found["f1"] == pytest.approx((f1 + 100) / 2)


def test_threshold_is_tuned_on_the_best_answers():
    """The example of the docstring; answers are those before a threshold."""
    data = scored({"a": ["cat"], "b": [], "c": ["dog"]}, True)
    best = {"a": "cat", "b": "mouse", "c": "dog"}
    odds = {"a": 1.5, "b": 9.0, "c": 3.0}
    tuned = squad_scores.tune_threshold(data, best, odds)
    assert tuned.threshold == 4.0  # between the odds of two questions
    assert tuned.f1 == tuned.exact == pytest.approx(100.0)


def test_threshold_where_answering_nothing_is_best():
    """And where questions of the same odds are right and wrong."""
    data = scored({"a": [], "b": [], "c": ["z"]}, True)
    best, odds = {"a": "x", "b": "y", "c": "q"}, {"a": -5.0, "b": -4, "c": -3}
    tuned = squad_scores.tune_threshold(data, best, odds)
    assert tuned.threshold == -6.0 and tuned.f1 == pytest.approx(200 / 3)
    data = scored({"a": ["x"], "b": [], "c": ["z"]}, True)
    best, odds = {"a": "x", "b": "y", "c": "z"}, {"a": -5.0, "b": -5, "c": 9}
    tuned = squad_scores.tune_threshold(data, best, odds)
    assert tuned.threshold == 10.0 and tuned.f1 == pytest.approx(200 / 3)
