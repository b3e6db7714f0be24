"""Batches by length: every unit once, padded to its batch alone."""

import types

import corpora
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenization
from tasks import predict, registry
from tasks.rows import make_row
from tasks.task import Settings


def row(length: int):
    return make_row([7] * length, length)


def task(max_seq_length: int, is_grouped: bool = False):
    settings = types.SimpleNamespace(max_seq_length=max_seq_length)
    return types.SimpleNamespace(settings=settings, is_grouped=is_grouped)


@given(
    lengths=st.lists(st.integers(2, 50), max_size=60),
    batch_size=st.integers(1, 9),
)
def test_every_unit_is_in_one_batch_of_its_length(lengths, batch_size):
    units = [[row(length)] for length in lengths]
    found = list(predict.make_batches(task(50), units, batch_size))
    taken = [unit for batch in found for unit in batch.units.tolist()]
    assert sorted(taken) == list(range(len(lengths)))
    for batch in found:
        mask = batch.features["input_mask"]
        own = [lengths[unit] for unit in batch.units]
        assert mask.sum(axis=1).tolist() == own
        assert (batch.features["input_ids"] == 7 * mask).all()
        longest = max(own)
        assert longest <= mask.shape[1] < longest + 8
        # No more tokens than batch_size rows of the full length.
        assert mask.size <= batch_size * 50 or len(own) == 1
    widths = [batch.features["input_ids"].shape[1] for batch in found]
    assert widths == sorted(widths, reverse=True)


def test_the_example_of_the_module():
    units = [[row(length)] for length in (60, 7, 9, 50)]
    shapes = [
        batch.features["input_ids"].shape
        for batch in predict.make_batches(task(64), units, 2)
    ]
    assert shapes == [(2, 64), (2, 16)]


def test_units_of_several_rows_share_a_batch_with_their_like():
    units = [[row(3)] * 2, [row(5)] * 3, [row(9)] * 2, [row(4)] * 3]
    found = list(predict.make_batches(task(16, True), units, 6))
    assert [batch.units.tolist() for batch in found] == [[1, 3], [2, 0]]
    assert [b.features["input_ids"].shape for b in found] == [
        (2, 3, 8),
        (2, 2, 16),
    ]
    outputs = {"x": np.array([10, 30])}
    assert list(predict.by_unit(found[0], outputs)) == [
        (1, {"x": 10}),
        (3, {"x": 30}),
    ]


@pytest.mark.parametrize("name", registry.NAMES)
def test_no_input_has_no_prediction(name):
    """As in a file whose lines are all damaged."""
    normalization = tokenization.Normalization.of()
    settings = Settings(
        "", False, None, name, corpora.VOCAB_FILE, normalization, 100
    )
    task = registry.create_task(
        settings._replace(labels=("O", "B-A"), thresholds=(0.5, 0.5))
    )
    assert predict.predict(task, None, [], 8) == []


def test_segments_begin_at_the_second_text():
    found = make_row([1, 2, 3, 4], 3)
    assert found.segment_ids.tolist() == [0, 0, 0, 1]
