"""Turn the documents of a bucket into a file of records.

A bucket is the unit of work of a worker process: its documents are tokenized
once, made into instances `dupe_factor` times, masked, shuffled and written.
Random next sentences come from other documents of the bucket.

The records of a bucket depend on the settings, the number of the bucket and
the set of its documents alone. So the output does not depend on the number of
workers, on the order of the input, or on the runner. Worker processes import
this file: no flags here, and no TensorFlow.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

import tokenization
from pretraining.data import documents as pretraining_documents
from pretraining.data import instances as pretraining_instances
from pretraining.data import masking, packing
from pretraining.data.documents import Part
from pretraining.data.instances import Documents, Instances
from pretraining.data.schema import InstanceConfig
from records import tfrecord

# Instances masked at once: their arrays are a few MB, which the caches of the
# processor hold.
_ROWS = 2048


# --- Tokenizing --------------------------------------------------------------


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


# --- Writing a bucket --------------------------------------------------------


@dataclasses.dataclass
class BucketMaker:
    """Makes records of the documents of a bucket.

    In a small corpus `num_slices` output files share the records of a bucket.
    `is_only_one` says that there is no other bucket.
    """

    tokenizer: tokenization.FullTokenizer
    config: InstanceConfig
    random_seed: int
    compression: str = ""
    num_slices: int = 1
    is_only_one: bool = False

    @functools.cached_property
    def vocabulary(self) -> masking.MaskingVocabulary:
        """What masking needs of the vocabulary."""
        return masking.MaskingVocabulary.from_vocab(self.tokenizer.vocab)

    def write(
        self, bucket: int, parts: Sequence[Part], file: IO[bytes]
    ) -> dict[str, Any]:
        """Write all records of sorted documents, one pass after another.

        Returns:
            bounds: offsets in the file at which slices begin, and the end. A
                pass has `num_slices` of them, one for each output file.
            counts: numbers of sentences, tokens, instances, ...

        Raises:
            InputError: there is no other bucket, and a single document.
        """
        # A stream of random numbers for each bucket: its records do not depend
        # on the worker or on the buckets made before.
        rng = np.random.default_rng([self.random_seed, 1, bucket])
        documents, num_empty = tokenize_documents(parts, self.tokenizer)
        if self.is_only_one and len(set(documents.numbers.tolist())) == 1:
            raise pretraining_documents.one_document_error()
        counts = collections.Counter(lines_without_tokens=num_empty)
        counts.update(self._count_text(documents))
        bounds = [0]
        for drawn, sizes in _shuffled_passes(documents, self.config, rng):
            for some, some_sizes in packing.split(
                drawn, sizes, self.num_slices
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
        config, vocabulary = self.config, self.vocabulary
        for rows, at in packing.parts(sizes, _ROWS):
            some = drawn.take(at)
            labels = some.is_random_next
            sequences = masking.assemble(
                documents.ids, some, config.max_seq_length, vocabulary
            )
            if config.unmasked:
                features = masking.unmasked_features(sequences, labels)
            else:
                draws = masking.StreamDraws(rng)
                features = masking.mask_sequences(
                    sequences, labels, config, vocabulary, draws
                )
            counts = self._count_features(features)
            if config.pack_sequences:
                features = packing.pack_features(features, sizes[rows], config)
                counts["rows"] = len(features["input_ids"])
                if not config.unmasked:
                    places = features["masked_lm_weights"].size
                    counts["places_for_predictions"] = places
            yield features, counts

    def _count_text(self, documents: Documents) -> dict[str, int]:
        """Return counts of a bucket's text, before instances are drawn."""
        ids, lengths = documents.ids, np.diff(documents.sentences)
        is_unknown = ids == self.vocabulary.unk_id
        return {
            "sentences": len(lengths),
            "tokens": len(ids),
            "unknown_tokens": int(is_unknown.sum()),
            "continued_tokens": int(self.vocabulary.continues[ids].sum()),
            "sentences_too_long": int((lengths > self.config.max_tokens).sum()),
            "parts_with_text": len(documents.numbers),
            "one_sentence_parts": int((np.diff(documents.bounds) == 1).sum()),
        }

    def _count_features(
        self, features: dict[str, np.ndarray]
    ) -> dict[str, int]:
        """Return counts of some instances, masked or not."""
        ids = features["input_ids"]
        counts = {
            "instances": len(ids),
            "filled": np.count_nonzero(features["input_mask"]),
            "random_next": np.count_nonzero(features["next_sentence_labels"]),
        }
        if not self.config.unmasked:
            positions = features["masked_lm_positions"]
            shown = np.take_along_axis(ids, positions, axis=1)
            predicted = features["masked_lm_weights"] > 0
            kept = predicted & (shown == features["masked_lm_ids"])
            is_mask = predicted & (shown == self.vocabulary.mask_id)
            counts |= {
                "predictions": predicted.sum(),
                "shown_as_mask": is_mask.sum(),
                "shown_unchanged": kept.sum(),
            }
        return {name: int(number) for name, number in counts.items()}


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
