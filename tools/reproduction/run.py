"""Run the steps of a plan as child processes: in order, several at a time.

If a step fails, its marker gets the last line that it printed. The steps that
need it are left out, and all others run. A finished step has a marker too, so
that the same command, given again, runs the steps that are missing.

Each step has a process group of its own. Ctrl-C therefore reaches this process
alone, which asks the steps once to save and end, and waits for them. A second
Ctrl-C ends them at once. On Linux they are also asked when this process is
killed.
"""

import os
import pathlib
import subprocess
import sys
import time

from base import interrupts, logs, machine
from base.progress import format_seconds

from absl import logging

from tools.reproduction.steps import FINETUNING, Plan, Step
from tools.reproduction.work_dir import WorkDir

_SECONDS_BETWEEN_LOOKS = 0.1
_LAST_LINES = 8  # of a step that failed; one has its error


def run(plan: Plan, work: WorkDir) -> None:
    """Run the steps of a plan that are not finished, in their directory.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM; all child processes have ended.
    """
    finished = {n for n, step in plan.steps.items() if work.is_finished(step)}
    waiting = [s for name, s in plan.steps.items() if name not in finished]
    running: list[tuple[Step, subprocess.Popen, float]] = []
    with interrupts.ending_on_sigterm():
        try:
            while True:
                ready = [s for s in waiting if finished.issuperset(s.after)]
                for step in ready[: plan.scale["num_parallel"] - len(running)]:
                    waiting.remove(step)
                    logs.say(
                        "Step %d of %d, which prints into %s:\n%s",
                        step.number,
                        len(plan.steps),
                        work.log(step),
                        work.command(step),
                    )
                    work.note(step, 0.0)
                    running.append((step, _start(step, work), time.monotonic()))
                if not running:  # what still waits needs a step that failed
                    return
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                for child in list(running):
                    step, process, began = child
                    if process.poll() is None:
                        continue
                    running.remove(child)
                    if _end(step, work, process.returncode, began):
                        finished.add(step.name)
                        if step.name.startswith(FINETUNING):
                            work.remove_weights(step)
        finally:  # a full disk or a bug leaves no process behind
            if running:
                logs.say(
                    "Waiting for %d running commands to save their work; "
                    "Ctrl-C ends them at once",
                    len(running),
                )
            for _, process, _ in running:
                process.terminate()
            try:
                for step, process, began in running:
                    process.wait()  # what was saved is continued
                    work.note(step, time.monotonic() - began)
            finally:  # also at a second Ctrl-C
                for _, process, _ in running:
                    process.kill()


def _start(step: Step, work: WorkDir) -> subprocess.Popen:
    """Start the process of a step, which prints into a file."""
    path = work.log(step)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # The log is appended to, since a run may continue another one. It is a
    # file: a process that the step leaves behind would keep a pipe open.
    with open(path, "ab") as log:
        log.write(f"$ {work.command(step)}\n".encode())
        log.flush()
        return subprocess.Popen(
            [sys.executable, *work.words(step)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=machine.end_with_parent,
        )


def _end(step: Step, work: WorkDir, status: int, began: float) -> bool:
    """Note how a step ended; return whether it is finished."""
    seconds = time.monotonic() - began
    if not status:
        work.note(step, seconds, finished=True)
        logs.say("Step %d took %s", step.number, format_seconds(seconds))
        return True
    text = pathlib.Path(work.log(step)).read_text("utf-8", "replace")
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    # Libraries may print more after the error, when the process ends.
    errors = [x for x in lines[-_LAST_LINES:] if x.startswith("ERROR: ")]
    failed = (errors or lines)[-1].removeprefix("ERROR: ")
    logging.error(
        "Step %d ended with status %d: %s", step.number, status, failed
    )
    work.note(step, seconds, failed=failed)
    return False
