"""Run a job from its beginning to its end, by either runner."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from base.errors import counted
from base.jobs import local
from base.jobs import run as job_run
from base.jobs.run import Job, Run
from base.jobs.steps import Steps

from absl import logging


def make_files(
    job: Job,
    steps: Steps,
    sources: Sequence[Any],
    num_workers: int,
    beam_options: str | None = None,
    input_bytes: int | None = None,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
) -> Run:
    """Write the output files of a job that are not complete yet.

    With `beam_options` a pipeline of Apache Beam does the work, else
    `num_workers` processes of this machine. `input_bytes` are for the bar of
    the progress. `on_result` is called with the result of every chunk that is
    mapped, or with their total if Beam does the work. The total of the run that
    is returned is that of the results of `Steps.map`.

    Raises:
        UserError: bad input, or output files of a different command.
    """
    start = time.monotonic()
    with job_run.open_run(job) as run:
        total = run.total
        if not run.todo and total is not None:
            logging.info("All output files are complete; nothing to do.")
        elif beam_options is None:
            total = local.make_files(
                steps, sources, run, num_workers, input_bytes, on_result
            )
        else:
            from base.jobs import pipeline  # needs Apache Beam

            total = pipeline.make_files(steps, sources, run, beam_options)
            on_result(total)
        run.finish(total)
    if run.todo:
        logging.info(
            "Wrote %s in %.1f s",
            counted(len(run.todo), "file"),
            time.monotonic() - start,
        )
    return run
