"""SavedModel of an encoder: texts in, vectors out."""

import tensorflow as tf

from tasks import saved_model


class Encoder(saved_model.Export):
    """Returns three kinds of vectors for each of n texts.

    pooled_output [n, H] (see modeling.class_vectors), mean_output [n, H] (over
    the real tokens) and sequence_output [n, S, H], all float32.
    """

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the three outputs of a batch.

        Args:
            features: input_ids, input_mask and segment_ids, [n, S].
        """
        output = self.model.encode(features)
        mask = tf.cast(features["input_mask"], tf.float32)
        mask = tf.expand_dims(mask, -1)  # [n, S, 1]
        sequence = tf.cast(output.sequence_output, tf.float32)
        total = tf.reduce_sum(sequence * mask, axis=1)  # [n, H]
        return {
            "pooled_output": tf.cast(output.pooled_output, tf.float32),
            "sequence_output": sequence,
            "mean_output": total / tf.reduce_sum(mask, axis=1),
        }
