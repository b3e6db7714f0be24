"""Signs of a failed run: predictions on the scored data that are all the same.

Fine-tuning on small data fails now and then (paper section 4.1: "sometimes
unstable on small datasets"): the model gives the same answer to every input.
Its accuracy is the share of the most frequent label, which looks like a score.

Equal predictions are a sign only if at least MIN_OTHERS right answers differ
from them. A model that finds only every third of these would miss all ten with
a probability of (2/3)**10 = 1.7%. So small development sets and those of a
single class show nothing.
"""

from collections.abc import Mapping, Sequence

import numpy as np

# Right answers that differ from the single prediction, at least.
MIN_OTHERS = 10

# Predictions of a regression are constant if their standard deviation is below
# this share of the labels' standard deviation. Predictions of least squared
# error with a correlation r to the labels have the share r.
_MIN_DEVIATION = 0.1


def same_class(
    predictions: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    what: str = "predictions are class",
) -> str | None:
    """Return what is wrong if all predictions are one class; else None.

    >>> same_class(np.ones(50, int), np.arange(50) % 2, ["no", "yes"])
    'all 50 predictions are class yes (the label of 50.0% of the data)'
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
    """Return what is wrong if a regression predicts a constant; else None."""
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

    That is so if all are the same text, "" included, or if all that have a text
    begin at the same place. A collapsed model gives every token of a window
    the same logits. Then the first span of each paragraph is its answer, or
    there is none, if the question alone fills the list of the best starts.

    `places` are the numbers of the pieces that the answers begin with.
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
