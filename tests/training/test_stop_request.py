"""Signals that ask a training run to save and end."""

import signal

import pytest

from training import stop_request
from training.stop_request import StopRequest


@pytest.fixture
def received():
    """Numbers of the signals that a run leaves to what was there before it."""
    numbers = []
    before = signal.signal(signal.SIGTERM, lambda n, frame: numbers.append(n))
    yield numbers
    signal.signal(signal.SIGTERM, before)


def test_a_burst_is_one_request_and_a_later_signal_ends_the_run(
    received, monkeypatch
):
    """The kernel sends one for each ending thread of a sweep that is killed."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    request = StopRequest()
    with request:
        assert not request.is_requested
        for _ in range(5):
            signal.raise_signal(signal.SIGTERM)
        assert request.is_requested and not received
        now[0] += 1.1 * stop_request.ONE_SIGNAL_SECONDS
        signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM]


def test_a_signal_of_the_last_step_ends_the_process_afterwards(received):
    request = StopRequest()
    with request:
        signal.raise_signal(signal.SIGTERM)
    assert not received
    request.end_process()
    assert received == [signal.SIGTERM]


def test_without_a_signal_the_process_goes_on(received):
    request = StopRequest()
    with request:
        pass
    request.end_process()
    assert not received
