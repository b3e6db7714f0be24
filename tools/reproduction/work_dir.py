"""The work directory: which steps were begun and finished in it, and scores.

    corpus/                    training text and held-out text
    configs/                   bert_config.json of each size
    vocab.txt, records/        shared by all tables
    pretraining/, finetuning/  a folder for each run
    steps/                     a marker for each step that was begun
    logs/                      what each command printed
    table5.csv, report.md ...  results

A marker is a JSON object. It has the flags of the step's command and the
checksums of the data that the command reads: no other command continues the
step or uses its output. Of a finished step it has the seconds, of a failed one
the line in which it failed. The folder steps/ tells that this script began the
directory.
"""

import contextlib
import functools
import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from base import file_system, text_files
from base.errors import UserError

from tools import commands
from tools.reproduction.steps import PRETRAINING, Plan, Step
from tools.reproduction.tasks import TASKS

LOCK_SECONDS = 60.0

_SHOWN_DIFFERENCES = 3
_LINE = 80  # characters of a line of a command


def locked(path: str) -> contextlib.AbstractContextManager[int]:
    """Lock a work directory inside the block; yield the lock's descriptor.

    Child processes that inherit the descriptor hold the lock too. If a run was
    killed, they have it until their work is saved. This waits for them, a
    minute at most.
    """
    folder = os.path.join(path, "lock")
    return file_system.locked_folder(folder, path, LOCK_SECONDS)


def checksums(files: Iterable[str]) -> dict[str, str]:
    """Return {name: the beginning of the SHA-256} of files.

    A name is the path below the folder that all files share, so that the files
    may be moved.
    """
    paths = list(map(os.path.abspath, files))
    names = file_system.names_in_shared_folder(paths)
    return dict(zip(names, map(checksum, paths), strict=True))


@functools.cache
def checksum(path: str) -> str:
    """Return 16 digits of a file's SHA-256; each file is read once."""
    return file_system.sha256(path)[:16]


def read_own(path: str, **types: type) -> dict[str, Any]:
    """Return the JSON object that this script wrote; {} without the file.

    Args:
        path: the file.
        types: the keys of the object, each with the type of its value.

    Raises:
        UserError: the file has something else.
    """
    found = text_files.read_own_json(path) or {}
    if not isinstance(found, dict) or (
        found and not all(isinstance(found.get(n), t) for n, t in types.items())
    ):
        raise UserError(
            f"{path} is damaged: what this --work_dir was begun with is not "
            "known; name another one"
        )
    return found


