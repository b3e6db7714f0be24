"""Packing: every sequence once, rows within their limits, features in place."""

import json
import pickle
from collections.abc import Sequence

import numpy as np
import packed_batches
import pytest
from corpora import VOCAB_FILE
from hypothesis import given
from hypothesis import strategies as st
from packed_batches import LENGTH, PACKS, PREDICTIONS
from paths import GOLDEN

import tokenization
from pretraining.data import masking, packing, steps
from pretraining.data import schema as pretraining_schema
from pretraining.data.documents import Part
from pretraining.data.sources import Mix
from records import tfrecord

# --- Which sequences share a row ---------------------------------------------


def test_the_longest_first_into_the_least_room():
    """The docstring's example: 9, 6 + 4, 3 + 3."""
    lengths = np.array([6, 3, 9, 4, 3])
    found = packing.assign_rows(lengths, np.ones_like(lengths), 10, 9, 9)
    assert found.tolist() == [1, 2, 0, 1, 2]


def assigned_slowly(
    lengths: Sequence[int],
    predictions: Sequence[int],
    max_seq_length: int,
    predictions_per_row: int,
    max_sequences: int,
) -> list[int]:
    """Return the row of each sequence: best fit, looking at every open row.

    Arguments as in packing.py. Of the rows with equally little room, the one
    that came to this room last is looked at; if it has too few places, rows
    with more room follow.
    """
    rows: list[dict] = []  # in the order in which they were begun
    assigned = [0] * len(lengths)
    clock = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        latest: dict[int, dict] = {}  # room -> the row last changed
        for row in sorted(rows, key=lambda row: row["changed"]):
            if row["count"] < max_sequences:
                latest[max_seq_length - row["tokens"]] = row
        fitting = [
            row
            for room, row in sorted(latest.items())
            if room >= lengths[index]
            and row["places"] + predictions[index] <= predictions_per_row
        ]
        if not fitting:
            rows.append(
                {"tokens": 0, "places": 0, "count": 0, "number": len(rows)}
            )
            fitting = rows[-1:]
        row, clock = fitting[0], clock + 1
        row["tokens"] += lengths[index]
        row["places"] += predictions[index]
        row["count"] += 1
        row["changed"] = clock
        assigned[index] = row["number"]
    return assigned


@given(
    lengths=st.lists(st.integers(5, LENGTH), max_size=80),
    most=st.integers(2, 9),
    seed=st.integers(0, 99),
)
def test_every_row_keeps_its_limits(lengths, most, seed):
    lengths = np.array(lengths, np.int64)
    config = packed_batches.config_of(max_sequences_per_pack=most)
    predictions = masking.prediction_budget(lengths, config)
    places = packing.predictions_per_row(config)
    arguments = lengths, predictions, LENGTH, places, most
    rows = packing.assign_rows(*arguments)
    # Every sequence has a row, and the rows are numbered without holes.
    assert rows.shape == lengths.shape
    assert set(rows.tolist()) == set(range(len(set(rows.tolist()))))
    for limit, amounts in (
        (LENGTH, lengths),
        (places, predictions),
        (most, np.ones_like(lengths)),
    ):
        assert np.bincount(rows, amounts).max(initial=0) <= limit
    np.testing.assert_array_equal(rows, packing.assign_rows(*arguments))
    assert rows.tolist() == assigned_slowly(
        *map(np.ndarray.tolist, arguments[:2]), *arguments[2:]
    )
    # Packing reorders the instances and loses none.
    rng = np.random.default_rng(seed)
    drawn = packed_batches.instances_of(lengths, rng)
    packed, sizes = packing.pack(drawn, config, rng)
    assert sizes.sum() == len(lengths) and sizes.min(initial=1) > 0
    assert sorted(zip(*packed, strict=True)) == sorted(zip(*drawn, strict=True))
    np.testing.assert_array_equal(
        np.sort(
            np.add.reduceat(masking.sequence_lengths(packed), _first(sizes))
        )
        if len(sizes)
        else [],
        np.sort(np.bincount(rows, lengths)),
    )


def _first(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


def test_rows_are_in_random_order_and_the_same_for_a_seed():
    lengths = np.random.default_rng(0).integers(5, LENGTH + 1, 500)
    config = packed_batches.config_of()
    drawn = packed_batches.instances_of(lengths, np.random.default_rng(1))
    orders = []
    for seed in (1, 1, 2):
        packed, sizes = packing.pack(drawn, config, np.random.default_rng(seed))
        orders.append((packed.a_start.tolist(), sizes.tolist()))
        # Best fit begins with rows of one long sequence and ends with rows of
        # many short ones.
        halves = np.array_split(sizes, 2)
        assert abs(halves[0].mean() - halves[1].mean()) < 0.2
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        (dict(max_seq_length=128, max_predictions_per_seq=20), 20),
        (dict(max_seq_length=512, max_predictions_per_seq=77), 77),
        # At least one for each sequence, at most P for each.
        (dict(max_seq_length=128, masked_lm_prob=0.01), PACKS),
        (dict(max_seq_length=512, max_predictions_per_seq=1), PACKS),
    ],
)
def test_places_of_predictions_follow_from_the_flags(changes, places):
    config = packed_batches.config_of(**changes)
    assert packing.predictions_per_row(config) == places


