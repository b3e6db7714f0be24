"""Signs of a failed run: predictions no better than the trivial answer.

Fine-tuning on small data fails now and then (paper section 4.1: "sometimes
unstable on small datasets"): the model gives the same answer to every input, or
others that are no better. Its accuracy is about the share of the most frequent
label, which looks like a score. The trivial answer of each task:

    classes, choices    the most frequent one for all
    labels              the same labels for all
    numbers             the same number for all, which no label goes with
    tags                O for all: no entity is found
    answers             none to all
    documents           in any order

It is compared only if at least MIN_OTHERS right answers differ from it. A model
that finds only every third of these would miss all ten with a probability of
(2/3)**10 = 1.7%. So small development sets and those of a single class show
nothing.
"""

from collections.abc import Mapping, Sequence

import numpy as np

# Right answers that differ from the single prediction, at least.
MIN_OTHERS = 10

# Predictions of a regression are constant if their standard deviation is below
# this share of the labels' standard deviation. Predictions of least squared
# error with a correlation r to the labels have the share r.
_MIN_DEVIATION = 0.1


def no_better(
    others: int, name: str, score: float, trivial: float, answer: str
) -> str | None:
    """Return what is wrong if a score is not above the trivial answer's.

    `others` are the right answers that differ from it.

    >>> no_better(50, "f1", 0.0, 0.0, "the tag O for all")
    'f1 is 0, and 0 with the tag O for all'
    """
    if others < MIN_OTHERS or score > trivial:
        return None
    return f"{name} is {score:.4g}, and {trivial:.4g} with {answer}"


def no_better_class(
    predictions: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    what: str = "predictions are class",
) -> str | None:
    """Return what is wrong if one class for all is as often right; else None.

    A model that has learned a rare class, or from a teacher, may be right less
    often. So the classes also have to be independent of the labels: their
    correlation is within two standard deviations, 2 / sqrt(n), of 0.
    """
    if sign := same_class(predictions, labels, names, what):
        return sign
    from sklearn import metrics  # takes a second to import

    n, counts = len(labels), np.bincount(labels, minlength=len(names))
    correlation = metrics.matthews_corrcoef(labels, predictions)
    if abs(correlation) >= 2 / n**0.5:
        return None
    most, right = counts.max(), np.mean(predictions == labels)
    answer = f"{what.split()[-1]} {names[counts.argmax()]} for all"
    return no_better(n - most, "accuracy", right, most / n, answer)


def no_better_labels(predicted: np.ndarray, labels: np.ndarray) -> str | None:
    """Return what is wrong if the same labels for all are as often right.

    Both are 0 or 1, [n, K]. Neither the share of examples with all labels right
    is higher, nor micro_f1.
    """
    is_same, is_right = ((x == x[0]).all() for x in (predicted, labels))
    if is_same and not is_right:
        return f"all {len(labels):,} predictions are the same labels"
    most = np.unique(labels, axis=0, return_counts=True)[1].max()
    right = (predicted == labels).all(axis=1).sum()
    if right > most or most == len(labels):
        return None
    counts = np.sort(labels.sum(axis=0))[::-1]
    given = np.arange(1, len(counts) + 1) * len(labels)
    best = 2 * np.cumsum(counts) / (given + counts.sum())
    f1 = 2 * (predicted & (labels > 0)).sum() / (predicted.sum() + counts.sum())
    others, answer = len(labels) - most, "the same labels for all"
    return no_better(others, "micro_f1", f1, best.max(), answer)


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
    """Return what is wrong if a constant predicts labels as well; else None.

    Predictions are almost constant, or do not rise with the labels.
    """
    if len(labels) < MIN_OTHERS:
        return None
    given, wanted = float(np.std(predictions)), float(np.std(labels))
    if given >= _MIN_DEVIATION * wanted:  # also where both are 0
        if not wanted:
            return None
        correlation = np.corrcoef(predictions, labels)[0, 1]
        answer = "the same number for all"
        return no_better(len(labels), "correlation", correlation, 0.0, answer)
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
