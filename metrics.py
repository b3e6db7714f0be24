"""Scores of predictions, by name, from scikit-learn and SciPy.

Apart from training.py, whose metrics are sums over batches: these need all
predictions of a data set at once.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from errors import UserError

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
