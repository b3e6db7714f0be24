"""Time a function; run functions and scripts in processes of their own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from base import child_processes
from base.errors import UserError

_ROOT = Path(__file__).resolve().parents[1]

# Runs a command, then prints the peak memory of its largest process in MB. A
# process of its own, since RUSAGE_CHILDREN covers every child ever waited for:
# measured here, a script would inherit the peak of the scripts before it.
_WITH_MEMORY = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)
sys.exit(status)
"""


# Calls a function of a module, and prints what it returns.
_CALL = """
import importlib, json, sys
root, module, function, arguments = sys.argv[1:]
sys.path.insert(0, root)
found = getattr(importlib.import_module(module), function)
print(json.dumps(found(*json.loads(arguments))))
"""


class Finished(NamedTuple):
    """A script's run.

    Attributes:
        log: what it wrote to standard error.
        seconds: from process start to process end.
        megabytes: peak memory of its largest process.
    """

    log: str
    seconds: float
    megabytes: float


def best_seconds(
    function: Callable[[], object],
    repeats: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the shortest time that a call of the function took.

    Args:
        function: what to call.
        repeats: how often.
        clock: returns seconds; time.process_time counts the processor time of
            all threads, which other programs disturb little.
    """
    times = []
    for _ in range(repeats):
        began = clock()
        function()
        times.append(clock() - began)
    return min(times)


def call_apart(what: str, function: Callable, *arguments: Any) -> Any:
    """Return function(*arguments), computed in a process of its own.

    So it begins with no memory that earlier work has left behind. The process
    ends when this one does.

    Args:
        what: it does, for the message.
        function: of a module.
        *arguments: of JSON's types, as its result is.

    Raises:
        UserError: the process failed, or the kernel killed it.
    """
    names = function.__module__, function.__name__
    values = [str(_ROOT), *names, json.dumps(arguments)]
    result = subprocess.run(
        [sys.executable, "-c", _CALL, *values],
        capture_output=True,
        text=True,
        preexec_fn=child_processes.end_with_parent,
    )
    if result.returncode:
        last = result.stderr.strip().rpartition("\n")[2][:300]
        raise UserError(
            f"the process of {what} ended with status {result.returncode} "
            f"(-9: killed, most likely for its memory): {last}"
        )
    return json.loads(result.stdout.strip().rpartition("\n")[2])


def run_script(script: str, **values) -> Finished:
    """Run a script of this project in a process of its own.

    Args:
        script: file name in the checkout's root.
        **values: its flags.

    Raises:
        UserError: the script failed; quotes the last line it wrote.
    """
    arguments = [f"--{name}={value}" for name, value in values.items()]
    command = [sys.executable, "-c", _WITH_MEMORY, sys.executable]
    began = time.perf_counter()
    result = subprocess.run(
        [*command, str(_ROOT / script), *arguments],
        capture_output=True,
        text=True,
        preexec_fn=child_processes.end_with_parent,
    )
    seconds = time.perf_counter() - began
    if result.returncode:
        last = result.stderr.strip().rpartition("\n")[2]
        raise UserError(f"{script} failed: {last.removeprefix('ERROR: ')}")
    return Finished(result.stderr, seconds, float(result.stdout.split()[-1]))


def number_between(log: str, before: str, after: str) -> float:
    """Return the last number in a log that stands between two strings.

    >>> number_between("Wrote 1,234 total instances", "Wrote ", " total")
    1234.0
    """
    return float(log.rsplit(before, 1)[1].split(after, 1)[0].replace(",", ""))
