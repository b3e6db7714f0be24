"""Progress lines: their text, and how often they are written."""

import time

from base import logs, progress

import pytest


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set; progress reads it."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture(autouse=True)
def info(caplog):
    caplog.set_level("INFO", logger="absl")


def test_a_line_is_written_every_thirty_seconds_at_most(clock, caplog):
    with progress.Bar(3_000_000_000, "B", "Reading") as bar:
        for _ in range(100):
            clock[0] += 1
            bar.update(12_300_000)
        bar.note("last note")
    assert caplog.messages == [
        "Reading 13% | 381M/3.00GB | 12.3MB/s | ETA 00:03:33",
        "Reading 25% | 763M/3.00GB | 12.3MB/s | ETA 00:03:02",
        "Reading 38% | 1.14G/3.00GB | 12.3MB/s | ETA 00:02:31",
        "Reading 41% | 1.23G/3.00GB | 12.3MB/s | took 00:01:40 | last note",
    ]


def test_counts_have_no_prefixes_and_a_resumed_job_its_own_speed(clock, caplog):
    with progress.Bar(30_000, "records", "Predicting", first=10_000) as bar:
        clock[0] += 40
        bar.update(1_000)
    assert caplog.messages == [
        "Predicting 37% | 11,000/30,000 records | 25.0 records/s"
        " | ETA 00:12:40",
        "Predicting 37% | 11,000/30,000 records | 25.0 records/s"
        " | took 00:00:40",
    ]


def test_a_job_of_unknown_size_has_no_share_and_no_eta(clock, caplog):
    with progress.Bar(None, "B", "Reading") as bar:
        clock[0] += 31
        bar.update(310)
    assert caplog.messages == [
        "Reading | 310B | 10.0B/s",
        "Reading | 310B | 10.0B/s | took 00:00:31",
    ]


def test_short_failed_and_silent_jobs_write_no_line(clock, caplog):
    with progress.Bar(10, "records", "Short") as bar:
        clock[0] += 29
        bar.update(10)
    with (
        pytest.raises(RuntimeError),
        progress.Bar(10, "records", "Failed") as bar,
    ):
        clock[0] += 60
        raise RuntimeError
    with progress.Bar(10, "steps", "Silent", has_lines=False) as bar:
        clock[0] += 60
        bar.update(10)
        bar.note("x")
    assert caplog.messages == []


def test_a_dumb_terminal_gets_no_bar(monkeypatch):
    """What others get is in tests/test_terminal.py."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for name, wanted in (("dumb", False), ("xterm", True)):
        monkeypatch.setenv("TERM", name)
        assert logs.is_terminal() == wanted


def test_format_seconds():
    assert progress.format_seconds(3661) == "01:01:01"
    assert progress.format_seconds(90000) == "1d 01:00:00"
    assert progress.format_seconds(float("nan")) == "unknown"
