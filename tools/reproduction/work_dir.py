"""The work directory: what it was begun with, finished steps, scores.

experiment.json            scale, data; another command is refused
corpus/, configs/          text in two parts, bert_config.json of each size
vocab.txt, records/        shared by all tables
pretraining/, finetuning/  a folder for each run
steps/                     a marker for each finished step
logs/                      what each command printed; NAME.log.json: when the
                           step NAME, which is not finished, was begun
table5.csv, report.md ...  results
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from base import file_system, resuming, text_files
from base.errors import UserError

from absl import logging

from tools.reproduction import scales
from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.plan import Step
from tools.reproduction.scales import Scale

SETTINGS = "experiment.json"

# Keys of a scale that may change: more runs, not other runs. A step's name has
# its size.
_ADJUSTABLE = ("num_seeds", "num_parallel", "table6.sizes")
_ADJUSTABLE_ENDS = (".restarts", ".tasks")
# Work directories that were begun before there was this key are without it.
_LATER_DEFAULT = ("finetuning.bias_correction", True)
_SCALE = " of the scale"  # ends the keys of its values
_DATA = "the data of "  # begins the keys of files, a task each
_SHOWN_DIFFERENCES = 3

# A step of NER-features keeps activations, and their fingerprint.
_ACTIVATIONS = (".npy", ".npy.json")

_LOCK_SECONDS = 60.0


def fingerprint(
    scale: Scale,
    input_files: Sequence[str],
    held_out_files: Sequence[str],
    vocab_file: str | None,
    data: reproduction_tasks.Data,
    tasks: Sequence[str],
) -> dict[str, Any]:
    """Return everything that the results depend on.

    Args:
        scale: all of its values but seeds, restarts and tasks.
        input_files, held_out_files, vocab_file: the text.
        data: of the tasks.
        tasks: the tasks that run.
    """
    values = {
        f"{key}{_SCALE}": value
        for key, value in scales.flat(scales.as_values(scale)).items()
        if key not in _ADJUSTABLE
        and not key.endswith(_ADJUSTABLE_ENDS)
        and (key, value) != _LATER_DEFAULT
    }
    for flag, files in (
        ("input_file", input_files),
        ("held_out_file", held_out_files),
        ("vocab_file", [vocab_file] if vocab_file else []),
    ):
        values[flag] = [_state(path) for path in files]
    for name in tasks:
        values[f"{_DATA}{name}"] = [_state(f) for f in data.files(name)]
    return values


def _state(path: str) -> list[Any]:
    return [
        resuming.absolute_path(path),
        *(resuming.file_state(path) or [None, None]),
    ]


def _files(value: Any) -> dict[str, list[Any]]:
    """Return the files of a value: {path: [path, size, time of change]}."""
    if not isinstance(value, list):
        return {}
    return {
        item[0]: item
        for item in value
        if isinstance(item, list)
        and isinstance(item[0], str)
        and item[1] is not None
    }


def _copied_again(old: Any, new: Any, digests: Mapping[str, str]) -> Any:
    """Return an earlier value, with new times of change of unchanged files.

    Args:
        old: value of the earlier command.
        new: value of the present command.
        digests: checksums of the earlier files, by path.
    """
    now = _files(new)
    result = old
    for name, (_, size, time_of_change) in _files(old).items():
        state = now.get(name)
        if not state or state[1] != size or state[2] == time_of_change:
            continue
        if digests.get(name) == file_system.sha256(name):
            result = [state if item[0] == name else item for item in result]
    return result


def _of_common_tasks(
    old: dict[str, Any], values: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two fingerprints without the tasks that one of them has alone."""
    of_one = {
        key
        for task in _tasks_of(old) ^ _tasks_of(values)
        for key in (*old, *values)
        if _task_of(key) == task
    }
    return (
        {key: value for key, value in old.items() if key not in of_one},
        {key: value for key, value in values.items() if key not in of_one},
    )


def claim(
    path: str, scale_name: str, values: dict[str, Any], writes: bool = True
) -> None:
    """Begin a work directory, or check that it was begun by this command.

    Tasks may be added or left out: what belongs to one task is compared if both
    commands run it. A file that was copied again, with another time of change,
    is the same file if its checksum is.

    Args:
        path: of the directory.
        scale_name: for messages.
        values: see `fingerprint`.
        writes: False to check alone.

    Raises:
        UserError: names what differs.
    """
    file = os.path.join(path, SETTINGS)
    known = text_files.read_own_json(file)
    if known is None and os.path.exists(os.path.join(path, "steps")):
        raise UserError(
            f"--work_dir={path} has finished steps, but {file} is missing or "
            "damaged: name another --work_dir"
        )
    old = _of_tasks_that_run(known["fingerprint"]) if known else {}
    values = _of_tasks_that_run(values)
    digests = dict(known.get("digests", {})) if known else {}
    old = {
        key: _copied_again(old[key], values.get(key), digests) for key in old
    }
    found = known and resuming.differences(*_of_common_tasks(old, values))
    if found:
        if known["scale"] != scale_name:
            found.insert(0, f"--scale was {known['scale']}, is {scale_name}")
        raise _different_command(path, found)
    if writes:
        for name in [n for value in values.values() for n in _files(value)]:
            digests[name] = digests.get(name) or file_system.sha256(name)
        merged = {
            "scale": scale_name,
            "fingerprint": {**old, **values},
            "digests": dict(sorted(digests.items())),
        }
        if merged != known:
            file_system.write_text(file, json.dumps(merged, indent=1))


