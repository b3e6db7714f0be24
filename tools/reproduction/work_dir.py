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
step or uses its output. It has the seconds of all attempts, and of a step that
failed the line in which it failed. The folder steps/ tells that this script
began the directory.
"""

import functools
import os
import pathlib
import string
from collections.abc import Mapping
from typing import Any, NamedTuple

from base import file_system, text_files
from base.errors import UserError

from tools import commands
from tools.reproduction.steps import Plan, Step

# Large files of a fine-tuned model: weights, and activations of NER-features.
# Without weights a run of a sweep is not finished.
_WEIGHTS = ("*.ckpt*", "checkpoint", "finished.json", "*.npy", "*.npy.json")


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

    def files(self, pattern: str) -> list[str]:
        """Return the files of what a step reads, such as "$input_file"."""
        found = string.Template(pattern).substitute(self.places)
        return file_system.find_files(found, pattern.lstrip("$"))

    def words(self, step: Step) -> list[str]:
        """Return a step's script and flags."""
        flags = [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in step.flags.items()
        ]
        paths = (string.Template(f).safe_substitute(self.places) for f in flags)
        return [step.script, *paths]

    def command(self, step: Step) -> str:
        """Return a step's command as one pastes it into a shell."""
        return commands.shell_lines(["python", *self.words(step)])

    def output(self, step: Step) -> str:
        """Return the path of what a step writes."""
        return os.path.join(self.path, step.name)

    def log(self, step: Step) -> str:
        """Return the file of what a step's command printed."""
        return os.path.join(self.path, "logs", f"{step.name}.log")

    def marker(self, step: Step) -> dict[str, Any]:
        """Return the marker of a step, {} if it was not begun."""
        return text_files.read_own_json(self._marker_path(step))

    def _marker_path(self, step: Step) -> str:
        return os.path.join(self.path, "steps", f"{step.name}.json")

    def _identity(self, step: Step) -> dict[str, Any]:
        """Return what no other command has: flags and checksums of data."""
        found = {f"--{name}": value for name, value in step.flags.items()}
        found |= step.config
        for pattern in step.reads:
            files = self.files(pattern)
            # The files may be moved, all together.
            names = file_system.names_in_shared_folder(files)
            found |= dict(zip(names, map(checksum, files), strict=True))
        return found

    def note(self, step: Step, seconds: float, **state: Any) -> None:
        """Write the marker of a step that has run for some more seconds.

        `state` is nothing if the step has not ended, finished=True, or failed=
        the line in which it failed.
        """
        seconds = round(self.marker(step).get("seconds", 0.0) + seconds, 3)
        marker = {"identity": self._identity(step), "seconds": seconds, **state}
        file = self._marker_path(step)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        text_files.write_json(file, marker)

    def is_finished(self, step: Step) -> bool:
        """Return whether a step has not failed and its output is there."""
        has_ended = "finished" in self.marker(step)
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

    def begin(self, plan: Plan) -> None:
        """Begin the directory, or check that the same command began it.

        Writes the configurations of the models. A step that failed may get
        another command, which may be the cure. Its script compares it with what
        it has written.

        Raises:
            UserError: there are other files, or steps were begun with other
                commands; the message has the first difference.
        """
        steps = os.path.join(self.path, "steps")
        if not os.path.exists(steps):
            file_system.check_new_directory(self.path, "work_dir", ["lock"])
        os.makedirs(steps, exist_ok=True)
        for step in plan.steps.values():
            marker = self.marker(step)
            if not marker or "failed" in marker:
                continue
            old, new = marker["identity"], self._identity(step)
            for key in {**old, **new}:
                was, is_now = (own.get(key, "not there") for own in (old, new))
                if was != is_now:
                    raise UserError(
                        f"--work_dir={self.path} was begun by a different "
                        f"command: {step.name}: {key} was {was}, is {is_now}. "
                        "Name another --work_dir, or give the former value"
                    )
        for step in plan.steps.values():
            if step.config:
                path = step.flags["bert_config_file"]
                path = path.replace("$work_dir", self.path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                text_files.write_json(path, step.config)

    def scores(self, step: Step) -> dict[str, float]:
        """Return the scores in a step's eval_results.txt, {} without one.

        A step that has not ended has none: a run that is scored between its
        steps writes the same file.
        """
        marker = self.marker(step)
        path = os.path.join(self.output(step), "eval_results.txt")
        if (marker and "finished" not in marker) or not os.path.exists(path):
            return {}
        return text_files.read_numbers(path)

    def remove_weights(self, step: Step) -> None:
        """Remove the large files of a fine-tuned model."""
        folder = pathlib.Path(self.output(step))
        for pattern in _WEIGHTS:
            for path in list(folder.rglob(pattern)):
                path.unlink()
