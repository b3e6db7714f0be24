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
