"""Child processes that end with their parent, however the parent ends."""

import contextlib
import signal
import subprocess
from collections.abc import Sequence

from base import machine


def run(command: Sequence[str]) -> int:
    """Run a command to its end; return its exit status.

    SIGTERM and Ctrl-C are passed on to it, each once: a run that trains saves
    at the first signal and ends at once at the second. The command has a
    process group of its own, so that it does not also get the signals that are
    sent to this group. It is also asked to end when this process is killed.

    Raises:
        KeyboardInterrupt: there was such a signal; the command has ended.
    """
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda n, frame: received.append(n))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        process = subprocess.Popen(
            command,
            # The lock of a work directory is held until training has ended.
            close_fds=False,
            start_new_session=True,
            preexec_fn=machine.end_with_parent,
        )
        sent, status = 0, None
        while status is None:
            for number in received[sent:]:
                process.send_signal(number)
                sent += 1
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout=0.5)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt
    return status
