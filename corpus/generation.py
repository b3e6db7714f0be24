"""Write the text files of a plan with worker processes.

    input files --reading--> chunks --worker processes--> units
    units --worker processes--> repeated lines (--drop_repeated_lines)
    units --worker processes--> output files

The reading process decompresses the next chunks in a thread while the workers
are busy. The memory needed does not grow with the input. Each file appears when
it is complete.
"""

import contextlib
import functools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from base import file_system, progress, read_ahead, resuming, workers
from base.errors import UserError

from absl import logging

from corpus import outputs, reading, repeated_lines, shards, summary, units
from corpus.items import Chunk, Problem
from corpus.plan import Plan
from corpus.shards import ShardJob
from corpus.units import Unit, UnitSettings

# Input files are listed up to this number.
_MAX_FILES_LOGGED = 100

# Warnings of problems in the input; the others are counted only.
_MAX_WARNINGS = 20


class Result(NamedTuple):
    """What a run has done.

    Attributes:
        report: the content of corpus.json.
        input_bytes: size of the items that this run has read, decompressed.
        seconds: that reading them and making units of them took.
        num_workers: worker processes that did it.
    """

    report: dict[str, Any]
    input_bytes: int
    seconds: float
    num_workers: int


def generate(plan: Plan, num_workers: int) -> Result:
    """Write all output files that are not complete yet.

    Args:
        plan: the run.
        num_workers: number of processes on this machine.

    Raises:
        UserError: no document in the input, a problem in the input and
            --strict, or output files of a different command.
    """
    return run(plan, functools.partial(_make_files, num_workers=num_workers))


def generate_on_beam(plan: Plan, beam_options: str) -> Result:
    """Do the same with Apache Beam, which is imported here.

    Args:
        plan: the run.
        beam_options: see base/beam.py.
    """
    from corpus import on_beam

    def make_files(
        plan: Plan, manifest: dict[str, Any], to_do: list[tuple[str, int]]
    ) -> Result:
        on_beam.make_files(plan, manifest, to_do, beam_options)
        problems = manifest["corpus"]["problems"]
        _Warnings().add([Problem(*problem).line() for problem in problems])
        return Result({}, 0, 0.0, 1)

    return run(plan, make_files)


def run(
    plan: Plan,
    make_files: Callable[
        [Plan, dict[str, Any], list[tuple[str, int]]], "Result"
    ],
) -> Result:
    """Write the output files of a plan that are not complete yet.

    Args:
        plan: the run.
        make_files: called with the plan, the manifest, which it keeps up to
            date, and the files to make.
    """
    file_system.make_directory(plan.output_dir)
    with resuming.locked_folder(plan.scratch_dir, plan.output_dir):
        manifest = outputs.read_manifest(plan)
        if not manifest:
            resuming.empty_folder(plan.scratch_dir)
            manifest = {"fingerprint": plan.fingerprint, "files": {}}
        outputs.remove_leftovers(plan)
        to_do = outputs.files_to_do(plan, manifest)
        result = Result({}, 0, 0.0, 1)
        is_complete = not to_do and resuming.file_state(plan.report_file)
        if to_do:
            outputs.write_manifest(plan, manifest)
            result = make_files(plan, manifest, to_do)
            # Workers of a killed run may have been there at the beginning.
            outputs.remove_leftovers(plan)
        report = summary.make_report(plan, manifest)
        if is_complete:
            logging.info("All output files are complete; nothing to do.")
        else:
            text = json.dumps(report, indent=1, ensure_ascii=False)
            file_system.write_text(plan.report_file, f"{text}\n")
        resuming.empty_folder(plan.scratch_dir)
    return result._replace(report=report)


def _make_files(
    plan: Plan,
    manifest: dict[str, Any],
    to_do: list[tuple[str, int]],
    num_workers: int,
) -> Result:
    """Make the output files `to_do`; see `generate`."""
    with workers.WorkerPool(num_workers, _setup, plan.units, _work) as pool:
        start = time.monotonic()
        num_bytes = _make_units(plan, manifest, pool)
        seconds = time.monotonic() - start
        made = _load_units(plan)
        repeated_file = _find_repeated_lines(plan, made, pool)
        _make_shards(plan, manifest, to_do, made, repeated_file, pool)
    return Result({}, num_bytes, seconds, num_workers)


