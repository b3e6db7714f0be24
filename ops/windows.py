"""Long rows read in windows: rows of the encoder's length that overlap.

A row of the data has the tokens of a whole text, [CLS] t1 ... tn [SEP]. The
model cuts it into windows, runs on each, and pools what it says. With 4 tokens
of text in a window, and a stride of 2:

    row:      [CLS] a b c d e f g [SEP]
    windows:  [CLS] a b c d [SEP]
              [CLS] c d e f [SEP]
              [CLS] e f g [SEP]

This is inside the model, so that training, scores, predictions and exports read
a text alike. A batch has as many windows per text as its longest text needs;
those that a shorter text lacks are padding, and count for nothing.

Letters in shapes: B texts, L tokens of a row, W windows of a row, S tokens of a
window; R = B * W.
"""

from typing import NamedTuple

import tensorflow as tf

from ops.elementwise import shape_of

Features = dict[str, tf.Tensor]


class Windowing(NamedTuple):
    """Sizes of windows.

    Attributes:
        length: most tokens of a window, with [CLS] and [SEP].
        stride: tokens from the start of a window to the next, at most
            length - 2.
        pooling: mean or max over the windows of a text.
    """

    length: int
    stride: int
    pooling: str = "mean"

    def count(self, total: int | tf.Tensor) -> int | tf.Tensor:
        """Return how many windows a row of so many tokens has, W."""
        more = -((self.length - total) // self.stride)
        if isinstance(total, int):
            return 1 + max(0, more)
        return 1 + tf.maximum(0, more)

    def size(self, total: int | tf.Tensor) -> int | tf.Tensor:
        """Return the tokens of the windows of rows of so many tokens, S.

        Rows of short texts are no longer than without windows.
        """
        if isinstance(total, int):
            return min(self.length, total)
        return tf.minimum(self.length, total)


def pooled(
    x: tf.Tensor, is_there: tf.Tensor | None, windows: Windowing | None
) -> tf.Tensor:
    """Return the vectors of texts, [B, K], of those of their windows, [R, K].

    `is_there` is what `split` returns; without windows x is returned.
    """
    if windows is None:
        return x
    num = shape_of(is_there)[1]
    x = tf.reshape(x, [-1, num, x.shape[-1]])  # [B, W, K]
    there = tf.expand_dims(tf.cast(is_there, x.dtype), -1)  # [B, W, 1]
    if windows.pooling == "max":
        return tf.reduce_max(x + (there - 1.0) * 1e9, axis=1)
    return tf.reduce_sum(x * there, axis=1) / tf.reduce_sum(there, axis=1)


def split(
    features: Features, windows: Windowing | None
) -> tuple[Features, tf.Tensor | None]:
    """Return the windows as rows [R, S], and which of them a text has, [B, W].

    A text has one at least. The features are input_ids, input_mask and
    segment_ids, of single texts. Without windows they are the rows.
    """
    if windows is None:
        return features, None
    ids = features["input_ids"]  # [B, L]
    total = shape_of(ids)[1]
    count = _pieces(features)  # [B, 1]
    stride, inner = windows.stride, windows.length - 2
    starts = tf.range(windows.count(total)) * stride  # [W]
    # A text has a window if the one before leaves something of it.
    is_there = (starts == 0) | (count > starts - stride + inner)
    used = tf.clip_by_value(count - starts, 0, inner) + 2  # [B, W]
    # Rows that only fill a batch have no tokens at all.
    used = tf.where(is_there, tf.minimum(used, count + 2), 0)
    used = tf.expand_dims(used, -1)  # [B, W, 1]
    size = windows.size(total)
    place = tf.range(size)  # [S]
    at = tf.expand_dims(starts, -1) + place  # [W, S], of the piece in its row
    at = tf.where(place == 0, 0, at)  # [CLS]
    # The last token of a window is the last of the row, [SEP].
    last = tf.expand_dims(count + 1, -1)  # [B, 1, 1]
    at = tf.where(place == used - 1, last, at)  # [B, W, S]
    mask = tf.cast(place < used, tf.int32)
    at = tf.clip_by_value(at, 0, total - 1)
    rows = tf.gather(ids, at, batch_dims=1) * tf.cast(mask, ids.dtype)
    rows, mask = (tf.reshape(x, [-1, size]) for x in (rows, mask))
    found = {"input_ids": rows, "input_mask": mask}
    found["segment_ids"] = tf.zeros_like(mask)
    vectors = features.get("word_vectors")  # [B, L, H], of attributions
    if vectors is not None:
        vectors = tf.gather(vectors, at, batch_dims=1)
        shape = [-1, size, vectors.shape[-1]]
        found["word_vectors"] = tf.reshape(vectors, shape)
    return found, is_there


def join(
    x: tf.Tensor, features: Features, windows: Windowing | None
) -> tf.Tensor:
    """Return the vectors of the tokens of rows, [B, L, ...].

    `x` has those of the windows, [R, S, ...]. A token gets that of the window
    whose middle is nearest to it, where it sees most on both sides; [CLS] that
    of the first window, [SEP] that of the last one. Without windows x is
    returned.
    """
    if windows is None:
        return x
    batch, total = shape_of(features["input_ids"])
    count = _pieces(features)  # [B, 1]
    stride, inner = windows.stride, windows.length - 2
    num, size = windows.count(total), windows.size(total)
    place = tf.range(total)  # [L]
    # The last window of each text.
    last = tf.maximum(0, -((inner - count) // stride))  # [B, 1]
    nearest = (2 * (place - 1) - (inner - 1) + stride) // (2 * stride)  # [L]
    of = tf.minimum(tf.maximum(nearest, 0), last)  # [B, L]
    of = tf.where(place > count, last, of)
    inside = tf.clip_by_value(place - of * stride, 0, size - 1)
    first = tf.expand_dims(tf.range(batch) * num, -1)  # [B, 1]
    at = (first + of) * size + inside  # [B, L]
    shape = shape_of(x)[2:]
    found = tf.gather(tf.reshape(x, [-1, *shape]), at)  # [B, L, ...]
    mask = tf.cast(features["input_mask"], x.dtype)
    return found * tf.reshape(mask, [batch, total, *[1] * len(shape)])


def _pieces(features: Features) -> tf.Tensor:
    """Return the tokens of each row without [CLS] and [SEP], [B, 1]."""
    mask = tf.cast(features["input_mask"], tf.int32)
    return tf.reduce_sum(mask, axis=1, keepdims=True) - 2
