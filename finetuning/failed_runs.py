"""Find out whether a fine-tuning run failed, and say what usually helps.

Fine-tuning on small data fails now and then: the model ends with the same
answer for every input (paper section 4.1: "sometimes unstable on small
datasets"). Its accuracy is the share of the most frequent label, which looks
like a score. Two signs show such a run:

1. The predictions on the scored data are all the same (`same_class`,
   `same_number`, `same_span`), and at least MIN_OTHERS of the right answers
   are others. A model that finds only every third of these would miss all ten
   with a probability of (2/3)**10 = 1.7%, so small development sets and those
   of a single class show nothing.
2. The training loss of the last tenth of the steps is not below that of
   guessing without reading the input (`Guess`, `not_below_guessing`). For
   classes this is the entropy of the labels. It is looked at where the weights
   that are kept are those of these steps: not after --eval_steps found
   better ones before. What it shows is kept in tail_loss.json, where a later
   command that scores the same weights finds it.

Example: the 3,668 pairs of MRPC have label 1 with the frequency 0.674. A
model that gives every pair the probability 0.674 has the mean loss

    -(0.674 ln 0.674 + 0.326 ln 0.326) = 0.631

and the loss of a single pair, 0.394 or 1.122, has the standard deviation
0.341. The last tenth of three epochs are 1,120 pairs, whose mean deviates by
0.341 / sqrt(1120) = 0.0102. A loss of 0.62 is less than two such deviations
below 0.631: nothing was learned. One of 0.55 is eight below it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tasks.settings import RunSettings
from training.tail_loss import MIN_EXAMPLES, TailLoss

# Right answers that differ from the single prediction, at least.
MIN_OTHERS = 10

# Predictions of a regression are constant if their standard deviation is below
# this share of that of the labels. With a correlation r to the labels, the
# predictions of least squared error have the share r.
_MIN_DEVIATION = 0.1

# The training loss has left that of guessing if it is below it by this many
# standard deviations of its mean, and by this share of it. The share counts
# for balanced classes: all have the same loss, so the deviation is 0, and
# dropout alone moves the loss.
_DEVIATIONS = 2.0
_MIN_GAIN = 0.01

# Below this learning rate a higher one is advised. The paper fine-tunes with
# 2e-5 to 5e-5.
LOWEST_USUAL_RATE = 1e-5

# A longer warm-up than this share of the steps is not advised.
_LONG_WARMUP = 0.5


# --- Predictions that are all the same ---------------------------------------


def same_class(
    predictions: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    what: str = "predictions are class",
) -> str | None:
    """Return what is wrong if all predictions are one class; else None.

    >>> same_class(np.ones(50, int), np.arange(50) % 2, ["no", "yes"])
    'all 50 predictions are class yes (the label of 50.0% of the data)'

    Args:
        predictions: class ids [n].
        labels: class ids [n].
        names: of the classes.
        what: between the number and the name.
    """
    if not len(predictions) or (predictions != predictions[0]).any():
        return None
    others = int((labels != predictions[0]).sum())
    if others < MIN_OTHERS:
        return None
    counts = np.bincount(labels, minlength=len(names))
    share = counts[predictions[0]] / len(labels)
    is_top = counts[predictions[0]] > np.delete(counts, predictions[0]).max()
    label = "the most frequent label," if is_top else "the label of"
    return (
        f"all {len(predictions):,} {what} {names[predictions[0]]} "
        f"({label} {share:.1%} of the data)"
    )


def same_number(predictions: np.ndarray, labels: np.ndarray) -> str | None:
    """Return what is wrong if a regression predicts a constant; else None.

    Args:
        predictions: [n].
        labels: [n].
    """
    if len(labels) < MIN_OTHERS:
        return None
    given, wanted = float(np.std(predictions)), float(np.std(labels))
    if given >= _MIN_DEVIATION * wanted:  # also where both are 0
        return None
    return (
        f"the {len(predictions):,} predictions are almost constant (standard "
        f"deviation {given:.3g}; that of the labels is {wanted:.3g})"
    )


def same_span(
    answers: Mapping[str, str],
    places: Mapping[str, int],
    is_right: Mapping[str, bool],
) -> str | None:
    """Return what is wrong if all answers are the same span; else None.

    They are if all are the same text, "" included, or if all that have a text
    begin at the same place. A collapsed model gives every token of a window
    the same logits. Then the first span of each paragraph is its answer, or
    none, where the question alone fills the list of the best starts.

    Args:
        answers: {question id: text}, "" for no answer.
        places: {question id: number of the paragraph's piece that the answer
            begins with}, of answers with a text.
        is_right: {question id: whether the answer is right}.
    """
    if sum(not is_right[key] for key in answers) < MIN_OTHERS:
        return None
    texts = {text.strip().lower() for text in answers.values()}
    if texts == {""}:
        return f"all {len(answers):,} questions are left without an answer"
    if len(texts) == 1:
        text = next(iter(answers.values()))
        return f"all {len(answers):,} answers are {text!r}"
    wrong = sum(not is_right[key] for key in places)
    if len(set(places.values())) != 1 or wrong < MIN_OTHERS:
        return None
    place = next(iter(places.values()))
    return (
        f"all {len(places):,} answers with a text begin at the same place, "
        f"piece {place} of the paragraph"
    )


# --- A training loss that is that of guessing --------------------------------


class Guess(NamedTuple):
    """The training loss of the best guess that does not read the input.

    Attributes:
        loss: its mean over the training data.
        deviation: standard deviation of the loss of single examples.
        what: how it guesses, for messages.
        least: the loss that no model is below; above 0 for soft targets.
    """

    loss: float
    deviation: float
    what: str
    least: float = 0.0


def guess_class(labels: np.ndarray) -> Guess:
    """Return the loss of the label frequencies: the entropy of the labels.

    >>> guess_class(np.array([0, 1, 1, 1])).loss  # .25 ln 4 + .75 ln 4/3
    0.5623351446188083

    Args:
        labels: class ids [n].
    """
    return guess_tags(labels[:, None])


def guess_tags(labels: np.ndarray) -> Guess:
    """Return the loss of the tag frequencies: the entropy of the words' tags.

    The words of a row are not independent, so the deviation is that of the
    mean losses of rows.

    Args:
        labels: class ids [n, S], negative where there is no word.
    """
    is_word = labels >= 0  # [n, S]
    counts = np.bincount(labels[is_word])
    # A class without an example is never looked up.
    losses = -np.log(np.maximum(counts, 1) / counts.sum())
    each = np.where(is_word, losses[np.maximum(labels, 0)], 0.0)  # [n, S]
    has_words = is_word.any(axis=1)  # [n]
    rows = each.sum(axis=1)[has_words] / is_word.sum(axis=1)[has_words]
    return Guess(
        float(each.sum() / is_word.sum()),
        float(rows.std()),
        "guessing by label frequencies",
    )


def guess_number(labels: np.ndarray) -> Guess:
    """Return the squared error of the mean label: the variance.

    Args:
        labels: [n].
    """
    errors = (labels.astype(np.float64) - labels.mean(dtype=np.float64)) ** 2
    return Guess(
        float(errors.mean()), float(errors.std()), "predicting the mean label"
    )


def guess_choice(num_choices: int) -> Guess:
    """Return the loss of equal probabilities for all choices, ln C.

    A choice is scored without its number, so the frequencies of the numbers
    cannot be learned.

    Args:
        num_choices: C.
    """
    return Guess(
        math.log(num_choices), 0.0, "the same probability for every choice"
    )


def guess_span(
    starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray
) -> Guess:
    """Return the loss of a span drawn from the paragraph.

    [CLS], "no answer", has its frequency z; each of the n pieces of the
    window's paragraph has the probability (1 - z) / n as a start, and as an
    end. With z = 1/2 and n = 100 the loss is ln 2 = 0.69 without an answer,
    ln 200 = 5.30 with one and 3.00 in the mean.

    Args:
        starts: position of the first token of the answer [n], 0 for none.
        ends: of the last one.
        lengths: pieces of the paragraph in each window [n].
    """
    losses = np.zeros([len(starts)])
    for positions in (starts, ends):
        nothing = positions == 0  # [n]
        share = nothing.mean()
        pieces = (1.0 - share) / np.maximum(lengths, 1)  # 0 if share is 1
        chances = np.where(nothing, share, pieces)
        losses -= np.log(chances) / 2.0  # the loss is the mean of both
    return Guess(
        float(losses.mean()),
        float(losses.std()),
        "guessing a span of the paragraph",
    )


def not_below_guessing(tail: TailLoss, guess: Guess) -> str | None:
    """Return what is wrong if the training loss ended at that of guessing.

    None also where this cannot be told: too few examples, or labels that are
    guessed so well that the noise is as large as the loss.

    Args:
        tail: loss of the last tenth of the steps.
        guess: the loss to compare it with.
    """
    if tail.num_examples < MIN_EXAMPLES:
        return None
    noise = _DEVIATIONS * guess.deviation / math.sqrt(tail.num_examples)
    most = guess.loss - guess.least  # what can be gained
    margin = max(noise, _MIN_GAIN * most)
    # A single class has the entropy 0, which no loss is below.
    if margin >= most / 2.0 or tail.loss < guess.loss - margin:
        return None
    least = f", the least possible is {guess.least:.4f}" if guess.least else ""
    return (
        f"the training loss ended at {tail.loss:.4f} (mean of the last "
        f"{tail.num_steps:,} steps); {guess.what} gives {guess.loss:.4f}{least}"
    )


# --- What to say -------------------------------------------------------------

_HELPS = "Its answers depend little on the input, or not at all. What usually"


def warning(
    signs: Sequence[str],
    settings: RunSettings,
    lowest_rate: float = LOWEST_USUAL_RATE,
) -> str:
    """Return the warning of a failed run: what was seen, and what helps.

    Args:
        signs: what the functions above returned.
        settings: of the command. If it trains, what it has used is not
            advised; how a model was trained that it only scores is unknown.
        lowest_rate: below it a higher learning rate is advised.
    """
    seen = "; ".join(signs)
    if not settings.do_train:
        return (
            f"The run that fine-tuned this model failed: {seen}. {_HELPS} "
            "helps is to train again with another --random_seed, with "
            "--bias_correction if it was off, another --learning_rate or a "
            "longer --warmup_proportion, or several times (--num_restarts), "
            "with another --output_dir"
        )
    found = ", ".join(advice(settings, lowest_rate))
    return f"This run failed: {seen}. {_HELPS} helps: {found}"


def advice(settings: RunSettings, lowest_rate: float) -> list[str]:
    """Return what usually helps, without what the run did already.

    Args:
        settings: of a command that trains.
        lowest_rate: below it a higher learning rate is advised.
    """
    training = settings.training
    rate, share = training.learning_rate, settings.warmup_proportion
    if not rate:
        return ["a --learning_rate above 0, which trains nothing"]
    if settings.bilstm and settings.bilstm.bilstm_layers:
        # New layers learn more from a higher rate, the encoder from a lower
        # one.
        change = "another"
    else:
        change = "a higher" if rate < lowest_rate else "a lower"
    found = [f"another --random_seed (it was {training.random_seed})"]
    if not training.bias_correction:
        found.append("--bias_correction")
    found.append(f"{change} --learning_rate (it was {rate:g})")
    if share < _LONG_WARMUP:
        found.append(f"a longer --warmup_proportion (it was {share:g})")
    found.append(
        f"more --num_train_epochs (they were {settings.num_train_epochs:g})"
    )
    if not settings.is_restart:
        found.append(
            "--num_restarts=5 with another --output_dir, which keeps the best "
            "of five seeds"
        )
    return found
