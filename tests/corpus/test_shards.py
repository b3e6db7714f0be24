"""corpus/shards.py: which documents a file has, and in which order."""

import itertools
import random

from base.hashing import hash64

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from corpus import documents, shards, units
from corpus.shards import ShardJob
from corpus.units import Unit


@hypothesis.given(
    strategies.integers(0, 2**64 - 1), strategies.integers(1, 99999)
)
def test_shards_are_ranges_of_keys(key, number):
    index = shards.shard_of(key, number)
    low, high = shards.key_range(index, number)
    assert 0 <= index < number
    assert low <= key < high
    assert shards.shard_of(low, number) == index
    assert shards.shard_of(high - 1, number) == index
    # Buckets of a shard are its parts.
    bucket = shards.shard_of(key, number * 7)
    assert bucket // 7 == index


def test_ranges_cover_all_keys():
    for number in (1, 3, 64):
        ranges = [shards.key_range(index, number) for index in range(number)]
        assert ranges[0][0] == 0 and ranges[-1][1] == 2**64
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))


TEXTS = [(9, b"A b.\nC.\n"), (2, "Zwölf Wörter.\n".encode()), (5, b"D.\n")]


def test_documents_of_a_file():
    text, counts = shards.format_documents(TEXTS)
    assert text.decode() == "Zwölf Wörter.\n\nD.\n\nA b.\nC.\n\n"
    assert counts == {
        "documents": 3,
        "duplicates": 0,
        "sentences": 4,
        "words": 6,
        "characters": 13 + 2 + 4 + 2,
    }


def test_duplicates_are_written_once_in_any_order():
    expected = shards.format_documents(TEXTS)[0]
    for seed in range(5):
        some = TEXTS + TEXTS[:2]
        random.Random(seed).shuffle(some)
        text, counts = shards.format_documents(some)
        assert text == expected
        assert counts["duplicates"] == 2 and counts["documents"] == 3


def test_repeated_lines_are_left_out():
    repeated = np.sort(
        np.array([hash64(b"C."), hash64(b"D."), hash64(b"E.")], np.uint64)
    )
    text, counts = shards.format_documents(TEXTS, repeated)
    assert text.decode() == "Zwölf Wörter.\n\nA b.\n\n"
    assert counts["repeated_lines"] == 2
    assert counts["too_short_without_repeated_lines"] == 1
    assert counts["documents"] == 2
    text, counts = shards.format_documents(TEXTS, repeated, 5)
    assert text.decode() == "Zwölf Wörter.\n\n"
    assert counts["too_short_without_repeated_lines"] == 2


@pytest.mark.parametrize("buckets", [1, 2, 7])
@pytest.mark.parametrize("num_units", [1, 3])
def test_a_file_does_not_depend_on_units_and_buckets(
    tmp_path, buckets, num_units
):
    made = [
        documents.document_of([f"Text {n % 80}.", "End."], 0.2)
        for n in range(120)
    ]
    random.Random(buckets).shuffle(made)
    parts = []
    for index in range(num_units):
        counts, sizes = {}, {}
        for split in units.SPLITS:
            texts = {
                document.key: document.text
                for document in made[index::num_units]
                if document.split == split
            }
            path = units.unit_path(str(tmp_path), index, split)
            sizes[split] = units._write_texts(path, texts)
            counts[split] = len(texts)
        parts.append(Unit(index, counts, sizes))
    for split in units.SPLITS:
        for index in range(3):
            path = str(tmp_path / "out")
            job = ShardJob(path, split, index, 3, buckets, "", 0, parts)
            reports = []
            result = shards.make_shard(str(tmp_path), job, reports.append)
            expected, counts = shards.format_documents(
                (document.key, document.text)
                for document in made
                if document.split == split
                and shards.shard_of(document.key, 3) == index
            )
            assert (tmp_path / "out").read_bytes() == expected != b""
            assert result["bytes"] == len(expected)
            # The report counts duplicates in other units, too.
            assert sum(reports) >= len(expected) - counts["documents"]
            assert result["counts"]["documents"] == counts["documents"]
