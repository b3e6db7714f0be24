"""The signs of a failed run, by numbers worked out by hand; false alarms."""

import numpy as np
import pytest

from tasks import signs

NAMES = ["no", "yes"]


def repeated(*counts: int) -> np.ndarray:
    """Return class ids: so many 0, so many 1, ..."""
    return np.repeat(np.arange(len(counts)), counts)


def test_one_class_for_all_is_named_with_its_share():
    labels = repeated(129, 279)  # MRPC's development set
    ones, zeros = np.ones(408, int), np.zeros(408, int)
    assert signs.same_class(ones, labels, NAMES) == (
        "all 408 predictions are class yes (the most frequent label, 68.4% of "
        "the data)"
    )
    assert signs.same_class(zeros, labels, NAMES) == (
        "all 408 predictions are class no (the label of 31.6% of the data)"
    )
    ones[7] = 0
    assert signs.same_class(ones, labels, NAMES) is None


@pytest.mark.parametrize(
    "labels",
    [
        repeated(0, 500),  # the data have one class
        repeated(5, 5),  # ten examples
        repeated(1),
        repeated(9, 991),  # nine of another class could be missed
        repeated(),
    ],
)
def test_data_that_cannot_show_a_failure_give_no_alarm(labels):
    predictions = np.full(len(labels), labels.max(initial=0))
    assert signs.same_class(predictions, labels, NAMES) is None


def test_ten_missed_examples_are_enough():
    labels = repeated(10, 990)
    found = signs.same_class(np.ones(1000, int), labels, NAMES)
    assert found.endswith("(the most frequent label, 99.0% of the data)")


def test_a_class_for_all_that_is_as_often_right():
    """Of 80 and 20, 78 are right, and chance would make 75.2 right."""
    labels = repeated(80, 20)
    predictions = np.concatenate([repeated(76, 4), repeated(18, 2)])
    wanted = "accuracy is 0.78, and 0.8 with class no for all"
    assert signs.no_better_class(predictions, labels, NAMES) == wanted
    found = signs.no_better_class(predictions, labels, NAMES, "answers are x")
    assert found == wanted.replace("class", "x")
    # More often right than the class for all.
    predictions[80:83] = 1
    assert signs.no_better_class(predictions, labels, NAMES) is None
    assert signs.no_better_class(labels, labels, NAMES) is None
    # Too few that are not of the class.
    few = np.concatenate([repeated(76, 4), repeated(9)])
    assert signs.no_better_class(few, repeated(80, 9), NAMES) is None
    # All the same, as before.
    found = signs.no_better_class(np.zeros(100, int), labels, NAMES)
    assert found.startswith("all 100 predictions are class no (the most freq")


def test_a_model_that_finds_a_rare_class_has_not_failed():
    """Although it is less often right, as with balanced weights."""
    labels = repeated(900, 100)
    predictions = np.concatenate([repeated(780, 120), repeated(20, 80)])
    assert (predictions == labels).mean() == 0.86
    assert signs.no_better_class(predictions, labels, NAMES) is None
    # Nor one that has learned from a teacher to contradict the labels.
    halves = repeated(50, 50)
    assert signs.no_better_class(1 - halves, halves, NAMES) is None


def test_the_same_labels_for_all_that_are_as_often_right():
    """a for all has micro_f1 2 * 60 / (100 + 90), and 50 of 100 right."""
    labels = np.array([[1, 0]] * 50 + [[1, 1]] * 10 + [[0, 1]] * 20)
    labels = np.concatenate([labels, [[0, 0]] * 20])
    predicted = np.roll(labels, 40, axis=0) > 0
    assert signs.no_better_labels(predicted, labels) == (
        "micro_f1 is 0.2222, and 0.6316 with the same labels for all"
    )
    assert signs.no_better_labels(labels > 0, labels) is None
    found = signs.no_better_labels(labels > 5, labels)
    assert found == "all 100 predictions are the same labels"
    assert signs.no_better_labels(labels[:50] > 0, labels[:50]) is None


def test_a_constant_number_is_compared_with_the_labels():
    labels = np.linspace(0.0, 5.0, 101)  # deviation 5 * sqrt(102 / 1200)
    constant = 2.5 + 0.01 * labels
    assert signs.same_number(constant, labels) == (
        "the 101 predictions are almost constant (standard deviation 0.0146; "
        "that of the labels is 1.46)"
    )
    assert signs.same_number(0.2 * labels, labels) is None
    assert signs.same_number(constant[:9], labels[:9]) is None
    same = np.full(50, 3.0)
    assert signs.same_number(same, same) is None
    assert signs.same_number(labels, np.zeros(101)) is None
    assert signs.same_number(-labels, labels) == (
        "correlation is -1, and 0 with the same number for all"
    )


def keyed(values) -> dict:
    return {f"q{number}": value for number, value in enumerate(values)}


def test_answers_that_are_all_the_same():
    wrong = keyed([False] * 12)
    empty = keyed([""] * 12)
    found = signs.same_span(empty, {}, wrong)
    assert found == "all 12 questions are left without an answer"
    same = keyed(["The", "the"] * 6)
    found = signs.same_span(same, keyed([3, 4] * 6), wrong)
    assert found == "all 12 answers are 'The'"
    # The first span of each paragraph, or none.
    texts = keyed([*"abcdefghijk", ""])
    places = keyed([0] * 11)
    found = signs.same_span(texts, places, wrong)
    assert found == (
        "all 11 answers with a text begin at the same place, piece 0 of the "
        "paragraph"
    )
    assert signs.same_span(texts, places | {"q3": 1}, wrong) is None


def test_answers_that_are_rightly_the_same_give_no_alarm():
    """No question has an answer, or nine of a hundred have one."""
    empty = keyed([""] * 100)
    for missed in (0, 9):
        is_right = keyed([False] * missed + [True] * (100 - missed))
        assert signs.same_span(empty, {}, is_right) is None
    # All paragraphs begin with their answer.
    texts = keyed(map(str, range(100)))
    found = signs.same_span(
        texts, keyed([0] * 100), keyed([True] * 91 + [False] * 9)
    )
    assert found is None
