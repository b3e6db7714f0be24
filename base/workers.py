"""Run a function over many inputs in worker processes.

If a worker process is killed, for example because the memory ran out, the run
ends at once with an error; if the parent is killed, its workers end. For this,
every worker has a pipe of its own to the parent, so that each end sees when the
other is closed; a worker that is busy is ended by the kernel. The workers of
concurrent.futures outlive a killed parent, and in Python 3.10 its pools hang if
a worker is killed before it has read a job.

Workers are started as new processes ("spawn"), not forked: forking a process
with threads, such as those of TensorFlow, can deadlock.
"""

import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import multiprocessing.resource_tracker
import os
import pickle
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from base import logs, machine
from base.errors import UserError


class WorkerPool(contextlib.AbstractContextManager):
    """Processes that each call `setup` once and `work` for every job.

    `setup` and `work` are functions of a module other than the script that
    runs: workers do not import the script, since it may import TensorFlow,
    which takes 600 MB and seconds. `setup` is called with `settings`, `work`
    with what it returned and a job. A process is started when there is a job
    for it.
    """

    def __init__(
        self,
        num_workers: int,
        setup: Callable[[Any], Any],
        settings: Any,
        work: Callable[[Any, Any], Any],
    ):
        self._num_workers = num_workers
        self._args = setup, settings, work
        self._processes = {}

    def __exit__(self, *unused) -> None:
        """End all workers, whatever they do."""
        for connection, process in self._processes.items():
            process.terminate()
            connection.close()
        for process in self._processes.values():
            process.join()

    def run(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Hand out the jobs in order; yield (job, result) as they come.

        Raises:
            UserError, OSError: a worker raised one, or was killed.
            RuntimeError: a worker raised another exception; has its trace.
        """
        waiting, busy = iter(jobs), {}
        # None: a further worker, which is started only if there is a job.
        new = [None] * (self._num_workers - len(self._processes))
        for idle, job in zip([*self._processes, *new], waiting, strict=False):
            self._hand_out(idle or self._start(), job, busy)
        while busy:
            for connection in multiprocessing.connection.wait(list(busy)):
                message = self._receive(connection)
                if isinstance(message, Exception):
                    raise message
                done = busy.pop(connection), message
                # The worker continues while the caller uses the result.
                for job in itertools.islice(waiting, 1):
                    self._hand_out(connection, job, busy)
                yield done

    def _start(self) -> multiprocessing.connection.Connection:
        """Start a worker and return our end of its pipe."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        args = theirs, *self._args
        process = context.Process(target=_serve, args=args, daemon=True)
        with _interrupts_blocked(), _script_hidden():
            process.start()
        # Now the worker has the only handle of its end: when the worker ends,
        # reading from our end fails instead of waiting.
        theirs.close()
        self._processes[ours] = process
        return ours

    def _hand_out(self, connection, job: Any, busy: dict) -> None:
        """Give a job to the worker of a pipe."""
        # The worker may have ended in `setup`, and may have sent an error
        # before that: _receive finds out.
        with contextlib.suppress(OSError):
            # Not `send`, which writes from a view of a buffer: Ctrl-C within it
            # makes Python 3.12.1 crash when the process ends.
            connection.send_bytes(pickle.dumps(job))
        busy[connection] = job

    def _receive(self, connection) -> Any:
        """Return a worker's next message: a result, or an Exception."""
        try:
            return pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            process = self._processes[connection]
            process.join()
        code = process.exitcode
        how = f"exit status {code}"
        if code < 0:
            how = f"signal {-code} ({signal.Signals(-code).name})"
        raise UserError(
            f"a worker process ended unexpectedly, {how}; if the memory ran "
            "out, use fewer workers (--num_workers) or, where there is that "
            "flag, a smaller --bucket_mb, and give the same command again"
        )


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT inside the block; processes started there inherit it.

    A terminal sends SIGINT at Ctrl-C to all processes. In workers it stays
    blocked, so that it does not end them with a stack trace, not even while
    they import modules; the parent ends them. A signal that the parent gets
    inside the block is handled when the block ends.
    """
    # Python's resource tracker would otherwise be started with the first
    # worker, and starting it unblocks the signal.
    multiprocessing.resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _script_hidden() -> Iterator[None]:
    """Hide the running script inside the block, so that workers skip it.

    A spawned process imports the parent's __main__ by its path or its spec;
    without both it imports nothing.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _serve(connection, setup, settings, work) -> None:
    """Do jobs until the parent closes the pipe or ends; run in a worker."""
    logs.set_up()
    machine.end_with_parent()
    try:
        state = setup(settings)
        while True:
            job = connection.recv()
            connection.send(work(state, job))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # The parent has ended, so nothing can be reported.
    except (UserError, OSError) as error:  # A full disk, for example.
        connection.send(error)
    except Exception:
        connection.send(RuntimeError(traceback.format_exc()))
