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

from base.errors import InputError, UserError
from base.jobs.steps import Report, Steps

from corpus import documents, reading, summary
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

    The files of the training text come first, then the held-out ones. Every
    file has the same number of buckets. `num_files` are the numbers of files of
    each split; `input_name` is for messages.
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

    def bucket_of(self, key: int, split: str) -> int:
        """Return the bucket of a document: ranges of keys of equal width."""
        first = 0 if split == TRAIN else self.num_files[TRAIN]
        number = self.num_files[split] * self.buckets_per_file
        return first * self.buckets_per_file + (key * number >> 64)

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
        """Return (bucket, key and text) of the documents of a chunk.

        The result also has `counts` by name, the first `problems`, and
        `inputs`: kind, language and numbers by path.

        Raises:
            UserError: there is a problem and the run is strict.
        """
        pairs, counts, problems, inputs = [], collections.Counter(), [], {}
        total = sum(len(item.data) for item in chunk.items)
        reported = last = 0
        for item in chunk.items:
            source = item.source
            document, found, problem = documents.make_document(item, self.flags)
            if problem:
                if self.is_strict:
                    raise UserError(f"{problem.line()} (--strict)")
                problems.append(list(problem))
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
            counts.update(found)
            counts["input_bytes"] += len(item.data)
            if document:
                counts["documents"] += 1
                bucket = self.bucket_of(document.key, document.split)
                value = documents.to_value(document.key, document.text)
                pairs.append((bucket, value))
            if counts["input_bytes"] - last > _REPORT_BYTES:
                last = counts["input_bytes"]
                now = chunk.num_bytes * last // total
                report(now - reported)
                reported = now
        report(chunk.num_bytes - reported)
        problems = problems[:MAX_PROBLEMS]
        return pairs, {"counts": counts, "problems": problems, "inputs": inputs}

    def add(self, results: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Return the sum of the results of chunks, which come in any order."""
        counts, problems, inputs = collections.Counter(), [], {}
        for result in results:
            counts.update(result["counts"])
            problems = sorted(problems + result["problems"])[:MAX_PROBLEMS]
            for path, entry in result["inputs"].items():
                known = inputs.setdefault(
                    path, {**entry, **dict.fromkeys(_SUMS, 0)}
                )
                for name in _SUMS:
                    known[name] += entry[name]
        return {"counts": counts, "problems": problems, "inputs": inputs}

    def check(self, total: dict[str, Any]) -> None:
        """Raise an error if there is no document, or a problem and --strict."""
        problems = summary.problem_lines(total)
        if problems and self.is_strict:
            raise UserError(f"{problems[0]} (--strict)")
        if not total["counts"].get("documents"):
            reasons = summary.in_words(
                total["counts"], {**summary.DROPPED, **summary.REASONS}
            )
            why = f" ({reasons})" if reasons else ""
            if problems:
                why += f"; the first problem: {problems[0]}"
            raise InputError(f"no document in {self.input_name}{why}")

    def reduce(
        self, bucket: int, values: Iterable[bytes], file: IO[bytes]
    ) -> dict[str, Any]:
        """Write the documents of a bucket in the order of their keys.

        A blank line follows each, the last one too, so that `cat` can join
        files.
        """
        del bucket
        texts, num_duplicates = documents.distinct_texts(values)
        counts = collections.Counter(duplicates=num_duplicates)
        for text in texts:
            num_sentences = text.count(b"\n")
            num_characters = len(text.decode()) - num_sentences
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
