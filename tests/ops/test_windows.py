"""Windows, beside the picture in ops/windows.py and a loop over single rows."""

import numpy as np
import pytest
import tensorflow as tf

from ops import windows
from ops.windows import Windowing
from tasks import rows

CLS, SEP = 101, 102
PICTURE = Windowing(6, 2)


def features(*counts: int, length: int) -> dict[str, tf.Tensor]:
    """Return rows [CLS] 1 ... n [SEP], padded to a length."""
    made = [rows.make_row([CLS, *range(1, n + 1), SEP], n + 2) for n in counts]
    return {k: tf.constant(v) for k, v in rows.pad(made, length).items()}


def by_hand(count: int, sizes: Windowing) -> list[list[int]]:
    """Return the windows of the tokens 1 ... n, one by one."""
    inner, found, start = sizes.length - 2, [], 0
    while not found or start - sizes.stride + inner < count:
        part = range(start + 1, min(start + inner, count) + 1)
        found.append([CLS, *part, SEP])
        start += sizes.stride
    return found


def test_the_picture():
    found, is_there = windows.split(features(7, length=9), PICTURE)
    assert found["input_ids"].numpy().tolist() == [
        [CLS, 1, 2, 3, 4, SEP],
        [CLS, 3, 4, 5, 6, SEP],
        [CLS, 5, 6, 7, SEP, 0],
    ]
    assert found["input_mask"].numpy()[2].tolist() == [1, 1, 1, 1, 1, 0]
    assert is_there.numpy().all()


@pytest.mark.parametrize("sizes", [(6, 2), (6, 4), (5, 1), (8, 5), (30, 9)])
def test_the_windows_of_a_batch(sizes):
    """Each text has those it would have alone; the others are padding."""
    sizes, counts = Windowing(*sizes), range(20)
    found, is_there = windows.split(features(*counts, length=24), sizes)
    ids = found["input_ids"].numpy()
    assert ids.shape[1] == min(sizes.length, 24)
    ids = ids.reshape([20, -1, ids.shape[1]])
    mask = found["input_mask"].numpy().reshape(ids.shape)
    for count, own, used, there in zip(
        counts, ids, mask, is_there.numpy(), strict=True
    ):
        wanted = by_hand(count, sizes)
        assert there.sum() == len(wanted) and there[: len(wanted)].all()
        assert [
            row[: size.sum()].tolist()
            for row, size in zip(own, used, strict=True)
        ] == [*wanted, *[[]] * (len(own) - len(wanted))]


def test_rows_that_fill_a_batch_stay_empty():
    empty = {k: tf.zeros_like(v) for k, v in features(9, length=11).items()}
    found, _ = windows.split(empty, PICTURE)
    assert not found["input_mask"].numpy().any()


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_pooled_and_its_gradient(pooling):
    """Of a text's windows alone, in whatever batch; hand-made derivatives."""
    table = tf.Variable(tf.random.stateless_normal([103, 2], [1, 2]))
    sizes = PICTURE._replace(pooling=pooling)

    def model(batch):
        mask = tf.cast(batch["input_mask"], tf.float32)[..., None]
        vectors = tf.gather(table, batch["input_ids"]) * mask
        return tf.reduce_sum(vectors, axis=1)

    with tf.GradientTape() as tape:
        rows, there = windows.split(features(7, 2, length=15), sizes)
        found = windows.pooled(model(rows), there, sizes)
        total = tf.reduce_sum(found[0])
    values = table.numpy()
    alone = np.array([values[part].sum(0) for part in by_hand(7, sizes)])
    wanted = alone.mean(0) if pooling == "mean" else alone.max(0)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(found[1], values[[CLS, 1, 2, SEP]].sum(0), 1e-6)
    gradient = np.zeros_like(values)
    for number, part in enumerate(by_hand(7, sizes)):
        share = 1 / 3
        if pooling == "max":
            share = alone.argmax(0) == number
        for token in part:
            gradient[token] += share
    np.testing.assert_allclose(
        tf.convert_to_tensor(tape.gradient(total, table)), gradient, atol=1e-6
    )


@pytest.mark.parametrize("sizes", [(6, 2), (6, 4), (5, 1), (8, 5), (30, 9)])
def test_joined_tokens_are_where_they_see_most(sizes):
    """The vector of a token knows its window, and its place in it."""
    sizes, counts = Windowing(*sizes), range(20)
    batch = features(*counts, length=24)
    split, _ = windows.split(batch, sizes)
    ids = split["input_ids"].numpy()
    places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    numbers = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
    x = np.stack([ids, places, numbers], axis=-1).astype(np.float32)
    joined = windows.join(tf.constant(x), batch, sizes).numpy().astype(int)
    np.testing.assert_array_equal(joined[..., 0], batch["input_ids"])
    per_text = len(ids) // 20
    for text, count in enumerate(counts):
        parts = by_hand(count, sizes)
        for token in range(1, count + 1):
            _, place, number = joined[text, token]
            part = parts[number - text * per_text]

            def context(part, token=token):
                at = part.index(token)
                return min(at, len(part) - 1 - at)

            best = max(context(part) for part in parts if token in part)
            # The last windows of a text may be shorter than their places.
            whole = all(len(p) == sizes.length for p in parts if token in p)
            assert part[place] == token
            if whole:
                assert context(part) >= best - 1
