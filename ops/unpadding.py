"""Inference without padding: dense layers process the real tokens alone.

The rows of a batch of sentences are padded to the longest, and a third of the
batch may be padding. Only attention needs the rectangle [B, N, S, D]; all
other parts of the encoder process every token alone. So the real tokens are
gathered into a matrix [R, H], and attention's transposition of heads becomes a
gather from [R, H] into [B, N, S, D] and back. A gather takes as long as the
transposition, so a batch without padding is no slower.

For example, with B = 2 rows of S = 3 and R = 3 real tokens a, b, c:

    input_mask   1 1 0      batch   a b .      places   0 1 3
                 1 0 0              c . .

`places` are the positions of a, b and c among the B * S = 6. For attention the
rectangle is filled with token numbers, padding with the number of the token
before it: 0 1 1 / 2 2 2. The values at padding have no effect, since keys there
are masked and the results of queries there are dropped.

The result at real tokens is that of the padded batch, at padding zeros. Shapes
depend on the values of the mask, which XLA cannot compile, so this is for
exported models and for batch prediction from a checkpoint (modeling.Compute;
tasks/loading.py). Training, and the scores of a run, have batches of similar
lengths alone.

Letters in shapes are those of modeling.py; R is the number of real tokens.
"""

from typing import NamedTuple

import tensorflow as tf


class Tokens(NamedTuple):
    """Indices that move the real tokens of a batch to [R, ...] and back.

    In the example of the module, with N = 2 heads, a token's number t has the
    rows t * 2 and t * 2 + 1 of [R * N, D], one for each head:

        split_at   row 0, head 0: 0 2 2    row 1, head 0: 4 4 4
                          head 1: 1 3 3           head 1: 5 5 5
        merge_at   a: 0 3    b: 1 4    c: 6 9
    """

    places: tf.Tensor  # [R], index of each token among the B * S
    shape: tf.Tensor  # [2]: B and S
    split_at: tf.Tensor  # [B, N, S], indices into [R * N, D]
    merge_at: tf.Tensor  # [R, N], indices into [B * N * S, D]

    def pick(self, x: tf.Tensor) -> tf.Tensor:
        """Return the values of real tokens: [B, S] to one row, [1, R]."""
        return tf.gather(tf.reshape(x, [-1]), self.places)[None]

    def positions(self, position_ids: tf.Tensor | None) -> tf.Tensor:
        """Return positions [1, R]; default: where the token is in its row."""
        if position_ids is not None:
            return self.pick(position_ids)
        return (self.places % self.shape[1])[None]

    def split_heads(self, x: tf.Tensor) -> tf.Tensor:
        """Return [R, H] as [B, N, S, D], with copies of tokens at padding."""
        heads = self.split_at.shape[1]
        x = tf.reshape(x, [-1, x.shape[-1] // heads])  # [R * N, D]
        return tf.gather(x, self.split_at)  # [B, N, S, D]

    def merge_heads(self, x: tf.Tensor) -> tf.Tensor:
        """Return the real tokens of [B, N, S, D] as [R, H]."""
        heads, size = x.shape[1], x.shape[3]
        x = tf.gather(tf.reshape(x, [-1, size]), self.merge_at)  # [R, N, D]
        return tf.reshape(x, [-1, heads * size])  # [R, H]

    def restore(self, x: tf.Tensor) -> tf.Tensor:
        """Return [R, H] as [B, S, H] with zeros at padding."""
        batch, length = tf.unstack(self.shape)
        x = tf.scatter_nd(
            self.places[:, None], x, [batch * length, x.shape[-1]]
        )  # [B * S, H]
        return tf.reshape(x, [batch, length, x.shape[-1]])


def real_tokens(input_mask: tf.Tensor, num_heads: int) -> Tokens:
    """Return the indices of the real tokens of a batch, by its mask [B, S].

    Two kinds of padding count as real, so that the result is that of the
    padded batch. The first token of a row, since the pooled output may be
    computed from it (see modeling.class_vectors). All tokens of a row that is
    padding alone, since its attention sees all of them (see
    modeling.attention_bias).
    """
    shape = tf.shape(input_mask)
    length = shape[1]
    is_real = input_mask != 0  # [B, S]
    is_real |= ~tf.reduce_any(is_real, axis=1, keepdims=True)
    is_real |= tf.range(length) == 0  # [B, S]
    places = tf.cast(tf.where(tf.reshape(is_real, [-1]))[:, 0], tf.int32)  # [R]
    counts = tf.cumsum(tf.reshape(tf.cast(is_real, tf.int32), [-1]))
    # A running count numbers the tokens; padding repeats the number before it.
    numbers = tf.reshape(counts - 1, shape)  # [B, S]
    heads = tf.range(num_heads)  # [N]
    row, place = places // length, places % length  # [R] both
    return Tokens(
        places,
        shape,
        split_at=numbers[:, None, :] * num_heads + heads[:, None],
        merge_at=(row[:, None] * num_heads + heads) * length + place[:, None],
    )
