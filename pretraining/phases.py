"""The phases of a pre-training: parts whose batches have one shape.

A schedule gives a value for each part of the steps. 32:0.3,128:1 are batches
of 32 up to 30% of the steps, and of 128 from there to the end. A phase begins
wherever a value changes. Each phase is trained as a run of its own from the
checkpoint of the one before it, so that all its shapes are static.

No number here depends on time or devices: a resumed run has the same phases.
"""

import collections
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np

# (value, share of the steps at which it ends), in order; the last share is 1.
Schedule = tuple[tuple[Any, float], ...]


def constant(value: Any) -> Schedule:
    """Return the schedule of one value for all steps."""
    return ((value, 1.0),)


def parse(flag: str, items: list[str]) -> Schedule:
    """Return the schedule of whole numbers that a flag has, such as 8:0.3,32:1.

    Raises:
        UserError: the items are not of that form.
    """
    try:
        pairs = [item.split(":") for item in items]
        found = tuple((int(value), float(share)) for value, share in pairs)
        shares = [0.0, *(share for _, share in found)]
        rises = all(a < b for a, b in zip(shares, shares[1:], strict=False))
        is_good = rises and shares[-1] == 1 and min(found)[0] > 0
    except ValueError:
        is_good = False
    if not is_good:
        raise UserError(
            f"--{flag}={','.join(items)}: wanted values from 1 and the shares "
            "of the steps at which they end, the last one 1, such as "
            "32:0.3,128:1"
        )
    return found


class Phase(NamedTuple):
    """A part of the steps of a run.

    Attributes:
        first_step, last_step: steps done before and after it.
        num_steps: steps of the whole run.
        batch_size: examples in a step, over all devices.
        first_example: number of its first example in the stream of the records
            of its length.
        length: tokens of a sequence.
    """

    first_step: int
    last_step: int
    num_steps: int
    batch_size: int
    first_example: int = 0
    length: int = 128

    def __str__(self) -> str:
        return (
            f"steps {self.first_step:,} to {self.last_step:,}, batches of "
            f"{self.batch_size} x {self.length}"
        )

    def done_before(self, numbers: np.ndarray) -> np.ndarray:
        """Return the share of all steps that is done before each example."""
        steps = (numbers - self.first_example) // self.batch_size
        return (self.first_step + steps) / self.num_steps


class Plan(NamedTuple):
    """How a run is divided into phases.

    Attributes:
        hours: --train_hours, if it decided the number of steps; else None.
        batch_size: schedule of the examples in a step.
        length: schedule of the length of sequences; each length has records of
            its own.
    """

    hours: float | None
    batch_size: Schedule
    length: Schedule = constant(128)

    def phases(self, num_steps: int) -> list[Phase]:
        """Return the phases of so many steps, but for phases without a step.

        100 steps of 8:0.3,32:1 are 30 steps of 8 from example 0, and 70 steps
        of 32 from example 240 on.
        """
        schedules = (self.batch_size, self.length)
        shares = sorted({share for pairs in schedules for _, share in pairs})
        phases, first = [], 0
        examples: dict[int, int] = collections.Counter()  # of each length
        for share in shares:
            last = round(share * num_steps)
            size, length = (
                next(value for value, end in pairs if share <= end)
                for pairs in schedules
            )
            if last > first:
                example = examples[length]
                phases.append(
                    Phase(first, last, num_steps, size, example, length)
                )
            examples[length] += (last - first) * size
            first = last
        return phases

    def describe(self, num_steps: int) -> dict[str, Any]:
        """Return what may not change when a run is resumed."""
        phases = self.phases(num_steps)
        several = [phase._asdict() for phase in phases] * (len(phases) > 1)
        return {"train_hours": self.hours, "phases": several}
