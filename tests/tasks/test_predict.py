"""Batches by length: every unit once, padded to its batch alone."""

import types

import corpora
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_settings import settings_of

from tasks import job, predict, registry
from tasks.rows import Units, make_row


def row(length: int):
    return make_row([7] * length, length)


def task(max_seq_length: int, is_grouped: bool = False):
    model = types.SimpleNamespace(row_length=max_seq_length)
    return types.SimpleNamespace(checkpoint=model, is_grouped=is_grouped)


class Run:
    """A model whose outputs are its ids; keeps the features of its batches."""

    def __init__(self, few_shapes: bool = False):
        self.few_shapes, self.batches = few_shapes, []

    def __call__(self, features):
        self.batches.append(features)
        return {"ids": features["input_ids"]}

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [batch["input_ids"].shape for batch in self.batches]


@given(
    lengths=st.lists(st.integers(2, 50), min_size=1, max_size=60),
    batch_size=st.integers(1, 9),
    few_shapes=st.booleans(),
)
def test_every_row_is_in_one_batch_of_its_length(
    lengths, batch_size, few_shapes
):
    run, taken = Run(few_shapes), []
    data = Units([[row(length)] for length in lengths], 50)
    for rows, features in predict.batches(run, data, batch_size):
        outputs = run(features)
        own = data.lengths[rows].tolist()
        taken += rows.tolist()
        mask = run.batches[-1]["input_mask"]
        assert mask.sum(axis=1).tolist()[: len(rows)] == own
        np.testing.assert_array_equal(
            outputs["ids"][: len(rows)], 7 * mask[: len(rows)]
        )
        width = mask.shape[1]
        if few_shapes:
            assert len(mask) == batch_size and width in (16, 32, 48, 50)
        else:
            assert len(mask) == len(rows) and width < max(own) + 8
        # No more tokens than batch_size rows of the full length.
        assert mask.size <= batch_size * 50
    assert sorted(taken) == list(range(len(lengths)))
    widths = [width for _, width in run.shapes]
    assert widths == sorted(widths, reverse=True)


def test_the_example_of_the_module():
    run = Run()
    units = [[row(length)] for length in (60, 7, 9, 50)]
    outputs = predict.run_units(task(64), run, units, 2)
    assert run.shapes == [(2, 64), (2, 16)]
    assert [sum(found["ids"]) for found in outputs] == [420, 49, 63, 350]


def test_units_of_several_rows_share_a_batch_with_their_like():
    units = [[row(3)] * 2, [row(5)] * 3, [row(9)] * 2, [row(4)] * 3]
    run = Run()
    outputs = predict.run_units(task(16, True), run, units, 6)
    assert run.shapes == [(2, 3, 8), (2, 2, 16)]
    for unit, found in zip(units, outputs, strict=True):
        wanted = [7 * len(one.input_ids) for one in unit]
        assert found["ids"].sum(axis=1).tolist() == wanted


def test_outputs_of_records_are_in_their_order():
    """Those of tokens as long as the longest, zeros behind the own batch."""
    data = Units([[row(length)] for length in (3, 20, 9, 2)], 64)
    data.num_records = 4
    run = Run()
    found = job.FineTuningJob.outputs(
        types.SimpleNamespace(records=lambda _: data),
        types.SimpleNamespace(run=run),
        job.DataSet("eval", "dev", None),
        1,
    )["ids"]
    assert found.shape == (4, 24) and len(run.batches) == 2
    np.testing.assert_array_equal(
        found, 7 * (np.arange(24) < data.lengths[:, None])
    )


@pytest.mark.parametrize("name", registry.TASKS)
def test_no_input_has_no_prediction(name):
    """As in a file whose lines are all damaged."""
    options = {"max_seq_length": 100, "thresholds": (0.5, 0.5)}
    task = registry.create_task(
        settings_of(name, corpora.VOCAB_FILE, ("O", "B-A"), **options)
    )
    assert predict.predict(task, None, [], 8) == []


def test_segments_begin_at_the_second_text():
    found = make_row([1, 2, 3, 4], 3)
    assert found.segment_ids.tolist() == [0, 0, 0, 1]
