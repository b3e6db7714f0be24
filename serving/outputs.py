"""Write the shards of a run, and continue a run that was killed.

Beside a shard's predictions its worker writes hidden files, in this order:

    .predictions-00003-of-00010.errors.jsonl   inputs without a prediction
    predictions-00003-of-00010.jsonl           the predictions
    .predictions-00003-of-00010.counts.json    size and counts

A shard is complete when its counts are there and fit. Each file appears when
it is complete, so a run may be killed at any moment: the same command does the
shards that are missing. In the end the errors become errors.jsonl, the counts
are entered into the manifest, and the hidden files are removed.
"""

import collections
import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from base import file_system, resuming, text_files
from base.errors import UserError

from absl import logging

from serving.data import Problem
from serving.plan import ERRORS_NAME, NAME, Plan

_HIDDEN = ("errors.jsonl", "counts.json")


class WindowResult(NamedTuple):
    """The predictions of a window; picklable.

    Attributes:
        lines: a JSON object per input, in order.
        problems: of inputs without a prediction, in order.
        counts: name -> number.
    """

    lines: list[str]
    problems: list[Problem]
    counts: dict[str, int]


# --- Shards ------------------------------------------------------------------


def write_shard(
    plan: Plan, index: int, results: Iterable[WindowResult]
) -> dict[str, int]:
    """Write the files of a shard and return its counts.

    Args:
        plan: the run.
        index: of the shard.
        results: of its windows, in order.
    """
    counts: collections.Counter[str] = collections.Counter()
    # The predictions get their name after the errors, which are read only if
    # the predictions are there.
    with file_system.atomic_file(plan.output(index)) as file:
        with file_system.atomic_file(
            plan.hidden(index, "errors.jsonl"), sync=False
        ) as errors:
            for result in results:
                for target, lines in (
                    (file, result.lines),
                    (errors, [problem.line() for problem in result.problems]),
                ):
                    target.write("".join(f"{x}\n" for x in lines).encode())
                counts.update(result.counts)
        size = file.tell()
    found = {"bytes": size, "counts": dict(sorted(counts.items()))}
    file_system.write_text(plan.hidden(index, "counts.json"), json.dumps(found))
    return found["counts"]


# --- The manifest ------------------------------------------------------------


@contextlib.contextmanager
def locked(plan: Plan) -> Iterator[None]:
    """Keep other runs out of output_dir while the block runs.

    Raises:
        UserError: another run is writing there.
    """
    file_system.make_directory(plan.output_dir)
    if file_system.is_remote(plan.output_dir):
        yield
        return
    with resuming.locked_folder(plan.output_dir, plan.output_dir):
        yield


def begin(plan: Plan) -> list[int]:
    """Return the shards to do: all, or those an earlier run has left.

    Raises:
        UserError: output_dir holds predictions of another command.
    """
    found = text_files.read_own_json(plan.manifest)
    if found is None:
        errors = os.path.basename(plan.errors)
        others = _names(
            plan.output_dir,
            lambda n: n.startswith(f"{NAME}-") or n == errors,
        )
        if others:
            raise UserError(
                f"{plan.output_dir}/{others[0]} was not written by this "
                "command: name another --output_dir, or delete it"
            )
        found = {"shards": {}}
        _write_manifest(plan, found)
    else:
        _check_same(plan, found["fingerprint"])
    _remove_leftovers(plan)
    if found["shards"] and _size(plan.errors) != found["errors_bytes"]:
        logging.warning(
            "%s is missing or changed: all shards are made again", plan.errors
        )
        found = {"shards": {}}
        _write_manifest(plan, found)
    return [
        index
        for index in range(len(plan.shards))
        if _complete(plan, index, found["shards"]) is None
    ]


def _check_same(plan: Plan, fingerprint: dict[str, Any]) -> None:
    """Raise a UserError if a manifest belongs to another command."""
    differences = _differences(fingerprint, plan.fingerprint)
    if differences:
        raise UserError(
            f"--output_dir={plan.output_dir} was begun by a different "
            f"command: {'; '.join(differences)}. Name another --output_dir, "
            f"or delete its predictions and {plan.manifest}"
        )


