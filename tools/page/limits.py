"""When a request ends before its result: it was cancelled, or takes too long.

All users share one model. A request that nobody waits for any more, or that
takes more than MAX_SECONDS, ends before its next batch.
"""

import math
import threading
import time

from base.errors import UserError

from tasks.task import Model

MAX_SECONDS = 30  # with the compilation of the model by the very first one

_ends: dict[str, float] = {}  # session -> when its request ends
_thread = threading.local()  # which session's request runs in it


def start(session: str) -> None:
    """Begin a session's request, which runs in this thread."""
    _thread.session = session
    _ends[session] = time.monotonic() + MAX_SECONDS


def cancel(session: str) -> None:
    """End a session's request at its next batch."""
    _ends[session] = 0


def check() -> None:
    """End a request that was cancelled or is too slow; called for each batch.

    Raises:
        UserError: says what to do.
    """
    # Outside of a request there is no end.
    session = getattr(_thread, "session", "")
    if time.monotonic() > _ends.get(session, math.inf):
        raise UserError(
            f"stopped: it was cancelled, or took more than {MAX_SECONDS} "
            "seconds, as all users share the model; try a shorter text"
        )


def checked(run: Model) -> Model:
    """Return a model that calls `check` before each batch."""

    def checked_run(batch):
        check()
        return run(batch)

    return checked_run
