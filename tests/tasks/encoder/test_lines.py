"""Lines of text: as ids, in windows and batches, and as features in order."""

import os
import types

import numpy as np
import pytest

import tokenization
from tasks.encoder import lines as features_lines
from tasks.rows import Units, make_row

LENGTH = 24


def test_windows_hold_a_few_lines_only():
    """A stream without an end: a window comes before the next line is read."""

    def endless():
        for index in range(100):
            yield features_lines.Line(index, make_row([0] * 1000, 1000))
        raise AssertionError("read too far")

    found = features_lines.windows(endless(), 1 << 20, 0)
    assert [line.index for line in next(found)] == [0]


def test_lines_do_not_keep_their_batch():
    """What is held for a line is the line's, not the padding beside it."""

    def run(batch):
        shape = [*batch["input_ids"].shape, 1, 2]
        return {"features": np.zeros(shape, np.float32)}

    window = [
        features_lines.Line(i, make_row([0] * (i + 2), i + 2)) for i in range(3)
    ]
    units = [[line.row] for line in window]
    data = Units(units, LENGTH, pad_to_max_length=True)
    told = []
    progress = types.SimpleNamespace(add=lambda *counts: told.append(counts))
    lines = features_lines.window_features(run, window, data, 2, progress)
    for line in lines:
        assert told == [(2, 4 + 3), (1, 2)]  # before the first line is ready
        assert line.values.shape == (line.index + 2, 1, 2)
        assert line.values.base is None


def test_a_pipe_has_no_size(tmp_path, caplog, monkeypatch):
    """Nor has what remains of it a time."""
    monkeypatch.setattr(features_lines, "_SECONDS_BETWEEN_REPORTS", 0.0)
    fifo = tmp_path / "in"
    os.mkfifo(fifo)
    reader = features_lines.Reader(str(fifo), None, LENGTH)
    progress = features_lines.Progress(reader)
    reader.num_tokens, reader.num_bytes = 4, 100
    with caplog.at_level("INFO", logger="absl"):
        progress.add(1, 2)
    assert "ETA unknown" in caplog.text


def test_progress_by_hand(tmp_path, caplog, monkeypatch):
    """A window of 30 lines, 300 tokens, half of the file; two batches."""
    now = 1000.0
    clock = types.SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(features_lines, "time", clock)
    (tmp_path / "in").write_bytes(b"x" * 4000)
    reader = features_lines.Reader(str(tmp_path / "in"), None, LENGTH)
    progress = features_lines.Progress(reader)
    reader.num_lines, reader.num_tokens, reader.num_bytes = 30, 300, 2000
    with caplog.at_level("INFO", logger="absl"):
        now += 9  # too early to say something
        progress.add(5, 60)
        now += 6
        progress.add(10, 90)
    # 150 of 300 tokens of half the file in 15 s: a quarter, 45 s to go.
    assert caplog.messages == ["15 lines | 1.0 sequences/s | ETA 00:00:45"]


@pytest.mark.parametrize("length, wanted", [(3, [2, 3]), (4, [2, 5, 3])])
def test_pairs_that_lose_their_second_half(length, wanted):
    """Cut to nothing, it has no [SEP] of its own."""
    tokenizer = types.SimpleNamespace(
        vocab={"[CLS]": 2, "[SEP]": 3},
        text_to_ids=lambda _: [5, 6, 7],
        basic_tokenizer=tokenization.BasicTokenizer(),
    )
    reader = features_lines.Reader("-", tokenizer, length)
    line = reader._encode(0, "a b c ||| a b c")
    assert line.row.input_ids.tolist() == wanted
    assert not line.row.segment_ids.any()
