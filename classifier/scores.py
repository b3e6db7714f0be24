"""Scores of classifiers and regressions, and the lines of prediction files."""

import warnings
from collections.abc import Sequence

from base.errors import UserError

import numpy as np

NAMES = (
    "accuracy",
    "f1",
    "macro_f1",
    "matthews_correlation",
    "pearson",
    "spearman",
)


def score(
    name: str,
    labels: Sequence[float] | np.ndarray,
    predictions: Sequence[float] | np.ndarray,
) -> float:
    """Return one score of a data set.

    `f1` is that of class 1 (MRPC, QQP), `macro_f1` the mean over classes. A
    correlation with constant predictions is 0, as GLUE's server counts it.

    Args:
        name: one of NAMES.
        labels: [n] class ids, or numbers for pearson and spearman.
        predictions: [n], of the same kind.

    Raises:
        UserError: scikit-learn or SciPy is missing.
        KeyError: unknown name.
    """
    try:
        from scipy import stats
        from sklearn import metrics as sk
    except ImportError as error:
        raise UserError(
            f"{error.name} is missing: pip install 'scikit-learn>=1.4,<2'"
        ) from error

    def correlation(function) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant input is no number
            value = float(function(predictions, labels)[0])
        return value if np.isfinite(value) else 0.0

    functions = {
        "accuracy": lambda: sk.accuracy_score(labels, predictions),
        "f1": lambda: sk.f1_score(labels, predictions, zero_division=0.0),
        "macro_f1": lambda: sk.f1_score(
            labels, predictions, average="macro", zero_division=0.0
        ),
        "matthews_correlation": lambda: sk.matthews_corrcoef(
            labels, predictions
        ),
        "pearson": lambda: correlation(stats.pearsonr),
        "spearman": lambda: correlation(stats.spearmanr),
    }
    return float(functions[name]())


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return log probabilities [n, K] in float64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def scores(
    logits: np.ndarray,
    label_ids: np.ndarray,
    names: Sequence[str],
    is_regression: bool,
) -> dict[str, float]:
    """Return the loss and the scores of those names; accuracy in any case.

    Args:
        logits: [n, K], [n, 1] for regression.
        label_ids: [n] classes, or numbers.
        names: see metrics.py.
        is_regression: the loss is the mean squared error then.
    """
    if is_regression:
        predictions = logits[:, 0]
        loss = float(np.mean((predictions - label_ids) ** 2))
    else:
        predictions = logits.argmax(-1)
        names = [*dict.fromkeys([*names, "accuracy"])]
        rows = np.arange(len(label_ids))
        loss = float(-log_softmax(logits)[rows, label_ids].mean())
    found = {n: score(n, label_ids, predictions) for n in names}
    return found | {"loss": loss}


def prediction_lines(
    logits: np.ndarray, guids: Sequence[str], labels: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return the lines of test_results.tsv and of a submission.

    Args:
        logits: [n, K].
        guids: [n].
        labels: names of the K classes; None for regression, whose
            submission has three decimals.
    """
    if labels is None:
        rows = [f"{value:.6g}" for value in logits[:, 0]]
        answers = [f"{value:.3f}" for value in logits[:, 0]]
    else:
        probs = np.exp(log_softmax(logits))
        rows = ["\t".join(str(p) for p in row) for row in probs]
        answers = [labels[i] for i in logits.argmax(-1)]
    pairs = zip(guids, answers, strict=True)
    return rows, ["index\tprediction", *(f"{g}\t{a}" for g, a in pairs)]
