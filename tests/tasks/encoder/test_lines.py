"""Lines of text: as ids, in windows and batches, and as features in order."""

import os
import types

import numpy as np
import pytest

import tokenization
from checkpoints.trained_for import LongTexts
from tasks.encoder import lines as features_lines
from tasks.rows import Units, make_row

LENGTH = 24


def test_windows_hold_a_few_lines_only():
    """A stream without an end: a window comes before the next line is read."""

    def endless():
        for index in range(100):
            yield features_lines.Line(index, make_row([0] * 1000, 1000), 1)
        raise AssertionError("read too far")

    found = features_lines.windows(endless(), 1 << 20, 0)
    assert [line.index for line in next(found)] == [0]


def test_lines_do_not_keep_their_batch():
    """What is held for a line is the line's, not the padding beside it."""

    def run(batch):
        shape = [*batch["input_ids"].shape, 1, 2]
        return {"features": np.zeros(shape, np.float32)}

    window = [
        features_lines.Line(i, make_row([0] * (i + 2), i + 2), 10**i)
        for i in range(3)
    ]
    units = [[line.row] for line in window]
    data = Units(units, LENGTH, pad_to_max_length=True)
    told = []
    bar = types.SimpleNamespace(update=told.append)
    lines = features_lines.window_features(run, window, data, 2, bar)
    for line, values in lines:
        assert told == [110, 1]  # before the first line is ready
        assert values.shape == (line.index + 2, 1, 2)
        assert values.base is None


def model_of(tokenizer, length: int = LENGTH) -> types.SimpleNamespace:
    """Return what a reader needs of a checkpoint."""
    return types.SimpleNamespace(
        tokenizer=tokenizer, row_length=length, long_texts=LongTexts()
    )


def test_a_pipe_has_no_size(tmp_path):
    fifo = tmp_path / "in"
    os.mkfifo(fifo)
    assert features_lines.Reader(str(fifo), model_of(None)).size() is None


@pytest.mark.parametrize("length, wanted", [(3, [2, 3]), (4, [2, 5, 3])])
def test_pairs_that_lose_their_second_half(length, wanted):
    """Cut to nothing, it has no [SEP] of its own."""
    tokenizer = types.SimpleNamespace(
        vocab={"[CLS]": 2, "[SEP]": 3},
        text_to_ids=lambda _: [5, 6, 7],
        settings=tokenization.TokenizerSettings.of(),
    )
    reader = features_lines.Reader("-", model_of(tokenizer, length))
    row = reader._encode(0, b"a b c ||| a b c")
    assert row.input_ids.tolist() == wanted
    assert not row.segment_ids.any()
