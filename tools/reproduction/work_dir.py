"""The work directory: what was begun in it, finished steps, scores.

corpus/, configs/          text in two parts, bert_config.json of each size
vocab.txt, records/        shared by all tables
pretraining/, finetuning/  a folder for each run
steps/                     a marker for each step that was begun
logs/                      what each command printed
table5.csv, report.md ...  results

A marker has the command and the checksums of the files that it reads, so that a
step is never continued or used by another command; the seconds of a finished
step, or the line in which it failed.
"""

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from base import file_system, resuming, text_files
from base.errors import UserError

from absl import logging

from tools.reproduction import plan as reproduction_plan
from tools.reproduction.plan import Plan, Step

# A step of NER-features keeps activations, and their fingerprint.
_ACTIVATIONS = (".npy", ".npy.json")

_LOCK_SECONDS = 60.0
_SHOWN_DIFFERENCES = 3


@contextlib.contextmanager
def locked(path: str) -> Iterator[int | None]:
    """Lock a work directory inside the block; yield the lock's descriptor.

    Child processes that inherit the descriptor hold the lock too. Those of a
    run that was killed do so until they have saved their work: this waits for
    them, a minute at most. Yields None where there are no locks.

    Raises:
        UserError: another run has it.
    """
    folder = os.path.join(path, "lock")
    with resuming.locked_folder(folder, path, _LOCK_SECONDS) as lock:
        yield lock


# --- What it was begun with --------------------------------------------------


def checksums(files: Iterable[str]) -> dict[str, str]:
    """Return {name: SHA-256} of files.

    The folder that they share is left out: where they stand does not matter.
    """
    paths = [os.path.abspath(path) for path in files]
    root = os.path.commonpath(map(os.path.dirname, paths)) if paths else ""
    return {os.path.relpath(path, root): checksum(path) for path in paths}


def checksum(path: str) -> str:
    """Return the SHA-256 of a file; an unchanged one is read once."""
    state = os.stat(path)
    return _checksum(path, state.st_size, state.st_mtime_ns)


@functools.cache
def _checksum(path: str, size: int, time_of_change: int) -> str:
    return file_system.sha256(path)


