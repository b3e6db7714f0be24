"""When the model stops working on a request: cancelled, too long, too slow.

All users share one model. A request that nobody waits for any more, or that
needs more than MAX_SECONDS, ends at its next batch.
"""

import contextlib
import threading
import time
from collections.abc import Iterator

from base.errors import UserError

from tasks.task import Model

MAX_CHARS = 50_000  # of all texts of a request, some 20 pages

# Without the first batch: the very first one compiles the model.
MAX_SECONDS = 10

_request = threading.local()


@contextlib.contextmanager
def limited(cancelled: threading.Event) -> Iterator[None]:
    """Let `check` in this thread end what runs in the context."""
    _request.cancelled, _request.starts = cancelled, []
    try:
        yield
    finally:
        del _request.cancelled


def check() -> None:
    """Before each batch: end a request that was cancelled or is too slow.

    Raises:
        UserError: says which.
    """
    if not hasattr(_request, "cancelled"):
        return  # not a request: sentences that are encoded at the start
    if _request.cancelled.is_set():
        raise UserError("cancelled")
    _request.starts.append(time.monotonic())
    _, *others = _request.starts
    if others and others[-1] - others[0] > MAX_SECONDS:
        raise UserError(
            f"stopped after {MAX_SECONDS} seconds, as other users wait: "
            "try a shorter text"
        )


def checked(run: Model) -> Model:
    """Return a model that is checked before each batch."""

    def checked_run(batch):
        check()
        return run(batch)

    return checked_run
