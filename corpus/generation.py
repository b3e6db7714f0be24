"""Write the text files of a corpus, and their report corpus.json.

Flags and input are checked before any work: a mistake should end the run in
its first second.
"""

import dataclasses
import importlib.metadata
import json
import math
import os
import time
from typing import Any

from base import file_system, workers
from base.errors import UserError
from base.jobs import engine
from base.jobs.run import create_job

from absl import logging

from corpus import reading, sentences, summary
from corpus.documents import HELDOUT, TRAIN
from corpus.items import PARQUET, CorpusFlags
from corpus.sources import Blocks
from corpus.steps import CorpusSteps

# Raise it when the same flags no longer give the same bytes, or a run of this
# version cannot resume one of the last. It is part of the fingerprint.
_CORPUS_VERSION = 5

# Libraries that the output depends on.
_LIBRARIES = ("mwparserfromhell", "mwxml", "sentencex")

# The input is cut into about this many chunks, within these bounds: a killed
# run then loses little, and all workers end at about the same time.
_CHUNKS = 256
_LEAST_CHUNK_BYTES, _MOST_CHUNK_BYTES = 2**19, 2**24

# The input of a bucket, about. Where it is compressed, there is more text.
_BUCKET_BYTES = 2**23

_MAX_WARNINGS = 20


def generate(
    input_file: str,
    output_dir: str,
    flags: CorpusFlags,
    is_strict: bool = False,
    num_workers: int | None = None,
    beam_options: str | None = None,
) -> dict[str, Any]:
    """Write all output files that are not complete yet; return the report.

    With `is_strict` the first problem in the input ends the run. With
    `beam_options` a pipeline of Apache Beam does the work, else `num_workers`
    processes, None: one for each core.

    Raises:
        UserError: a bad value, a missing file, input of unknown language, no
            document in the input, a problem in it and `is_strict`, or output
            files of a different command.
    """
    flags = dataclasses.replace(flags, language=flags.language.lower())
    if flags.heldout_fraction >= 1:
        raise UserError(
            f"--heldout_fraction={flags.heldout_fraction}: must be less than 1"
        )
    if not flags.text_column:
        raise UserError("--text_column is empty")
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
    _check_inputs(inputs, paths, flags.language)
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    job = create_job(
        paths,
        output_dir,
        "corpus",
        "output_dir",
        {
            "version of corpora": _CORPUS_VERSION,
            "input_file": input_states,
            **dataclasses.asdict(flags),
            **{f"version of {name}": found for name, found in versions.items()},
        },
    )
    chunk_bytes = max(input_bytes // _CHUNKS, _LEAST_CHUNK_BYTES)
    steps = CorpusSteps(
        flags,
        is_strict,
        {split: len(some) for split, some in outputs.items()},
        math.ceil(max(input_bytes, 1) / (len(paths) * _BUCKET_BYTES)),
        min(chunk_bytes, _MOST_CHUNK_BYTES),
        inputs[0] if len(inputs) == 1 else f"{len(inputs)} input files",
    )
    file_system.make_directory(output_dir)
    report_file = os.path.join(output_dir, "corpus.json")
    has_report = file_system.exists(report_file)
    if has_report and not file_system.exists(job.manifest):
        raise UserError(
            f"{report_file} exists, but was not written by this command "
            f"(there is no {job.manifest}); delete it or name another "
            "--output_dir"
        )
    logging.info("Reading from %s", steps.input_name)
    num_workers = num_workers or workers.num_cores()
    start, seconds = time.monotonic(), 0.0
    num_read = num_warnings = 0

    def on_result(result: dict[str, Any]) -> None:
        nonlocal seconds, num_read, num_warnings
        num_read += result["counts"].get("input_bytes", 0)
        seconds = time.monotonic() - start
        lines = summary.problem_lines(result)
        for line in lines[: _MAX_WARNINGS - num_warnings]:
            logging.warning("%s", line)
            num_warnings += 1

    run = engine.make_files(
        job, steps, inputs, num_workers, beam_options, input_bytes, on_result
    )
    steps.check(run.total)  # --strict may be given once all is complete
    found = run.total["inputs"]
    report = {
        **summary.make_report(run, outputs, output_dir),
        "flags": dataclasses.asdict(flags),
        "versions": versions,
        "inputs": {path: found[path] for path in inputs if path in found},
    }
    if run.todo or not has_report:
        text = json.dumps(report, indent=1, ensure_ascii=False)
        file_system.write_text(report_file, f"{text}\n")
    file_system.remove_leftovers(report_file)
    if num_read and beam_options is None:
        rate = num_read / 1e6 / seconds
        logging.info(
            "Speed: %.2f MB/s, %.2f MB/s for each of %d workers",
            rate,
            rate / num_workers,
            num_workers,
        )
    return report


def _output_files(output_dir: str, flags: CorpusFlags) -> dict[str, list[str]]:
    """Return the paths of the output files by split.

    Held-out files are in a folder of their own, so that a pattern such as
    wiki/*.txt does not match them. A file is about as large in both splits.
    """
    num_heldout = 0
    if flags.heldout_fraction:
        num_heldout = max(1, round(flags.num_shards * flags.heldout_fraction))
    return {
        split: [
            os.path.join(output_dir, f"{name}-{index:05}-of-{number:05}.txt")
            for index in range(number)
        ]
        for split, name, number in (
            (TRAIN, "train", flags.num_shards),
            (HELDOUT, "heldout/heldout", num_heldout),
        )
    }


def _check_inputs(inputs: list[str], outputs: list[str], language: str) -> None:
    """Check the beginning of all input files, and that none is an output."""
    written = set(map(os.path.realpath, outputs))
    for path in inputs:
        if os.path.realpath(path) in written:
            raise UserError(
                f"{path} is an input and would be an output too; name another "
                "--output_dir"
            )
        with Blocks(path) as blocks:
            source, _ = reading.find_source(path, blocks, language)
        if source.kind == PARQUET:
            reading.require_pyarrow(path)
