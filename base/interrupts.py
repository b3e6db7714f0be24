"""Ctrl-C and SIGTERM: answered at once, and what is temporary is removed.

Python calls the handler of a signal between two of its own instructions. While
TensorFlow compiles in C++ there are none, for a minute and longer. So a thread
reads the signals too: it says that the request was heard, and ends the process
at a second one that the rest of the program does not obey.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from base import logs

# Signals that come closer together are one request.
ONE_SIGNAL_SECONDS = 0.5

# What an obedient process takes to end after a second signal.
_END_SECONDS = 1.0


def say_heard(number: int) -> None:
    """Say that the script ends when Python has its turn again."""
    del number
    logs.say("Ending when the present operation does; Ctrl-C again ends now")


# What the thread calls at the first signal of a kind, with its number, unless
# the process has ended by then. training/stop_request.py sets another one.
answer: Callable[[int], None] = say_heard


def answer_signals() -> None:
    """Start the thread; it answers the signals that have handlers in Python."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_answer, args=(ours, theirs), daemon=True).start()


def _answer(ours: socket.socket, theirs: socket.socket) -> None:
    """Answer every signal; `theirs` is kept open."""
    requests = Counter()
    while number := ours.recv(1)[0]:
        time.sleep(ONE_SIGNAL_SECONDS)
        with contextlib.suppress(BlockingIOError):  # the same request
            ours.recv(1 << 16, socket.MSG_DONTWAIT)
        requests[number] += 1
        if requests[number] == 1:
            answer(number)
        else:
            time.sleep(_END_SECONDS)
            end_process("interrupted")


def end_process(line: str, seconds: float = 0.0) -> None:
    """End the process from any thread, so long after its last line.

    The others do not hinder it: TensorFlow may wait for what never ends.
    """
    sys.stderr.write(f"\n{logs.error_line(line)}\n")
    sys.stderr.flush()
    logs.error_to_file(line)
    time.sleep(seconds)
    os._exit(1)


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """End the block at SIGTERM as at Ctrl-C, so that it deletes its files."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
