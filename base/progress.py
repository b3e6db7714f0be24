"""Show how far a long job is: a bar on a terminal, whole lines elsewhere.

Where standard error is a terminal, a bar is drawn in its last line, and again
every second, so that one sees that the program works; messages appear above it,
and it disappears when the job ends. In a file or a pipe, a line is written
every 30 seconds at most:

    Reading 41% | 1.23G/3.00GB | 11.2MB/s | ETA 00:02:40

A job of more than 30 seconds ends with one line of this kind, which is in the
log in both cases. Bars have no colour.
"""

import contextlib
import dataclasses
import math
import os
import sys
import threading
import time
from collections.abc import Iterator

from base import logs

import tqdm
from absl import logging

SECONDS_BETWEEN_LINES = 30.0

# tqdm's default formats, except that a slow job has "0.25 steps/s" where
# tqdm writes "4.00s/ steps".
_BAR = (
    "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, "
    "{rate_noinv_fmt}{postfix}]"
)
# Of a job whose end is not known.
_COUNTER = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_noinv_fmt}{postfix}]"
# Of a job that knows its rate and its end better, and notes them.
_BAR_WITHOUT_RATE = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
# Of a job of one piece.
_CLOCK = "{desc} [{elapsed}]"


@dataclasses.dataclass
class Bar(contextlib.AbstractContextManager):
    """Shows the progress of a job; a context manager.

    Attributes:
        total: units of the whole job; None if unknown.
        unit: plural of what is counted ("records"), or "B" for bytes, of
            which 1,200,000,000 are written as 1.2 G.
        what: the job, first word of the bar or the line.
        first: units that an earlier run has done.
        has_lines: write lines where there is no terminal, and a closing
            line; False for jobs that write their own, and note rate and ETA.
    """

    total: int | None
    unit: str
    what: str
    first: int = 0
    has_lines: bool = True

    def __post_init__(self) -> None:
        self.done = self.first
        self.text = ""
        self.began = self.written = time.monotonic()
        self._bar = None
        self._doing: tuple[str, float] | None = None  # what, and since when
        if logs.is_terminal():
            _draw_log_lines_above_bars()
            if self.total is None:
                bar_format = _COUNTER if self.has_lines else _CLOCK
            else:
                bar_format = _BAR if self.has_lines else _BAR_WITHOUT_RATE
            # Some terminals, as those of containers, have 0 columns and lines,
            # where tqdm draws nothing.
            has_size = all(os.get_terminal_size(sys.stderr.fileno()))
            self._bar = tqdm.tqdm(
                desc=self.what,
                bar_format=bar_format,
                total=self.total,
                initial=self.first,
                unit=self.unit if self.unit == "B" else f" {self.unit}",
                unit_scale=self.unit == "B",
                ncols=None if has_size else 80,
                nrows=None if has_size else 24,
                dynamic_ncols=has_size,
                leave=False,
                file=sys.stderr,
            )
            self._ended = threading.Event()
            self._clock = threading.Thread(target=self._redraw, daemon=True)
            self._clock.start()

    def __exit__(self, kind, *exception) -> None:
        """Remove the bar; a long job that is complete writes a line."""
        if self._bar is not None:
            self._ended.set()
            self._clock.join()
            self._bar.close()
        seconds = time.monotonic() - self.began
        if not kind and self.has_lines and seconds > SECONDS_BETWEEN_LINES:
            logs.report("%s", self._line(f"took {format_seconds(seconds)}"))

    def update(self, count: int) -> None:
        """Add finished units."""
        self.done += count
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(count)
        elif self.has_lines and now - self.written > SECONDS_BETWEEN_LINES:
            self.written = now
            last = ""
            if self.total is not None and self.done > self.first:
                each = (now - self.began) / (self.done - self.first)
                left = max(0, self.total - self.done)
                last = f"ETA {format_seconds(left * each)}"
            logs.report("%s", self._line(last))

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Name what takes time inside the block; "" names nothing."""
        self._doing = (what, time.monotonic()) if what else None
        try:
            yield
        finally:
            self._doing = None
            if self._bar is not None:
                self._bar.set_description_str(self.what, refresh=False)

    def _redraw(self) -> None:
        """Draw the bar every second, until it ends."""
        while not self._ended.wait(1.0):
            if doing := self._doing:
                what, began = doing
                seconds = time.monotonic() - began
                self._bar.set_description_str(
                    f"{self.what}, {what} ({seconds:.0f} s)", refresh=False
                )
            self._bar.refresh()

    def note(self, text: str) -> None:
        """Show this text after the numbers from now on."""
        self.text = text
        if self._bar is not None:
            # Drawn with the next update: a refresh would only slow the job.
            self._bar.set_postfix_str(text, refresh=False)

    def _line(self, last: str) -> str:
        """Return the line without the prefix of log lines."""
        show, unit = "{:,}".format, f" {self.unit}"
        if self.unit == "B":
            show, unit = tqdm.tqdm.format_sizeof, self.unit
        share = f" {self.done / self.total:.0%}" if self.total else ""
        whole = f"/{show(self.total)}" if self.total else ""
        seconds = max(time.monotonic() - self.began, 1e-9)
        rate = round((self.done - self.first) / seconds, 1)
        done = f"{show(self.done)}{whole}{unit}"
        speed = f"{show(rate)}{unit}/s"
        parts = f"{self.what}{share}", done, speed, last, self.text
        return " | ".join(filter(None, parts))


def clock(what: str) -> Bar:
    """Return a bar for a job of one piece: what it is, and for how long."""
    return Bar(None, "", what, has_lines=False)


def _draw_log_lines_above_bars() -> None:
    """Make absl's log lines clear the bars and draw them again below.

    Without this, a log line would begin where the bar ends. The change stays
    after the bar: while no bar is shown, it has no effect.
    """
    handler = logging.get_absl_handler().python_handler
    if "emit" in vars(handler):  # changed already, by an earlier bar
        return
    emit = handler.emit

    def emit_above_bars(record) -> None:
        with tqdm.tqdm.external_write_mode(file=sys.stderr):
            emit(record)

    handler.emit = emit_above_bars


def format_seconds(seconds: float) -> str:
    """Return a duration as 02:03:04 or 1d 02:03:04; "unknown" for NaN."""
    if not math.isfinite(seconds):
        return "unknown"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}d " if days else "") + f"{hour:02}:{minute:02}:{second:02}"
