"""Token dropping: the middle layers process some of the tokens alone.

Hou et al. 2022, "Token Dropping for Efficient BERT Pretraining"
(arXiv:2203.13240). A dropped token skips the middle layers: there it is neither
query nor key, and its vector waits. Before the last layer all tokens are
together again, so that every one has an output. The variables are those of an
ordinary BERT, and without dropping the model is one.

Of S = 4 tokens a b c d, with kept_positions 0 2:

    layer 0     a b c d
    layer 1, 2  a   c
    layer 3     a b c d     b and d as layer 0 left them

Letters in shapes are those of modeling.py, and K the kept tokens of a row.
"""

from typing import NamedTuple

import tensorflow as tf

from ops.elementwise import shape_of


def middle_layers(num_layers: int) -> range:
    """Return the numbers of the layers that process the kept tokens.

    They are half of the layers, the last one not among them: 5 to 10 of 12, 1
    and 2 of 4. The first layer sees all tokens, so that of two layers there is
    none in the middle.
    """
    return range(max(1, num_layers // 2 - 1), num_layers - 1)


class Kept(NamedTuple):
    """The tokens of a batch that the middle layers process."""

    positions: tf.Tensor  # [B, K], of each in its row, rising
    places: tf.Tensor  # [B * K], of each among the B * S

    def pick(self, x: tf.Tensor) -> tf.Tensor:
        """Return the kept rows of x: [B * S, H] to [B * K, H]."""
        return tf.gather(x, self.places)

    def pick_bias(self, bias: tf.Tensor) -> tf.Tensor:
        """Return the mask between kept tokens: [B, 1, 1 or F, T] to K."""
        bias = tf.gather(bias, self.positions, axis=3, batch_dims=1)
        if bias.shape[2] == 1:
            return bias  # [B, 1, 1, K]
        return tf.gather(bias, self.positions, axis=2, batch_dims=1)

    def restore(self, kept: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        """Return x [B * S, H] with the rows of kept [B * K, H] in place."""
        return tf.tensor_scatter_nd_update(x, self.places[:, None], kept)


def kept_tokens(positions: tf.Tensor, length: int | tf.Tensor) -> Kept:
    """Return the kept tokens of rows of a length by their positions [B, K]."""
    starts = tf.range(shape_of(positions)[0]) * length  # [B]
    return Kept(positions, tf.reshape(positions + starts[:, None], [-1]))
