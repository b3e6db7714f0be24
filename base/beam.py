"""Run a pipeline of Apache Beam: its flags, its errors and its counters.

Scripts with --runner=beam build their pipeline from the functions that the
local runner uses, and hand it to `run`. Apache Beam is optional and imported
only then. The modules of a pipeline are pickled by reference: where workers
are other machines, this repository has to be on their PYTHONPATH
(docs/scaling.md).
"""

import contextlib
import io
import json
import logging as standard_logging
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import IO, Any

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
    r"^(?:base\.errors\.(UserError)|(\w*(?:OSError|Error))): (.*)$",
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


def check_flags(
    runner: str,
    beam_options: str,
    num_workers: int | None = None,
    output: str | None = None,
) -> None:
    """Check the values of the flags before any work.

    Args:
        runner: the flag.
        beam_options: the flag.
        num_workers: of the local runner.
        output: the flag that names what is written, and its value, as in
            "output_dir=corpus".

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
    """Build a pipeline, run it to its end, and return its counters.

    Args:
        build: adds all steps to the `apache_beam.Pipeline` it is given.
        beam_options: the flag.
        job_name: namespace of the counters, and the name of the job where
            the options give none.

    Returns:
        Name -> value of each counter that `count` has increased. Runners that
        repeat failed work may have counted it twice: for exact numbers, write
        them beside the output.

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
    """Increase counters of the running pipeline; call it in a worker.

    Args:
        job_name: their namespace, as given to `run`.
        counts: name -> number to add.
    """
    from apache_beam.metrics import Metrics

    for name, number in counts.items():
        if number:
            Metrics.counter(job_name, name).inc(int(number))


def create(pipeline: Any, items: Iterable[Any], path: str) -> Any:
    """Return a Beam collection of items that workers read from a file.

    `beam.Create` would send the items with the pipeline, whose size runners
    limit (Dataflow: 10 MB).

    Args:
        pipeline: of the collection.
        items: of JSON's types; lists in them become tuples.
        path: of the file, which all workers reach.
    """
    beam = import_beam()
    write_json(path, list(items))
    label = os.path.basename(path)
    return (
        pipeline
        | f"{label} path" >> beam.Create([path])
        | f"{label} read" >> beam.FlatMap(_read_items)
        | f"{label} spread" >> beam.Reshuffle()
    )


def _read_items(path: str) -> list[Any]:
    """Return the items in the file of `create`."""
    return [_with_tuples(item) for item in read_json(path)]


def _with_tuples(value: Any) -> Any:
    """Return a value with tuples in place of lists, as keys need them."""
    return tuple(map(_with_tuples, value)) if type(value) is list else value


def group_by_file(made: Any, files: Any) -> Any:
    """Return (name of an output file, its path and all values).

    Args:
        made: collection of (name, value); values are not text.
        files: collection of (name, path); every file gets a group, also one
            without values.
    """
    beam = import_beam()
    return (
        (made, files)
        | "AllFiles" >> beam.Flatten()
        | "GroupByFile" >> beam.GroupByKey()
    )


def parts_of_file(values: Iterable[Any]) -> tuple[str, list[Any]]:
    """Return the path and the sorted values of a group of `group_by_file`."""
    values = list(values)
    (path,) = [value for value in values if isinstance(value, str)]
    return path, sorted(v for v in values if not isinstance(v, str))


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


# --- Files -------------------------------------------------------------------


def open_file(path: str) -> IO[bytes]:
    """Open a file of any file system that Beam reaches, to read bytes.

    It does without TensorFlow, which workers need not have.
    """
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return FileSystems.open(
        path, compression_type=CompressionTypes.UNCOMPRESSED
    )


def create_file(path: str) -> IO[bytes]:
    """Open a file of any file system that Beam reaches, to write bytes."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return FileSystems.create(
        path, compression_type=CompressionTypes.UNCOMPRESSED
    )


def read_json(path: str) -> Any:
    """Return the content of a JSON file."""
    with open_file(path) as file:
        return json.loads(file.read())


def write_json(path: str, content: Any) -> None:
    """Write a small JSON file; a second attempt writes the same bytes."""
    with create_file(path) as file:
        file.write(json.dumps(content).encode())


@contextlib.contextmanager
def published_file(path: str) -> Iterator[IO[bytes]]:
    """Open a file for writing; it appears under its name when it is complete.

    A runner may write the same file twice at once, so each attempt has a
    temporary file of its own.
    """
    from apache_beam.io.filesystems import FileSystems

    folder, name = os.path.split(path)
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
    try:
        with create_file(temporary) as file:
            yield file
    except BaseException:
        with contextlib.suppress(Exception):
            FileSystems.delete([temporary])
        raise
    FileSystems.rename([temporary], [path])


def finished_file(path: str, entry_path: str) -> dict[str, Any] | None:
    """Return the entry of an output file that a run has completed, or None.

    Args:
        path: of the output file.
        entry_path: a JSON file that was written after it and has its size as
            "bytes".
    """
    from apache_beam.io.filesystems import FileSystems

    if not FileSystems.exists(path) or not FileSystems.exists(entry_path):
        return None
    (found,) = FileSystems.match([path])
    entry = read_json(entry_path)
    if found.metadata_list[0].size_in_bytes != entry["bytes"]:
        return None
    return entry


def without_finished(
    names: Iterable[Any],
    paths_of: Callable[[Any], tuple[str, str]],
    files: dict[str, dict[str, Any]],
) -> list[Any]:
    """Return the names of the output files that are not complete yet.

    The driver of a run may end before its pipeline does. So the steps leave
    an entry for each file they complete.

    Args:
        names: of output files.
        paths_of: name -> path of the file, and of its entry; see
            `finished_file`.
        files: path -> entry; those of the complete files are added.
    """
    left = []
    for name in names:
        path, entry_path = paths_of(name)
        entry = finished_file(path, entry_path)
        if entry:
            files[path] = entry
        else:
            left.append(name)
    return left


def remove_files(pattern: str) -> None:
    """Remove the files that a pattern matches, on any file system."""
    from apache_beam.io.filesystems import FileSystems

    (found,) = FileSystems.match([pattern])
    if found.metadata_list:
        FileSystems.delete([file.path for file in found.metadata_list])


def remove_folder(path: str) -> None:
    """Remove a folder with all that is in it, on any file system."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        remove_files(f"{path}/**")


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
