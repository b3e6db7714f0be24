r"""Repeat steps of a training run and say whether the bits are the same.

    python -m tools.verify_run --output_dir=out --from_step=1000 --to_step=2000

is for a run with --ledger, a flag of every script that trains. It repeats the
run's own command in a temporary folder, from the checkpoint of step 1,000 until
step 2,000 is done, and compares both ledgers: records, their order, weights and
moments. The exit status is 0 if all are the same. On a machine with other
instructions the weights differ in rounding; the script then says how far they
are apart.
"""

import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from base import file_system, logs, machine, script, startup
from base.errors import UserError
from base.flags import define, flag

import numpy as np
from absl import flags

from checkpoints.run_folder import IF_KNOWN, Identity, RunFolder

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The run, and which of its steps are repeated."""

    output_dir: str = flag(required=True)
    """Directory of the run, with a ledger."""

    from_step: int | None = flag(low=0)
    """Begin with the checkpoint of this step; 0: as the run began. Default: the
    oldest checkpoint that is there."""

    to_step: int | None = flag(low=1)
    """End with this step, which has a line in the ledger. Default: the last."""


define(Flags)


# Flags of the run's command that are not repeated: for what follows the
# training, and a type that would be chosen anew.
_LEFT_OUT = re.compile(r"--?((do_predict|do_export|restart)(=.*)?|dtype=auto)")

Line = Mapping[str, Any]


def main(_: list[str]) -> int:
    """Repeat the steps and compare; return the exit status."""
    with startup.importing():
        from training.hooks import ledger
    run, lines = RunFolder.read(FLAGS.output_dir), ledger.read(FLAGS.output_dir)
    first, last = find_steps(run, lines)
    begin = find_command(lines, first, last)
    with tempfile.TemporaryDirectory() as folder:
        replay = os.path.join(folder, "replay")
        copy_state(run, begin, lines, first, last, replay)
        repeat(run, begin, replay, last)
        replayed = ledger.read(replay)
        problems = [*compare(lines, replayed, first, last)]
        problems += compare_checkpoints(replay, last)
    machine = next(line["machine"] for line in replayed if "machine" in line)
    if problems and machine != begin["machine"]:
        problems.append(
            f"The run was on another machine: {begin['machine']}, this is "
            f"{machine}. Differences of rounding are to be expected"
        )
    print("\n".join(problems) or f"Steps {first:,} to {last:,}: the same bits")
    return 1 if problems else 0


def find_steps(run: RunFolder, lines: Sequence[Line]) -> tuple[int, int]:
    """Return the first and the last step of the flags, checked.

    Raises:
        UserError: there is no ledger, or no checkpoint or line of a step.
    """
    from checkpoints import weight_files
    from training.hooks import ledger

    if not lines:
        raise UserError(
            f"--output_dir={FLAGS.output_dir} has no {ledger.NAME}: train with "
            "--ledger=100"
        )
    known = [line["step"] for line in lines]
    there = filter(run.has, run.listed)
    starts = {0, *map(weight_files.global_step, there)} & {*known}
    if run.fixed.get("train_hours"):
        # From step 0 the command would time its steps again, and could choose
        # another number of them.
        starts -= {0}
    first = FLAGS.from_step
    if first is None:
        first = min(starts - {0, known[-1]}, default=0)
    last = FLAGS.to_step or known[-1]
    for name, step, what, there in (
        ("from_step", first, "checkpoint of this step in the ledger", starts),
        (
            "to_step",
            last,
            f"line of the ledger after step {first}",
            {step for step in known if step > first},
        ),
    ):
        if step not in there:
            raise UserError(
                f"--{name}={step}: no {what}; there are "
                f"{', '.join(map(str, sorted(there))) or 'none'}"
            )
    return first, last


def find_command(lines: Sequence[Line], first: int, last: int) -> Line:
    """Return the line of the command that did the steps.

    Raises:
        UserError: there were several different ones.
    """
    starts = [line for line in lines if "command" in line]
    begin = [line for line in starts if line["step"] <= first][-1]
    for line in starts:
        if first < line["step"] < last and line["command"] != begin["command"]:
            raise UserError(
                "the run was resumed by another command at step "
                f"{line['step']}: verify the steps before it and after it"
            )
    return begin


def copy_state(
    run: RunFolder,
    begin: Line,
    lines: Sequence[Line],
    step: int,
    last: int,
    folder: str,
) -> None:
    """Copy the checkpoint of a step and the settings it had to a new folder.

    The digests of its files stay behind: that the records have changed is for
    the ledger to say. Of the ledger the steps until the last one are copied, as
    the clock chose some of them; the run has lines there again.
    """
    import tensorflow as tf

    from checkpoints.training_state import TRAINING_NAME
    from training.hooks import ledger

    os.makedirs(folder)
    if run.fixed:
        fixed = {n: v for n, v in run.fixed.items() if n not in IF_KNOWN}
        # Later commands may have other settings, such as --num_train_steps.
        own = begin.get("settings", {})
        others = {n: own.get(n, old) for n, old in run.adjustable.items()}
        RunFolder(folder).write_settings(Identity(fixed, others, {}))
    steps = [x["step"] for x in lines if step < x["step"] <= last]
    file_system.write_text(
        os.path.join(folder, ledger.NAME),
        "".join(f'{{"step": {number}}}\n' for number in steps),
    )
    if not step:
        return
    name = f"{TRAINING_NAME}-{step}"
    for path in tf.io.gfile.glob(os.path.join(FLAGS.output_dir, f"{name}.*")):
        tf.io.gfile.copy(path, os.path.join(folder, os.path.basename(path)))
    file_system.write_text(
        os.path.join(folder, "checkpoint"), f'model_checkpoint_path: "{name}"\n'
    )


def repeat(run: RunFolder, begin: Line, folder: str, last: int) -> None:
    """Repeat the run's command in a folder until step `last` is done.

    Raises:
        UserError: the command ends before that.
    """
    from training.hooks import ledger

    program, *words = begin["command"]
    # From step 0 --dtype=auto, also of a recipe, would choose a type anew.
    dtype = run.adjustable.get("dtype")
    command = [sys.executable, program, *[f"--dtype={dtype}"] * bool(dtype)]
    command += [word for word in words if not _LEFT_OUT.fullmatch(word)]
    command += [f"--output_dir={folder}", "--keep_checkpoint_max=0"]
    command += ["--nopictures", "--save_checkpoints_minutes=0"]
    logs.say("Repeating: %s", " ".join(command))
    process = subprocess.Popen(
        command,
        cwd=begin["folder"],
        stdout=subprocess.DEVNULL,
        preexec_fn=machine.end_with_parent,
    )

    def is_done() -> bool:
        lines = ledger.read(folder)
        return any(x["step"] >= last and "weights" in x for x in lines)

    while process.poll() is None and not is_done():
        time.sleep(0.2)
    # A run that is told to stop saves a checkpoint and ends. Before that, the
    # checkpoint of step `last` is saved, right after its line of the ledger.
    process.terminate()
    process.wait()
    if not is_done():
        raise UserError(
            f"the command ended with status {process.returncode} before step "
            f"{last:,}, see above"
        )


def compare(
    lines: Sequence[Line], replayed: Sequence[Line], first: int, last: int
) -> Iterator[str]:
    """Yield a sentence for each line of two ledgers that differs."""
    # A step where a process began has several lines; the last one counts.
    states = {line["step"]: line for line in lines}
    for name in ("weights", "moments"):
        if states[first][name] != replayed[0][name]:
            yield (
                f"Step {first:,}: the checkpoint has other {name} than the "
                "ledger"
            )
    spans = {(x["from"], x["step"]): x for x in lines if "from" in x}
    for line in replayed:
        start, step = line.get("from"), line["step"]
        if start is None or step not in states or step > last:
            continue
        names = ["weights", "moments"]
        if (start, step) in spans:
            names = ["records", "order", *names]
        wanted = spans.get((start, step), states[step])
        differ = [name for name in names if line[name] != wanted[name]]
        # If the records differ, so does their order: name the records alone.
        if "records" in differ:
            differ.remove("order")
        if differ:
            yield f"Steps {start:,} to {step:,}: other {', '.join(differ)}"


def compare_checkpoints(replay: str, step: int) -> Iterator[str]:
    """Yield how far both checkpoints of a step are apart, in which variable."""
    from checkpoints import weight_files
    from checkpoints.training_state import TRAINING_NAME

    prefixes = [
        os.path.join(folder, f"{TRAINING_NAME}-{step}")
        for folder in (FLAGS.output_dir, replay)
    ]
    if not all(file_system.exists(f"{prefix}.index") for prefix in prefixes):
        return
    readers = [weight_files.Reader(prefix) for prefix in prefixes]
    apart = []
    for name in readers[1].get_variable_to_shape_map():
        theirs, ours = (
            np.float64(reader.get_tensor(name)) for reader in readers
        )
        apart.append((np.abs(theirs - ours).max(), np.abs(ours).max(), name))
    distance, size, name = max(apart)
    if distance:
        yield (
            f"Checkpoint of step {step:,}: {name} is {distance:.3g} apart, "
            f"where its largest value is {size:.3g}"
        )


if __name__ == "__main__":
    script.run(main)
