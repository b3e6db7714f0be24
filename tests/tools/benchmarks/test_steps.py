"""The operations of a training step, counted by hand; the fake batch."""

import numpy as np
import pytest

import modeling
from tools.benchmarks import steps


def test_training_flops_of_tiny_by_hand():
    config = modeling.BertConfig.from_size("tiny", steps.VOCAB_SIZE)
    # Two operations per multiplication and addition, forward and twice
    # backward: 6 per product. Two layers of 128 tokens: query, key, value and
    # output 4 * 128 * 128, intermediate and back 2 * 128 * 512, scores and
    # contexts 2 * 128 * 128.
    layers = 2 * 128 * (4 * 128**2 + 2 * 128 * 512 + 2 * 128 * 128)
    # 20 predictions: transform and vocabulary; pooler and two logits.
    after = 20 * (128**2 + 128 * 30522) + 128**2 + 2 * 128
    expected = 6 * 32 * (layers + after)
    assert steps.training_flops(config, 32) == expected
    assert expected == 26_342_572_032


def test_fake_batch_is_what_the_step_takes():
    config = modeling.BertConfig.from_size("tiny", vocab_size=50)
    batch = {k: v.numpy() for k, v in steps.fake_batch(3, config).items()}
    assert batch["input_ids"].shape == (3, 128)
    assert batch["input_ids"].max() < 50
    positions = batch["masked_lm_positions"]
    assert positions.shape == (3, 20)
    assert (np.diff(positions) > 0).all(), "positions are different ones"
    assert batch["masked_lm_weights"].sum() == 60


@pytest.mark.parametrize("objective", ["mlm_nsp", "mlm", "ltr"])
def test_operations_and_products_of_a_step(objective):
    config = modeling.BertConfig.from_size("tiny", 50)
    # By hand: the layers' of each of 128 tokens, the head's of each word that
    # is predicted, and the pooler.
    layers = 128 * 2 * (12 * 128**2 + 2 * 128 * 128)
    words = 128 if objective == "ltr" else 20
    head = words * 128 * (128 + 50)
    pooled = 128 * (128 + 2) if objective == "mlm_nsp" else 0
    expected = 6 * 4 * (layers + head + pooled)
    assert steps.training_flops(config, 4, objective) == expected
    for _, left, right, is_tied in steps.step_products(config, 4, objective):
        inner = right[-1] if is_tied else right[-2]
        assert left[-1] == inner and left[:-2] == right[:-2]
    assert steps.products_seconds(config, 1, "float32", objective) > 0
