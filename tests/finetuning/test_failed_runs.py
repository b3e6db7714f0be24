"""The signs of a failed run, by numbers worked out by hand; false alarms."""

import math

import numpy as np
import pytest

from finetuning import failed_runs
from tasks.bilstm import BiLstmSize
from tasks.settings import RunSettings
from training.settings import Settings
from training.tail_loss import TailLoss

NAMES = ["no", "yes"]


def repeated(*counts: int) -> np.ndarray:
    """Return class ids: so many 0, so many 1, ..."""
    return np.repeat(np.arange(len(counts)), counts)


# --- Predictions -------------------------------------------------------------


def test_one_class_for_all_is_named_with_its_share():
    labels = repeated(129, 279)  # MRPC's development set
    ones, zeros = np.ones(408, int), np.zeros(408, int)
    assert failed_runs.same_class(ones, labels, NAMES) == (
        "all 408 predictions are class yes (the most frequent label, 68.4% of "
        "the data)"
    )
    assert failed_runs.same_class(zeros, labels, NAMES) == (
        "all 408 predictions are class no (the label of 31.6% of the data)"
    )
    ones[7] = 0
    assert failed_runs.same_class(ones, labels, NAMES) is None


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
    assert failed_runs.same_class(predictions, labels, NAMES) is None


def test_ten_missed_examples_are_enough():
    labels = repeated(10, 990)
    found = failed_runs.same_class(np.ones(1000, int), labels, NAMES)
    assert found.endswith("(the most frequent label, 99.0% of the data)")


def test_a_constant_number_is_compared_with_the_labels():
    labels = np.linspace(0.0, 5.0, 101)  # deviation 5 * sqrt(102 / 1200)
    constant = 2.5 + 0.01 * labels
    assert failed_runs.same_number(constant, labels) == (
        "the 101 predictions are almost constant (standard deviation 0.0146; "
        "that of the labels is 1.46)"
    )
    assert failed_runs.same_number(0.2 * labels, labels) is None
    assert failed_runs.same_number(constant[:9], labels[:9]) is None
    same = np.full(50, 3.0)
    assert failed_runs.same_number(same, same) is None


def keyed(values) -> dict:
    return {f"q{number}": value for number, value in enumerate(values)}


def test_answers_that_are_all_the_same():
    wrong = keyed([False] * 12)
    empty = keyed([""] * 12)
    found = failed_runs.same_span(empty, {}, wrong)
    assert found == "all 12 questions are left without an answer"
    same = keyed(["The", "the"] * 6)
    found = failed_runs.same_span(same, keyed([3, 4] * 6), wrong)
    assert found == "all 12 answers are 'The'"
    # The first span of each paragraph, or none.
    texts = keyed([*"abcdefghijk", ""])
    places = keyed([0] * 11)
    found = failed_runs.same_span(texts, places, wrong)
    assert found == (
        "all 11 answers with a text begin at the same place, piece 0 of the "
        "paragraph"
    )
    assert failed_runs.same_span(texts, places | {"q3": 1}, wrong) is None


def test_answers_that_are_rightly_the_same_give_no_alarm():
    """No question has an answer, or nine of a hundred have one."""
    empty = keyed([""] * 100)
    for missed in (0, 9):
        is_right = keyed([False] * missed + [True] * (100 - missed))
        assert failed_runs.same_span(empty, {}, is_right) is None
    # All paragraphs begin with their answer.
    texts = keyed(map(str, range(100)))
    found = failed_runs.same_span(
        texts, keyed([0] * 100), keyed([True] * 91 + [False] * 9)
    )
    assert found is None


# --- The loss of guessing ----------------------------------------------------


def test_the_worked_example_of_mrpc():
    """The numbers in the docstring of the module."""
    guess = failed_runs.guess_class(repeated(1194, 2474))
    p = 2474 / 3668
    assert guess.loss == pytest.approx(
        -p * math.log(p) - (1 - p) * math.log(1 - p)
    )
    deviation = math.sqrt(p * (1 - p)) * math.log(p / (1 - p))
    assert guess.deviation == pytest.approx(deviation)
    assert round(guess.loss, 3) == 0.631
    assert round(guess.deviation, 3) == 0.341
    tail = TailLoss(0.62, 35, 1120)
    assert failed_runs.not_below_guessing(tail, guess) == (
        "the training loss ended at 0.6200 (mean of the last 35 steps); "
        "guessing by label frequencies gives 0.6310"
    )
    tail = tail._replace(loss=0.55)
    assert failed_runs.not_below_guessing(tail, guess) is None


