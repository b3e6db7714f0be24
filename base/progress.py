"""Show how far a long job is: a bar on a terminal, whole lines elsewhere.

Where standard error is a terminal, a bar is drawn in its last line and log
lines appear above it; the bar disappears when the job ends. In a file or a
pipe, a log line is written every 30 seconds at most:

    Reading 41% | 1.2/3.0 GB | 11.2 MB/s | ETA 00:02:40

A job of more than 30 seconds ends with one line of this kind in both cases.
Nothing is coloured, as NO_COLOR asks.
"""

import math
import os
import sys
import time

import tqdm
from absl import logging

SECONDS_BETWEEN_LINES = 30.0

# tqdm's default formats, except that a slow job has "0.25 steps/s" where
# tqdm writes "4.00s/ steps".
_BAR = (
    "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, "
    "{rate_noinv_fmt}{postfix}]"
)
_BAR_WITHOUT_TOTAL = (
    "{desc}: {n_fmt}{unit} [{elapsed}, {rate_noinv_fmt}{postfix}]"
)

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def is_terminal() -> bool:
    """Whether standard error is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def bar(
    total: int | None,
    unit: str,
    what: str,
    unit_scale: bool = False,
    first: int = 0,
    has_lines: bool = True,
) -> "Bar":
    """Show the progress of a job; use as a context manager.

    Args:
        total: units of the whole job; None if unknown.
        unit: plural of what is counted ("records"), or "B" for bytes.
        what: the job, first word of the bar or the line.
        unit_scale: write 1.2 G for 1,200,000,000; for bytes.
        first: units that an earlier run has done.
        has_lines: write lines where there is no terminal, and a closing
            line; False for jobs that write their own.
    """
    cls = TerminalBar if is_terminal() else Bar
    return cls(total, unit, what, unit_scale, first, has_lines)


class Bar:
    """Progress as log lines, for standard error that is not a terminal.

    Args: see `bar`.
    """

    def __init__(
        self,
        total: int | None,
        unit: str,
        what: str,
        unit_scale: bool = False,
        first: int = 0,
        has_lines: bool = True,
    ):
        self.total, self.unit, self.what = total, unit, what
        self.unit_scale, self.has_lines = unit_scale, has_lines
        self.first = self.done = first
        self.text = ""
        self.is_closed = False
        self.began = self.written = time.monotonic()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, kind, *exception) -> None:
        self.close(is_complete=kind is None)

    def update(self, count: int) -> None:
        """Add finished units."""
        self.done += count
        if time.monotonic() - self.written > SECONDS_BETWEEN_LINES:
            self._write_line()

    def note(self, text: str) -> None:
        """Show this text behind the numbers from now on."""
        self.text = text

    def close(self, is_complete: bool = True) -> None:
        """End the job; a second call does nothing.

        Args:
            is_complete: write the closing line of a long job.
        """
        if self.is_closed:
            return
        self.is_closed = True
        seconds = time.monotonic() - self.began
        if is_complete and self.has_lines and seconds > SECONDS_BETWEEN_LINES:
            logging.info("%s", self._line(f"took {format_seconds(seconds)}"))

    def _write_line(self) -> None:
        now = time.monotonic()
        self.written = now
        if not self.has_lines:
            return
        last = ""
        if self.total is not None and self.done > self.first:
            each = (now - self.began) / (self.done - self.first)
            left = max(0, self.total - self.done)
            last = f"ETA {format_seconds(left * each)}"
        logging.info("%s", self._line(last))

    def _line(self, last: str) -> str:
        """Return the line without the prefix of log lines."""
        seconds = max(time.monotonic() - self.began, 1e-9)
        rate = (self.done - self.first) / seconds
        share = f" {self.done / self.total:.0%}" if self.total else ""
        parts = [f"{self.what}{share}", self._amount(), self._rate(rate)]
        return " | ".join(filter(None, (*parts, last, self.text)))

    def _amount(self) -> str:
        """Return "1.2/3.0 GB", "5/12 records", or without the total."""
        largest = self.total or self.done
        if self.unit_scale:
            factor, prefix = _prefix(largest)
            digits = 1 if prefix else 0
            number = f"{self.done / factor:,.{digits}f}"
            whole = f"/{largest / factor:,.{digits}f}" if self.total else ""
            return f"{number}{whole} {prefix}{self.unit}"
        whole = f"/{self.total:,}" if self.total else ""
        return f"{self.done:,}{whole} {self.unit}"

    def _rate(self, rate: float) -> str:
        """Return "11.2 MB/s" or "184.5 records/s"."""
        factor, prefix = _prefix(rate) if self.unit_scale else (1, "")
        return f"{rate / factor:,.1f} {prefix}{self.unit}/s"


class TerminalBar(Bar):
    """Progress as a bar in the last line of a terminal.

    Args: see `bar`.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        _draw_log_lines_above_bars()
        shape = _BAR if self.total is not None else _BAR_WITHOUT_TOTAL
        self._bar = tqdm.tqdm(
            desc=self.what,
            bar_format=shape,
            total=self.total,
            initial=self.first,
            unit=self.unit if self.unit_scale else f" {self.unit}",
            unit_scale=self.unit_scale,
            dynamic_ncols=True,
            leave=False,
            file=sys.stderr,
        )

    def update(self, count: int) -> None:
        """Add finished units."""
        self.done += count
        self._bar.update(count)

    def note(self, text: str) -> None:
        """Show this text behind the numbers from now on."""
        super().note(text)
        # Drawn with the next update: a refresh here would only slow the job.
        self._bar.set_postfix_str(text, refresh=False)

    def close(self, is_complete: bool = True) -> None:
        """Remove the bar; a second call does nothing.

        Args:
            is_complete: write the closing line of a long job.
        """
        if not self.is_closed:
            self._bar.close()
        super().close(is_complete)


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


def _prefix(value: float) -> tuple[float, str]:
    """Return the decimal prefix that leaves one to three digits."""
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return factor, prefix
    return 1, ""
