"""Run a pipeline of Apache Beam: its flags and its errors.

Scripts with --runner=beam build their pipeline from the functions that the
local runner uses, and hand it to `run`. Apache Beam is optional and imported
only then. The modules of a pipeline are pickled by reference: where workers
are other machines, this repository has to be on their PYTHONPATH
(docs/scaling.md).
"""

import argparse
import contextlib
import dataclasses
import io
import logging as standard_logging
import os
import re
import shlex
from collections.abc import Callable
from typing import Any

from base import logs, packages, startup
from base.errors import UserError
from base.flags import flag

from absl import logging
from absl.flags import FlagValues

# How Beam reports an exception of a worker: in the same process it appends
# " [while running 'STEP']" to the message; from another process it sends the
# whole stack trace as text.
_STEP = re.compile(r"\s*\[while running '.*$", re.DOTALL)
_WORKER_ERROR = re.compile(
    r"^(?:base\.errors\.(?:UserError|InputError)|(\w*Error)): (.*)$",
    re.MULTILINE,
)
_FILE_ERRORS = frozenset(
    """OSError PermissionError FileNotFoundError BeamIOError
    NotADirectoryError IsADirectoryError""".split()
)


@dataclasses.dataclass(frozen=True)
class Flags:
    """Whether processes of this machine or Apache Beam do the work."""

    num_workers: int | None = flag(low=1, high=1024)
    """Worker processes; default: all cores. The output is the same."""

    runner: str = flag("local", choices=("local", "beam"))
    """What does the work. local: this machine alone. beam: a pipeline of Apache
    Beam (requirements-beam.txt), which runs on Dask, Flink, Spark, Dataflow and
    others; it writes the same output."""

    beam_options: str = flag("", needs={"runner=beam": ""})
    """Options of the pipeline for --runner=beam, for example
    '--runner=FlinkRunner --flink_master=host:8081 --parallelism=256'. Empty:
    Beam's DirectRunner on this machine, which holds all data in memory and is
    meant for trials."""


def check_flags(values: FlagValues, output: str) -> None:
    """Check the flags before any work; `output` is the flag of what is written.

    Beam has to be installed, for example, and has to find its output again.
    """
    if values.runner != "beam":
        return
    _parse_options(values.beam_options)
    path = values[output].value
    if found := re.search(r"[\[\]*?]", path or ""):
        raise UserError(
            f"--{output}={path} has a {found[0]}, which Beam takes for a "
            "pattern: name another output, or leave out --runner=beam"
        )
    if "num_workers" in values and values.num_workers:
        logging.warning(
            "--num_workers is ignored with --runner=beam: --beam_options has "
            "the number of workers"
        )


def run(build: Callable[[Any], Any], beam_options: str, job_name: str) -> None:
    """Build a pipeline, and run it to its end.

    `build` adds all steps to the `apache_beam.Pipeline` it is given. `job_name`
    is the name in the runner's lists.
    """
    beam = _import_beam()
    kinds = beam.options.pipeline_options
    options = _parse_options(beam_options)
    runner = options.view_as(kinds.StandardOptions).runner or "DirectRunner"
    runner = runner.rpartition(".")[2]
    if "DirectRunner" in runner:
        logging.warning(
            "Beam's %s runs on this machine and holds all data in memory: it "
            "is meant for trials (--beam_options=--runner=... names another)",
            runner,
        )
        worker = options.view_as(kinds.WorkerOptions)
        # Exceptions are raised here as well, and shown as one line. On a
        # cluster they belong into its logs.
        worker.sdk_harness_log_level_overrides = (
            worker.sdk_harness_log_level_overrides
            or {"apache_beam": "CRITICAL", "__main__": "ERROR"}
        )
    cloud = options.view_as(kinds.GoogleCloudOptions)
    cloud.job_name = cloud.job_name or job_name.replace("_", "-")
    logs.say("Running the pipeline %s on Beam's %s", job_name, runner)
    # Worker processes of this machine import the project's modules.
    paths = startup.ROOT, os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # Its errors are raised as well, and shown as one line.
    standard_logging.getLogger("apache_beam").setLevel("CRITICAL")
    try:
        pipeline = beam.Pipeline(options=options)
        build(pipeline)
        state = pipeline.run().wait_until_finish()
    except (Exception, SystemExit) as error:
        raise _one_line(error, runner) from error
    if state not in ("DONE", None):
        raise UserError(
            f"Beam's {runner} ended with state {state}; see its logs, and "
            "give the same command again"
        )


def _import_beam(
    module: str = "apache_beam",
    what: str = "--runner=beam",
    package: str = "Apache Beam",
) -> Any:
    # Beam logs a warning about Google's client libraries when it is imported.
    standard_logging.disable(standard_logging.WARNING)
    try:
        return packages.load(module, what, package, "requirements-beam.txt")
    finally:
        standard_logging.disable(standard_logging.NOTSET)


def _parse_options(text: str) -> Any:
    """Return the PipelineOptions of --beam_options."""
    kinds = _import_beam().options.pipeline_options
    usage = io.StringIO()
    try:
        words = shlex.split(text)
        with contextlib.redirect_stderr(usage):
            options = kinds.PipelineOptions(words)
            standard = options.view_as(kinds.StandardOptions)
            if (standard.runner or "").endswith("DaskRunner"):
                # Beam has no short name for it, and knows its options once
                # its module is imported.
                module = "apache_beam.runners.dask.dask_runner"
                _import_beam(module, "--runner=DaskRunner", "Dask")
                standard.runner = f"{module}.DaskRunner"
            parsers: list[argparse.ArgumentParser] = []
            options.get_all_options(add_extra_args_fn=parsers.append)
    except ValueError as error:  # a quote that is not closed
        raise UserError(f"--beam_options={text!r}: {error}") from error
    except SystemExit as error:  # argparse found a bad value
        reason = usage.getvalue().strip().rpartition("\n")[2]
        raise UserError(f"--beam_options={text!r}: {reason}") from error
    if words and not words[0].startswith("-"):
        raise UserError(
            f"--beam_options: found {words[0]!r}, wanted --name=value pairs"
        )
    for word in parsers[0].parse_known_args(words)[1]:
        if word.startswith("--"):
            logging.warning(
                "--beam_options: this Beam has no option %s; it is ignored "
                "unless the runner has it",
                word,
            )
    worker = options.view_as(kinds.WorkerOptions)
    if not any(word.startswith("--default_sdk_harness_log_") for word in words):
        # Beam's workers log every start and stop at level INFO.
        worker.default_sdk_harness_log_level = "WARNING"
    return options


def _one_line(error: BaseException, runner: str) -> BaseException:
    """Return the UserError for a failed pipeline, or the error if it is a bug.

    A UserError or a failed file operation of a worker is shown as in the
    local runner. A failure outside of the steps is the runner's: no Java, no
    answer of a cluster, a wrong option.
    """
    text = str(error)
    if isinstance(error, UserError):
        return UserError(_STEP.sub("", text))
    # The last one of a chain of exceptions is the one that was raised.
    kind, raised = (_WORKER_ERROR.findall(text) or [(None, text)])[-1]
    if kind == "":
        return UserError(_STEP.sub("", raised))
    is_of_step = "[while running '" in text
    if kind in _FILE_ERRORS or isinstance(error, OSError) and is_of_step:
        words = _STEP.sub("", raised if kind in _FILE_ERRORS else text)
        return UserError(f"{words}; mend that and give the same command again")
    if is_of_step or "pickle" in text.lower():
        return error
    reason = " ".join(text.split())[:300] or type(error).__name__
    return UserError(f"Beam's {runner} cannot run the pipeline: {reason}")
