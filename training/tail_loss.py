"""The training loss of the last steps of a run, kept across restarts.

A single step's loss is noise. The mean over the last steps shows what the run
ended with. Its sums are written before each checkpoint among these steps, so
that a run that goes on after an interruption has all of them. When training
ends, what they show of a failed run is written too: another command may score
the weights.
"""

import json
import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from base import cluster, file_system, text_files

NAME = "tail_loss.json"

_SIGN = "sign"  # its key for what the loss shows of a failed run

# The last steps are a tenth of the run, or more: those that take this many
# examples, but at most half of the run.
MIN_EXAMPLES = 100

# Entries kept in the file: of the newest checkpoint, and of the one before. A
# run killed between the two writes goes on from the older checkpoint.
_KEPT = 2


class TailLoss(NamedTuple):
    """The training loss of the last steps of a run.

    Attributes:
        loss: mean over steps; NaN without a step.
        num_steps: how many steps.
        num_examples: examples in them.
    """

    loss: float
    num_steps: int
    num_examples: int


class TailMeter:
    """Adds up the training loss of the last steps of a run.

    Args:
        output_dir: of the run.
        last_step: the step at which it ends.
        batch_size: examples in a step.

    Attributes:
        first: number of steps before those that count.
    """

    def __init__(self, output_dir: str, last_step: int, batch_size: int):
        self._path = os.path.join(output_dir, NAME)
        self._last_step = last_step
        # Of 343 steps of 32 examples the last 35: numbers 309 to 343, with 308
        # before them. Of 18 such steps the last 4, of 6 the last 3.
        count = max(
            math.ceil(last_step / 10), math.ceil(MIN_EXAMPLES / batch_size)
        )
        self.first = last_step - min(count, last_step // 2)
        # Sum of the losses of steps, number of steps, number of examples.
        self._sums = [0.0, 0.0, 0.0]

    def add(self, before: int, sums: Mapping) -> None:
        """Add the sums of a call of the step.

        Args:
            before: steps done before the call.
            sums: {name: (sum, count)} with `loss`, a mean for each step, and
                `tokens`, which counts the examples.
        """
        if before < self.first:
            return
        loss, steps = map(float, sums["loss"])
        examples = float(sums["tokens"][1])
        for at, value in enumerate((loss, steps, examples)):
            self._sums[at] += value

    def save(self, done: int) -> None:
        """Write the sums after `done` steps; only the chief writes."""
        if done <= self.first or not cluster.is_chief():
            return
        # Entries of steps that are done again are not counted. Example: saved
        # at 94 and 97, killed while 97 was saved, on from 94: when 97 is saved
        # again, the entry to keep beside it is that of 94.
        found = self._entries()
        before = [step for step in found if step.isdecimal()]
        before = sorted((s for s in before if int(s) < done), key=int)
        entries = {step: found[step] for step in before[-_KEPT + 1 :]}
        entries[str(done)] = self._sums
        value = {"last_step": self._last_step, "sums": entries}
        file_system.write_text(self._path, json.dumps(value) + "\n")

    def restore(self, done: int) -> None:
        """Go on after `done` steps with the sums that were written there.

        Without them, as when the run now ends at another step, the mean is
        that of the steps from here on.
        """
        found = self._entries().get(str(done))
        if isinstance(found, list) and len(found) == len(self._sums):
            self._sums = [float(value) for value in found]

    def _entries(self) -> dict[str, list[float]]:
        """Return {steps done: sums} of the file, if it is of this run."""
        found = text_files.read_own_json(self._path)
        if not isinstance(found, dict):
            return {}
        if found.get("last_step") != self._last_step:
            return {}
        sums = found.get("sums")
        return sums if isinstance(sums, dict) else {}

    def write_sign(self, step: int, text: str | None) -> None:
        """Write what the loss showed when training ended, for later commands.

        Args:
            step: of the weights that are kept.
            text: the sign of a failed run; None: none, an older one is removed.
        """
        if not cluster.is_chief():
            return
        found = text_files.read_own_json(self._path)
        value = dict(found) if isinstance(found, dict) else {}
        if text is None and _SIGN not in value:
            return
        value.pop(_SIGN, None)
        if text:
            value[_SIGN] = {"step": step, "text": text}
        file_system.write_text(self._path, json.dumps(value) + "\n")

    def value(self) -> TailLoss:
        """Return the mean loss and what it is a mean of."""
        loss, steps, examples = self._sums
        mean = loss / steps if steps else math.nan
        return TailLoss(mean, int(steps), int(examples))


def read_sign(output_dir: str, step: int) -> str | None:
    """Return what the training loss showed of a failed run, if anything.

    Args:
        output_dir: of the run.
        step: of the weights; there is no sign for those of other steps.
    """
    found = text_files.read_own_json(os.path.join(output_dir, NAME))
    sign = found.get(_SIGN) if isinstance(found, dict) else None
    if not isinstance(sign, dict) or sign.get("step") != step:
        return None
    return sign.get("text")
