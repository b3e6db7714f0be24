"""Write the text files of a plan, and their report corpus.json."""

import json
import time
from typing import Any, NamedTuple

from base import file_system, workers
from base.errors import UserError
from base.jobs import engine

from absl import logging

from corpus import summary
from corpus.plan import Plan

# Input files are listed up to this number.
_MAX_FILES_LOGGED = 100

# Warnings of problems in the input; the others are counted only.
_MAX_WARNINGS = 20


class Result(NamedTuple):
    """What a run has done.

    Attributes:
        report: the content of corpus.json.
        input_bytes: size of the items that this run has read, decompressed.
        seconds: that reading them and making documents of them took.
        num_workers: worker processes that did it.
    """

    report: dict[str, Any]
    input_bytes: int
    seconds: float
    num_workers: int


class _Reading:
    """Measures the speed of reading, and logs the first problems."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._num_problems = self.input_bytes = 0
        self.seconds = 0.0

    def add(self, result: dict[str, Any]) -> None:
        """Add the result of a chunk."""
        self.input_bytes += result["counts"].get("input_bytes", 0)
        self.seconds = time.monotonic() - self._start
        for problem in summary.problems_of(result):
            self._num_problems += 1
            if self._num_problems <= _MAX_WARNINGS:
                logging.warning("%s", problem.line())
            elif self._num_problems == _MAX_WARNINGS + 1:
                logging.warning(
                    "More problems are counted, and not shown: see corpus.json"
                )


def generate(
    plan: Plan, num_workers: int | None = None, beam_options: str | None = None
) -> Result:
    """Write all output files that are not complete yet.

    Args:
        plan: the run.
        num_workers: number of processes on this machine; None: all cores.
        beam_options: of a pipeline of Apache Beam, which then does the work.

    Raises:
        UserError: no document in the input, a problem in the input and
            --strict, or output files of a different command.
    """
    file_system.make_directory(plan.output_dir)
    manifest = plan.job.manifest
    has_report = file_system.exists(plan.report_file)
    if has_report and not file_system.exists(manifest):
        raise UserError(
            f"{plan.report_file} exists, but was not written by this command "
            f"(there is no {manifest}); delete it or name another --output_dir"
        )
    logging.info("*** Reading from input files ***")
    for path in plan.input_files[:_MAX_FILES_LOGGED]:
        logging.info("  %s", path)
    if len(plan.input_files) > _MAX_FILES_LOGGED:
        logging.info("  and %d more", len(plan.input_files) - _MAX_FILES_LOGGED)
    num_workers = num_workers or workers.num_cores()
    reading = _Reading()
    done = engine.make_files(
        plan.job,
        plan.steps,
        plan.input_files,
        num_workers,
        beam_options,
        plan.input_bytes,
        reading.add,
    )
    report = summary.make_report(plan, done)
    if done.made or not has_report:
        text = json.dumps(report, indent=1, ensure_ascii=False)
        file_system.write_text(plan.report_file, f"{text}\n")
    file_system.remove_leftovers(plan.report_file)
    if beam_options is not None:
        return Result(report, 0, 0.0, 1)
    return Result(report, reading.input_bytes, reading.seconds, num_workers)
