"""A pool of worker processes that neither hangs nor leaves orphans.

The pools of the standard library wait forever in either direction: for a
worker that the kernel killed for want of memory, or, in the worker, for a
parent that was killed. Here every worker talks to the parent through a pipe of
its own, so that the death of either end is seen by the other at once.

Workers are started fresh ("spawn"), never forked: forking a process that has
threads, as TensorFlow's do, can deadlock.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from base import logs
from base.errors import UserError


def num_cores() -> int:
    """Return the cores this process may use, fewer than there are in a job."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Progress(NamedTuple):
    """A worker's report on its way."""

    value: Any


class Done(NamedTuple):
    """A job and what it returned."""

    job: Any
    result: Any


class WorkerPool:
    """`num_workers` processes, each of which sets itself up once.

    Args:
        num_workers: how many processes.
        setup: module-level function of `settings`, called in each worker;
            like `work` not of the script itself, which workers do not import
            (it may need TensorFlow, which takes them 600 MB and seconds).
        settings: picklable.
        work: module-level function of (what `setup` returned, a job, a
            function to report progress with).
    """

    def __init__(
        self,
        num_workers: int,
        setup: Callable[[Any], Any],
        settings: Any,
        work: Callable[[Any, Any, Callable[[Any], None]], Any],
    ):
        context = multiprocessing.get_context("spawn")
        self._processes = {}
        for _ in range(num_workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, setup, settings, work), daemon=True
            )
            with _interrupts_held_back(), _script_left_out():
                process.start()
            # The last handle on that end but the worker's own: when the
            # worker dies, reading from ours fails instead of waiting.
            theirs.close()
            self._processes[ours] = process

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *unused) -> None:
        for connection, process in self._processes.items():
            process.terminate()
            connection.close()
        for process in self._processes.values():
            process.join()

    def run(self, jobs: Iterable[Any]) -> Iterator[Progress | Done]:
        """Hand out the jobs in order, yield events as they come.

        Raises:
            UserError: a worker raised it, or was killed.
            OSError: a worker raised it.
            RuntimeError: any other exception of a worker, with its trace.
        """
        waiting = iter(jobs)
        busy = {}
        for connection in self._processes:
            self._hand_out(connection, waiting, busy)
        while busy:
            for connection in multiprocessing.connection.wait(list(busy)):
                kind, value = self._receive(connection)
                if kind is Done:
                    job = busy.pop(connection)
                    # The worker goes on while the caller sees to the result.
                    self._hand_out(connection, waiting, busy)
                    yield Done(job, value)
                elif kind is Progress:
                    yield Progress(value)
                elif kind is OSError:
                    raise value
                else:
                    raise kind(value)

    def _hand_out(self, connection, waiting: Iterator[Any], busy: dict) -> None:
        for job in waiting:
            try:
                connection.send(job)
            except OSError:  # It died in setup, and may have said why.
                pass
            busy[connection] = job
            return

    def _receive(self, connection) -> tuple[type, Any]:
        try:
            return connection.recv()
        except (EOFError, OSError):
            process = self._processes[connection]
            process.join()
        code = process.exitcode
        how = f"exit status {code}"
        if code < 0:
            how = f"signal {-code} ({signal.Signals(-code).name})"
        raise UserError(
            f"a worker process died, {how}; if memory ran out, use fewer "
            "workers (--num_workers) or, where there is that flag, a smaller "
            "--bucket_mb, and give the same command again"
        )


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let a process start that Ctrl-C, which reaches all, leaves alone.

    The parent ends its workers itself. They inherit that the signal is
    blocked, so it does not hurt them while they are still importing, either;
    the parent gets what came meanwhile when the block ends.
    """
    # Starting it later would unblock the signal.
    multiprocessing.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _script_left_out() -> Iterator[None]:
    """Let a process start that does not import the script that runs."""
    script = sys.modules["__main__"]
    names = {n: getattr(script, n, None) for n in ("__file__", "__spec__")}
    try:
        script.__spec__ = None
        if names["__file__"]:
            del script.__file__
        yield
    finally:
        for name, value in names.items():
            if name == "__spec__" or value:
                setattr(script, name, value)


def _serve(connection, setup, settings, work) -> None:
    """Do jobs until the parent closes the pipe, or is dead."""
    logs.set_up()
    try:
        state = setup(settings)
        while True:
            job = connection.recv()
            result = work(
                state, job, lambda value: connection.send((Progress, value))
            )
            connection.send((Done, result))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # The parent is gone, and with it whoever would read this.
    except UserError as error:
        connection.send((UserError, str(error)))
    except OSError as error:  # A full disk, say; the caller knows whose.
        connection.send((OSError, error))
    except Exception:
        connection.send((RuntimeError, traceback.format_exc()))
