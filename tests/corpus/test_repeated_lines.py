"""corpus/repeated_lines.py: lines are counted over files, range by range."""

import collections

from base.hashing import hash64

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from corpus import repeated_lines


def counted(folder, texts: list[list[bytes]], most: int) -> np.ndarray:
    files = []
    for index, some in enumerate(texts):
        files.append(str(folder / f"{index}.npy"))
        repeated_lines.write_counts(files[-1], some)
    path = str(folder / "repeated.npy")
    number = repeated_lines.write_repeated(path, files, most)
    found = repeated_lines.load(path)
    assert len(found) == number
    return found


@hypothesis.settings(
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
    max_examples=50,
)
@hypothesis.given(
    numbers=strategies.lists(
        strategies.lists(strategies.integers(0, 30), max_size=40), min_size=1
    ),
    most=strategies.integers(1, 4),
    entries=strategies.sampled_from([1, 7, 10**6]),
)
def test_lines_above_the_limit_are_found(
    tmp_path, monkeypatch, numbers, most, entries
):
    """In one range of hashes or in many, and also where no line repeats."""
    monkeypatch.setattr(repeated_lines, "_ENTRIES", entries)
    texts = [[b"".join(b"line %d\n" % n for n in some)] for some in numbers]
    found = counted(tmp_path, texts, most)
    times = collections.Counter(n for some in numbers for n in some)
    assert found.tolist() == sorted(
        hash64(b"line %d" % n) for n, count in times.items() if count > most
    )


def test_a_frequent_line_takes_one_entry(tmp_path):
    """Memory does not depend on how often the line occurs."""
    path = str(tmp_path / "x.npy")
    repeated_lines.write_counts(path, [b"same\n" * 500, b"same\nother\n"])
    hashes, counts = np.load(path)
    assert dict(zip(hashes.tolist(), counts.tolist(), strict=True)) == {
        hash64(b"same"): 501,
        hash64(b"other"): 1,
    }


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
