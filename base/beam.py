"""Run a pipeline of Apache Beam: its flags, its errors and its counters.

Scripts with --runner=beam build their pipeline from the functions that the
local runner uses, and hand it to `run`. Apache Beam is optional and imported
only then. The modules of a pipeline are pickled by reference: where workers
are other machines, this repository has to be on their PYTHONPATH
(docs/scaling.md).
"""

import contextlib
import io
import logging as standard_logging
import os
import re
import shlex
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from base import packages
from base.errors import UserError

from absl import flags, logging

flags.disclaim_key_flags()  # --help of a script shows what is defined here

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# How Beam reports an exception of a worker: in the same process it appends
# " [while running 'STEP']" to the message; from another process it sends the
# whole stack trace as text.
_STEP = re.compile(r"\s*\[while running '.*$", re.DOTALL)
_WORKER_ERROR = re.compile(
    r"^(?:base\.errors\.(UserError|InputError)|(\w*(?:OSError|Error))): (.*)$",
    re.MULTILINE,
)
_FILE_ERRORS = {
    "OSError",
    "PermissionError",
    "FileNotFoundError",
    "BeamIOError",
    "NotADirectoryError",
    "IsADirectoryError",
}

# --- Flags -------------------------------------------------------------------


def define_flags() -> None:
    """Define --runner and --beam_options."""
    flags.DEFINE_enum(
        "runner",
        "local",
        ["local", "beam"],
        "local: this machine alone. beam: a pipeline of Apache "
        "Beam (requirements-beam.txt), which runs on Flink, Spark, Dataflow "
        "and others; it writes the same output.",
    )
    flags.DEFINE_string(
        "beam_options",
        "",
        "Options of the pipeline for --runner=beam, for example "
        "'--runner=FlinkRunner --flink_master=host:8081 --parallelism=256'. "
        "Empty: Beam's DirectRunner on this machine, which holds all data in "
        "memory and is meant for trials.",
    )


def options_of(values: flags.FlagValues) -> str | None:
    """Return --beam_options if Beam does the work, else None."""
    return values.beam_options if values.runner == "beam" else None


def check_flags(
    runner: str,
    beam_options: str,
    num_workers: int | None = None,
    output: str | None = None,
) -> None:
    """Check the values of the flags before any work.

    `output` is the flag that names what is written, as in "output_dir=corpus".

    Raises:
        UserError: options without --runner=beam, Beam is not installed, or it
            would not find its own output again.
    """
    if runner != "beam":
        if beam_options:
            raise UserError("--beam_options needs --runner=beam")
        return
    _parse_options(beam_options)
    if found := re.search(r"[\[\]*?]", output or ""):
        raise UserError(
            f"--{output} has a {found[0]}, which Beam takes for a pattern: "
            "name another output, or leave out --runner=beam"
        )
    if num_workers:
        logging.warning(
            "--num_workers is ignored with --runner=beam: --beam_options has "
            "the number of workers"
        )


# --- Running -----------------------------------------------------------------


def import_beam() -> ModuleType:
    """Return the module apache_beam.

    Raises:
        UserError: it is not installed; tells how to install it.
    """
    # Beam logs a warning about Google's client libraries when it is imported.
    standard_logging.disable(standard_logging.WARNING)
    try:
        return packages.load(
            "apache_beam",
            "--runner=beam",
            "Apache Beam",
            "requirements-beam.txt",
        )
    finally:
        standard_logging.disable(standard_logging.NOTSET)


def run(
    build: Callable[[Any], Any], beam_options: str, job_name: str
) -> dict[str, int]:
    """Build a pipeline, run it to its end, and return its counters by name.

    `build` adds all steps to the `apache_beam.Pipeline` it is given. `job_name`
    is the namespace of the counters, and names the job where the options do
    not. Runners that repeat failed work may have counted it twice: for exact
    numbers, write them beside the output.

    Raises:
        UserError: bad input, or the runner did not accept the pipeline.
    """
    beam = import_beam()
    options = _parse_options(beam_options)
    standard = options.view_as(beam.options.pipeline_options.StandardOptions)
    runner = standard.runner or "DirectRunner"
    if "DirectRunner" in runner:
        logging.warning(
            "Beam's %s runs on this machine and holds all data in memory: it "
            "is meant for trials (--beam_options=--runner=... names another)",
            runner,
        )
        _hide_stack_traces(options)
    cloud = options.view_as(beam.options.pipeline_options.GoogleCloudOptions)
    cloud.job_name = cloud.job_name or job_name.replace("_", "-")
    logging.info("Running the pipeline %s on Beam's %s", job_name, runner)
    try:
        with _importable():
            pipeline = beam.Pipeline(options=options)
            build(pipeline)
            result = pipeline.run()
            state = result.wait_until_finish()
    except (Exception, SystemExit) as error:
        raise _one_line(error, runner) from error
    if state not in ("DONE", None):
        raise UserError(
            f"Beam's {runner} ended with state {state}; see its logs, and "
            "give the same command again"
        )
    counters = _read_counters(result, job_name)
    for name, value in sorted(counters.items()):
        logging.info("  Beam counter %s: %s", name, f"{value:,}")
    return counters


