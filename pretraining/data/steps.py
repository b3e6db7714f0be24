"""Deal the documents of a corpus out to buckets; make each a file of records.

    text files --parts of documents, by bucket--> bucket --> records
    records of some buckets --> output file

A corpus may be larger than the memory. The bucket of each part of a document
follows from the hash of its text and the random seed, which makes every bucket
a random sample of the corpus, and independent of the order of the input.
Copies of a text share a bucket, which grows with them.

A bucket is the unit of work of a worker process: its documents are tokenized
once, made into instances `dupe_factor` times, masked, shuffled and written.
Random next sentences come from other documents of the bucket. Its records
depend on the settings, the number of the bucket and the set of its documents
alone. So the output does not depend on the number of workers, on the order of
the input, or on the runner.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
import dataclasses
import itertools
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from base.errors import InputError

import numpy as np

import tokenization
from pretraining.data import documents as pretraining_documents
from pretraining.data import instances as pretraining_instances
from pretraining.data import masking, packing
from pretraining.data.documents import Part, Range, RangeSteps
from pretraining.data.instances import Documents, Instances
from pretraining.data.schema import InstanceConfig
from pretraining.data.sources import Mix
from records import tfrecord

# Instances masked at once: their arrays are a few MB, which the caches of the
# processor hold.
_ROWS = 2048

_NO_TEXT = "no document with text in the files of --input_file or --sources"
_ONE_DOCUMENT = (
    "only one document in all input files (copies count as one), and a random "
    "next sentence has to come from another: put a blank line between "
    "documents, one sentence per line"
)


@dataclasses.dataclass
class GeneratorSteps(RangeSteps):
    """The steps of create_pretraining_data.py.

    A file has a slice of its buckets for every pass over their documents.

    Attributes:
        vocabulary: the bytes of the vocabulary: workers on other machines need
            not reach its path.
        tokenizer_settings: how text becomes tokens.
        config: lengths and probabilities.
        random_seed: the seed from which buckets derive theirs.
        compression: "GZIP", or "" for plain TFRecord files.
        bucket_bytes: about the size of a bucket's text.
        num_buckets: number of buckets of all output files.
        num_files: number of output files.
        mix: how often documents are used.
    """

    vocabulary: tokenization.Vocabulary
    tokenizer_settings: tokenization.TokenizerSettings
    config: InstanceConfig
    random_seed: int
    compression: str
    bucket_bytes: int
    num_buckets: int
    num_files: int
    mix: Mix

    name = "create_pretraining_data"

    @property
    def empty_file(self) -> str:
        """The error for an output file without records."""
        if self.num_files == 1:
            return _NO_TEXT
        return (
            f"--output_file names {self.num_files} files, which are more than "
            "the documents and instances of the corpus can fill; name fewer"
        )

    @property
    def num_passes(self) -> int:
        """The number of passes over the documents."""
        return self.config.dupe_factor

    def setup(self) -> None:
        """Load the vocabulary."""
        self._tokenizer = tokenization.FullTokenizer(
            self.vocabulary, settings=self.tokenizer_settings
        )
        self._masking = masking.MaskingVocabulary.from_vocab(
            self._tokenizer.vocab
        )

    # --- Text to buckets ---

    def map(
        self, chunk: list
    ) -> tuple[list[tuple[int, bytes]], dict[str, Any]]:
        """Return the parts of documents, as often as used; count them."""
        pairs, some = [], set()
        counts = collections.Counter(documents=0, parts=0)
        num_documents = collections.Counter({path: 0 for path, *_ in chunk})
        part_size = pretraining_documents.part_size(self.bucket_bytes)
        for file_range in itertools.starmap(Range, chunk):
            for part, uses in self.mix.read_parts(
                file_range, part_size, self.bucket_bytes, counts
            ):
                num_documents[file_range.path] += part.index == 0
                if len(some) < 2 and uses:
                    some.add(part.document)
                bucket = part.bucket(self.random_seed, self.num_buckets)
                pairs += [(bucket, pickle.dumps(part))] * uses
        counts["documents"] = num_documents.total()
        counts["parts"] = len(pairs)
        return pairs, {
            "counts": counts,
            "num_documents": num_documents,
            "some_documents": sorted(some),
        }

    def check(self, total: dict[str, Any]) -> None:
        """Raise an InputError if there are too few documents."""
        number = len(total.get("some_documents", ()))
        if not number:
            raise InputError(_NO_TEXT)
        if number == 1:
            raise InputError(_ONE_DOCUMENT)
        if total["counts"]["parts"] < self.num_files:
            raise InputError(
                f"--output_file names {self.num_files} files, but there are "
                f"only {total['counts']['documents']} documents to share among "
                "them; name fewer"
            )

    # --- Buckets to files ---

    def reduce(
        self, bucket: int, values: Iterable[bytes], file: IO[bytes]
    ) -> dict[str, Any]:
        """Write all records of a bucket, one pass after another.

        Raises:
            InputError: there is no other bucket, and a single document.
        """
        # A stream of random numbers for each bucket: its records do not depend
        # on the worker or on the buckets made before.
        rng = np.random.default_rng([self.random_seed, 1, bucket])
        parts = sorted(map(pickle.loads, values))
        documents, num_empty = tokenize_documents(parts, self._tokenizer)
        if self.num_buckets == 1 and len(set(documents.numbers.tolist())) == 1:
            raise InputError(_ONE_DOCUMENT)
        ids, lengths = documents.ids, np.diff(documents.sentences)
        too_long = lengths > self.config.max_tokens
        counts = collections.Counter(
            lines_without_tokens=num_empty,
            sentences=len(lengths),
            tokens=len(ids),
            unknown_tokens=int((ids == self._masking.unk_id).sum()),
            continued_tokens=int(self._masking.continues[ids].sum()),
            sentences_too_long=int(too_long.sum()),
            parts_with_text=len(documents.numbers),
            one_sentence_parts=int((np.diff(documents.bounds) == 1).sum()),
        )
        bounds = [0]
        for drawn, sizes in _shuffled_passes(documents, self.config, rng):
            for some, some_sizes in packing.split(
                drawn, sizes, len(self.files_of(bucket))
            ):
                # A writer for each slice: where compressed, each is a gzip
                # member of its own, which can be copied into an output file.
                with tfrecord.RecordWriter(file, self.compression) as writer:
                    for features, more in self._make_features(
                        documents, some, some_sizes, rng
                    ):
                        writer.write_examples(features)
                        counts.update(more)
                bounds.append(file.tell())
            counts["truncated_tokens"] += int(drawn.num_truncated.sum())
            counts["cut_instances"] += int((drawn.num_truncated > 0).sum())
        return {"bounds": bounds, "counts": dict(counts)}

    def _make_features(
        self,
        documents: Documents,
        drawn: Instances,
        sizes: np.ndarray,
        rng: np.random.Generator,
    ) -> Iterator[tuple[dict[str, np.ndarray], dict[str, int]]]:
        """Yield features and counts of rows, about `_ROWS` sequences at a time.

        The arguments `drawn` and `sizes` are what `_shuffled_passes` yields.
        """
        config, vocabulary = self.config, self._masking
        for rows, at in packing.parts(sizes, _ROWS):
            sequences = masking.assemble(
                documents.ids, drawn.take(at), config.max_seq_length, vocabulary
            )
            if config.unmasked:
                features = masking.unmasked_features(sequences)
            else:
                draws = masking.StreamDraws(rng)
                features = masking.mask_sequences(
                    sequences, config, vocabulary, draws
                )
            labels = features["next_sentence_labels"]
            counts = {
                "instances": len(labels),
                "filled": int(np.count_nonzero(features["input_mask"])),
                "random_next": int(np.count_nonzero(labels)),
            }
            if not config.unmasked:
                weights = features["masked_lm_weights"]
                counts["predictions"] = int(np.count_nonzero(weights))
            if config.pack_sequences:
                features = packing.pack_features(features, sizes[rows], config)
                counts["rows"] = len(features["input_ids"])
                if not config.unmasked:
                    places = features["masked_lm_weights"].size
                    counts["places_for_predictions"] = places
            yield features, counts


def tokenize_documents(
    parts: Sequence[Part], tokenizer: tokenization.FullTokenizer
) -> tuple[Documents, int]:
    """Tokenize parts of documents; drop lines and parts without tokens.

    Returns:
        The documents, and the number of lines dropped.
    """
    lines = [part.text.decode().split("\n") for part in parts]
    ids, offsets = tokenizer.lines_to_ids(itertools.chain.from_iterable(lines))
    has_tokens = np.diff(offsets) > 0  # one for each line
    # kept[i] of the first i lines have tokens; ends are the parts' offsets in
    # the lines, bounds those in the lines kept.
    ends = np.cumsum([0, *map(len, lines)])
    kept = np.concatenate([[0], np.cumsum(has_tokens)])
    bounds = kept[ends]
    numbers = np.array([part.document for part in parts], np.uint64)
    with_text = np.diff(bounds) > 0  # one for each part
    documents = Documents(
        ids,
        np.concatenate([offsets[:1], offsets[1:][has_tokens]]),
        np.concatenate([bounds[:1], bounds[1:][with_text]]),
        numbers[with_text],
    )
    return documents, int((~has_tokens).sum())


def _shuffled_passes(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> Iterator[tuple[Instances, np.ndarray]]:
    """Yield the instances of each pass over the documents, shuffled.

    The passes stay apart, so that all of the text is seen once before any of
    it is seen again. The instances of a row are next to each other; their
    number in each row, 1 unless sequences are packed, is yielded too.
    """
    if not len(documents.numbers):
        return
    drawn = pretraining_instances.draw_instances(documents, config, rng)
    # Sort by pass, and within a pass by random keys.
    keys = rng.random(len(drawn.duplicate))
    order = np.lexsort((keys, drawn.duplicate))
    sizes = np.bincount(drawn.duplicate, minlength=config.dupe_factor)
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if config.pack_sequences:
            yield packing.pack(drawn.take(rows), config, rng)
        else:
            yield drawn.take(rows), np.ones(len(rows), np.int64)
