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
import string
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import file_system, text_files
from base.errors import UserError

from tools import commands
from tools.reproduction.steps import Plan, Step

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


@functools.cache
def checksum(path: str) -> str:
    """Return 16 digits of a file's SHA-256; each file is read once."""
    return file_system.sha256(path)[:16]


class WorkDir(NamedTuple):
    """A work directory, and where the files that its steps read are."""

    path: str
    # "work_dir", or another name that stands behind $ in flags -> path. Those
    # of the user's data are there if they are given.
    places: Mapping[str, str]
    inputs: Mapping[str, Sequence[str]]  # what steps read -> its files
    scripts: str  # their folder, "" for the current directory

    def words(self, step: Step) -> list[str]:
        """Return a step's script and flags."""
        flags = [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in step.flags.items()
        ]
        return [
            os.path.join(self.scripts, step.script),
            *(string.Template(f).safe_substitute(self.places) for f in flags),
        ]

    def command(self, step: Step) -> str:
        """Return a step's command as one pastes it into a shell."""
        return commands.shell_lines(["python", *self.words(step)], _LINE)

    def output(self, step: Step) -> str:
        """Return the path of what a step writes."""
        return os.path.join(self.path, step.name)

    def log(self, step: Step) -> str:
        """Return the file of what a step's command printed."""
        return os.path.join(self.path, "logs", f"{step.name}.log")

    def marker(self, step: Step) -> dict[str, Any]:
        """Return the marker of a step, {} if it was not begun."""
        return text_files.read_own_json(self._marker_path(step)) or {}

    def _marker_path(self, step: Step) -> str:
        return os.path.join(self.path, "steps", f"{step.name}.json")

    def _identity(self, step: Step) -> dict[str, Any]:
        """Return what no other command has: flags and checksums of data."""
        found = {f"--{name}": value for name, value in step.flags.items()}
        found |= step.config
        for name in step.reads:
            files = self.inputs[name]
            # The files may be moved, all together.
            names = file_system.names_in_shared_folder(files)
            found |= dict(zip(names, map(checksum, files), strict=True))
        return found

    def note(
        self, step: Step, seconds: float, failure: str | None = None
    ) -> float:
        """Write the marker of a step; return the seconds of all its attempts.

        Args:
            step: the step.
            seconds: that it has run since the last note.
            failure: None if it has not ended, "" if it is finished, else the
                line in which it failed.
        """
        total = round(self.marker(step).get("before", 0.0) + seconds, 3)
        values = {"identity": self._identity(step), "before": total}
        if failure:
            values["failed"] = failure
        elif failure is not None:
            values["seconds"] = total
        file = self._marker_path(step)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        file_system.write_text(file, json.dumps(values, indent=1))
        return total

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
                found[name] = f"not run: it needs {lost[0]}, which failed"
        return found

    def check_begun(self, plan: Plan) -> None:
        """Check that the steps that were begun have the same commands now.

        A step that failed may get another command, which may be the cure. Its
        script compares it with what it has written.

        Raises:
            UserError: some differ; the message has the first ones.
        """
        for step in plan.steps.values():
            marker = self.marker(step)
            if not marker or "failed" in marker:
                continue
            old, new = marker.get("identity", {}), self._identity(step)
            found = [
                f"{k} was {old.get(k, 'not there')}, is "
                f"{new.get(k, 'not there')}"
                for k in {**old, **new}
                if old.get(k) != new.get(k)
            ]
            if more := found[_SHOWN_DIFFERENCES:]:
                found[_SHOWN_DIFFERENCES:] = [f"and {len(more)} more"]
            if found:
                raise UserError(
                    f"--work_dir={self.path} was begun by a different command: "
                    f"{step.name}: {'; '.join(found)}. Name another "
                    "--work_dir, or give what it was begun with"
                )

    def scores(self, step: Step) -> dict[str, float]:
        """Return the scores in a step's eval_results.txt, {} without one.

        A step that has not ended has none: a run that is scored between its
        steps writes the same file.
        """
        marker = self.marker(step)
        path = os.path.join(self.output(step), "eval_results.txt")
        if (marker and "seconds" not in marker) or not os.path.exists(path):
            return {}
        pairs = (
            line.split(" = ", 1)
            for line in text_files.read_text(path).splitlines()
            if " = " in line
        )
        return {key: float(value) for key, value in pairs}

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
