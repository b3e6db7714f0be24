"""The losses of the original's run_pretraining.py, in variable scopes."""

from typing import Any

import tensorflow as tf

import modeling
from compat.modeling import output_layer, run_layer
from pretraining import model

v1 = tf.compat.v1

Losses = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def gather_indexes(sequence_tensor: tf.Tensor, positions: tf.Tensor) -> Any:
    """Return the vectors [B * P, H] at some positions [B, P] of [B, S, H]."""
    return model.vectors_at(sequence_tensor, positions)


def get_masked_lm_output(
    bert_config: modeling.BertConfig,
    input_tensor: tf.Tensor,
    output_weights: Any,
    positions: tf.Tensor,
    label_ids: tf.Tensor,
    label_weights: tf.Tensor,
) -> Losses:
    """Return the loss, position losses [B * P], log probabilities [B * P, V].

    Args:
        bert_config: the encoder's configuration.
        input_tensor: the encoder's sequence_output, [B, S, H].
        output_weights: the table of word embeddings, [V, H].
        positions: places of the masked tokens, [B, P].
        label_ids: the tokens that were there, [B, P].
        label_weights: 0 for places that are not used, [B, P].
    """
    with v1.variable_scope("cls/predictions"):
        logits, _ = run_layer(
            lambda: model.LanguageModelHead(bert_config),
            bert_config.initializer_range,
            model.vectors_at(input_tensor, positions),
            tf.convert_to_tensor(output_weights),
        )  # [B * P, V]
    log_probs = tf.nn.log_softmax(logits)
    each = _negative_at(log_probs, label_ids)  # [B * P]
    weights = tf.cast(tf.reshape(label_weights, [-1]), tf.float32)
    total = tf.reduce_sum(weights * each)
    return total / (tf.reduce_sum(weights) + 1e-5), each, log_probs


def get_next_sentence_output(
    bert_config: modeling.BertConfig, input_tensor: tf.Tensor, labels: tf.Tensor
) -> Losses:
    """Return the loss, the losses of rows [B], log probabilities [B, 2].

    input_tensor is the pooled_output [B, H]; a label of 1 is a random B.
    """
    with v1.variable_scope("cls/seq_relationship"):
        logits = output_layer(input_tensor, 2, bert_config.initializer_range)
    log_probs = tf.nn.log_softmax(logits)
    each = _negative_at(log_probs, labels)
    return tf.reduce_mean(each), each, log_probs


def _negative_at(log_probs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the cross entropy of each row of [N, K] for labels of N."""
    return -tf.gather(log_probs, tf.reshape(labels, [-1]), batch_dims=1)