def test_parts_are_whole_rows():
    sizes = np.array([1, 3, 2, 4, 1])
    found = list(packing.parts(sizes, 4))
    assert found == [
        (slice(0, 2), slice(0, 4)),
        (slice(2, 4), slice(4, 10)),
        (slice(4, 5), slice(10, 11)),
    ]
    assert list(packing.parts(np.ones(5, int), 2))[1] == (
        slice(2, 4),
        slice(2, 4),
    )
    assert list(packing.parts(np.zeros(0, int), 2)) == []


# --- Features of rows --------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_rows_hold_what_their_sequences_hold(seed):
    """Every sequence is cut out of its row again."""
    single, packed = packed_batches.both(60, seed)
    wanted = pretraining_schema.packed_schema(LENGTH, 5, PACKS)
    assert {k: v.shape[1] for k, v in packed.items()} == {
        name: feature.length for name, feature in wanted.items()
    }
    number = 0
    for row in range(len(packed["input_ids"])):
        values = {name: value[row] for name, value in packed.items()}
        count = int(values["next_sentence_weights"].sum())
        for index in range(count):
            at = values["sequence_ids"] == index + 1
            length = at.sum()
            for name in ("input_ids", "input_mask", "segment_ids"):
                np.testing.assert_array_equal(
                    values[name][at], single[name][number][:length]
                )
                assert not single[name][number][length:].any()
            np.testing.assert_array_equal(
                values["position_ids"][at], np.arange(length)
            )
            start = values["next_sentence_positions"][index]
            assert start == np.flatnonzero(at)[0]
            assert (
                values["next_sentence_labels"][index]
                == (single["next_sentence_labels"][number])
            )
            here = at[values["masked_lm_positions"]]
            here &= values["masked_lm_weights"] > 0
            used = single["masked_lm_weights"][number] > 0
            for name, shift in (
                ("masked_lm_positions", start),
                ("masked_lm_ids", 0),
            ):
                np.testing.assert_array_equal(
                    values[name][here] - shift, single[name][number][used]
                )
            number += 1
        assert (values["next_sentence_weights"][count:] == 0).all()
    assert number == 60
    assert (
        packed["masked_lm_weights"].sum() == single["masked_lm_weights"].sum()
    )


def test_no_prediction_of_long_words_is_lost():
    """Whole words longer than any budget: a word is cut to its budget."""
    rng = np.random.default_rng(0)
    config = packed_batches.config_of(
        do_whole_word_mask=True, max_predictions_per_seq=PREDICTIONS
    )
    vocabulary = packed_batches.vocabulary_of(tuple(range(5, 50)))
    lengths = rng.integers(5, LENGTH + 1, 200)
    drawn, sizes = packing.pack(
        packed_batches.instances_of(lengths, rng), config, rng
    )
    single = masking.mask_sequences(
        masking.assemble(packed_batches.ids_of(rng), drawn, LENGTH, vocabulary),
        config,
        vocabulary,
        masking.StreamDraws(rng),
    )
    packed = packing.pack_features(single, sizes, config)
    assert (
        packed["masked_lm_weights"].sum() == single["masked_lm_weights"].sum()
    )
    budget = masking.prediction_budget(masking.sequence_lengths(drawn), config)
    counts = single["masked_lm_weights"].sum(axis=1)
    assert (counts <= budget).all() and (counts >= 1).all()


# --- A bucket ----------------------------------------------------------------


def packed_bucket(path) -> list[dict]:
    """Write the golden bucket; return its records as name -> values."""
    text = (GOLDEN / "packed_bucket.txt").read_bytes()
    parts = [
        Part(number, 0, document.strip())
        for number, document in enumerate(text.split(b"\n\n"))
    ]
    config = packed_batches.config_of(
        max_seq_length=64, dupe_factor=1, short_seq_prob=0.8
    )
    vocabulary = tokenization.Vocabulary(VOCAB_FILE)
    maker = steps.GeneratorSteps(
        vocabulary,
        tokenization.TokenizerSettings.of(),
        config,
        random_seed=1,
        compression="",
        bucket_bytes=1 << 20,
        num_buckets=2,
        num_files=2,
        mix=Mix({}, {}, 1),
    )
    maker.setup()
    with open(path, "wb") as file:
        result = maker.reduce(0, [pickle.dumps(part) for part in parts], file)
    assert result["bounds"][-1] == path.stat().st_size
    return [
        {name: value.tolist() for name, value in features.items()}
        for features in map(
            tfrecord.decode_example, tfrecord.read_records(str(path))
        )
    ]


def test_a_bucket_is_the_golden_one(tmp_path):
    """Another packing, order or masking of packed files is noticed."""
    found = packed_bucket(tmp_path / "bucket")
    lines = (GOLDEN / "packed_bucket.jsonl").read_text().splitlines()
    assert found == [json.loads(line) for line in lines]
