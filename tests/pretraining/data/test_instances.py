"""Segments A and B: labels, lengths, truncation, random next sentences."""

import itertools
import random

import corpora
import numpy as np
import one_file_bert
import pytest

from pretraining.data import instances as pretraining_instances
from pretraining.data.schema import InstanceConfig


@pytest.mark.parametrize("max_seq_length", [8, 32, 128])
def test_labels_are_true(max_seq_length):
    """A and a true B are neighbours; a random B is of another document."""
    texts = corpora.toy_texts(40)
    documents = corpora.documents_of(texts)
    place = {
        token: (d, s)
        for d, document in enumerate(texts)
        for s, sentence in enumerate(document)
        for token in sentence
    }
    config = InstanceConfig(max_seq_length=max_seq_length, dupe_factor=3)
    drawn = pretraining_instances.draw_instances(
        documents, config, np.random.default_rng(0)
    )
    ids = documents.ids
    for a_start, a_length, b_start, b_length, is_random in zip(
        *drawn[1:6], strict=True
    ):
        assert a_length >= 1 and b_length >= 1
        assert a_length + b_length <= max_seq_length - 3
        a = ids[a_start : a_start + a_length].tolist()
        b = ids[b_start : b_start + b_length].tolist()
        a_document, b_document = place[a[0]][0], place[b[0]][0]
        assert place[a[-1]][0] == a_document
        assert place[b[-1]][0] == b_document
        if is_random:
            assert a_document != b_document
        else:
            assert a_document == b_document
            assert a_start + a_length <= b_start
    # Where nothing is cut off, B is the very next token.
    uncut = (drawn.num_truncated == 0) & ~drawn.is_random_next
    ends = drawn.a_start + drawn.a_length
    np.testing.assert_array_equal(ends[uncut], drawn.b_start[uncut])
    assert uncut.sum() > (0 if max_seq_length == 8 else 20)


def test_no_sentence_is_left_out():
    """In each pass all tokens are in an A or a true B, before truncation."""
    documents = corpora.documents_of(corpora.toy_texts(30))
    config = InstanceConfig(max_seq_length=100_000, dupe_factor=4)
    drawn = pretraining_instances.draw_instances(
        documents, config, np.random.default_rng(0)
    )
    assert not drawn.num_truncated.any()
    for duplicate in range(4):
        seen = np.zeros(len(documents.ids), int)
        mine = drawn.take(drawn.duplicate == duplicate)
        for start, length in zip(mine.a_start, mine.a_length, strict=True):
            seen[start : start + length] += 1
        true_next = mine.take(~mine.is_random_next)
        for start, length in zip(
            true_next.b_start, true_next.b_length, strict=True
        ):
            seen[start : start + length] += 1
        assert (seen == 1).all()


def test_parts_of_one_document_are_never_random_next_of_each_other():
    texts = corpora.toy_texts(12)
    numbers = [0, 0, 0, 1, 2, 2, 5, 5, 5, 5, 7, 9]
    documents = corpora.documents_of(texts, numbers)
    owner = np.repeat(numbers, np.diff(documents.sentences[documents.bounds]))
    drawn = pretraining_instances.draw_instances(
        documents, InstanceConfig(dupe_factor=200), np.random.default_rng(0)
    )
    random_next = drawn.take(drawn.is_random_next)
    a, b = owner[random_next.a_start], owner[random_next.b_start]
    assert (a != b).all()
    # All others are drawn equally often.
    assert set(owner[drawn.a_start]) == set(numbers)
    lent = (
        np.searchsorted(
            documents.bounds,
            np.searchsorted(documents.sentences, random_next.b_start, "right")
            - 1,
            "right",
        )
        - 1
    )
    for number in (0, 1, 2, 5):
        counts = np.bincount(lent[a == number], minlength=12)
        others = np.array(numbers) != number
        expected = counts.sum() / others.sum()
        assert counts[~others].sum() == 0
        chi_square = ((counts[others] - expected) ** 2 / expected).sum()
        assert chi_square < 30  # 11 degrees of freedom: p = 0.002


def test_without_another_document_b_is_the_true_one():
    """Also where all are copies of one; a sentence alone is left out."""
    texts = [corpora.toy_texts(1)[0], [[7, 8]]]
    documents = corpora.documents_of(texts, [3, 3])
    drawn = pretraining_instances.draw_instances(
        documents, InstanceConfig(), np.random.default_rng(0)
    )
    assert len(drawn.a_start) >= 10 and not drawn.is_random_next.any()
    assert (drawn.b_length > 0).all()
    (whole,) = np.flatnonzero(drawn.num_truncated == 0)[:1]
    end = drawn.a_start[whole] + drawn.a_length[whole]
    assert drawn.b_start[whole] == end
    alone = corpora.documents_of([[[7, 8]]])
    drawn = pretraining_instances.draw_instances(
        alone, InstanceConfig(), np.random.default_rng(0)
    )
    assert len(drawn.a_start) == 0


@pytest.mark.parametrize("max_tokens", [5, 6, 13, 20])
def test_truncation_removes_tokens_of_the_longer_side(max_tokens):
    pairs = np.array(list(itertools.product(range(1, 45), repeat=2)))
    zeros = np.zeros(len(pairs), int)
    drawn = pretraining_instances.Instances(
        *(zeros, zeros, pairs[:, 0], zeros, pairs[:, 1], zeros > 0, zeros)
    )
    cut = pretraining_instances._truncate(
        drawn, max_tokens, np.random.default_rng(0)
    )
    for row, (a_length, b_length) in enumerate(pairs):
        a, b = [0] * a_length, [0] * b_length
        one_file_bert.truncate(a, b, max_tokens, random.Random(0))
        assert [cut.a_length[row], cut.b_length[row]] == [len(a), len(b)]
        removed = a_length - len(a) + b_length - len(b)
        assert cut.num_truncated[row] == removed


def test_truncation_cuts_front_and_back_equally():
    documents = corpora.documents_of(
        [[list(range(1000, 2000))] * 2, [[5000] * 300] * 2]
    )
    drawn = pretraining_instances.draw_instances(
        documents, InstanceConfig(dupe_factor=3000), np.random.default_rng(0)
    )
    first = drawn.take((drawn.a_start < 1000) & (drawn.a_length == 63))
    # 937 of 1000 tokens go: Binomial(937, 1/2) of them at the front.
    assert abs(first.a_start.mean() - 468.5) < 1
    assert abs(first.a_start.std() - np.sqrt(937) / 2) < 0.6


def test_short_sequences_are_drawn_for_each_instance():
    """One long document of one-token sentences: no length is forced."""
    texts = [[[i] for i in range(1000, 6000)], [[i] for i in range(900)]]
    drawn = pretraining_instances.draw_instances(
        corpora.documents_of(texts),
        InstanceConfig(dupe_factor=40, short_seq_prob=0.3),
        np.random.default_rng(0),
    )
    drawn = drawn.take(~drawn.is_random_next)
    total = drawn.a_length + drawn.b_length
    # Of the short draws one in 124 is 125 itself; the last of a document
    # (one in 60 here) is what is left.
    short = (total < 125).mean()
    assert abs(short - 0.3 - 0.7 / 60) < 0.02
    within = total[total < 125]
    assert within.min() == 2 and abs(within.mean() - 63) < 3
