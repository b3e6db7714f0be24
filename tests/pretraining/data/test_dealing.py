"""Parts of documents, dealt out to buckets by hash."""

import random

import numpy as np
from corpora import write

from pretraining.data import dealing
from pretraining.data.dealing import DealtPart, Lenders


def deal(folder, texts, num_buckets, seed=7):
    """Deal one file of documents; return the parts of each bucket."""
    folder.mkdir()
    source = write(folder / "in.txt", texts)
    dealing.deal_documents(
        [source], num_buckets, 2**20, seed, str(folder), lambda n: None
    )
    return [
        dealing.read_bucket(str(folder), bucket)
        for bucket in range(num_buckets)
    ]


def test_every_bucket_is_a_random_sample(tmp_path):
    texts = [[f"document {i} end"] for i in range(10_000)]
    seen = []
    for parts in deal(tmp_path / "a", texts, 10):
        numbers = [int(part.text.split()[1]) for part in parts]
        assert len(numbers) == len(set(numbers))
        # 1,000 expected; a standard deviation is 30.
        assert 850 < len(numbers) < 1150
        assert 4600 < np.mean(numbers) < 5400
        seen += numbers
    assert sorted(seen) == list(range(10_000))


def test_buckets_do_not_depend_on_the_order(tmp_path, monkeypatch):
    texts = [[f"{i % 70} a", "b"] for i in range(100)]  # with copies
    first = deal(tmp_path / "a", texts, 5)
    random.Random(1).shuffle(texts)
    monkeypatch.setattr(dealing, "_DEALT_BYTES", 50)  # many stretches
    assert deal(tmp_path / "b", texts, 5) == first
    assert dealing.read_lenders(str(tmp_path / "a")) == dealing.read_lenders(
        str(tmp_path / "b")
    )
    assert deal(tmp_path / "c", texts, 5, seed=8) != first


def test_copies_go_to_different_buckets(tmp_path):
    """No bucket grows with the copies of one document."""
    buckets = deal(tmp_path / "a", [["the same text"]] * 1000, 10)
    assert all(60 < len(parts) < 140 for parts in buckets)
    assert len({part.document for parts in buckets for part in parts}) == 1
    assert len({part.key for parts in buckets for part in parts}) == 1000


def test_lenders_are_first_parts_of_different_documents():
    rng = random.Random(2)
    parts = [
        DealtPart(
            rng.randrange(40), rng.randrange(2), rng.randrange(2**64), b""
        )
        for _ in range(300)
    ]
    smallest = {}
    for part in sorted(parts, key=lambda part: part.key):
        if part.index == 0:
            smallest.setdefault(part.document, part)
    expected = list(smallest.values())[: Lenders.MOST]
    assert Lenders(parts).parts == expected
    assert Lenders(parts[::-1]).parts == expected
