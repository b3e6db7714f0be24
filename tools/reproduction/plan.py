"""A step is one command line; a plan is a list of steps in order.

Shared work is done once because a step's name follows from everything that
its command depends on: a model that two tables need has one step name, so it
is trained once. Paths are written with placeholders, {work_dir} and those of
the data, so that a marker does not depend on how a command writes its paths.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from tools import commands
from tools.reproduction.scales import Size

# Kinds of steps.
VOCABULARY, RECORDS = "vocabulary", "records"
PRETRAINING, FINETUNING = "pretraining", "finetuning"
SCORED = (PRETRAINING, FINETUNING)
KINDS = (VOCABULARY, RECORDS, PRETRAINING, FINETUNING)

_WIDTH = 80  # characters of a line of a command


class Step(NamedTuple):
    """One command.

    Attributes:
        name: path of its marker and its log below the work directory.
        title: what it is for.
        kind: VOCABULARY, RECORDS, PRETRAINING or FINETUNING.
        script: file name.
        flags: (flag, value); values may have placeholders.
        after: names of the steps that have to be finished before.
        output: the file or directory it writes, below the work directory.
        size: of the encoder that it trains.
        task: that it fine-tunes on.
    """

    name: str
    title: str
    kind: str
    script: str
    flags: tuple[tuple[str, str], ...]
    after: tuple[str, ...] = ()
    output: str = ""
    size: Size | None = None
    task: str = ""

    def arguments(self, places: Mapping[str, str]) -> list[str]:
        """Return the flags for a command line.

        Args:
            places: placeholder such as "{work_dir}" -> path.
        """
        found = []
        for name, value in self.flags:
            for placeholder, path in places.items():
                value = value.replace(placeholder, path)
            if value == "true":
                found.append(f"--{name}")
            else:
                found.append(f"--{name}={value}")
        return found


class Plan:
    """Steps in the order in which one machine runs them."""

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}
        self.experiments: dict[str, list[str]] = {}  # step -> its tables

    def add(self, step: Step, experiment: str) -> str:
        """Add a step unless the plan has it; return its name.

        Args:
            step: everything it comes after is in the plan already.
            experiment: the table that needs it.
        """
        known = self.steps.setdefault(step.name, step)
        if known.flags != step.flags:
            raise ValueError(f"two commands are called {step.name}")
        for name in (*step.after, step.name):
            self._note(name, experiment)
        return step.name

    def tasks(self) -> list[str]:
        """Return the tasks that models are fine-tuned on."""
        found = (step.task for step in self.steps.values())
        return list(dict.fromkeys(filter(None, found)))

    def _note(self, name: str, experiment: str) -> None:
        """Note that a table needs a step and all that it comes after."""
        users = self.experiments.setdefault(name, [])
        if experiment not in users:
            users.append(experiment)
            for before in self.steps[name].after:
                self._note(before, experiment)


class Places(NamedTuple):
    """Where things are.

    Attributes:
        work_dir: of the results.
        script_dir: of the scripts.
        shown_script_dir: the same in the commands that are shown; "" for the
            current directory.
        paths: placeholder -> path.
    """

    work_dir: str
    script_dir: str
    shown_script_dir: str
    paths: Mapping[str, str]

    def command(self, step: Step) -> str:
        """Return a step's command as one pastes it into a shell."""
        script = os.path.join(self.shown_script_dir, step.script)
        words = ["python", script, *step.arguments(self.paths)]
        return commands.shell_lines(words, _WIDTH)
