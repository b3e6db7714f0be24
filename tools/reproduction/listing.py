"""The list of --dry_run: every command in order, and how long it will take.

Lines that are not commands begin with #, so that a shell can run the list.
"""

import shlex
from collections.abc import Iterator, Sequence

from tools.reproduction import run, work_dir
from tools.reproduction.estimate import Estimator
from tools.reproduction.plan import Plan
from tools.reproduction.run import Places


def lines(
    plan: Plan, places: Places, estimator: Estimator, prepare: Sequence[str]
) -> Iterator[str]:
    """Yield the parts of the list.

    Args:
        plan: the steps.
        places: where they are.
        estimator: of their times.
        prepare: command that divides the text and writes configurations.
    """
    numbers = {name: n for n, name in enumerate(plan.steps, 1)}
    finished = {
        name
        for name, step in plan.steps.items()
        if work_dir.read_marker(places.work_dir, step)
    }
    seconds = {
        name: 0.0 if name in finished else estimator.seconds(step)
        for name, step in plan.steps.items()
    }
    yield f"# Times are estimates for this machine: {estimator.speed.how}."
    yield "# A command can run as soon as those that it comes after have ended."
    yield "# Before all others: divide the text, write the configurations."
    yield shlex.join(prepare) + "\n"
    for name, step in plan.steps.items():
        before = ", ".join(f"{numbers[n]}" for n in step.after) or "no other"
        time = f"about {run.words_for(seconds[name])}"
        yield (
            f"# Step {numbers[name]}, for {', '.join(plan.experiments[name])}: "
            f"{step.title}; after {before}; "
            f"{'finished' if name in finished else time}"
        )
        yield places.command(step) + "\n"
    if finished:
        yield f"# {len(finished)} steps are finished."
    yield from _totals(plan, seconds)


def _totals(plan: Plan, seconds: dict[str, float]) -> Iterator[str]:
    """Yield the time of each kind of step, and of all of them."""
    for kind in dict.fromkeys(s.kind for s in plan.steps.values()):
        own = [seconds[n] for n, s in plan.steps.items() if s.kind == kind]
        yield f"# {kind}: {len(own)} steps, {run.words_for(sum(own))}"
    ends: dict[str, float] = {}
    for name, step in plan.steps.items():
        begins = max((ends[n] for n in step.after), default=0.0)
        ends[name] = begins + seconds[name]
    longest = max(ends.values(), default=0.0)
    yield (
        f"# All {len(seconds)} steps: about "
        f"{run.words_for(sum(seconds.values()))} one after the other on this "
        f"machine; {run.words_for(longest)} if all that can run at the same "
        "time does so, each on a machine like this one"
    )
