"""corpus/steps.py: what a chunk gives, and which documents a file has."""

import dataclasses

from base.errors import UserError

import corpus_runs
import hypothesis
import pytest
from hypothesis import strategies

from corpus import documents, reading
from corpus.documents import HELDOUT, TRAIN
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


def chunk_of(*paths):
    (chunk,) = reading.read_chunks(
        list(map(str, paths)), corpus_runs.settings(), 2**19
    )
    return chunk


def test_a_chunk_gives_documents_and_counts():
    path = corpus_runs.ENGLISH
    chunk, reports = chunk_of(path, path), []
    pairs, result = steps_of().map(chunk, reports.append)
    assert sum(reports) == chunk.num_bytes
    assert result["counts"]["pages"] == 20
    assert result["inputs"][str(path)]["items"] == 20
    assert [value for _, value in pairs] == [
        documents.to_value(outcome.document.key, outcome.document.text)
        for outcome in corpus_runs.outcomes_of(path) * 2
        if outcome.document
    ]


def test_strict_ends_with_the_first_problem(tmp_path):
    """Also with one that a run without --strict has found."""
    (tmp_path / "x").write_text('{"text": "a"}\n{"text": 1}\n{"text": 2}\n')
    chunk, strict = chunk_of(tmp_path / "x"), steps_of(is_strict=True)
    words = r"x, line 2: has a number.*\(--strict\)"
    with pytest.raises(UserError, match=words):
        strict.map(chunk, print)
    _, result = steps_of().map(chunk, print)
    with pytest.raises(UserError, match=words):
        strict.check(strict.add([result]))


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