def _different_command(path: str, found: Sequence[str]) -> UserError:
    """Return the error for a work directory of another command.

    Args:
        path: of the directory.
        found: a phrase for each difference.
    """
    shown = [*found[:_SHOWN_DIFFERENCES]]
    if len(found) > len(shown):
        shown.append(f"and {len(found) - len(shown)} more")
    return UserError(
        f"--work_dir={path} was begun by a different command: "
        f"{'; '.join(shown)}. Name another --work_dir, or give what it was "
        "begun with"
    )


def unclaim(path: str) -> None:
    """Remove what `claim` wrote, so that another command may use the directory.

    The text that was divided is forgotten too. Nothing is done where a step has
    finished.
    """
    if not os.path.exists(os.path.join(path, "steps")):
        for name in (SETTINGS, os.path.join("corpus", "corpus.json")):
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(path, name))


def _task_of(key: str) -> str:
    """Return the task that a key of a fingerprint belongs to, "" if none."""
    if key.startswith(_DATA):
        return key.removeprefix(_DATA)
    if key.startswith("tasks.") and key.endswith(_SCALE):
        return key.split(".")[1]
    return ""


def _tasks_of(values: Mapping[str, Any]) -> set[str]:
    """Return the tasks that the command of a fingerprint runs."""
    return {_task_of(key) for key in values if key.startswith(_DATA)}


def _of_tasks_that_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fingerprint without the values that none of its runs uses."""
    used = {"", *_tasks_of(values)}
    adjustable = [f"{key}{_SCALE}" for key in _ADJUSTABLE]
    return {
        key: value
        for key, value in values.items()
        if _task_of(key) in used and key not in adjustable
    }


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


# --- Finished steps ----------------------------------------------------------


def marker_path(path: str, step: Step) -> str:
    """Return the file that says that a step is finished."""
    return os.path.join(path, "steps", f"{step.name}.json")


def log_path(path: str, step: Step) -> str:
    """Return the file of what a step's command printed."""
    return os.path.join(path, "logs", f"{step.name}.log")


def read_marker(path: str, step: Step) -> dict[str, Any] | None:
    """Return the marker of a finished step; None if it is to be run."""
    marker = text_files.read_own_json(marker_path(path, step))
    if not marker or marker.get("command") != step.identity:
        return None
    if not os.path.exists(os.path.join(path, step.output)):
        return None  # its output has been deleted
    return marker


def write_marker(path: str, step: Step, values: Mapping[str, Any]) -> None:
    """Mark a step as finished."""
    file = marker_path(path, step)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    text = json.dumps({"command": step.identity, **values}, indent=1)
    file_system.write_text(file, text)
    with contextlib.suppress(FileNotFoundError):
        os.remove(_attempt_path(path, step))


def begin_attempt(path: str, step: Step) -> float:
    """Note that a step begins; return the seconds of earlier attempts.

    An attempt that was interrupted, even by SIGKILL, lasted until the last
    line of the step's log. `write_marker` ends the count.
    """
    log = log_path(path, step)
    file = _attempt_path(path, step)
    before = 0.0
    if known := text_files.read_own_json(file):
        before = known["seconds"]
        with contextlib.suppress(FileNotFoundError):
            before += max(0.0, os.path.getmtime(log) - known["began"])
    values = {"seconds": before, "began": time.time()}
    file_system.write_text(file, json.dumps(values))
    return before


def _attempt_path(path: str, step: Step) -> str:
    """Return the file about the attempts of a step that is not finished."""
    return f"{log_path(path, step)}.json"


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


def known_scores(path: str, step: Step) -> dict[str, float] | None:
    """Return the scores that a step wrote, None if they cannot be read.

    A warning, not an error: the tables still show the scores of other steps.
    """
    try:
        return read_scores(path, step)
    except UserError as error:
        logging.warning("%s", error)
        return None


def remove_weights(path: str, step: Step) -> int:
    """Remove the large files of a fine-tuned model; return their bytes.

    They are its checkpoints and the activations of NER-features. The markers of
    a sweep's finished runs go too: without weights a run is not finished.
    """
    folder = os.path.join(path, step.output)
    removed = 0
    for name, size in list(file_system.files_below(folder)):
        base = os.path.basename(name)
        if (
            ".ckpt" in base
            or base == "checkpoint"
            or base.endswith(_ACTIVATIONS)
            or base == "finished.json"
        ):
            os.remove(os.path.join(folder, name))
            removed += size or 0
    return removed
