"""corpus/steps.py: chunks, files, and lines that repeat over buckets."""

import collections
import dataclasses

from base.hashing import hash64

import corpus_runs
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from corpus import documents, repeated_lines
from corpus.documents import HELDOUT, TRAIN
from corpus.repeated_lines import LineSurvey
from corpus.steps import CorpusSteps


def steps_of(**more) -> CorpusSteps:
    plain = CorpusSteps(
        corpus_runs.settings(heldout_fraction=0.4),
        False,
        {TRAIN: 3, HELDOUT: 2},
        2,
        2**19,
        "x",
    )
    return dataclasses.replace(plain, **more)


def test_smallest_of_equal_documents_is_kept_in_any_order():
    for order in ((b"a b\n", b"a\nb\n"), (b"a\nb\n", b"a b\n")):
        values = [documents.to_value(7, text) for text in order]
        assert documents.distinct_texts(values) == ([b"a\nb\n"], 1)


@hypothesis.given(
    strategies.integers(0, 2**64 - 1), strategies.integers(1, 99999)
)
def test_files_are_ranges_of_keys_whatever_their_buckets(key, number):
    found = []
    for buckets in (1, 7):
        some = steps_of(
            num_files={TRAIN: number, HELDOUT: 3}, buckets_per_file=buckets
        )
        for split in (TRAIN, HELDOUT):
            bucket = some.bucket_of(key, split)
            (index,) = some.files_of(bucket)
            assert (bucket, 0) in some.parts(index)
            found.append(index)
    assert found[:2] == found[2:]
    assert found[0] == key * number >> 64 and number <= found[1] < number + 3


@hypothesis.given(
    numbers=strategies.lists(
        strategies.lists(strategies.integers(0, 30), max_size=40), min_size=1
    ),
    most=strategies.integers(1, 4),
    num_buckets=strategies.sampled_from([1, 7, 1000]),
)
def test_lines_above_the_limit_are_found(numbers, most, num_buckets):
    """In one range of hashes or in many, and also where no line repeats."""
    survey = LineSurvey(num_buckets, most)
    buckets = [[] for _ in range(num_buckets)]
    for key, some in enumerate(numbers):
        text = b"".join(b"line %d\n" % n for n in some)
        value = documents.to_value(key, text)
        for bucket, table in survey.map([value, value]):  # a duplicate
            buckets[bucket].append(table)
    found = np.frombuffer(b"".join(map(survey.reduce, buckets)), np.uint64)
    times = collections.Counter(n for some in numbers for n in some)
    assert found.tolist() == sorted(
        hash64(b"line %d" % n) for n, count in times.items() if count > most
    )


@pytest.mark.parametrize(
    "dropped, expected",
    [
        ([], (b"a\nb\na\n", 0)),
        ([b"c"], (b"a\nb\na\n", 0)),
        ([b"a"], (b"b\n", 2)),
        ([b"b", b"c"], (b"a\na\n", 1)),
        ([b"a", b"b"], (b"", 3)),
    ],
)
def test_lines_are_left_out_of_a_text(dropped, expected):
    hashes = np.sort(np.array([hash64(line) for line in dropped], np.uint64))
    assert repeated_lines.without_lines(b"a\nb\na\n", hashes) == expected
