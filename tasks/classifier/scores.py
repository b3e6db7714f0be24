"""Scores of classifiers and regressions, and the lines of prediction files."""

import functools
import warnings
from collections.abc import Callable, Sequence

import numpy as np

NUM_BINS = 15  # of confidence, as in Guo et al.

# --- Scores ------------------------------------------------------------------


def score(
    name: str,
    labels: Sequence[float] | np.ndarray,
    predictions: Sequence[float] | np.ndarray,
    positive_id: int = 1,
) -> float:
    """Return one score of a data set, of class ids or numbers [n].

    `f1` is the F1 of one class, as GLUE scores MRPC and QQP; `macro_f1` is the
    mean over the classes of labels and predictions. The correlation with
    constant labels or predictions is 0, as GLUE's server counts it (NaN in
    SciPy), and so is that of a single example.

    Raises:
        KeyError: the name is unknown.
    """
    # They take a second to import, which only runs that score need to spend.
    from scipy import stats
    from sklearn import metrics

    f1 = functools.partial(metrics.f1_score, zero_division=0.0)
    functions = {
        "accuracy": metrics.accuracy_score,
        "f1": functools.partial(f1, pos_label=positive_id),
        "macro_f1": functools.partial(f1, average="macro"),
        "matthews_correlation": metrics.matthews_corrcoef,
        "pearson": functools.partial(_correlation, stats.pearsonr),
        "spearman": functools.partial(_correlation, stats.spearmanr),
    }
    return float(functions[name](labels, predictions))


def _correlation(
    function: Callable, labels: np.ndarray, predictions: np.ndarray
) -> float:
    """Return a correlation of scipy.stats; 0 where it is undefined."""
    if len(labels) < 2:
        return 0.0  # scipy raises an error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a constant input gives NaN
        value = float(function(predictions, labels)[0])
    return value if np.isfinite(value) else 0.0


def scores(
    logits: np.ndarray,
    label_ids: np.ndarray,
    names: Sequence[str],
    positive_id: int = 1,
) -> dict[str, float]:
    """Return {score name: score} of logits [n, K], and their mean `loss`.

    The accuracy is added to `names`, and the calibration error as `ece`. The
    loss is the cross entropy.
    """
    predictions = logits.argmax(-1)
    names = [*dict.fromkeys([*names, "accuracy"])]
    rows = np.arange(len(label_ids))
    return {
        **{n: score(n, label_ids, predictions, positive_id) for n in names},
        "ece": calibration_error(logits, label_ids),
        "loss": float(-log_softmax(logits)[rows, label_ids].mean()),
    }


def number_scores(
    predictions: np.ndarray, labels: np.ndarray, names: Sequence[str]
) -> dict[str, float]:
    """Return {score name: score} of numbers [n], and the squared error."""
    # In float32, SciPy's would differ in the third digit for labels of 1e8.
    predictions, labels = np.float64(predictions), np.float64(labels)
    found = {name: score(name, labels, predictions) for name in names}
    return found | {"loss": float(np.mean((predictions - labels) ** 2))}


def label_scores(
    logits: np.ndarray, labels: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
    """Return {score name: score} of predicted labels, and the mean `loss`.

    All are [n, K], labels 0 or 1, and predicted bool.

    `accuracy` is that of whole examples: the share with all labels right.
    `mean_average_precision` is the mean over the labels that have an example,
    and knows no thresholds.
    """
    from sklearn import metrics

    has_one = labels.any(axis=0)
    precision = 0.0
    if has_one.any():
        precision = metrics.average_precision_score(
            labels[:, has_one], logits[:, has_one], average="macro"
        )
    # The binary cross entropy, log(1 + exp(-logit)) of a label that is there.
    loss = np.logaddexp(0, np.where(labels > 0, -1.0, 1.0) * logits)
    with warnings.catch_warnings():
        # For a label that no example has and that is never predicted.
        warnings.simplefilter("ignore")
        micro, macro = (
            metrics.f1_score(labels, predicted, average=kind, zero_division=0.0)
            for kind in ("micro", "macro")
        )
    return {
        "micro_f1": float(micro),
        "macro_f1": float(macro),
        "accuracy": float((predicted == labels).all(axis=1).mean()),
        "mean_average_precision": float(precision),
        "loss": float(loss.mean()),
    }


def calibration_error(logits: np.ndarray, label_ids: np.ndarray) -> float:
    """Return the expected calibration error of logits [n, K].

    That of Guo et al. 2017, "On Calibration of Modern Neural Networks": the
    mean over the examples of |accuracy - mean confidence| of their bin. Bin m
    of NUM_BINS has confidences in (m / NUM_BINS, (m + 1) / NUM_BINS].
    """
    sure = confidence(logits)  # [n]
    bins = np.ceil(sure * NUM_BINS).astype(int) - 1  # [n]
    is_right = logits.argmax(-1) == label_ids  # [n]
    right, total = (np.bincount(bins, values) for values in (is_right, sure))
    return float(np.abs(right - total).sum() / len(label_ids))


def confidence(logits: np.ndarray) -> np.ndarray:
    """Return the probability of the likeliest class [n] of logits [n, K]."""
    return np.exp(log_softmax(logits).max(-1))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the log probabilities [n, K] of logits [n, K] in float64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


# --- Prediction files --------------------------------------------------------


def prediction_lines(
    outputs: np.ndarray, guids: Sequence[str], answers: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the lines of test_results.tsv, and those of a GLUE submission.

    `outputs` are probabilities [n, K], a line with one per class, or numbers
    [n]. The submission has a header, with "guid, tab, answer" in each line.
    """
    if outputs.ndim == 1:
        rows = [f"{value:.6g}" for value in outputs]
    else:
        rows = ["\t".join(map(str, row)) for row in outputs]
    pairs = zip(guids, answers, strict=True)
    return rows, ["index\tprediction", *(f"{g}\t{a}" for g, a in pairs)]
