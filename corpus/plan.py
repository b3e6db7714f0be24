"""Check flags and input, and decide the files of a run.

prepare_corpus.py does this before any work: a mistake should end the run in
its first second.
"""

import importlib.metadata
import math
import os
from typing import Any, NamedTuple

from base import file_system, resuming
from base.errors import UserError
from base.jobs.run import Job, create_job

from corpus import documents, paragraphs, reading, sentences, tables
from corpus.items import PARQUET, CorpusFlags
from corpus.sources import Blocks
from corpus.steps import CorpusSteps

# Raise it when the same flags no longer give the same bytes. It is part of
# the fingerprint, so that no run continues with documents of another version.
_CORPUS_VERSION = 2

# Libraries that the output depends on.
_LIBRARIES = ("mwparserfromhell", "mwxml", "sentencex")

# Chunks are such a part of the input, within these bounds: small enough that a
# killed run loses little and that all workers end at about the same time.
_CHUNKS = 256
_LEAST_CHUNK_BYTES, _MOST_CHUNK_BYTES = 2**19, 2**24

# The input of a bucket, about. Where it is compressed, there is more text.
_BUCKET_BYTES = 2**23


class Plan(NamedTuple):
    """A run: which files to read, which to write, and how.

    Attributes:
        input_files: absolute paths.
        input_bytes: size of all input files.
        output_dir: absolute path.
        output_files: absolute paths by split.
        report_file: path of corpus.json.
        job: the output files.
        steps: how they are made.
        versions: of the libraries that the output depends on.
    """

    input_files: list[str]
    input_bytes: int
    output_dir: str
    output_files: dict[str, list[str]]
    report_file: str
    job: Job
    steps: CorpusSteps
    versions: dict[str, str]


def make_plan(
    input_file: str,
    output_dir: str,
    flags: CorpusFlags,
    is_strict: bool = False,
) -> Plan:
    """Check the flags of prepare_corpus.py and return the plan.

    Raises:
        UserError: a bad value, a missing file, or input of unknown language.
    """
    flags = flags._replace(language=flags.language.lower())
    _check_values(flags._asdict())
    output_dir = resuming.absolute_path(output_dir)
    input_states = resuming.input_states(input_file)
    inputs = [path for path, _, _ in input_states]
    input_bytes = sum(size for _, size, _ in input_states)
    outputs = _output_files(
        output_dir, flags.num_shards, flags.heldout_fraction
    )
    paths = [path for some in outputs.values() for path in some]
    _check_files(inputs, output_dir, paths)
    _check_inputs(inputs, flags.language)
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    fingerprint = {
        "version of corpora": _CORPUS_VERSION,
        "input_file": input_states,
        **flags._asdict(),
        **{f"version of {name}": value for name, value in versions.items()},
    }
    # Its size decides that of the chunks.
    chunk_bytes = max(input_bytes // _CHUNKS, _LEAST_CHUNK_BYTES)
    steps = CorpusSteps(
        flags,
        is_strict,
        {split: len(some) for split, some in outputs.items()},
        math.ceil(max(input_bytes, 1) / (len(paths) * _BUCKET_BYTES)),
        min(chunk_bytes, _MOST_CHUNK_BYTES),
        inputs[0] if len(inputs) == 1 else f"{len(inputs)} input files",
    )
    return Plan(
        inputs,
        input_bytes,
        output_dir,
        outputs,
        os.path.join(output_dir, "corpus.json"),
        create_job(paths, output_dir, "corpus", "output_dir", fingerprint),
        steps,
        versions,
    )


# --- Flags -------------------------------------------------------------------


def _check_values(flags: dict[str, Any]) -> None:
    """Raise a UserError for values of flags that are out of their range."""
    for name, least, most in (
        ("num_shards", 1, 99999),
        ("min_document_chars", 0, None),
        ("drop_repeated_lines", 0, None),
        # A worker process needs some twenty times this.
        ("max_document_mb", 1, 256),
    ):
        value = flags[name]
        if value < least or (most and value > most):
            bounds = f"from {least} to {most}" if most else f"at least {least}"
            raise UserError(f"--{name}={value}: must be {bounds}")
    fraction = flags["heldout_fraction"]
    if not 0 <= fraction < 1:
        raise UserError(
            f"--heldout_fraction={fraction}: must be from 0 to less than 1"
        )
    for name, known in (
        ("document_separator", reading.DOCUMENT_SEPARATORS),
        ("line_breaks", paragraphs.LINE_BREAKS),
    ):
        if flags[name] not in known:
            raise UserError(
                f"--{name}={flags[name]}: wanted one of {', '.join(known)}"
            )
    if not flags["text_column"]:
        raise UserError("--text_column is empty")
    language = flags["language"]
    if language and not sentences.known_language(language):
        raise UserError(
            f"--language={language}: no rules for the sentences of this "
            "language; wanted a code such as en, de, zh"
        )


# --- Files -------------------------------------------------------------------


def _output_files(
    output_dir: str, num_shards: int, heldout_fraction: float
) -> dict[str, list[str]]:
    """Return the paths of the output files by split.

    Held-out files are in a folder of their own, so that a pattern such as
    wiki/*.txt does not match them. They are about as large as the others.
    """
    heldout = 0
    if heldout_fraction:
        heldout = max(1, round(num_shards * heldout_fraction))
    names = {documents.TRAIN: "train", documents.HELDOUT: "heldout/heldout"}
    numbers = {documents.TRAIN: num_shards, documents.HELDOUT: heldout}
    return {
        split: [
            os.path.join(
                output_dir, f"{name}-{index:05}-of-{numbers[split]:05}.txt"
            )
            for index in range(numbers[split])
        ]
        for split, name in names.items()
    }


def _check_files(
    inputs: list[str], output_dir: str, outputs: list[str]
) -> None:
    """Raise a UserError if an output file is an input, or no folder."""
    if file_system.exists(output_dir) and not file_system.is_directory(
        output_dir
    ):
        raise UserError(f"--output_dir={output_dir} is not a directory")
    written = set(map(os.path.realpath, outputs))
    for path in inputs:
        if os.path.realpath(path) in written:
            raise UserError(
                f"{path} is an input and would be an output too; name another "
                "--output_dir"
            )


def _check_inputs(inputs: list[str], language: str) -> None:
    """Look at the beginning of all files, so that no mistake comes late.

    Raises:
        UserError: a file cannot be opened, does not name its language though
            --language is not given, or needs a library that is not installed.
    """
    for path in inputs:
        with Blocks(path) as blocks:
            source, _ = reading.find_source(path, blocks, language)
        if source.kind == PARQUET:
            tables.require_pyarrow(path)
