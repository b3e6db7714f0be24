"""extras/calibration.py: the temperature, its picture, and the error."""

import numpy as np
import pytest

from extras import calibration, classes
from tasks.classifier import scores


def drawn(temperature: float, count: int = 20000) -> tuple:
    """Return logits [n, 3] and labels drawn from softmax(logits / T)."""
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 3, [count, 3])
    noise = rng.gumbel(size=logits.shape)
    labels = (logits / temperature + noise).argmax(-1)
    return logits.astype(np.float32), labels


def loss(logits, labels) -> float:
    found = scores.scores(logits, labels, [])
    return found["loss"]


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_temperature_of_the_labels_is_found(temperature):
    logits, labels = drawn(temperature)
    found = calibration.fit_temperature(logits, labels)
    assert found == pytest.approx(temperature, rel=0.03)
    # It is the least loss, and a second time there is nothing to do.
    best = loss(logits / found, labels)
    for other in (0.98, 1.02):
        assert loss(logits / (found * other), labels) > best
    assert calibration.fit_temperature(logits / found, labels) == 1.0
    error = scores.calibration_error(logits / found, labels)
    assert error < 0.01
    if temperature != 1:
        assert scores.calibration_error(logits, labels) > 5 * error


@pytest.mark.parametrize(
    "labels, why",
    [([0, 1, 2], "all are right"), ([1, 2, 0], "worse than guesses")],
)
def test_no_temperature_is_the_best(labels, why):
    logits = 4 * np.eye(3, dtype=np.float32)
    assert calibration.fit_temperature(logits, np.array(labels)) is None, why


def test_the_calibration_error_by_hand():
    # The first three share a bin, (9 / 15, 10 / 15].
    confidences = np.array([0.61, 0.63, 0.65, 0.93])
    logits = np.log(np.stack([confidences, 1 - confidences], -1))
    wanted = (abs(1 - (0.61 + 0.63 + 0.65)) + abs(1 - 0.93)) / 4
    found = scores.calibration_error(logits, np.array([0, 1, 1, 0]))
    assert found == pytest.approx(wanted)


def test_the_picture(tmp_path):
    logits, labels = drawn(2.0, 500)
    path = tmp_path / "reliability.png"
    classes.draw_reliability(logits, labels, 1.5, str(path))
    data = path.read_bytes()
    assert data[:4] == b"\x89PNG" and len(data) < 50_000
