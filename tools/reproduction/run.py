"""Run the steps of a plan as child processes: in order, several at a time.

A step that fails is noted with the last line it printed; steps that need it
are left out, all others go on. A finished step leaves a marker, so that the
same command started again does what is missing. Child processes are in a
process group of their own: Ctrl-C reaches this process alone, which asks them
once to save and end. On Linux they are also asked if this process is killed,
and they hold the lock of the work directory until they have ended.
"""

import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, NamedTuple

from base import child_processes, file_system, text_files
from base.errors import UserError

from absl import logging

from tools.reproduction import estimate, work_dir
from tools.reproduction import plan as reproduction_plan
from tools.reproduction.plan import Plan, Step

_SECONDS_BETWEEN_REPORTS = 30.0
_SECONDS_TO_SAVE = 120.0
_SHOWN_LINES = 8  # of a step that failed


FAILURES = "failures.json"  # for reports that are made later


class Failure(NamedTuple):
    """A step that failed, or that could not run because another one did.

    Attributes:
        step: name.
        line: its error or the last line it printed, or which step it needs.
        has_run: whether it was started.
    """

    step: str
    line: str
    has_run: bool


def _known_failures(work_dir_path: str) -> list[Failure]:
    """Return what failed in earlier runs, of any experiment."""
    found = text_files.read_own_json(os.path.join(work_dir_path, FAILURES))
    return [Failure(*values) for values in found or []]


def read_failures(work_dir_path: str, plan: Plan) -> list[Failure]:
    """Return what failed in the last run and has not been mended since."""
    return [
        failure
        for failure in _known_failures(work_dir_path)
        if failure.step in plan.steps
        and not work_dir.read_marker(work_dir_path, plan.steps[failure.step])
    ]


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
        return reproduction_plan.command_line(
            step, self.paths, self.shown_script_dir
        )


class _Child:
    """A running step, its log, and what it has printed so far.

    Args:
        step: of the plan.
        number: of the step.
        process: that runs it.
        log: its log.
        seconds_before: of earlier attempts, which were interrupted.
    """

    def __init__(
        self,
        step: Step,
        number: int,
        process: subprocess.Popen,
        log: IO[bytes],
        seconds_before: float,
    ):
        self.seconds_before = seconds_before
        self.step, self.number = step, number
        self.process, self.log = process, log
        self.began = self.reported = time.monotonic()
        self.lines: collections.deque[str] = collections.deque(
            maxlen=_SHOWN_LINES
        )
        self._rest = b""

    def read(self) -> tuple[list[str], bool]:
        """Copy what it has printed to its log.

        Returns:
            lines: the whole lines among it, without blank ones.
            is_open: False at the end of its standard error.
        """
        part = os.read(self.process.stderr.fileno(), 1 << 16)
        self.log.write(part)
        self.log.flush()
        *lines, self._rest = (self._rest + part).split(b"\n")
        if not part:
            lines, self._rest = [self._rest], b""
        texts = [line.decode("utf-8", "replace").strip() for line in lines]
        texts = [text for text in texts if text]
        self.lines.extend(texts)
        return texts, bool(part)