def _names(folder: str, wanted: Any) -> list[str]:
    """Return the names of files in a folder, sorted."""
    listed = (
        file_system.gfile().listdir(folder)
        if file_system.is_remote(folder)
        else os.listdir(folder)
    )
    return sorted(filter(wanted, listed))


def _size(path: str) -> int | None:
    """Return the size of a file, None without one."""
    if not file_system.exists(path):
        return None
    if file_system.is_remote(path):
        return file_system.gfile().stat(path).length
    return os.path.getsize(path)


def _write_manifest(plan: Plan, content: dict[str, Any]) -> None:
    """Replace the manifest."""
    manifest = {"fingerprint": plan.fingerprint, **content}
    file_system.write_text(plan.manifest, json.dumps(manifest, indent=1))


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a phrase for each difference between two fingerprints."""
    new = json.loads(json.dumps(new))  # the old one has been through JSON
    found = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if name == "input_file":
            changed = [item for item in before if item not in now]
            changed += [item for item in now if item not in before]
            found.append(f"--{name}, first difference at {changed[0][0]}")
        elif isinstance(before, dict) and isinstance(now, dict):
            both = {**before, **now}
            first = next(n for n in both if before.get(n) != now.get(n))
            found.append(f"--{name}, first difference in {first}")
        else:
            found.append(f"--{name} was {before}, is {now}")
    return found


def _complete(
    plan: Plan, index: int, finished: dict[str, Any]
) -> dict[str, Any] | None:
    """Return size and counts of a shard; None unless it is complete.

    Args:
        plan: the run.
        index: of the shard.
        finished: shards of the manifest, of a run that came to its end.
    """
    path = plan.output(index)
    found = text_files.read_own_json(plan.hidden(index, "counts.json"))
    found = found or finished.get(str(index))
    size = _size(path)
    if found is None or size is None:
        return None
    if size != found["bytes"]:
        logging.warning(
            "%s has %d bytes instead of %d: it is made again",
            path,
            size,
            found["bytes"],
        )
        return None
    return found


def _remove_leftovers(plan: Plan) -> None:
    """Remove temporary files of runs that were killed."""
    if file_system.is_remote(plan.output_dir):
        return
    ours = (f".{NAME}-", f"..{NAME}", f".{ERRORS_NAME}.")
    for name in _names(plan.output_dir, lambda n: n.endswith(".tmp")):
        if name.startswith(ours):
            os.remove(os.path.join(plan.output_dir, name))


# --- The end -----------------------------------------------------------------


def finish(plan: Plan) -> collections.Counter[str]:
    """End a run whose shards are complete; return its counts.

    Writes errors.jsonl and the final manifest and removes the hidden files.
    """
    found = text_files.read_own_json(plan.manifest)
    # An earlier run has come to its end: errors.jsonl holds the errors of all
    # shards, also of one that was deleted and made again.
    if not found["shards"]:
        counts: collections.Counter[str] = collections.Counter()
        for index in range(len(plan.shards)):
            entry = _complete(plan, index, {})
            if entry is None:
                raise UserError(
                    f"{plan.output(index)} is missing; give the same command "
                    "again"
                )
            found["shards"][str(index)] = entry
            counts.update(entry["counts"])
        found["errors_bytes"] = _join_errors(plan)
        found["counts"] = dict(counts)
        del found["fingerprint"]
        _write_manifest(plan, found)
    for index in range(len(plan.shards)):
        for kind in _HIDDEN:
            _remove(plan.hidden(index, kind))
    return collections.Counter(found["counts"])


def _join_errors(plan: Plan) -> int:
    """Write errors.jsonl; return its size in bytes."""
    size = 0
    with file_system.atomic_file(plan.errors) as file:
        for index in range(len(plan.shards)):
            path = plan.hidden(index, "errors.jsonl")
            with file_system.open_for_reading(path) as part:
                while block := part.read(1 << 20):
                    file.write(block)
                    size += len(block)
    return size


def _remove(path: str) -> None:
    """Remove a file that may be there."""
    if file_system.is_remote(path):
        if file_system.exists(path):
            file_system.gfile().remove(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