# --- The work of a worker process --------------------------------------------


class _LinesJob(NamedTuple):
    """A bucket whose lines are to be counted: see `repeated_lines`."""

    path: str
    split: str
    low: int
    high: int
    units: list[Unit]


def _setup(settings: UnitSettings) -> UnitSettings:
    return settings


def _work(
    settings: UnitSettings,
    job: Chunk | _LinesJob | ShardJob,
    report: Callable[[int], None],
) -> Any:
    """Make a unit, count lines or write a shard, as the job asks."""
    if isinstance(job, Chunk):
        return units.make_unit(settings, job, report)
    if isinstance(job, ShardJob):
        return shards.make_shard(settings.scratch_dir, job, report)
    texts = {}
    for key, text in shards.read_bucket(
        settings.scratch_dir, job.units, job.split, job.low, job.high
    ):
        units.add_text(texts, key, text)
    repeated_lines.write_counts(job.path, texts.values())
    report(1)


# --- Units -------------------------------------------------------------------


def _make_units(
    plan: Plan, manifest: dict[str, Any], pool: workers.WorkerPool
) -> int:
    """Make the units that are not complete; enter their sum in the manifest.

    Returns:
        The bytes of the items read, decompressed.

    Raises:
        UserError: see `generate`.
    """
    if "corpus" in manifest and _are_units_there(plan, manifest):
        return 0
    index, end = 0, (0, 0)
    for result in outputs.finished_units(plan):
        index, end = index + 1, tuple(result["end"])
    if index:
        logging.info("%d units are complete already", index)
    logging.info("*** Reading from input files ***")
    for path in plan.input_files[:_MAX_FILES_LOGGED]:
        logging.info("  %s", path)
    if len(plan.input_files) > _MAX_FILES_LOGGED:
        logging.info("  and %d more", len(plan.input_files) - _MAX_FILES_LOGGED)
    warnings, indices, num_bytes = _Warnings(), set(range(index)), 0
    jobs = read_ahead.read_ahead(_chunks_to_do(plan, index, end, indices))
    with (
        contextlib.closing(jobs),
        progress.bar(plan.input_bytes, "B", "Reading", unit_scale=True) as bar,
    ):
        for event in pool.run(jobs):
            if isinstance(event, workers.Progress):
                bar.update(event.value)
            else:
                lines, size = event.result
                warnings.add(lines)
                num_bytes += size
    _sum_units(plan, manifest, len(indices))
    return num_bytes


def _chunks_to_do(
    plan: Plan, index: int, start: tuple[int, int], indices: set[int]
) -> Iterator[Chunk]:
    """Yield the chunks without a complete unit; collect numbers of all."""
    for chunk in reading.read_chunks(
        plan.input_files, plan.reading, index, start
    ):
        indices.add(chunk.index)
        if units.unit_result(plan.scratch_dir, chunk.index) is None:
            yield chunk


class _Warnings:
    """Logs the first problems of the input, so that a log stays readable."""

    def __init__(self):
        self._number = 0

    def add(self, lines: list[str]) -> None:
        """Log some problems."""
        for line in lines:
            self._number += 1
            if self._number <= _MAX_WARNINGS:
                logging.warning("%s", line)
            elif self._number == _MAX_WARNINGS + 1:
                logging.warning(
                    "More problems are counted, and not shown: see corpus.json"
                )


def _are_units_there(plan: Plan, manifest: dict[str, Any]) -> bool:
    """Whether all units of the corpus are in the scratch folder."""
    number = manifest["corpus"]["units"]
    return number == sum(1 for _ in outputs.finished_units(plan))


def _sum_units(plan: Plan, manifest: dict[str, Any], number: int) -> None:
    """Enter the sum of all units in the manifest.

    Raises:
        UserError: no document; or a problem, found by an earlier run without
            --strict, and this one is strict.
    """
    corpus = units.sum_results(outputs.finished_units(plan))
    if corpus["units"] != number:
        raise UserError(
            f"{plan.scratch_dir}: {number - corpus['units']} files have "
            "disappeared during the run; give the same command again"
        )
    problems = [Problem(*problem) for problem in corpus["problems"]]
    if problems and plan.units.is_strict:
        raise UserError(f"{problems[0].line()} (--strict)")
    if not corpus["documents"]:
        outputs.discard(plan)
        raise summary.no_document_error(plan.input_files, corpus)
    manifest["corpus"] = corpus
    outputs.write_manifest(plan, manifest)


