"""When a request ends before its result: it was cancelled, or takes too long.

All users share one model. A request that nobody waits for any more, or that
takes more than MAX_SECONDS, ends before its next batch.
"""

import contextlib
import threading
import time
from collections.abc import Iterator

from base.errors import UserError

from tasks.task import Model

MAX_CHARS = 50_000  # of all texts of a request, some 20 pages

# Counted from the second batch on, as the very first one compiles the model.
MAX_SECONDS = 10

_request = threading.local()


@contextlib.contextmanager
def limited(cancelled: threading.Event) -> Iterator[None]:
    """Within the context, `check` can end what runs in this thread."""
    _request.cancelled, _request.starts = cancelled, []
    try:
        yield
    finally:
        del _request.cancelled


def check() -> None:
    """End a request that was cancelled or is too slow; called for each batch.

    Raises:
        UserError: says which of the two it is.
    """
    if not hasattr(_request, "cancelled"):
        return  # not a request: --neighbors_file is encoded at the start
    if _request.cancelled.is_set():
        raise UserError("cancelled")
    _request.starts.append(time.monotonic())
    _, *others = _request.starts
    if others and others[-1] - others[0] > MAX_SECONDS:
        raise UserError(
            f"stopped after {MAX_SECONDS} seconds, as all users share the "
            "model: try a shorter text"
        )


def checked(run: Model) -> Model:
    """Return a model that calls `check` before each batch."""

    def checked_run(batch):
        check()
        return run(batch)

    return checked_run
