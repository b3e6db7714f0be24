"""Check flags and inputs, and decide the shards of a run.

batch_predict.py does this before any work: a mistake should end the run in its
first seconds.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

from absl import logging

from serving import data
from serving.data import Input, InputFile, Place, Shard

# Raise it when the same command no longer gives the same bytes.
_VERSION = 1

# Default size of a shard: what a killed run may have to do again.
_SHARD_BYTES = 8 << 20

MAX_SHARDS = 99_999

# Inputs of the first file that are parsed before the run begins.
_FIRST_INPUTS = 100

NAME = "predictions"

ERRORS_NAME = "errors.jsonl"


class Plan(NamedTuple):
    """The files of a run.

    Attributes:
        files: the inputs.
        shards: parts of them, one for each output file.
        output_dir: where the predictions go.
        fingerprint: everything the output depends on; the keys are names of
            flags, since messages show them.
    """

    files: list[InputFile]
    shards: list[Shard]
    output_dir: str
    fingerprint: dict[str, Any]

    @property
    def manifest(self) -> str:
        """The path of the file that records what is complete."""
        return os.path.join(self.output_dir, f".{NAME}.manifest.json")

    @property
    def errors(self) -> str:
        """The path of the file of inputs that cannot be predicted."""
        return os.path.join(self.output_dir, ERRORS_NAME)

    def output(self, index: int) -> str:
        """Return the path of a shard's predictions."""
        name = f"{NAME}-{index:05}-of-{len(self.shards):05}.jsonl"
        return os.path.join(self.output_dir, name)

    def hidden(self, index: int, kind: str) -> str:
        """Return the path of a file about a shard that is removed at the end.

        Args:
            index: of the shard.
            kind: errors.jsonl or counts.json.
        """
        name = f".{NAME}-{index:05}-of-{len(self.shards):05}.{kind}"
        return os.path.join(self.output_dir, name)

    def shard_bytes(self, index: int) -> int:
        """Return the number of bytes that a shard reads."""
        return sum(span.end - span.start for span in self.shards[index])


def make_plan(
    input_file: str,
    output_dir: str,
    num_shards: int | None,
    input_format: str,
    options: Mapping[str, Any],
) -> Plan:
    """Return the plan for files and options.

    Args:
        input_file: globs, separated by commas.
        output_dir: where the predictions go.
        num_shards: number of output files; None: one for every 8 MB.
        input_format: see `data.inspect`.
        options: name -> value of everything else the output depends on.

    Raises:
        UserError: a file cannot be read, or files are of several kinds.
    """
    files = find_inputs(input_file, input_format)
    total = sum(file.size for file in files)
    if not total:
        raise UserError(
            f"--input_file={input_file}: all {len(files)} files are empty"
        )
    wanted = num_shards or min(MAX_SHARDS, -(-total // _SHARD_BYTES))
    shards = data.make_shards(files, wanted)
    if num_shards and len(shards) < num_shards:
        logging.warning(
            "--num_shards=%d: the inputs make %d shards only (TFRecord and "
            "gzip files cannot be cut)",
            num_shards,
            len(shards),
        )
    fingerprint = {
        "version": _VERSION,
        "input_file": [_state(file) for file in files],
        "num_shards": len(shards),
        "input_format": files[0].kind,
        **options,
    }
    return Plan(files, shards, output_dir, fingerprint)


def find_inputs(patterns: str, input_format: str) -> list[InputFile]:
    """Return the input files, which are all of one kind.

    Raises:
        UserError: a file cannot be read or used, or two are of two kinds.
    """
    paths = file_system.find_files(patterns)
    files = [data.inspect(path, _size(path), input_format) for path in paths]
    for file in files:
        if not file.size:
            logging.warning("%s is empty", file.path)
    files = [file for file in files if file.size] or files
    for file in files:
        if file.kind != files[0].kind:
            raise UserError(
                f"--input_file: {files[0].path} looks like {files[0].kind}, "
                f"{file.path} like {file.kind}: give files of one kind, or "
                "name it with --input_format"
            )
    return files


def _size(path: str) -> int:
    """Return the size of a file in bytes."""
    if file_system.is_remote(path):
        return file_system.gfile().stat(path).length
    if file_system.is_stream(path):
        raise UserError(
            f"--input_file: {path} is a pipe or a device, of which no part "
            "can be read twice: give a file"
        )
    return os.path.getsize(path)


def _state(file: InputFile) -> list:
    """Return path, size and time of change of an input file."""
    if file_system.is_remote(file.path):
        state = file_system.gfile().stat(file.path)
        return [file.path, file.size, state.mtime_nsec]
    return [file.path, file.size, os.stat(file.path).st_mtime_ns]


def check_first_inputs(
    plan: Plan, parse: Callable[[Place, bytes, str], Input]
) -> None:
    """Check that not all of the first inputs are unusable.

    Each unusable input would only be named in errors.jsonl, which for a
    misspelt --text_columns would be all of them, after hours.

    Raises:
        UserError: names the first problem.
    """
    windows = data.read_windows(plan.shards[0], 0, parse, _FIRST_INPUTS)
    window = next(windows, None)
    if not window or window.inputs or not window.problems:
        return
    first = window.problems[0]
    many = ""
    if len(window.problems) > 1:
        many = f"; so are the first {len(window.problems)} inputs"
    raise UserError(
        f"{first.place.path}, {first.place.kind} {first.place.number} cannot "
        f"be predicted: {first.reason}{many}"
    )
