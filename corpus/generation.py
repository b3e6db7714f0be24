"""Write the text files of a corpus, and their report corpus.json.

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
import importlib.metadata
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from base import beam, file_system, text_files
from base.errors import InputError, UserError
from base.jobs import engine
from base.jobs.run import Job
from base.jobs.steps import MOST_LISTED, Steps

from absl import logging

from corpus import documents, reading, sentences, summary
from corpus.documents import HELDOUT, TRAIN
from corpus.items import PARQUET, Chunk, CorpusFlags, Problem, Unusable
from corpus.sources import Blocks

# Raise it when the same flags no longer give the same bytes, or a run of this
# version cannot resume one of the last. It is part of the fingerprint.
_CORPUS_VERSION = 6

# Libraries that the output depends on.
_LIBRARIES = ("mwparserfromhell", "mwxml", "sentencex")

# The input is cut into about this many chunks, within these bounds: a killed
# run then loses little, and all workers end at about the same time.
_CHUNKS = 256
_LEAST_CHUNK_BYTES, _MOST_CHUNK_BYTES = 2**19, 2**24

# The input of a bucket, about. Where it is compressed, there is more text.
_BUCKET_BYTES = 2**23

_MAX_WARNINGS = 20


# --- The run -----------------------------------------------------------------


def generate(
    input_file: str,
    output_dir: str,
    flags: CorpusFlags,
    is_strict: bool,
    runner: beam.Flags,
) -> dict[str, Any]:
    """Write all output files that are not complete yet; return the report.

    With `is_strict` the first problem in the input ends the run.

    Raises:
        UserError: a bad value, a missing file, input of unknown language, no
            document in the input, a problem in it and `is_strict`, or output
            files of a different command.
    """
    flags = dataclasses.replace(flags, language=flags.language.lower())
    if flags.language and not sentences.known_language(flags.language):
        raise UserError(
            f"--language={flags.language}: no rules for the sentences of this "
            "language; wanted a code such as en, de, zh"
        )
    output_dir = file_system.absolute_path(output_dir)
    input_states = file_system.input_states(input_file)
    inputs = [path for path, _, _ in input_states]
    input_bytes = sum(size for _, size, _ in input_states)
    outputs = _output_files(output_dir, flags)
    paths = [path for some in outputs.values() for path in some]
    kinds = {}
    for path in inputs:
        with Blocks(path) as blocks:
            source, _ = reading.find_source(path, blocks, flags.language)
        kinds[path] = {"kind": source.kind, "language": source.language}
        if source.kind == PARQUET:
            reading.require_pyarrow(path)
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    fingerprint = {
        "version of corpora": _CORPUS_VERSION,
        "input_file": input_states,
        **dataclasses.asdict(flags),
        **{f"version of {name}": found for name, found in versions.items()},
    }
    job = Job(paths, output_dir, "corpus", "output_dir", fingerprint)
    chunk_bytes = max(input_bytes // _CHUNKS, _LEAST_CHUNK_BYTES)
    chunk_bytes = min(chunk_bytes, _MOST_CHUNK_BYTES)
    per_file = math.ceil(max(input_bytes, 1) / (len(paths) * _BUCKET_BYTES))
    num_buckets = len(paths) * per_file
    name = inputs[0] if len(inputs) == 1 else f"{len(inputs)} input files"
    steps = CorpusSteps(flags, is_strict, num_buckets, chunk_bytes, name)
    file_system.make_directory(output_dir)
    report_file = os.path.join(output_dir, "corpus.json")
    if file_system.exists(report_file) and not file_system.exists(job.manifest):
        raise UserError(
            f"{report_file} exists, but was not written by this command "
            f"(there is no {job.manifest}); delete it or name another "
            "--output_dir"
        )
    logging.info("Reading from %s", steps.input_name)
    warned = set()

    def warn(result: dict[str, Any]) -> None:
        for problem in itertools.starmap(Problem, result["problems"]):
            line = problem.line()
            # Items often have the same detail.
            what = problem.detail if problem.place else line
            if what not in warned and len(warned) < _MAX_WARNINGS:
                logging.warning("%s", line)
                warned.add(what)

    run = engine.make_files(job, steps, inputs, runner, input_bytes, warn)
    steps.check(run.total)  # --strict may be given once all is complete
    totals = run.total["inputs"]
    report = {
        **summary.make_report(run, outputs, output_dir),
        "flags": dataclasses.asdict(flags),
        "versions": versions,
        "inputs": {path: {**kinds[path], **totals[path]} for path in inputs},
    }
    text_files.write_json(report_file, report, indent=1, ensure_ascii=False)
    file_system.remove_leftovers(report_file)
    return report


def _output_files(output_dir: str, flags: CorpusFlags) -> dict[str, list[str]]:
    """Return the paths of the output files by split.

    Held-out files are in a folder of their own, so that a pattern such as
    wiki/*.txt does not match them. A file is about as large in both splits.
    """
    return {
        split: [
            os.path.join(output_dir, f"{name}-{index:05}-of-{number:05}.txt")
            for index in range(number)
        ]
        for split, name, number in (
            (TRAIN, "train", flags.num_shards),
            (HELDOUT, "heldout/heldout", flags.num_heldout_shards),
        )
    }


# --- Its steps ---------------------------------------------------------------


@dataclasses.dataclass
class CorpusSteps(Steps):
    """The steps of prepare_corpus.py.

    The files of the training text come first, then the held-out ones.
    `input_name` is for messages.
    """

    flags: CorpusFlags
    is_strict: bool
    num_buckets: int
    chunk_bytes: int
    input_name: str

    name = "prepare_corpus"

    @property
    def num_files(self) -> int:
        """The number of files of both splits."""
        return self.flags.num_shards + self.flags.num_heldout_shards

    def bucket_of(self, key: int, split: str) -> int:
        """Return the bucket of a document: ranges of keys of equal width."""
        per_file = self.num_buckets // self.num_files
        num_train = self.flags.num_shards * per_file
        if split == TRAIN:
            return key * num_train >> 64
        num_heldout = self.flags.num_heldout_shards * per_file
        return num_train + (key * num_heldout >> 64)

    def chunks(
        self, sources: Sequence[str], place: Any
    ) -> Iterator[tuple[Chunk, tuple[int, int]]]:
        """Yield the items of files, and the place behind them."""
        start = place or (0, 0)
        return reading.read_chunks(sources, self.flags, self.chunk_bytes, start)

    def size_of(self, chunk: Chunk) -> int:
        """Return the bytes of the input files that were read for a chunk."""
        return chunk.num_bytes

    def map(
        self, chunk: Chunk
    ) -> tuple[list[tuple[int, bytes]], dict[str, Any]]:
        """Return (bucket, text) of the documents of a chunk.

        The result also has `counts` by name, the first `problems`, and
        `inputs`: numbers by path.

        Raises:
            UserError: there is a problem and the run is strict.
        """
        pairs, counts, problems = [], collections.Counter(), []
        inputs = collections.defaultdict(collections.Counter)
        for item in chunk.items:
            document, problem = None, item.problem
            try:
                if not problem:
                    document = documents.make_document(item, self.flags, counts)
            except Unusable as error:
                problem = item.unusable(*error.args).problem
            if problem:
                counts[problem.reason] += 1
                if self.is_strict:
                    raise UserError(f"{problem.line()} (--strict)")
                problems.append(list(problem))
            entry = inputs[item.source.path]
            # The report of a damaged file is not one of its items.
            entry["items"] += bool(item.data or not problem)
            entry["bytes"] += len(item.data)
            entry["problems"] += problem is not None
            counts["input_bytes"] += len(item.data)
            if document:
                counts["documents"] += 1
                bucket = self.bucket_of(document.key, document.split)
                pairs.append((bucket, document.text))
        problems = problems[:MOST_LISTED]
        return pairs, {"counts": counts, "problems": problems, "inputs": inputs}

    def check(self, total: dict[str, Any]) -> None:
        """Raise an error if there is no document, or a problem and --strict."""
        problems = summary.problem_lines(total)
        if problems and self.is_strict:
            raise UserError(f"{problems[0]} (--strict)")
        if not total["counts"].get("documents"):
            names = summary.DROPPED + summary.REASONS
            reasons = summary.in_words(total["counts"], names)
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
            file.write(text + b"\n")
            counts["documents"] += 1
            counts["sentences"] += num_sentences
            counts["words"] += len(text.split())
            counts["characters"] += len(text.decode()) - num_sentences
        return {"bounds": [0, file.tell()], "counts": counts}