def check_same(
    path: str, what: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    """Check that a work directory was begun with what is given now.

    Args:
        path: of the directory.
        what: the values are of.
        old, new: values of the earlier command and of this one.

    Raises:
        UserError: names what differs.
    """
    found = [
        f"{key} was {old.get(key, 'not there')}, is {new.get(key, 'not there')}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    ]
    if found:
        shown = found[:_SHOWN_DIFFERENCES]
        if len(found) > len(shown):
            shown.append(f"and {len(found) - len(shown)} more")
        raise UserError(
            f"--work_dir={path} was begun by a different command: {what}: "
            f"{'; '.join(shown)}. Name another --work_dir, or give what it was "
            "begun with"
        )


def check_steps(
    path: str, plan: Plan, inputs: Mapping[str, Mapping[str, str]]
) -> None:
    """Check that the steps of a plan that were begun are the same commands.

    Args:
        path: of the directory.
        plan: the steps.
        inputs: task -> checksums of its files.

    Raises:
        UserError: names what differs.
    """
    for step in plan.steps.values():
        if marker := read_marker(path, step):
            new = _identity(step, inputs)
            check_same(path, step.output, marker["identity"], new)


def _identity(
    step: Step, inputs: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return the flags of a step and the checksums of the files it reads."""
    flags = {f"--{name}": value for name, value in step.flags}
    return flags | {
        name: digest[:16] for name, digest in inputs.get(step.task, {}).items()
    }


# --- Steps -------------------------------------------------------------------


class Failure(NamedTuple):
    """A step that failed, or that could not run because another one did.

    Attributes:
        step: name.
        line: its error or the last line it printed, or which step it needs.
        has_run: whether it was started.
    """

    step: str
    line: str
    has_run: bool


def log_path(path: str, step: Step) -> str:
    """Return the file of what a step's command printed."""
    return os.path.join(path, "logs", f"{step.name}.log")


def _marker_path(path: str, step: Step) -> str:
    return os.path.join(path, "steps", f"{step.name}.json")


def read_marker(path: str, step: Step) -> dict[str, Any]:
    """Return the marker of a step, {} if it was not begun."""
    return text_files.read_own_json(_marker_path(path, step)) or {}


def begin(
    path: str, step: Step, inputs: Mapping[str, Mapping[str, str]]
) -> None:
    """Note that a step begins; `inputs` are those of `check_steps`."""
    marker = read_marker(path, step)
    # An attempt that was interrupted, even by SIGKILL, lasted until the last
    # line of the step's log.
    before = 0.0
    if marker and "seconds" not in marker:
        with contextlib.suppress(FileNotFoundError):
            last = os.path.getmtime(log_path(path, step))
            before = marker["before"] + max(0.0, last - marker["began"])
    values = {
        "identity": _identity(step, inputs),
        "before": before,
        "began": time.time(),
    }
    _write_marker(path, step, values)


def end(path: str, step: Step, failure: str = "") -> float:
    """Note that a step has ended, or failed; return its seconds."""
    marker = read_marker(path, step)
    seconds = round(marker["before"] + time.time() - marker["began"], 3)
    ended = {"failed": failure} if failure else {"seconds": seconds}
    _write_marker(path, step, marker | ended)
    return seconds


def forget_failures(path: str, plan: Plan) -> None:
    """Let the steps of a plan that failed be tried again."""
    for step in plan.steps.values():
        marker = read_marker(path, step)
        if marker.pop("failed", None):
            _write_marker(path, step, marker)


def _write_marker(path: str, step: Step, values: Mapping[str, Any]) -> None:
    file = _marker_path(path, step)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    file_system.write_text(file, json.dumps(values, indent=1))


def is_finished(path: str, step: Step) -> bool:
    """Return whether a step has ended well and its output is still there."""
    return (
        "seconds" in read_marker(path, step)
        and os.path.exists(os.path.join(path, step.output))
        and not problem_of_scores(path, step)
    )


def failures(path: str, plan: Plan) -> list[Failure]:
    """Return the steps of a plan that failed, and those that need them."""
    found: dict[str, Failure] = {}
    numbers = {name: n for n, name in enumerate(plan.steps, 1)}
    for name, step in plan.steps.items():
        lost = [before for before in step.after if before in found]
        if line := read_marker(path, step).get("failed"):
            found[name] = Failure(name, line, True)
        elif lost and not is_finished(path, step):
            line = f"not run: it needs step {numbers[lost[0]]}, which failed"
            found[name] = Failure(name, line, False)
    return list(found.values())


def check_models(path: str, plan: Plan) -> None:
    """Check that finished steps do not mix with a model trained anew.

    Raises:
        UserError: a model is missing that finished steps came after.
    """
    missing: set[str] = set()
    orphans: list[Step] = []
    for name, step in plan.steps.items():
        finished = is_finished(path, step)
        if is_orphan := finished and not missing.isdisjoint(step.after):
            orphans.append(step)
        is_model = step.kind == reproduction_plan.PRETRAINING
        if is_model and (is_orphan or not finished):
            missing.add(name)
    if orphans:
        # The first one came after a model that is no orphan itself.
        model = next(name for name in orphans[0].after if name in missing)
        later = ", ".join(step.output for step in orphans)
        raise UserError(
            f"--work_dir={path}: the model {plan.steps[model].output} is "
            f"missing, but steps after it are finished: {later}. To repeat "
            "all, delete these folders too; to write the tables from what is "
            "there, give --report_only"
        )


# --- Scores and weights ------------------------------------------------------


def read_scores(path: str, step: Step) -> dict[str, float] | None:
    """Return the scores that a step wrote, None without any.

    Raises:
        UserError: the file has something else.
    """
    file = os.path.join(path, step.output, "eval_results.txt")
    if not os.path.exists(file):
        return None
    found = {}
    for line in text_files.read_text(file).splitlines():
        key, is_pair, value = line.partition(" = ")
        try:
            found[key] = float(value)
        except ValueError:
            if is_pair:
                raise UserError(
                    f"{file}: {line!r} is not a score; delete the folder and "
                    "give the same command again"
                ) from None
    return found


def problem_of_scores(path: str, step: Step) -> str:
    """Return what is wrong with the scores of a step, "" if nothing is."""
    try:
        read_scores(path, step)
    except UserError as error:
        return str(error)
    return ""


def known_scores(path: str, step: Step) -> dict[str, float] | None:
    """Return the scores that a step wrote, None if they cannot be read.

    A warning, not an error: the tables still show the scores of other steps.
    """
    if problem := problem_of_scores(path, step):
        logging.warning("%s", problem)
        return None
    return read_scores(path, step)


def remove_weights(path: str, step: Step) -> None:
    """Remove the large files of a fine-tuned model.

    They are its checkpoints and the activations of NER-features. The markers of
    a sweep's finished runs go too: without weights a run is not finished.
    """
    folder = os.path.join(path, step.output)
    for name, _ in list(file_system.files_below(folder)):
        base = os.path.basename(name)
        if (
            ".ckpt" in base
            or base in ("checkpoint", "finished.json")
            or base.endswith(_ACTIVATIONS)
        ):
            os.remove(os.path.join(folder, name))
