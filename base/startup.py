"""Start a script in UTF-8, and import TensorFlow sooner and without messages.

`begin` is called when a script imports `base`. Files, their names and standard
output are UTF-8 in every locale: where they are not, as with LC_ALL=C and
PYTHONUTF8=0, it begins the script again in Python's UTF-8 mode. Ctrl-C ends the
script in one line, as it does from `main` on (script.py).

Scripts import TensorFlow when their flags are checked, in `importing`. There

- scikit-learn, SciPy, matplotlib and Pillow look uninstalled. Keras imports
  them, if they are installed, for wrappers and pictures of its own, which takes
  more than a second. Scripts import them where they need them;
- what TensorFlow's libraries write to standard error while they are loaded
  ("oneDNN custom operations are on", "Could not find cuda drivers") is left
  out. TF_CPP_MIN_LOG_LEVEL, TensorFlow's own variable, is read too late.

`TF_CPP_MIN_LOG_LEVEL=0 python ...` shows everything. Use it when a GPU is not
found, when machines of a cluster wait for each other, or when TensorFlow ends
the process while it is imported. Programs that use this project as a library
get all of Keras and all messages of the import.
"""

import contextlib
import gc
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from types import TracebackType

from base import machine

LEVEL = "TF_CPP_MIN_LOG_LEVEL"

_OPTIONAL = ("PIL", "matplotlib", "scipy", "sklearn")

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# I0000 00:00:1795303204.883527   20708 port.cc:153] oneDNN custom ...
# 2025-09-17 14:44:05.157831: I external/local_xla/xla/tsl/cuda/cudart_ ...
# and what belongs to such lines.
_NOISE = re.compile(
    rb"[IWE]\d{4} \d\d:\d\d:\S+ +\d+ \S+\] "
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\S+: [IWE] "
    rb"|WARNING: All log messages before absl::InitializeLog\(\)"
    rb"|To enable the following instructions: "
)

# On a terminal, while TensorFlow is imported, which takes seconds.
_STARTING = b"Starting ..."


def is_script() -> bool:
    """Return whether Python runs a script of the main folder or of tools/."""
    path = getattr(sys.modules["__main__"], "__file__", None) or os.devnull
    folder = os.path.dirname(os.path.abspath(path))
    return folder == ROOT or f"{folder}/".startswith(f"{ROOT}/tools/")


def begin() -> None:
    """Set TensorFlow's messages, Keras' backend; in a script UTF-8, Ctrl-C."""
    os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever keras.json says
    # A level that the user has set stays. Without an NVIDIA driver TensorFlow
    # reports an error where there is none ("failed call to cuInit"). With one,
    # errors are worth reading.
    can_fail = machine.has_nvidia_driver()
    os.environ.setdefault(LEVEL, "2" if can_fail else "3")
    if not is_script():
        return
    is_told = os.environ.get("PYTHONUTF8") == "1"  # once is enough
    if sys.getfilesystemencoding() != "utf-8" and not is_told:
        os.environ["PYTHONUTF8"] = "1"  # of child processes, too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.excepthook = _show


def _show(
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Show an error that ends the process; Ctrl-C as one line."""
    if issubclass(kind, KeyboardInterrupt):
        print("ERROR: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Hide optional libraries and messages inside the block, in a script."""
    if not is_script():
        yield
        return
    optional = [name for name in _OPTIONAL if name not in sys.modules]
    sys.modules.update(dict.fromkeys(optional))
    stderr = None
    if os.environ[LEVEL] != "0":
        with contextlib.suppress(OSError):  # standard error is closed
            stderr, file = os.dup(2), tempfile.TemporaryFile()
            _draw(stderr, _STARTING)
            # C++ code writes to file descriptor 2, not to `sys.stderr`.
            os.dup2(file.fileno(), 2)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what is imported stays: searches for garbage skip it
        gc.enable()
        for name in optional:
            del sys.modules[name]
        if stderr is not None:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            _draw(2, b"\r" + b" " * len(_STARTING) + b"\r")
            with file:
                file.seek(0)
                kept = [line for line in file if not _NOISE.match(line)]
            os.write(2, b"".join(kept))


def _draw(stderr: int, line: bytes) -> None:
    if os.isatty(stderr) and os.environ.get("TERM") != "dumb":
        os.write(stderr, line)
