"""Child processes that end with their parent, however the parent ends."""

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# Looked up here, since code between fork and exec should do as little as it
# can.
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _end_with_parent() -> None:
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)


# For preexec_fn of subprocess: in the child, asks the kernel for a SIGTERM when
# the parent ends, also by kill -9. None where the kernel has no such thing.
end_with_parent: Callable[[], None] | None = (
    _end_with_parent if _PRCTL else None
)
