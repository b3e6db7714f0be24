"""corpus/generation.py: which bucket and which file a document goes to."""

import corpus_runs
import hypothesis
from hypothesis import strategies

from corpus import documents
from corpus.documents import HELDOUT, TRAIN
from corpus.generation import CorpusSteps


def test_smallest_of_equal_documents_is_kept_in_any_order():
    for order in ((b"a b\n", b"a\nb\n"), (b"a\nb\n", b"a b\n")):
        assert documents.distinct_texts(order) == ([b"a\nb\n"], 1)


@hypothesis.given(
    strategies.integers(0, 2**64 - 1), strategies.integers(1, 99999)
)
def test_files_are_ranges_of_keys_whatever_their_buckets(key, number):
    found = []
    flags = corpus_runs.settings(num_shards=number, heldout_fraction=0.4)
    num_files = number + flags.num_heldout_shards
    for buckets in (1, 7):
        some = CorpusSteps(flags, False, buckets * num_files, 2**19, "x")
        for split in (TRAIN, HELDOUT):
            bucket = some.bucket_of(key, split)
            (index,) = some.files_of(bucket)
            assert bucket in some.buckets_of(index)
            found.append(index)
    assert found[:2] == found[2:]
    assert found[0] == key * number >> 64 and number <= found[1] < num_files
