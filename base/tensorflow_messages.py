"""Keep TensorFlow's start-up messages off standard error.

The variable TF_CPP_MIN_LOG_LEVEL is TensorFlow's own: messages below that
level are not written (0 all, 1 warnings, 2 errors, 3 only what ends the
process). TensorFlow reads it too late for what its libraries write while they
are loaded ("oneDNN custom operations are on", "Could not find cuda drivers");
those lines are removed from what the import writes.

`TF_CPP_MIN_LOG_LEVEL=0 python ...` shows everything. Use it when a GPU is not
found, when machines of a cluster wait for each other, or when TensorFlow ends
the process while it is imported.
"""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

LEVEL = "TF_CPP_MIN_LOG_LEVEL"

_DRIVER = "/proc/driver/nvidia"

# I0000 00:00:1795303204.883527   20708 port.cc:153] oneDNN custom ...
# 2025-09-17 14:44:05.157831: I external/local_xla/xla/tsl/cuda/cudart_ ...
# and what belongs to such lines.
_NOISE = re.compile(
    rb"[IWE]\d{4} \d\d:\d\d:\S+ +\d+ \S+\] "
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\S+: [IWE] "
    rb"|WARNING: All log messages before absl::InitializeLog\(\)"
    rb"|To enable the following instructions: "
)


def hide() -> None:
    """Hide TensorFlow's messages in this process and those it starts.

    A level that the user has set stays. Has to be called before TensorFlow is
    imported; tensorflow_import.py removes what the import itself writes.
    """
    # Without an NVIDIA driver TensorFlow reports an error where there is none
    # ("failed call to cuInit"). With one, errors are worth reading.
    can_fail = os.path.exists(_DRIVER)
    os.environ.setdefault(LEVEL, "2" if can_fail else "3")


def are_hidden() -> bool:
    """Return whether TensorFlow's messages are to be hidden."""
    return os.environ.get(LEVEL) != "0"


@contextlib.contextmanager
def without_noise() -> Iterator[None]:
    """Remove TensorFlow's messages from standard error inside the block.

    All other lines are written when the block ends, also when it fails.
    C++ code writes to file descriptor 2, so `sys.stderr` cannot be replaced
    instead.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # standard error is closed: nothing can be written
        yield
        return
    with tempfile.TemporaryFile() as file:
        _flush()
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            lines = [line for line in file if not _NOISE.match(line)]
            if lines:
                os.write(2, b"".join(lines))


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