def count(job_name: str, counts: Mapping[str, int]) -> None:
    """Add numbers to counters of the running pipeline, in a worker."""
    from apache_beam.metrics import Metrics

    for name, number in counts.items():
        if number:
            Metrics.counter(job_name, name).inc(int(number))


def _read_counters(result: Any, job_name: str) -> dict[str, int]:
    """Return the counters of a finished pipeline."""
    counters = {}
    for found in result.metrics().query()["counters"]:
        if found.key.metric.namespace == job_name:
            # Some runners report attempted values only.
            value = found.committed or found.attempted or 0
            name = found.key.metric.name
            counters[name] = counters.get(name, 0) + value
    return counters


# --- Options -----------------------------------------------------------------


def _parse_options(text: str) -> Any:
    """Return the PipelineOptions of --beam_options.

    Raises:
        UserError: they cannot be parsed, or one of them does not exist.
    """
    beam = import_beam()
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--beam_options={text!r}: {error}") from error
    wrong = [word for word in words[:1] if not word.startswith("-")]
    usage = io.StringIO()
    try:
        with contextlib.redirect_stderr(usage):
            options = beam.options.pipeline_options.PipelineOptions(words)
            known = options.get_all_options(drop_default=False)
    except SystemExit as error:  # argparse found a bad value
        reason = usage.getvalue().strip().rpartition("\n")[2]
        raise UserError(f"--beam_options={text!r}: {reason}") from error
    wrong += [
        word
        for word in words
        if word.startswith("--")
        and word[2:].partition("=")[0].replace("-", "_") not in known
    ]
    # An option may have another name in the parsed dictionary (no_... flags).
    for word in wrong:
        if not word.startswith("--"):
            raise UserError(
                f"--beam_options: found {word!r}, wanted --name=value pairs"
            )
        logging.warning(
            "--beam_options: this Beam has no option %s; it is ignored unless "
            "the runner has it",
            word,
        )
    worker = options.view_as(beam.options.pipeline_options.WorkerOptions)
    if not any(word.startswith("--default_sdk_harness_log_") for word in words):
        # Beam's workers log every start and stop at level INFO.
        worker.default_sdk_harness_log_level = "WARNING"
    return options


def _hide_stack_traces(options: Any) -> None:
    """Turn off the logs of exceptions in the runners of this machine.

    They are raised here as well, and `run` shows them as one line. On a
    cluster they belong into its logs.
    """
    worker = options.view_as(
        import_beam().options.pipeline_options.WorkerOptions
    )
    if not worker.sdk_harness_log_level_overrides:
        worker.sdk_harness_log_level_overrides = {
            "apache_beam": "CRITICAL",
            "__main__": "ERROR",
        }


@contextlib.contextmanager
def _importable():
    """Let worker processes on this machine import the project's modules."""
    before = os.environ.get("PYTHONPATH")
    paths = [_ROOT] + ([before] if before else [])
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    logger = standard_logging.getLogger("apache_beam")
    level = logger.level
    logger.setLevel(standard_logging.CRITICAL)  # errors are raised as well
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


# --- Errors ------------------------------------------------------------------


def _one_line(error: BaseException, runner: str) -> BaseException:
    """Return the UserError for a failed pipeline, or the error if it is a bug.

    A UserError or a failed file operation of a worker is shown as in the
    local runner. A failure outside of the steps is the runner's: no Java, no
    answer of a cluster, a wrong option.
    """
    text = str(error)
    if isinstance(error, UserError):
        return UserError(_STEP.sub("", text))
    found = _WORKER_ERROR.findall(text)
    if found:
        # The last one of a chain of exceptions is the one that was raised.
        user, other, message = found[-1]
        message = _STEP.sub("", message)
        if user:
            return UserError(message)
        if other in _FILE_ERRORS:
            return UserError(
                f"{message}; mend that and give the same command again"
            )
    is_of_step = "[while running '" in text
    if isinstance(error, OSError) and is_of_step:
        return UserError(
            f"{_STEP.sub('', text)}; mend that and give the same command again"
        )
    if is_of_step or "pickle" in text.lower():
        return error
    reason = " ".join(text.split())[:300] or type(error).__name__
    return UserError(f"Beam's {runner} cannot run the pipeline: {reason}")
