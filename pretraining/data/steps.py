"""Deal the documents of a corpus out to buckets; make each a file of records.

    text files --parts of documents, by bucket--> bucket --> records
    records of some buckets --> output file

A corpus may be larger than the memory. The bucket of each part of a document
follows from the hash of its text and the random seed, which makes every bucket
a random sample of the corpus, and independent of the order of the input.
Copies of a text share a bucket, which grows with them.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable
from typing import IO, Any

from base.errors import InputError
from base.jobs.steps import Steps

import tokenization
from pretraining.data import documents
from pretraining.data.buckets import BucketMaker
from pretraining.data.documents import Part, Range
from pretraining.data.schema import InstanceConfig
from pretraining.data.sources import Mix

# Text that a worker process deals out at once.
_CHUNK_BYTES = 2**24


@dataclasses.dataclass
class GeneratorSteps(Steps):
    """The steps of create_pretraining_data.py.

    A file has a slice of its buckets for every pass over their documents.

    Attributes:
        vocabulary: the bytes of the vocabulary: workers on other machines need
            not reach its path.
        tokenizer_settings: how text becomes tokens.
        instances: lengths and probabilities.
        random_seed: the seed from which buckets derive theirs.
        compression: "GZIP", or "" for plain TFRecord files.
        bucket_bytes: about the size of a bucket's text.
        num_buckets: number of buckets of all output files.
        num_files: number of output files.
        mix: how often documents are used.
        first_input: path, for messages.
    """

    vocabulary: tokenization.Vocabulary
    tokenizer_settings: tokenization.TokenizerSettings
    instances: InstanceConfig
    random_seed: int
    compression: str
    bucket_bytes: int
    num_buckets: int
    num_files: int
    mix: Mix
    first_input: str

    name = "create_pretraining_data"

    @property
    def empty_file(self) -> str:
        """The error for an output file without records."""
        if self.num_files == 1:
            return str(documents.no_text_error(self.first_input))
        return (
            f"--output_file names {self.num_files} files, which are more than "
            "the documents and instances of the corpus can fill; name fewer"
        )

    @property
    def num_passes(self) -> int:
        """The number of passes over the documents."""
        return self.instances.dupe_factor

    def setup(self) -> None:
        """Load the vocabulary."""
        tokenizer = tokenization.FullTokenizer(
            self.vocabulary, settings=self.tokenizer_settings
        )
        self._maker = BucketMaker(
            tokenizer,
            self.instances,
            self.random_seed,
            self.compression,
            max(1, self.num_files // self.num_buckets),
            self.num_buckets == 1,
        )

    # --- Text to buckets ---

    def sources(self, files: Iterable[tuple[str, int]]) -> list[list[Range]]:
        """Return the chunks of files, given as (path, bytes)."""
        return documents.split_files(files, _CHUNK_BYTES)

    def size_of(self, chunk: list) -> int:
        """Return the bytes of the ranges of a chunk."""
        return documents.size_of(chunk)

    def map(
        self, chunk: list
    ) -> tuple[list[tuple[int, bytes]], dict[str, Any]]:
        """Return the parts of documents, as often as used; count them."""
        pairs, num_documents, some = [], {}, set()
        counts = collections.Counter(documents=0, parts=0)
        for file_range in itertools.starmap(Range, chunk):
            num_documents.setdefault(file_range.path, 0)
            for part in documents.read_parts(
                file_range,
                documents.part_size(self.bucket_bytes),
                self.bucket_bytes,
            ):
                uses = self.mix.uses_of(file_range.path, part.document)
                if part.index == 0:
                    num_documents[file_range.path] += 1
                    counts["documents"] += 1
                    counts.update(self.mix.count(file_range.path, uses))
                if len(some) < 2 and uses:
                    some.add(part.document)
                bucket = part.bucket(self.random_seed, self.num_buckets)
                pairs += [(bucket, part.to_bytes())] * uses
        counts["parts"] = len(pairs)
        return pairs, {
            "counts": counts,
            "num_documents": num_documents,
            "some_documents": sorted(some),
        }

    def add(self, results: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Return the sums; of the different documents two are enough."""
        counts, num_documents = collections.Counter(documents=0, parts=0), {}
        some: set[int] = set()
        for result in results:
            counts.update(result["counts"])
            for path, number in result["num_documents"].items():
                num_documents[path] = num_documents.get(path, 0) + number
            some.update(result["some_documents"])
        return {
            "counts": counts,
            "num_documents": num_documents,
            "some_documents": sorted(some)[:2],
        }

    def check(self, total: dict[str, Any]) -> None:
        """Raise an InputError if there are too few documents."""
        number = len(total["some_documents"])
        if not number:
            raise documents.no_text_error(self.first_input)
        if number == 1:
            raise documents.one_document_error()
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
        """Write the records of a bucket."""
        parts = sorted(map(Part.from_bytes, values))
        return self._maker.write(bucket, parts, file)
