"""The demo's baseline."""

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
