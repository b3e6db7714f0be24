"""Run the steps of a plan as child processes: in order, several at a time.

If a step fails, its marker gets the last line that it printed. The steps that
need it are left out, and all others run. A finished step has a marker too, so
that the same command, given again, runs the steps that are missing.

The processes of a step are a group of their own. Ctrl-C therefore reaches this
process alone, which asks the steps once to save and end. On Linux they are also
asked if this process is killed. They hold the lock of the work directory until
they have ended.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from base import child_processes, interrupts
from base.progress import format_seconds

from absl import logging

from tools.reproduction.steps import FINETUNING, Plan, Step
from tools.reproduction.work_dir import WorkDir

_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_TO_SAVE = 120.0
_SHOWN_LINES = 8  # of a step that failed


class _Child(NamedTuple):
    """The process of a step, when it began, and where in the log."""

    step: Step
    process: subprocess.Popen
    began: float
    offset: int

    def end(self, work: WorkDir) -> bool:
        """Note how the ended step ended; return whether it is finished.

        The last lines of a failed step are logged.
        """
        seconds, number = time.monotonic() - self.began, self.step.number
        if not self.process.returncode:
            total = work.note(self.step, seconds, "")
            logging.info("Step %d took %s", number, format_seconds(total))
            return True
        with open(
            work.log(self.step), encoding="utf-8", errors="replace"
        ) as log:
            log.seek(self.offset)
            lines = [line for line in map(str.strip, log) if line]
        lines = lines[-_SHOWN_LINES:] or ["it printed nothing"]
        logging.error(
            "Step %d ended with status %d:\n%s",
            number,
            self.process.returncode,
            "\n".join(f"    {line}" for line in lines),
        )
        # Libraries may print more after the error, when the process ends.
        errors = [line for line in lines if line.startswith("ERROR: ")]
        line = (errors or lines)[-1].removeprefix("ERROR: ")
        work.note(self.step, seconds, line)
        return False

    def signal(self, number: int) -> bool:
        """Send a signal to the step's processes; return whether there are any.

        The signal 0 is none: it only asks.
        """
        self.process.poll()
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True


def _start(step: Step, work: WorkDir, lock: int) -> _Child:
    """Start the process of a step, which prints into a file."""
    path = work.log(step)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # The log is appended to, since a run may continue another one. It is a
    # file: a process that the step leaves behind would keep a pipe open.
    with open(path, "ab") as log:
        log.write(f"$ {work.command(step)}\n".encode())
        log.flush()
        offset = log.tell()
        process = subprocess.Popen(
            [sys.executable, *work.words(step)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=child_processes.end_with_parent,
            pass_fds=(lock,),
        )
    return _Child(step, process, time.monotonic(), offset)


def run(plan: Plan, work: WorkDir, keep_models: bool, lock: int) -> None:
    """Run the steps of a plan that are not finished.

    Args:
        plan: the steps.
        work: the directory where they run.
        keep_models: whether fine-tuned models keep their weights.
        lock: the descriptor of the lock of the work directory.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM; all child processes have ended.
    """
    finished = {n for n, step in plan.steps.items() if work.is_finished(step)}
    if finished:
        logging.info(
            "%d of %d steps are finished and not repeated",
            len(finished),
            len(plan.steps),
        )
    waiting = [s for name, s in plan.steps.items() if name not in finished]
    running: list[_Child] = []
    with interrupts.ending_on_sigterm():
        try:
            while True:
                for step in list(waiting):
                    if len(running) == plan.scale.num_parallel:
                        break
                    if not finished.issuperset(step.after):
                        continue
                    waiting.remove(step)
                    logging.info(
                        "Step %d of %d, which prints into %s:\n%s",
                        step.number,
                        len(plan.steps),
                        work.log(step),
                        work.command(step),
                    )
                    work.note(step, 0.0)
                    running.append(_start(step, work, lock))
                if not running:  # what still waits needs a step that failed
                    return
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                for child in list(running):
                    if child.process.poll() is None:
                        continue
                    running.remove(child)
                    if child.end(work):
                        finished.add(child.step.name)
                        if child.step.kind == FINETUNING and not keep_models:
                            work.remove_weights(child.step)
        finally:  # a full disk or a bug leaves no process behind
            if running:
                logging.info(
                    "Waiting for %d running commands to save their work; "
                    "Ctrl-C ends them at once",
                    len(running),
                )
                _end_all(running)
                for child in running:  # what was saved is continued
                    work.note(child.step, time.monotonic() - child.began)


def _end_all(running: Sequence[_Child]) -> None:
    """Ask running steps to save and end; wait for all of their processes."""
    for child in running:
        child.signal(signal.SIGTERM)
    end = time.monotonic() + _SECONDS_TO_SAVE
    try:
        while any([c.signal(0) for c in running]) and time.monotonic() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    finally:
        for child in running:
            child.signal(signal.SIGKILL)
