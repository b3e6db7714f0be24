"""The demo's baseline and its learning curves."""

import numpy as np
import pytest

from tools.demo import results as demo_results

BASELINE = {
    "masked_lm_loss": 6.0,
    "masked_lm_perplexity": 403.4,
    "masked_lm_accuracy": 0.05,
    "next_sentence_accuracy": 2 / 3,
}


def test_baseline_by_hand():
    found = demo_results.baseline(
        np.array([1, 1, 1, 2]),
        np.array([1, 2, 0, 1]),
        np.array([0, 0, 1]),
        vocab_size=4,
    )
    # Counts with one added to each: 1, 4, 2, 1 of 8.
    loss = -np.mean(np.log([4 / 8, 2 / 8, 1 / 8, 4 / 8]))
    assert found == pytest.approx(
        {
            "masked_lm_loss": loss,
            "masked_lm_perplexity": np.exp(loss),
            "masked_lm_accuracy": 0.5,
            "next_sentence_accuracy": 2 / 3,
        }
    )


@pytest.mark.parametrize(
    "name, value",
    [
        ("masked_lm_loss", 6.1),
        ("masked_lm_accuracy", 0.04),
        ("next_sentence_accuracy", 0.66),
    ],
)
def test_every_score_has_to_beat_its_baseline(name, value):
    scores = {
        "masked_lm_loss": 5.0,
        "masked_lm_accuracy": 0.21,
        "next_sentence_accuracy": 0.7,
    }
    assert demo_results.is_better(scores, BASELINE)
    assert not demo_results.is_better({**scores, name: value}, BASELINE)


def test_curves_are_drawn_as_png(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    curves = {
        "masked_lm_loss": {1: 8.0, 100: 6.5, 200: 5.9},
        "next_sentence_accuracy": {1: 0.5, 100: 0.6, 200: 0.7},
    }
    path = str(tmp_path / "curves.png")
    demo_results.draw_curves(path, curves, curves, BASELINE)
    pixels = image.imread(path)
    assert pixels.shape == (440, 1100, 4)
    # Training is blue and held-out orange, in both halves.
    for half in (pixels[:, :550, :3], pixels[:, 550:, :3]):
        for colour in ((0, 114, 178), (213, 94, 0)):
            distance = np.abs(half * 255 - colour).max(-1)
            assert (distance < 3).sum() > 10
