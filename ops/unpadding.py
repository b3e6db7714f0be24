"""Inference without padding: every dense layer sees the real tokens alone.

A batch of sentences is padded to its longest, and a third of it may be
padding. Only attention needs the rectangle: everything else works token by
token. So the tokens are lined up as [R, H], and where attention begins and
ends, the gather that replaces the transposition of the heads puts them into
[B, N, S, D] and back. It costs what the transposition cost, so that a batch
without padding is no slower.

What comes out at real tokens is what the padded way gives; at padding it is
zeros. Shapes depend on values, which XLA cannot compile: for exports alone.
Training and prediction batch what is of like length instead.

Dimension letters are those of modeling.py; R is the number of real tokens.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

_is_skipping = False


@contextlib.contextmanager
def skipping(enabled: bool = True) -> Iterator[None]:
    """Make models that are called or traced inside skip padding."""
    global _is_skipping
    before, _is_skipping = _is_skipping, enabled
    try:
        yield
    finally:
        _is_skipping = before


def is_skipped(training: bool, input_mask: tf.Tensor | None) -> bool:
    """Whether a call with this mask is to skip padding."""
    return _is_skipping and not training and input_mask is not None


class Tokens(NamedTuple):
    """Where the real tokens of a batch are, and where the heads find them."""

    places: tf.Tensor  # [R], among the B * S
    shape: tf.Tensor  # B and S
    split_at: tf.Tensor  # [B, N, S], among R * N
    merge_at: tf.Tensor  # [R, N], among B * N * S

    def pick(self, x: tf.Tensor) -> tf.Tensor:
        """Return the real tokens of [B, S] as a batch of one row, [1, R]."""
        return tf.gather(tf.reshape(x, [-1]), self.places)[None]

    def positions(self, position_ids: tf.Tensor | None) -> tf.Tensor:
        """Return the positions [1, R]; by default the places in the row."""
        if position_ids is not None:
            return self.pick(position_ids)
        return (self.places % self.shape[1])[None]

    def split_heads(self, x: tf.Tensor) -> tf.Tensor:
        """Return [R, H] as [B, N, S, D], other tokens standing in for padding.

        Any finite value does: keys at padding are masked, and nobody reads
        what queries there find.
        """
        heads = self.split_at.shape[1]
        x = tf.reshape(x, [-1, x.shape[-1] // heads])  # [R * N, D]
        return tf.gather(x, self.split_at)

    def merge_heads(self, x: tf.Tensor) -> tf.Tensor:
        """Return [B, N, S, D] as [R, H]."""
        heads, size = x.shape[1], x.shape[3]
        x = tf.gather(tf.reshape(x, [-1, size]), self.merge_at)  # [R, N, D]
        return tf.reshape(x, [-1, heads * size])

    def restore(self, x: tf.Tensor) -> tf.Tensor:
        """Return [R, H] as [B, S, H] with zeros at padding."""
        batch, length = tf.unstack(self.shape)
        x = tf.scatter_nd(
            self.places[:, None], x, [batch * length, x.shape[-1]]
        )  # [B * S, H]
        return tf.reshape(x, [batch, length, x.shape[-1]])


def real_tokens(input_mask: tf.Tensor, num_heads: int) -> Tokens:
    """Return where the real tokens are.

    The first token of a row counts as real whatever the mask says, since the
    pooled output is made of it; so does a row of padding alone, whose
    attention sees all of it.

    Args:
        input_mask: [B, S], 0 at padding, which may be anywhere.
        num_heads: N.
    """
    shape = tf.shape(input_mask)
    length = shape[1]
    is_real = input_mask != 0  # [B, S]
    is_real |= ~tf.reduce_any(is_real, axis=1, keepdims=True)
    is_real |= tf.range(length) == 0
    places = tf.cast(tf.where(tf.reshape(is_real, [-1]))[:, 0], tf.int32)  # [R]
    counts = tf.cumsum(tf.reshape(tf.cast(is_real, tf.int32), [-1]))
    numbers = tf.reshape(counts - 1, shape)  # [B, S]; padding has its left's
    heads = tf.range(num_heads)
    row, place = places // length, places % length
    return Tokens(
        places,
        shape,
        split_at=numbers[:, None, :] * num_heads + heads[:, None],
        merge_at=(row[:, None] * num_heads + heads) * length + place[:, None],
    )
