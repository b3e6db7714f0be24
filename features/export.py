"""The SavedModel of an encoder: texts in, vectors out."""

import tensorflow as tf

from serving import saved_model


class Encoder(saved_model.Export):
    """pooled_output [n, H], mean_output [n, H], sequence_output [n, S, H]."""

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the encoder's outputs and the mean over real tokens."""
        output = self.model.encode(features)
        mask = tf.cast(features["input_mask"], tf.float32)[..., None]
        sequence = tf.cast(output.sequence_output, tf.float32)
        total = tf.reduce_sum(sequence * mask, axis=1)  # [n, H]
        return {
            "pooled_output": tf.cast(output.pooled_output, tf.float32),
            "sequence_output": sequence,
            "mean_output": total / tf.reduce_sum(mask, axis=1),
        }
