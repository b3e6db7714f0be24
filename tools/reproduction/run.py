"""Run the steps of a plan as child processes: in order, several at a time.

A step that fails is noted with the last line it printed; steps that need it
are left out, all others go on. A finished step leaves a marker, so that the
same command started again does what is missing. Child processes are in a
process group of their own: Ctrl-C reaches this process alone, which asks them
once to save and end. On Linux they are also asked if this process is killed,
and they hold the lock of the work directory until they have ended.
"""

import collections
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from base import child_processes, interrupts
from base.errors import UserError
from base.progress import format_seconds

from absl import logging

from tools.reproduction.steps import FINETUNING, PRETRAINING, Plan, Step
from tools.reproduction.work_dir import WorkDir

_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_REPORTS = 30.0
_SECONDS_TO_SAVE = 120.0
_SHOWN_LINES = 8  # of a step that failed


class _Child:
    """A running step."""

    def __init__(self, step: Step, work: WorkDir, lock: int):
        self.step = step
        self.last_report = time.monotonic()
        self.lines: collections.deque[str] = collections.deque(
            maxlen=_SHOWN_LINES
        )
        path = work.log(step)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Appended: a run that continues another one keeps its log. A file and
        # not a pipe, which a process that the step leaves behind would hold.
        with open(path, "ab") as log:
            log.write(f"$ {work.command(step)}\n".encode())
            log.flush()
            self.log = open(path, errors="replace")
            self.log.seek(0, os.SEEK_END)
            self.process = subprocess.Popen(
                [sys.executable, *work.words(step)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=child_processes.end_with_parent,
                pass_fds=(lock,),
            )

    def show(self) -> None:
        """Show warnings and errors, and reports of progress now and then."""
        for line in map(str.strip, self.log.read().splitlines()):
            if not line:
                continue
            self.lines.append(line)
            text = re.sub(r"^\d\d:\d\d:\d\d +", "", line)
            if text.startswith(("WARNING: ", "ERROR: ")):
                logging.warning("Step %d: %s", self.step.number, text)
            elif " | " in text and "ETA" in text:
                now = time.monotonic()
                if now - self.last_report > _SECONDS_BETWEEN_REPORTS:
                    self.last_report = now
                    logging.info("Step %d: %s", self.step.number, text)

    def failure(self) -> str:
        """Return the line in which a step failed, "" if it has not.

        It has ended. The end of what it printed is shown.
        """
        self.show()
        self.log.close()
        if not self.process.returncode:
            return ""
        lines = list(self.lines) or ["it printed nothing"]
        logging.error(
            "Step %d ended with status %d; its log is %s and ends with\n%s",
            self.step.number,
            self.process.returncode,
            self.log.name,
            "\n".join(f"    {line}" for line in lines),
        )
        # Libraries may print more after it, at the end of the process.
        errors = [line for line in lines if line.startswith("ERROR: ")]
        return (errors or lines)[-1].removeprefix("ERROR: ")

    def signal(self, number: int) -> bool:
        """Send a signal to the step's processes; return whether there were any.

        The signal 0 asks only that.
        """
        self.process.poll()
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True


def run(
    plan: Plan,
    work: WorkDir,
    num_parallel: int,
    keep_models: bool,
    lock: int,
    on_scores: Callable[[], None],
) -> None:
    """Run everything of a plan that is not finished.

    After Ctrl-C and SIGTERM it ends when all child processes have ended, which
    hold the lock, a descriptor.

    Args:
        plan, work: the steps and where they run.
        num_parallel: steps at the same time.
        keep_models: do not remove the weights of fine-tuned models.
        lock: of the work directory.
        on_scores: called after each step that has written scores.
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
                    is_ready = finished.issuperset(step.after)
                    if is_ready and len(running) < num_parallel:
                        waiting.remove(step)
                        logging.info(
                            "Step %d of %d: %s\n%s",
                            step.number,
                            len(plan.steps),
                            step.title,
                            work.command(step),
                        )
                        work.begin(step)
                        running.append(_Child(step, work, lock))
                if not running:  # what still waits needs a step that failed
                    return
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                for child in list(running):
                    child.show()
                    if child.process.poll() is None:
                        continue
                    running.remove(child)
                    step, failure = child.step, child.failure()
                    if not failure:
                        try:
                            work.scores(step, must_be_whole=True)
                        except UserError as error:
                            failure = str(error)
                    seconds = work.end(step, failure)
                    if failure:
                        continue
                    finished.add(step.name)
                    if step.kind == FINETUNING and not keep_models:
                        work.remove_weights(step)
                    logging.info(
                        "Step %d took %s", step.number, format_seconds(seconds)
                    )
                    if step.kind in (PRETRAINING, FINETUNING):
                        on_scores()
        finally:  # a full disk or a bug leaves no process behind
            if running:
                logging.info(
                    "Waiting for %d running commands to save their work; "
                    "Ctrl-C ends them at once",
                    len(running),
                )
                _end_all(running)


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
