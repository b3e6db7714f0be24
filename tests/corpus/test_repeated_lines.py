"""corpus/repeated_lines.py: lines are counted over buckets, by range."""

import collections

from base.hashing import hash64

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from corpus import documents, repeated_lines
from corpus.repeated_lines import LineSurvey


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
