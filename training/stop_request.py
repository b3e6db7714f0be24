"""SIGTERM and Ctrl-C as a request to save and end."""

import signal
import time
from collections.abc import Sequence
from typing import Any

from base import cluster, interrupts, logs
from base.interrupts import ONE_SIGNAL_SECONDS

from absl import logging


class StopRequest:
    """Records SIGTERM and Ctrl-C, so that a run can save and end.

    A signal to any machine of a cluster is a request to all: a machine that is
    about to be switched off gets a signal, and the others cannot train without
    it.

    Attributes:
        signal: number of this process' last signal, 0 without one.
        is_unneeded: whether there is nothing to save yet, so that the process
            may end at any moment.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.is_unneeded = True
        self._is_shared = cluster.has_other_workers()
        self._times: dict[int, float] = {}  # of the first one of each kind
        # Machine and signal; alone, a process obeys its own signal at once.
        self._obeyed: tuple[int, int] | None = None

    def __enter__(self) -> "StopRequest":
        self._old = {
            number: signal.signal(number, self._note)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        self._old_answer, interrupts.answer = interrupts.answer, self._answer
        return self

    def __exit__(self, *exception: Any) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        if self.signal:
            interrupts.answer = lambda number: None  # the end tells of itself
        else:
            interrupts.answer = self._old_answer

    def _answer(self, number: int) -> None:
        """Answer a signal in another thread, while this one may compile."""
        if self.is_unneeded and not self._is_shared:
            name = signal.Signals(number).name
            interrupts.end_process(
                f"stopped by {name} before the first step; the same command "
                "begins again"
            )
        logs.say(
            "Stopping after the present step, which is saved; Ctrl-C again "
            "ends at once, without it"
        )

    def _note(self, number: int, frame: Any) -> None:
        self.signal = number
        if not self._is_shared:
            self._obeyed = 0, number
        now = time.monotonic()
        # A second signal of the same kind ends the process at once: saving a
        # large model to a slow disk may take longer than the user waits. When
        # the process of a sweep is killed, the kernel sends its run one signal
        # for each thread that ends, at nearly the same time: they are one.
        if now - self._times.setdefault(number, now) > ONE_SIGNAL_SECONDS:
            signal.signal(number, self._old[number])
            signal.raise_signal(number)

    def obey(self, signals: Sequence[int]) -> None:
        """Obey the first signal of all machines, the same on all of them."""
        for machine, number in enumerate(signals):
            if number and not self._obeyed:
                self._obeyed = machine, int(number)

    @property
    def is_requested(self) -> bool:
        """Whether to save and end now, the same on all machines."""
        return self._obeyed is not None

    def log(self, done: int) -> None:
        """Log after which step the run was stopped, if it was."""
        if not self._obeyed:
            return
        machine, number = self._obeyed
        where = f" to {cluster.machines()[machine]}" if self._is_shared else ""
        logging.warning(
            "Stopped by %s%s after step %d; the same command resumes there",
            signal.Signals(number).name,
            where,
            done,
        )

    def end_process(self) -> None:
        """End the process by the signal, if there was one; call outside `with`.

        For a run whose last step is done: what comes after training would
        otherwise begin although the user asked for an end.
        """
        if self._obeyed:
            signal.raise_signal(self._obeyed[1])