def _load_units(plan: Plan) -> list[Unit]:
    """Return the sizes of all units."""
    return [
        units.as_unit(index, result)
        for index, result in enumerate(outputs.finished_units(plan))
    ]


# --- Repeated lines ----------------------------------------------------------


def _find_repeated_lines(
    plan: Plan, made: list[Unit], pool: workers.WorkerPool
) -> str:
    """Return the file of the repeated lines' hashes, "" to keep all lines.

    Lines are counted over all documents, also the held-out ones: what is in a
    training file does not depend on --heldout_fraction.
    """
    if not plan.drop_repeated_lines:
        return ""
    path = os.path.join(plan.scratch_dir, "repeated.npy")
    if os.path.exists(path):
        return path
    jobs = []
    for split in units.SPLITS:
        number = _num_buckets(made, split, 1)
        for bucket in range(number):
            name = f"lines-{split}-{bucket:06}.npy"
            low, high = shards.key_range(bucket, number)
            name = os.path.join(plan.scratch_dir, name)
            jobs.append(_LinesJob(name, split, low, high, made))
    missing = [job for job in jobs if not os.path.exists(job.path)]
    with progress.bar(len(missing), "buckets", "Counting lines") as bar:
        for event in pool.run(missing):
            if isinstance(event, workers.Progress):
                bar.update(event.value)
    number = repeated_lines.write_repeated(
        path, [job.path for job in jobs], plan.drop_repeated_lines
    )
    logging.info(
        "%d lines occur more than %d times and are dropped",
        number,
        plan.drop_repeated_lines,
    )
    return path


def _num_buckets(made: list[Unit], split: str, num_shards: int) -> int:
    """Return how many buckets a shard is made in."""
    num_bytes = sum(unit.num_bytes[split] for unit in made)
    return shards.num_buckets(num_bytes, num_shards)


# --- Output files ------------------------------------------------------------


def _make_shards(
    plan: Plan,
    manifest: dict[str, Any],
    to_do: list[tuple[str, int]],
    made: list[Unit],
    repeated_file: str,
    pool: workers.WorkerPool,
) -> None:
    """Write the output files `to_do`; enter each in the manifest."""
    logging.info("*** Writing to output files ***")
    buckets = {}
    for split, paths in plan.output_files.items():
        if paths:
            file_system.make_directory(os.path.dirname(paths[0]))
            buckets[split] = _num_buckets(made, split, len(paths))
    jobs = [
        ShardJob(
            _local_path(plan, split, index),
            split,
            index,
            len(plan.output_files[split]),
            buckets[split],
            repeated_file,
            plan.units.documents.min_document_chars,
            made,
        )
        for split, index in to_do
    ]
    sizes = {
        split: sum(unit.num_bytes[split] for unit in made) for split in buckets
    }
    total = sum(sizes[job.split] // job.num_shards for job in jobs)
    with progress.bar(total, "B", "Writing", unit_scale=True) as bar:
        for event in pool.run(jobs):
            if isinstance(event, workers.Progress):
                bar.update(event.value)
                continue
            path = plan.output_files[event.job.split][event.job.index]
            if file_system.is_remote(path):
                with (
                    open(event.job.path, "rb") as source,
                    file_system.atomic_file(path) as target,
                ):
                    shutil.copyfileobj(source, target)
                os.remove(event.job.path)
            logging.info("  %s", path)
            manifest["files"][path] = event.result
            outputs.write_manifest(plan, manifest)


def _local_path(plan: Plan, split: str, index: int) -> str:
    """Return where a worker writes an output file.

    Of a remote file that is the scratch folder, as workers would have to
    import TensorFlow to write it.
    """
    path = plan.output_files[split][index]
    if file_system.is_remote(path):
        return os.path.join(plan.scratch_dir, os.path.basename(path))
    return path
