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
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from base import child_processes

from absl import logging

from tools.reproduction import plan as reproduction_plan
from tools.reproduction import work_dir
from tools.reproduction.plan import Places, Plan, Step

_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_REPORTS = 30.0
_SECONDS_TO_SAVE = 120.0
_SHOWN_LINES = 8  # of a step that failed


class _Child:
    """A running step.

    Args:
        step: of the plan.
        number: of the step.
        places: where things are.
        lock: descriptor of the lock of the work directory.
    """

    def __init__(
        self, step: Step, number: int, places: Places, lock: int | None
    ):
        self.step, self.number = step, number
        self.log_path = work_dir.log_path(places.work_dir, step)
        self.last_report = time.monotonic()
        self.lines: collections.deque[str] = collections.deque(
            maxlen=_SHOWN_LINES
        )
        os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
        # Appended: a run that continues another one keeps its log.
        with open(self.log_path, "ab") as log:
            log.write(f"$ {places.command(step)}\n".encode())
            log.flush()
            self._log = open(self.log_path, "rb")
            self._log.seek(0, os.SEEK_END)
            self._rest = b""  # the beginning of a line
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    os.path.join(places.script_dir, step.script),
                    *step.arguments(places.paths),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=child_processes.end_with_parent,
                pass_fds=() if lock is None else (lock,),
            )

    def show(self) -> None:
        """Show warnings and errors, and reports of progress now and then."""
        *lines, self._rest = (self._rest + self._log.read()).split(b"\n")
        for part in lines:
            line = part.decode("utf-8", "replace").strip()
            if not line:
                continue
            self.lines.append(line)
            has_time = line[2:3] == line[5:6] == ":"
            text = line[9:] if has_time else line
            if text.startswith(("WARNING: ", "ERROR: ")):
                logging.warning("Step %d: %s", self.number, text)
            elif " | " in text and "ETA" in text:
                now = time.monotonic()
                if now - self.last_report > _SECONDS_BETWEEN_REPORTS:
                    self.last_report = now
                    logging.info("Step %d: %s", self.number, text)

    def failure(self) -> str:
        """Return the line in which a step failed, "" if it has not.

        It has ended. The end of what it printed is shown.
        """
        status = self.process.wait()
        self.show()
        self._rest += b"\n"  # the end of the last line
        self.show()
        self._log.close()
        if not status:
            return ""
        last = self.lines[-1] if self.lines else "it printed nothing"
        logging.error(
            "Step %d ended with status %d; its log is %s and ends with\n%s",
            self.number,
            status,
            self.log_path,
            "\n".join(f"    {line}" for line in self.lines) or f"    {last}",
        )
        # Libraries may print more after it, at the end of the process.
        errors = [line for line in self.lines if line.startswith("ERROR: ")]
        return (errors or [last])[-1].removeprefix("ERROR: ")

    def signal(self, number: int) -> bool:
        """Send a signal to the step's process and those it has started.

        Args:
            number: of the signal; 0 sends none.

        Returns:
            Whether there was a process.
        """
        self.process.poll()
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True


def run(
    plan: Plan,
    places: Places,
    inputs: Mapping[str, Mapping[str, str]],
    num_parallel: int,
    keep_models: bool = False,
    lock: int | None = None,
    on_scores: Callable[[], None] = lambda: None,
) -> None:
    """Run everything of a plan that is not finished.

    Args:
        plan: the steps.
        places: where things are.
        inputs: task -> checksums of its files, see `work_dir.check_steps`.
        num_parallel: steps at the same time.
        keep_models: do not remove the weights of fine-tuned models.
        lock: descriptor of the lock of the work directory.
        on_scores: called after each step that has written scores.

    Raises:
        KeyboardInterrupt: after Ctrl-C or SIGTERM, when all child processes
            have ended.
    """
    folder = places.work_dir
    work_dir.forget_failures(folder, plan)
    numbers = {name: n for n, name in enumerate(plan.steps, 1)}
    finished = {
        name
        for name, s in plan.steps.items()
        if work_dir.is_finished(folder, s)
    }
    if finished:
        logging.info(
            "%d of %d steps are finished and not repeated",
            len(finished),
            len(numbers),
        )
    waiting = [name for name in plan.steps if name not in finished]
    running: list[_Child] = []
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while True:
            for name in list(waiting):
                step = plan.steps[name]
                is_ready = finished.issuperset(step.after)
                if is_ready and len(running) < num_parallel:
                    waiting.remove(name)
                    _announce(step, numbers, places)
                    work_dir.begin(folder, step, inputs)
                    running.append(_Child(step, numbers[name], places, lock))
            if not running:  # what still waits needs a step that failed
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            for child in list(running):
                child.show()
                if child.process.poll() is not None:
                    running.remove(child)
                    if _finish(child, folder, keep_models):
                        finished.add(child.step.name)
                        if child.step.kind in reproduction_plan.SCORED:
                            on_scores()
    except BaseException:  # a full disk or a bug leaves no process behind
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _end_all(running)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _announce(step: Step, numbers: Mapping[str, int], places: Places) -> None:
    logging.info(
        "Step %d of %d: %s\n%s",
        numbers[step.name],
        len(numbers),
        step.title,
        places.command(step),
    )


def _finish(child: _Child, folder: str, keep_models: bool) -> bool:
    """Mark a step that has ended; return whether it has done so well."""
    step, failure = child.step, child.failure()
    if not failure and (failure := work_dir.problem_of_scores(folder, step)):
        logging.error("Step %d: %s", child.number, failure)
    seconds = work_dir.end(folder, step, failure)
    if failure:
        return False
    if step.kind == reproduction_plan.FINETUNING and not keep_models:
        work_dir.remove_weights(folder, step)
    logging.info("Step %d took %s", child.number, words_for(seconds))
    return True


def _end_all(running: list[_Child]) -> None:
    """Ask running steps to save and end; wait for all of their processes."""
    if not running:
        return
    logging.info(
        "Waiting for %d running commands to save their work; Ctrl-C ends them "
        "at once",
        len(running),
    )
    for child in running:
        child.signal(signal.SIGTERM)
    end = time.monotonic() + _SECONDS_TO_SAVE
    try:
        while any([c.signal(0) for c in running]) and time.monotonic() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    finally:
        for child in running:
            child.signal(signal.SIGKILL)


def _interrupt(number, frame) -> None:
    raise KeyboardInterrupt


def words_for(seconds: float) -> str:
    """Return a duration in words: 40 s, 12 min, 3.5 h, 4 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"