class Runner:
    """Runs a plan.

    Args:
        plan: the steps.
        places: where things are.
        num_parallel: steps at the same time.
        seconds_of: estimated seconds of a step; finished steps correct those
            of their kind.
        keep_models: do not remove the weights of fine-tuned models.
        lock: descriptor of the lock of the work directory.
        on_finished: called with what has failed so far, after each step
            that has written scores.
    """

    def __init__(
        self,
        plan: Plan,
        places: Places,
        num_parallel: int,
        seconds_of: Callable[[Step], float],
        keep_models: bool = False,
        lock: int | None = None,
        on_finished: Callable[[list[Failure]], None] = lambda failures: None,
    ):
        self.plan, self.places = plan, places
        self.num_parallel, self.keep_models = num_parallel, keep_models
        self.seconds_of, self.lock = seconds_of, lock
        self.on_finished = on_finished
        self.numbers = {name: n for n, name in enumerate(plan.steps, 1)}
        self.seconds: dict[str, float] = {}  # of finished steps
        self.failures: dict[str, Failure] = {}
        self._running: dict[str, _Child] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> list[Failure]:
        """Run everything that is not finished; return what failed.

        Raises:
            KeyboardInterrupt: after Ctrl-C or SIGTERM, when all child
                processes have ended.
            UserError: there are scores of a model that is missing.
        """
        self._find_finished()
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            waiting = [n for n in self.plan.steps if n not in self.seconds]
            while waiting or self._running:
                waiting = self._start_ready(waiting)
                self._read_all()
        except BaseException:  # a full disk or a bug leaves no process behind
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._end_all()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
            self._write_failures()
        return list(self.failures.values())

    def _write_failures(self) -> None:
        """Keep what failed, for a later --report_only."""
        path = os.path.join(self.places.work_dir, FAILURES)
        failures = [
            failure  # of another experiment
            for failure in _known_failures(self.places.work_dir)
            if failure.step not in self.plan.steps
        ]
        failures += self.failures.values()
        if failures or os.path.exists(path):
            with contextlib.suppress(OSError):  # a full disk: told elsewhere
                file_system.write_text(path, json.dumps(failures))

    def _find_finished(self) -> None:
        """Read the markers of finished steps.

        Raises:
            UserError: there are scores of a model that is missing.
        """
        for name, step in self.plan.steps.items():
            marker = work_dir.read_marker(self.places.work_dir, step)
            if marker and not self._problem_of_scores(step):
                self.seconds[name] = marker["seconds"]
        if self.seconds:
            logging.info(
                "%d of %d steps are finished and not repeated",
                len(self.seconds),
                len(self.plan.steps),
            )
        self._check_models()

    def _check_models(self) -> None:
        """Check that finished steps do not mix with a model trained anew.

        Raises:
            UserError: a model is missing that finished steps came after.
        """
        missing: set[str] = set()
        orphans: list[Step] = []
        for name, step in self.plan.steps.items():
            is_finished = name in self.seconds
            is_orphan = is_finished and not missing.isdisjoint(step.after)
            if is_orphan:
                orphans.append(step)
            is_model = step.kind == reproduction_plan.PRETRAINING
            if is_model and (is_orphan or not is_finished):
                missing.add(name)
        if orphans:
            # The first one came after a model that is no orphan itself.
            model = next(n for n in orphans[0].after if n in missing)
            later = ", ".join(step.output for step in orphans)
            raise UserError(
                f"--work_dir={self.places.work_dir}: the model "
                f"{self.plan.steps[model].output} is missing or of another "
                f"command, but steps after it are finished: {later}. To "
                "repeat all, delete these folders too; to write the tables "
                "from what is there, give --report_only"
            )

    def _problem_of_scores(self, step: Step) -> str:
        """Return what is wrong with the scores of a step, "" if nothing is."""
        try:
            work_dir.read_scores(self.places.work_dir, step)
        except UserError as error:
            return str(error)
        return ""

    # --- Starting ---

    def _start_ready(self, waiting: list[str]) -> list[str]:
        """Start steps while there is room; return those that still wait."""
        left = []
        for name in waiting:
            step = self.plan.steps[name]
            lost = [n for n in step.after if n in self.failures]
            if lost:
                number = self.numbers[lost[0]]
                line = f"not run: it needs step {number}, which failed"
                self.failures[name] = Failure(name, line, False)
                continue
            is_ready = all(n in self.seconds for n in step.after)
            if is_ready and len(self._running) < self.num_parallel:
                self._start(step)
            else:
                left.append(name)
        return left

    def _start(self, step: Step) -> None:
        """Start a step; show its command."""
        number, total = self.numbers[step.name], len(self.numbers)
        logging.info(
            "Step %d of %d%s: %s\n%s",
            number,
            total,
            self._time_left(),
            step.title,
            self.places.command(step),
        )
        path = work_dir.log_path(self.places.work_dir, step)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        seconds_before = work_dir.begin_attempt(self.places.work_dir, step)
        # Appended: a run that continues another one keeps its log.
        log = open(path, "ab")
        log.write(f"$ {self.places.command(step)}\n".encode())
        log.flush()
        script = os.path.join(self.places.script_dir, step.script)
        arguments = step.arguments(self.places.paths)
        process = subprocess.Popen(
            [sys.executable, script, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=child_processes.end_with_parent,
            pass_fds=() if self.lock is None else (self.lock,),
        )
        child = _Child(step, number, process, log, seconds_before)
        self._running[step.name] = child
        self._selector.register(process.stderr, selectors.EVENT_READ, child)

    def _time_left(self) -> str:
        """Return ", about 40 min left", "" where no time can be told.

        That is so until a training step has ended, and where a task's file
        cannot be read: the step of that task will say so.
        """
        try:
            left = self._seconds_left()
        except (OSError, UserError):
            left = None
        return "" if left is None else f", about {words_for(left)} left"

    def _seconds_left(self) -> float | None:
        """Return the estimated time of the steps that are not finished.

        Returns:
            None until a training step has ended.

        Raises:
            UserError or OSError: a task's file cannot be read.
        """
        steps = self.plan.steps
        ratios = estimate.corrections(
            (steps[name].kind, seconds, self.seconds_of(steps[name]))
            for name, seconds in self.seconds.items()
        )
        if not ratios:
            return None
        now = time.monotonic()
        left = 0.0
        for name, step in steps.items():
            if name in self.seconds or name in self.failures:
                continue
            child = self._running.get(name)
            gone = child.seconds_before + now - child.began if child else 0.0
            left += max(0.0, ratios[step.kind] * self.seconds_of(step) - gone)
        return left / self.num_parallel

    # --- Reading ---

    def _read_all(self) -> None:
        """Wait for lines of the running steps; mark those that have ended."""
        # A process that a step has left behind may keep the pipe open. All
        # that the step itself printed is in the pipe, whose 64 KiB one read
        # takes: its end need not be waited for.
        ended = [
            child
            for child in self._running.values()
            if child.process.poll() is not None
        ]
        for key, _ in self._selector.select(timeout=0.0 if ended else 1.0):
            child = key.data
            lines, is_open = child.read()
            for line in lines:
                self._show(child, line)
            if not is_open:
                self._finish(child)
        for child in ended:
            if child.step.name in self._running:
                self._finish(child)

    def _show(self, child: _Child, line: str) -> None:
        """Show warnings and errors, and reports of progress now and then."""
        text = line[9:] if line[2:3] == line[5:6] == ":" else line  # no time
        if text.startswith(("WARNING: ", "ERROR: ")):
            logging.warning("Step %d: %s", child.number, text)
        elif " | " in text and "ETA" in text:
            now = time.monotonic()
            if now - child.reported > _SECONDS_BETWEEN_REPORTS:
                child.reported = now
                logging.info("Step %d: %s", child.number, text)

    def _finish(self, child: _Child) -> None:
        """Mark a step that has ended as finished, or note that it failed."""
        step, status = child.step, child.process.wait()
        self._forget(child)
        seconds = child.seconds_before + time.monotonic() - child.began
        if status:
            self._note_failure(child, status)
            return
        if problem := self._problem_of_scores(step):
            logging.error("Step %d: %s", child.number, problem)
            self.failures[step.name] = Failure(step.name, problem, True)
            return
        self.seconds[step.name] = seconds
        work_dir.write_marker(
            self.places.work_dir,
            step,
            {"seconds": round(seconds, 3), "ended": time.strftime("%F %T")},
        )
        if step.kind == reproduction_plan.FINETUNING and not self.keep_models:
            work_dir.remove_weights(self.places.work_dir, step)
        logging.info("Step %d took %s", child.number, words_for(seconds))
        if step.kind in reproduction_plan.SCORED:
            self.on_finished(list(self.failures.values()))

    def _forget(self, child: _Child) -> None:
        """Close the pipe and the log of a step that has ended."""
        with contextlib.suppress(KeyError):  # not at its end
            self._selector.unregister(child.process.stderr)
        child.process.stderr.close()
        child.log.close()
        del self._running[child.step.name]

    def _note_failure(self, child: _Child, status: int) -> None:
        """Show the end of what a step printed."""
        path = work_dir.log_path(self.places.work_dir, child.step)
        last = child.lines[-1] if child.lines else "it printed nothing"
        # Libraries may print more after it, at the end of the process.
        errors = [line for line in child.lines if line.startswith("ERROR: ")]
        logging.error(
            "Step %d ended with status %d; its log is %s and ends with\n%s",
            child.number,
            status,
            path,
            "\n".join(f"    {line}" for line in child.lines) or f"    {last}",
        )
        line = (errors or [last])[-1].removeprefix("ERROR: ")
        self.failures[child.step.name] = Failure(child.step.name, line, True)

    def _end_all(self) -> None:
        """Ask the running steps to save and end; wait for all processes."""
        if not self._running:
            return
        logging.info(
            "Waiting for %d running commands to save their work; Ctrl-C ends "
            "them at once",
            len(self._running),
        )
        for child in self._running.values():
            _signal_group(child.process, signal.SIGTERM)
        end = time.monotonic() + _SECONDS_TO_SAVE
        try:
            while self._running and time.monotonic() < end:
                for key, _ in self._selector.select(timeout=0.2):
                    _, is_open = key.data.read()  # a full pipe would stop it
                    if not is_open:
                        self._selector.unregister(key.fileobj)
                for child in list(self._running.values()):
                    child.process.poll()
                    if not _signal_group(child.process, 0):
                        self._forget(child)
        finally:
            for child in self._running.values():
                _signal_group(child.process, signal.SIGKILL)


def _interrupt(number, frame) -> None:
    raise KeyboardInterrupt


def _signal_group(process: subprocess.Popen, number: int) -> bool:
    """Send a signal to the processes of a step: it and those it has started.

    Args:
        process: of the step, the first of its process group.
        number: of the signal; 0 sends none.

    Returns:
        Whether there was a process in the group.
    """
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def words_for(seconds: float) -> str:
    """Return a duration in words: 40 s, 12 min, 3.5 h, 4 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"
