"""Deal documents out to files by their keys, without duplicates.

    input files --chunks of items--> documents, by bucket
    documents of a bucket, in the order of their keys --> text

The key of a document, a hash of its text, decides its file and its place in
it. So equal documents meet, and the bytes of a file do not depend on the order
in which documents are read, or on who reads them. A file may be larger than
the memory: it is made of buckets, which are ranges of keys.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from base.errors import UserError
from base.jobs.steps import Report, Steps

import numpy as np

from corpus import documents, reading, repeated_lines, summary
from corpus.documents import TRAIN
from corpus.items import Chunk, CorpusFlags

# Problems that are listed; all are counted.
MAX_PROBLEMS = 100

# What is counted of every input file.
_SUMS = ("items", "bytes", "problems")

# Progress is reported after so many bytes of items.
_REPORT_BYTES = 2**18


@dataclasses.dataclass
class CorpusSteps(Steps):
    """The steps of prepare_corpus.py.

    The files of the training text come first, then those held out, and every
    file has the same number of buckets.

    Attributes:
        is_strict: whether the first problem ends the run.
        num_files: number of output files by split.
        chunk_bytes: about the size of a chunk of the input.
        input_name: the input, for messages.
    """

    flags: CorpusFlags
    is_strict: bool
    num_files: dict[str, int]
    buckets_per_file: int
    chunk_bytes: int
    input_name: str

    name = "prepare_corpus"

    @property
    def num_buckets(self) -> int:
        """The number of buckets of all files."""
        return sum(self.num_files.values()) * self.buckets_per_file

    @property
    def survey(self) -> repeated_lines.LineSurvey | None:
        """The count of all lines, where repeated ones are dropped."""
        most = self.flags.drop_repeated_lines
        number = max(1, self.num_buckets // 16)
        return repeated_lines.LineSurvey(number, most) if most else None

    def bucket_of(self, key: int, split: str) -> int:
        """Return the bucket of a document: ranges of keys of equal width."""
        first = 0 if split == TRAIN else self.num_files[TRAIN]
        number = self.num_files[split] * self.buckets_per_file
        return first * self.buckets_per_file + (key * number >> 64)

    # --- Input to buckets ---

    def chunks(
        self, sources: Sequence[str], place: Any
    ) -> Iterator[tuple[Chunk, tuple[int, int]]]:
        """Yield the items of files, and the place behind them."""
        for chunk in reading.read_chunks(
            sources, self.flags, self.chunk_bytes, place or (0, 0)
        ):
            yield chunk, chunk.end

    def map(
        self, chunk: Chunk, report: Report
    ) -> tuple[list[tuple[int, bytes]], dict[str, Any]]:
        """Return the distinct documents of a chunk, and what is known of it.

        That is (bucket, key and text) of each; and `counts` by name,
        `num_documents`, the first `problems`, each with its path and item
        before it, and `inputs`: kind, language and numbers by path.

        Raises:
            UserError: there is a problem and the run is strict.
        """
        texts: dict[tuple[str, int], bytes] = {}
        counts, problems, inputs = collections.Counter(), [], {}
        total = sum(len(item.data) for item in chunk.items)
        reported = last = 0
        for item in chunk.items:
            source = item.source
            outcome = documents.make_document(item, self.flags)
            if problem := outcome.problem:
                if self.is_strict:
                    raise UserError(f"{problem.line()} (--strict)")
                problems.append([problem.path, item.number, list(problem)])
            if source.path not in inputs:
                inputs[source.path] = {
                    "kind": source.kind,
                    "language": source.language,
                    **dict.fromkeys(_SUMS, 0),
                }
            entry = inputs[source.path]
            # The report of a damaged file is not one of its items.
            entry["items"] += bool(item.data or not problem)
            entry["bytes"] += len(item.data)
            entry["problems"] += problem is not None
            counts.update(outcome.counts)
            counts["input_bytes"] += len(item.data)
            if outcome.document:
                key, split, text = outcome.document
                counts["duplicates"] += documents.add_text(
                    texts, (split, key), text
                )
            if counts["input_bytes"] - last > _REPORT_BYTES:
                last = counts["input_bytes"]
                now = chunk.num_bytes * last // total
                report(now - reported)
                reported = now
        report(chunk.num_bytes - reported)
        pairs = [
            (self.bucket_of(key, split), documents.to_value(key, text))
            for (split, key), text in texts.items()
        ]
        return pairs, {
            "counts": counts,
            "num_documents": len(pairs),
            "problems": problems[:MAX_PROBLEMS],
            "inputs": inputs,
        }

    def add(self, results: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Return the sum of the results of chunks, which come in any order."""
        counts, inputs = collections.Counter(), {}
        num_documents, problems = 0, []
        for result in results:
            num_documents += result["num_documents"]
            counts.update(result["counts"])
            problems = sorted(problems + result["problems"])[:MAX_PROBLEMS]
            for path, entry in result["inputs"].items():
                known = inputs.setdefault(
                    path, {**entry, **dict.fromkeys(_SUMS, 0)}
                )
                for name in _SUMS:
                    known[name] += entry[name]
        return {
            "counts": counts,
            "num_documents": num_documents,
            "problems": problems,
            "inputs": inputs,
        }

    def check(self, total: dict[str, Any]) -> None:
        """Raise an error if there is no document, or a problem and --strict."""
        problems = summary.problems_of(total)
        if problems and self.is_strict:
            raise UserError(f"{problems[0].line()} (--strict)")
        if not total["num_documents"]:
            raise summary.no_document_error(self.input_name, total)

    # --- Buckets to files ---

    def reduce(
        self, bucket: int, values: Iterable[bytes], found: Any, file: IO[bytes]
    ) -> dict[str, Any]:
        """Write the documents of a bucket in the order of their keys.

        Each is followed by a blank line, also the last one, so that files can
        be joined by `cat`.
        """
        del bucket
        texts, num_duplicates = documents.distinct_texts(values)
        counts = collections.Counter(duplicates=num_duplicates)
        drops_lines = self.flags.drop_repeated_lines > 0
        if drops_lines:
            repeated = np.frombuffer(found, np.uint64)
        for text in texts:
            dropped = 0
            if drops_lines:
                text, dropped = repeated_lines.without_lines(text, repeated)
                counts["repeated_lines"] += dropped
            num_sentences = text.count(b"\n")
            num_characters = len(text.decode()) - num_sentences
            if dropped and num_characters < max(
                self.flags.min_document_chars, 1
            ):
                counts["too_short_without_repeated_lines"] += 1
                continue
            file.write(text + b"\n")
            counts["documents"] += 1
            counts["sentences"] += num_sentences
            counts["words"] += len(text.split())
            counts["characters"] += num_characters
        return {"bounds": [0, file.tell()], "counts": counts}

    def parts(self, index: int) -> list[tuple[int, int]]:
        """Return the buckets of an output file."""
        first = index * self.buckets_per_file
        return [
            (bucket, 0)
            for bucket in range(first, first + self.buckets_per_file)
        ]

    def files_of(self, bucket: int) -> list[int]:
        """Return the output file of a bucket."""
        return [bucket // self.buckets_per_file]