def check_same(
    path: str, what: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    """Check that a work directory was begun with the values of this command.

    Args:
        path: the directory.
        what: what the values are of, for the message.
        old: the values of the earlier command.
        new: those of this one.

    Raises:
        UserError: some differ; the message has the first ones.
    """
    found = [
        f"{key} was {old.get(key, 'not there')}, is {new.get(key, 'not there')}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    ]
    if more := found[_SHOWN_DIFFERENCES:]:
        found[_SHOWN_DIFFERENCES:] = [f"and {len(more)} more"]
    if found:
        raise UserError(
            f"--work_dir={path} was begun by a different command: {what}: "
            f"{'; '.join(found)}. Name another --work_dir, or give what it was "
            "begun with"
        )


class WorkDir(NamedTuple):
    """A work directory, and where the files that its steps read are."""

    path: str
    # "work_dir", or another name that stands in braces in flags -> path. Those
    # of the tasks' data are there if they are given.
    places: Mapping[str, str]
    scripts: str  # their folder, "" for the current directory

    def words(self, step: Step) -> list[str]:
        """Return a step's script and flags."""
        found = [os.path.join(self.scripts, step.script)]
        for name, value in step.flags.items():
            if value is True:
                found.append(f"--{name}")
                continue
            for place, path in self.places.items():
                value = value.replace(f"{{{place}}}", path)
            found.append(f"--{name}={value}")
        return found

    def command(self, step: Step) -> str:
        """Return a step's command as one pastes it into a shell."""
        return commands.shell_lines(["python", *self.words(step)], _LINE)

    def data_files(self, task: str) -> list[str]:
        """Return the files of a task's data, "" for none."""
        return TASKS[task].files(self.places) if task else []

    def output(self, step: Step) -> str:
        """Return the path of what a step writes."""
        return os.path.join(self.path, step.name)

    def log(self, step: Step) -> str:
        """Return the file of what a step's command printed."""
        return os.path.join(self.path, "logs", f"{step.name}.log")

    def _marker_path(self, step: Step) -> str:
        return os.path.join(self.path, "steps", f"{step.name}.json")

    def marker(self, step: Step) -> dict[str, Any]:
        """Return the marker of a step, {} if it was not begun."""
        return read_own(
            self._marker_path(step), identity=dict, before=float, began=float
        )

    def _write_marker(self, step: Step, values: Mapping[str, Any]) -> None:
        file = self._marker_path(step)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        file_system.write_text(file, json.dumps(values, indent=1))

    def _identity(self, step: Step) -> dict[str, Any]:
        """Return the flags of a step and the checksums of the data it reads."""
        flags = {f"--{name}": value for name, value in step.flags.items()}
        return flags | checksums(self.data_files(step.task))

    def begin(self, step: Step) -> None:
        """Write the marker of a step that begins."""
        marker, before = self.marker(step), 0.0
        # The time of an earlier attempt counts, too. If it was killed, it
        # lasted until the last line of the step's log.
        if marker and "seconds" not in marker:
            with contextlib.suppress(FileNotFoundError):
                last = os.path.getmtime(self.log(step))
                before = marker["before"] + max(0.0, last - marker["began"])
        values = {
            "identity": self._identity(step),
            "before": before,
            "began": time.time(),
        }
        self._write_marker(step, values)

    def end(self, step: Step, failure: str) -> float:
        """Write the marker of a step that ended; return its seconds.

        `failure` is the line in which it failed, "" if it did not.
        """
        marker = self.marker(step)
        seconds = round(marker["before"] + time.time() - marker["began"], 3)
        ended = {"failed": failure} if failure else {"seconds": seconds}
        self._write_marker(step, marker | ended)
        return seconds

    def is_finished(self, step: Step) -> bool:
        """Return whether a step has not failed and its output is there."""
        has_ended = "seconds" in self.marker(step)
        return has_ended and os.path.exists(self.output(step))

    def failures(self, plan: Plan) -> dict[str, str]:
        """Return {step: why it has no result} of the steps without one.

        They have failed, or they need a step that has failed.
        """
        found: dict[str, str] = {}
        for name, step in plan.steps.items():
            lost = [before for before in step.after if before in found]
            if line := self.marker(step).get("failed"):
                found[name] = line
            elif lost and not self.is_finished(step):
                needed = plan.steps[lost[0]].number
                found[name] = f"not run: it needs step {needed}, which failed"
        return found

    def check_begun(self, plan: Plan) -> None:
        """Check that the steps that were begun have the same commands now.

        A step that failed may get another command, which may be the cure. Its
        script compares it with what it has written.
        """
        for step in plan.steps.values():
            marker = self.marker(step)
            if marker and "failed" not in marker:
                new = self._identity(step)
                check_same(self.path, step.name, marker["identity"], new)

    def check_models(self, plan: Plan) -> None:
        """Check that no finished step belongs to a model that is missing.

        The model would be trained again, and scores of two models would be
        mixed.

        Raises:
            UserError: names the model and the steps.
        """
        lost: set[str] = set()  # missing models and what came after them
        orphans: list[Step] = []
        for name, step in plan.steps.items():
            is_finished = self.is_finished(step)
            is_after_lost = not lost.isdisjoint(step.after)
            if is_after_lost and is_finished:
                orphans.append(step)
            if is_after_lost or (step.kind == PRETRAINING and not is_finished):
                lost.add(name)
        if orphans:
            model = next(name for name in orphans[0].after if name in lost)
            later = ", ".join(step.name for step in orphans)
            raise UserError(
                f"--work_dir={self.path}: the model {model} is "
                f"missing, but steps after it are finished: {later}. To repeat "
                "all, delete these folders too; to write the tables from what "
                "is there, give --report_only"
            )

    def scores(
        self, step: Step, must_be_whole: bool = False
    ) -> dict[str, float]:
        """Return the scores in a step's eval_results.txt, {} without one.

        Raises:
            UserError: `must_be_whole`, and a line has no number.
        """
        path = os.path.join(self.output(step), "eval_results.txt")
        found: dict[str, float] = {}
        if not os.path.exists(path):
            return found
        for line in text_files.read_text(path).splitlines():
            key, is_pair, value = line.partition(" = ")
            try:
                found[key] = float(value)
            except ValueError:
                if is_pair and must_be_whole:
                    raise UserError(
                        f"{path}: {line!r} is not a score"
                    ) from None
        return found

    def final_scores(self, step: Step) -> dict[str, float]:
        """Return the scores of a step that has ended; {} while it runs.

        A run that is scored between its steps writes the same file.
        """
        marker = self.marker(step)
        return {} if marker and "seconds" not in marker else self.scores(step)

    def remove_weights(self, step: Step) -> None:
        """Remove the large files of a fine-tuned model.

        They are its checkpoints, and the activations of NER-features with their
        fingerprints. The file finished.json of each run of a sweep goes too:
        without weights a run is not finished.
        """
        folder = self.output(step)
        for path, _ in list(file_system.files_below(folder)):
            name = os.path.basename(path)
            if (
                ".ckpt" in name
                or name in ("checkpoint", "finished.json")
                or name.endswith((".npy", ".npy.json"))
            ):
                os.remove(os.path.join(folder, path))
