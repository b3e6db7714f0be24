"""classifier/scores.py: scores against numbers counted by hand."""

import numpy as np
import pytest

from tasks.classifier import scores as classifier_scores


def test_scores_by_hand():
    labels, predictions = [1, 1, 1, 0, 0], [1, 1, 0, 1, 0]
    # 2 true positives, 1 false negative, 1 false positive, 1 true negative.
    wanted = {
        "accuracy": 3 / 5,
        "f1": 2 * 2 / (2 * 2 + 1 + 1),
        "macro_f1": (2 / 3 + 2 * 1 / (2 * 1 + 1 + 1)) / 2,
        "matthews_correlation": (2 * 1 - 1 * 1) / (3 * 3 * 2 * 2) ** 0.5,
    }
    for name, value in wanted.items():
        assert classifier_scores.score(
            name, labels, predictions
        ) == pytest.approx(value)
    x, y = [1.0, 2.0, 3.0], [1.0, 4.0, 9.0]
    assert classifier_scores.score("spearman", x, y) == pytest.approx(1.0)
    assert classifier_scores.score("pearson", x, y) == pytest.approx(
        np.corrcoef(x, y)[0, 1]
    )
    for name in ("pearson", "spearman", "matthews_correlation"):
        assert classifier_scores.score(name, [1, 2, 3], [1, 1, 1]) == 0.0
        assert classifier_scores.score(name, [1, 1, 1], [1, 2, 3]) == 0.0


def test_large_numbers_are_scored_in_float64():
    """SciPy computes with float32 what it is given in float32."""
    rng = np.random.default_rng(0)
    labels = (1e8 + rng.normal(0, 100, 1000)).astype(np.float32)
    predictions = labels + rng.normal(0, 50, 1000).astype(np.float32)
    found = classifier_scores.number_scores(predictions, labels, ["pearson"])
    x, y = predictions.astype(float), labels.astype(float)
    assert found["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    assert found["loss"] == pytest.approx(np.mean((x - y) ** 2), rel=1e-12)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_the_correlation_of_a_single_example_is_0(name):
    assert classifier_scores.score(name, [1.5], [0.5]) == 0.0


def test_f1_is_that_of_the_positive_class():
    labels, predictions = [0, 0, 0, 1, 1], [0, 0, 1, 0, 1]
    found = classifier_scores.score("f1", labels, predictions, positive_id=0)
    assert found == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    logits = np.eye(2)[predictions]
    found = classifier_scores.scores(
        logits, np.array(labels), ["f1"], positive_id=0
    )
    assert found["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
