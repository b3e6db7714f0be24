"""Choose the tokens that skip the middle layers (ops/token_dropping.py).

Every token may be dropped, but for [CLS], [SEP] and those to predict. Padding
is dropped first, then tokens at random: the simpler of the two ways in Hou et
al. 2022; the other one needs a running loss of each token of the vocabulary. A
hash of the seed, the example's number in the stream of records and the position
decides, so that a resumed run and any number of devices drop the same tokens.

Dimensions: B rows, S tokens, P predictions per row.
"""

import tensorflow as tf

from ops.elementwise import fold_seed, shape_of
from records.streaming import Batch


def num_kept(length: int, predictions: int, share: float) -> int:
    """Return how many tokens of a row are kept if a share is dropped.

    The share is of the places that no prediction needs: 0.5 of 64 places with
    10 predictions drops 27 and keeps 37.
    """
    return length - int(share * (length - predictions))


def kept_positions(
    batch: Batch, numbers: tf.Tensor, seed: int, count: int
) -> tf.Tensor:
    """Return the rising positions int32 [B, count] of the tokens that stay.

    Args:
        batch: masked records, packed or not.
        numbers: int64 [B], the examples' numbers in the stream.
        seed: the stream's seed.
        count: has to hold all tokens that may not be dropped.
    """
    # Without packing the mask takes the place of sequence_ids.
    ids = batch.get("sequence_ids", batch["input_mask"])  # [B, S]
    rows, length = shape_of(ids)

    def changes(x: tf.Tensor) -> tf.Tensor:  # [B, S - 1], from token to token
        return x[:, 1:] != x[:, :-1]

    # [CLS] begins a sequence, a [SEP] ends a segment.
    begins = tf.pad(
        changes(ids), [[0, 0], [1, 0]], constant_values=True
    )  # [B, S]
    ends = tf.pad(
        changes(ids) | changes(batch["segment_ids"]),
        [[0, 0], [0, 1]],
        constant_values=True,
    )  # [B, S]
    positions = batch["masked_lm_positions"]  # [B, P]
    row = tf.range(rows)[:, None] + tf.zeros_like(positions)  # [B, P]
    predicted = tf.scatter_nd(
        tf.stack([row, positions], axis=-1),
        batch["masked_lm_weights"],
        [rows, length],
    )  # [B, S], the number of predictions
    stays = begins | ends | (predicted > 0)
    # 0: padding, 1: may be dropped, 2: stays. Among tokens of one rank, random
    # numbers of 32 bits decide.
    rank = tf.where(ids == 0, 0, tf.where(stays, 2, 1))
    bits = fold_seed(seed, numbers[:, None], tf.range(length))  # [B, S]
    score = tf.cast(rank, tf.int64) * 2**32 + tf.cast(bits, tf.int64)
    _, kept = tf.math.top_k(score, count)
    return tf.sort(kept)
