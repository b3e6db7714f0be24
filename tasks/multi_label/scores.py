"""Scores of several labels per example, and the thresholds of the labels."""

import warnings

import numpy as np

from tasks.multi_label.task import THRESHOLD


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the sigmoid of logits [n, K] in float64."""
    return 1 / (1 + np.exp(-logits.astype(np.float64)))


def tune_thresholds(labels: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Return the threshold of each label, [K], with the best F1 of that label.

    It lies in the middle between two probabilities of the data, so that a
    rounding difference of another backend changes no prediction. A label
    without an example keeps 0.5. Labels, 0 or 1, and probs are [n, K].
    """
    from sklearn import metrics

    found = np.full(labels.shape[1], THRESHOLD)
    for number in np.flatnonzero(labels.any(axis=0)):
        precision, recall, candidates = metrics.precision_recall_curve(
            labels[:, number], probs[:, number]
        )  # candidates ascend; the last point of both has no candidate
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        best = int(f1[:-1].argmax())
        below = candidates[best - 1] if best else 0.0
        found[number] = (candidates[best] + below) / 2
    return found


def scores(
    probs: np.ndarray, labels: np.ndarray, thresholds: np.ndarray
) -> dict[str, float]:
    """Return {score name: score} of probs [n, K], and their mean `loss`.

    `accuracy` is that of whole examples: the share with all labels right.
    `mean_average_precision` is the mean over the labels that have an example,
    and knows no thresholds.
    """
    from sklearn import metrics

    predicted = probs >= thresholds
    has_one = labels.any(axis=0)
    precision = 0.0
    if has_one.any():
        precision = metrics.average_precision_score(
            labels[:, has_one], probs[:, has_one], average="macro"
        )
    # A probability of 0 has no logarithm.
    right = np.where(labels > 0, probs, 1 - probs.astype(np.float64))
    loss = -np.log(np.maximum(right, np.finfo(np.float32).tiny))
    with warnings.catch_warnings():
        # For a label that no example has and that is never predicted.
        warnings.simplefilter("ignore")
        f1 = {
            f"{kind}_f1": float(
                metrics.f1_score(
                    labels, predicted, average=kind, zero_division=0.0
                )
            )
            for kind in ("micro", "macro")
        }
    return f1 | {
        "accuracy": float((predicted == labels).all(axis=1).mean()),
        "mean_average_precision": float(precision),
        "loss": float(loss.mean()),
    }
