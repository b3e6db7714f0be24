"""The golden model, models of a few units, and batches to pre-train them on."""

import numpy as np
import tensorflow as tf
from paths import GOLDEN

from modeling import BertConfig
from pretraining.model import BertForPreTraining

GOLDEN_MODEL = GOLDEN / "model"
FEATURES = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)


def golden_arrays() -> dict[str, np.ndarray]:
    """Return the batch and the results that the original gave for it."""
    with np.load(GOLDEN_MODEL / "golden.npz") as arrays:
        return dict(arrays)


def golden_config() -> BertConfig:
    """Return the configuration of the golden model."""
    return BertConfig.from_json_file(str(GOLDEN_MODEL / "bert_config.json"))


def golden_model() -> BertForPreTraining:
    """Return the model of the golden results, with its initial weights."""
    model = BertForPreTraining(golden_config())
    reader = tf.train.load_checkpoint(str(GOLDEN_MODEL / "bert_model.ckpt"))
    for variable in model.variables:
        variable.assign(reader.get_tensor(variable.path))
    return model


def tiny_config(**changes) -> BertConfig:
    """Return two layers of 32 units, with large weights."""
    settings = dict(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        type_vocab_size=2,
        initializer_range=0.2,
    )
    return BertConfig(**(settings | changes))


def batch_of(config, batch=3, seq=10, predictions=4, seed=0):
    """Return a random batch of pre-training features without padding."""
    rng = np.random.default_rng(seed)

    def draw(high, shape):
        return tf.constant(rng.integers(0, high, shape), tf.int32)

    return {
        "input_ids": draw(config.vocab_size, [batch, seq]),
        "input_mask": tf.ones([batch, seq], tf.int32),
        "segment_ids": draw(2, [batch, seq]),
        "masked_lm_positions": draw(seq, [batch, predictions]),
        "masked_lm_ids": draw(config.vocab_size, [batch, predictions]),
        "masked_lm_weights": tf.ones([batch, predictions]),
        "next_sentence_labels": draw(2, [batch, 1]),
    }


def losses_of(model, features, seed=None):
    """Return the losses of the masked LM and of next sentence prediction."""
    output = model.bert(**model.encoder_inputs(features, seed))
    return (
        model.masked_lm_loss(output, features),
        model.next_sentence_loss(output, features),
    )


def total_loss(losses):
    """Return the loss of pre-training as the original forms it."""
    masked, following = losses
    return masked.loss / (masked.weight + 1e-5) + (
        following.loss / following.weight
    )