def test_balanced_classes_need_a_gain_of_one_percent():
    guess = failed_runs.guess_class(repeated(50, 50, 50))
    assert guess.loss == pytest.approx(math.log(3))
    assert guess.deviation == pytest.approx(0.0, abs=1e-12)
    for share, is_sign in ((1.2, True), (0.995, True), (0.985, False)):
        tail = TailLoss(share * math.log(3), 10, 320)
        found = failed_runs.not_below_guessing(tail, guess)
        assert bool(found) == is_sign


def test_losses_that_show_nothing_give_no_alarm():
    fair = failed_runs.guess_class(repeated(50, 50))
    few = TailLoss(0.8, 3, 96)
    assert failed_runs.not_below_guessing(few, fair) is None
    none = TailLoss(math.nan, 0, 0)
    assert failed_runs.not_below_guessing(none, fair) is None
    # One class; and one example in a thousand of another.
    for labels in (repeated(0, 1000), repeated(1, 999)):
        guess = failed_runs.guess_class(labels)
        tail = TailLoss(0.02, 10, 320)
        assert failed_runs.not_below_guessing(tail, guess) is None


def test_the_guess_of_tags_counts_words_and_deviates_by_rows():
    """Tags 0 0 0 1 and 0 0: 5 of 6 words have tag 0."""
    labels = np.array([[0, 0, 0, 1, -1], [-1, 0, 0, -1, -1], [-1] * 5])
    guess = failed_runs.guess_tags(labels)
    often, rare = -math.log(5 / 6), -math.log(1 / 6)
    assert guess.loss == pytest.approx((5 * often + rare) / 6)
    rows = [(3 * often + rare) / 4, often]  # the third has no words
    assert guess.deviation == pytest.approx(abs(rows[0] - rows[1]) / 2)


def test_the_guess_of_a_number_is_the_variance():
    guess = failed_runs.guess_number(np.array([0.0, 0.0, 3.0], np.float32))
    assert guess.loss == pytest.approx(2.0)  # errors 1, 1, 4 around 1
    assert guess.deviation == pytest.approx(math.sqrt(2.0))


def test_the_guess_of_a_choice_is_uniform():
    assert failed_runs.guess_choice(4).loss == pytest.approx(math.log(4))


def test_the_guess_of_a_span_knows_how_often_there_is_none():
    """The docstring's numbers: half without an answer, 100 pieces."""
    guess = failed_runs.guess_span(
        np.array([0, 17]), np.array([0, 20]), np.array([50, 100])
    )
    losses = math.log(2), math.log(200)
    assert guess.loss == pytest.approx(sum(losses) / 2)
    assert round(guess.loss, 2) == 3.0
    assert guess.deviation == pytest.approx((losses[1] - losses[0]) / 2)
    all_answered = failed_runs.guess_span(
        np.array([3, 4]), np.array([3, 9]), np.array([10, 10])
    )
    assert all_answered.loss == pytest.approx(math.log(10))
    none = failed_runs.guess_span(np.zeros(9), np.zeros(9), np.ones(9))
    assert none.loss == 0.0


# --- Advice ------------------------------------------------------------------


def settings(
    do_train: bool = True, is_restart: bool = False, **training
) -> RunSettings:
    """Return settings of a run; the fields that advice reads matter."""
    values = dict.fromkeys(RunSettings._fields)
    values |= {
        "do_train": do_train,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "is_restart": is_restart,
        "training": Settings("out", 0, 32, **training),
    }
    return RunSettings(**values)


def test_advice_leaves_out_what_was_used():
    text = failed_runs.warning(["first", "second"], settings())
    assert text.startswith("This run failed: first; second. ")
    assert "--bias_correction" in text
    assert "--num_restarts=5 with another --output_dir, which keeps" in text
    assert "a lower --learning_rate (it was 5e-05)" in text
    text = failed_runs.warning(
        ["first"],
        settings(is_restart=True, bias_correction=True, learning_rate=1e-6),
    )
    assert "--bias_correction" not in text and "--num_restarts" not in text
    assert "a higher --learning_rate (it was 1e-06)" in text
    with_bilstm = settings()._replace(bilstm=BiLstmSize(1, 6))
    text = failed_runs.warning(["first"], with_bilstm)
    assert "another --learning_rate (it was 5e-05)" in text


def test_a_model_that_is_only_scored_gets_no_values_of_other_flags():
    text = failed_runs.warning(["first"], settings(do_train=False))
    assert text.startswith("The run that fine-tuned this model failed: first. ")
    assert "it was 5e-05" not in text
    assert text.endswith("(--num_restarts), with another --output_dir")


def test_a_rate_of_zero_is_the_only_advice():
    found = failed_runs.advice(settings(learning_rate=0.0), 1e-5)
    assert found == ["a --learning_rate above 0, which trains nothing"]
