"""Run a job from its beginning to its end, with the processes of a machine.

    chunks --worker processes--> units: files with the values by bucket
    units --worker processes--> records of a bucket
    buckets --this process--> output file

A killed run can be resumed: a unit, a bucket and an output file are complete or
not there. The next chunks are read in a thread while the workers are busy. The
memory needed does not grow with the input. The scratch folder holds:

    chunk-000012      values, each with its length before it, by bucket; then
                      uint64 [buckets + 1], offsets at which the buckets begin
    bucket-000003     what is made of bucket 3, until its files are written
    *.json            sizes and counts of a file; written last, so it shows
                      that the file is complete

With Apache Beam, pipeline.py does the same work.
"""

import collections
import contextlib
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from typing import Any, NamedTuple

from base import beam, logs, machine, progress, text_files, workers
from base.errors import InputError, counted
from base.jobs import run as job_run
from base.jobs import steps as job_steps
from base.jobs.run import Job, Run, Target
from base.jobs.steps import Made, Steps

import numpy as np
from absl import logging

_LENGTH = struct.Struct("<Q")

_AHEAD = 3  # chunks that are read while the workers are busy

OnResult = Callable[[dict[str, Any]], None]


def make_files(
    job: Job,
    steps: Steps,
    sources: Sequence[Any],
    runner: beam.Flags,
    input_bytes: int | None = None,
    on_result: OnResult = lambda result: None,
) -> Run:
    """Write the output files of a job that are not complete yet.

    The `runner` says what does the work: processes of this machine, or a
    pipeline of Apache Beam. `input_bytes`, what the sizes of all chunks add up
    to, are for the bar of the progress. `on_result` is called with the result
    of every chunk that is mapped, or with their total if Beam does the work.
    The total of the run that is returned is that of the results of `Steps.map`.

    Raises:
        UserError: bad input, or output files of a different command.
    """
    start = time.monotonic()
    with job_run.open_run(job) as run:
        total = run.total
        if not run.todo and total is not None:
            logs.say("All output files are complete; nothing to do.")
        elif runner.runner == "local":
            num_workers = runner.num_workers or machine.num_cores()
            total = _make_files(
                run, steps, sources, num_workers, input_bytes, on_result
            )
        else:
            from base.jobs import pipeline  # needs Apache Beam

            total = pipeline.make_files(
                steps, sources, run, runner.beam_options
            )
            on_result(total)
        run.finish(total)
    if run.todo:
        files = counted(len(run.todo), "file")
        logging.info("Wrote %s in %.1f s", files, time.monotonic() - start)
    return run


class Scratch(NamedTuple):
    """The files of the scratch folder."""

    folder: str

    def path(self, kind: str, index: int) -> str:
        """Return the path of a file; `kind` is "chunk" or "bucket"."""
        return os.path.join(self.folder, f"{kind}-{index:06}")

    def result(self, kind: str, index: int) -> dict[str, Any]:
        """Return what was written beside a file, {} if it is incomplete."""
        path = self.path(kind, index)
        found = text_files.read_own_json(f"{path}.json")
        # No file is synced to the disk. So after a power failure any of them
        # may be incomplete.
        with contextlib.suppress(FileNotFoundError):
            if found and os.path.getsize(path) == found["bytes"]:
                return found
        return {}

    def open(self, kind: str, index: int):
        """Open a file and its result for writing; see `job_run.publish`."""
        path = self.path(kind, index)
        return job_run.publish(Target(path, f"{path}.json"), sync=False)

    def read_bucket(
        self, num_units: int, bucket: int, num_buckets: int
    ) -> Iterator[bytes]:
        """Yield the values of a bucket from all units."""
        for index in range(num_units):
            with open(self.path("chunk", index), "rb") as file:
                file.seek(8 * (bucket - num_buckets - 1), os.SEEK_END)
                start, end = struct.unpack("<QQ", file.read(16))
                file.seek(start)
                data = file.read(end - start)
            place = 0
            while place < len(data):
                (size,) = _LENGTH.unpack_from(data, place)
                place += _LENGTH.size + size
                yield data[place - size : place]


# --- A worker process --------------------------------------------------------


class _Work(NamedTuple):
    """A job of a worker process.

    Attributes:
        kind: what file to make: "chunk" or "bucket".
        index: the number of that file.
        source: the chunk to map and the place behind it; or the number of
            units that have values of the bucket.
    """

    kind: str
    index: int
    source: Any


def _set_up(settings: tuple[Steps, Scratch]) -> tuple[Steps, Scratch]:
    """Load what the steps need."""
    settings[0].setup()
    return settings


def _work(settings: tuple[Steps, Scratch], job: _Work) -> dict[str, Any] | None:
    """Make the file of a job; return the result of a chunk."""
    steps, scratch = settings
    if job.kind == "chunk":
        chunk, place = job.source
        pairs, result = steps.map(chunk)
        buckets = collections.defaultdict(list)
        for bucket, value in pairs:
            buckets[bucket] += _LENGTH.pack(len(value)), value
        bounds = np.zeros(steps.num_buckets + 1, np.uint64)
        with scratch.open("chunk", job.index) as (file, entry):
            for bucket in sorted(buckets):
                bounds[bucket + 1] = sum(map(len, buckets[bucket]))
                file.writelines(buckets[bucket])
            file.write(np.cumsum(bounds, dtype=np.uint64).tobytes())
            entry.update(place=place, result=result)
        return result
    values = scratch.read_bucket(job.source, job.index, steps.num_buckets)
    with scratch.open("bucket", job.index) as (file, entry):
        entry.update(steps.reduce(job.index, values, file))
    return None


# --- The process that hands out the work -------------------------------------


def read_ahead(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items; a thread computes the next ones meanwhile.

    This saves time if the items come from C code that releases the
    interpreter's lock, such as decompression. An error of `items` is raised in
    its place.
    """
    iterator, end = iter(items), object()
    thread = futures.ThreadPoolExecutor(1)
    try:
        waiting = collections.deque(
            thread.submit(next, iterator, end) for _ in range(_AHEAD)
        )
        while (item := waiting.popleft().result()) is not end:
            waiting.append(thread.submit(next, iterator, end))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


def _make_files(
    run: Run,
    steps: Steps,
    sources: Sequence[Any],
    num_workers: int,
    input_bytes: int | None,
    on_result: OnResult,
) -> dict[str, Any]:
    """Write the output files of the run that are not complete yet.

    Returns the total of the results of `Steps.map`.
    """
    scratch = Scratch(run.job.scratch_dir)
    first, place = 0, None
    while found := scratch.result("chunk", first):
        first, place = first + 1, found["place"]
    num_units = first

    def missing() -> Iterator[_Work]:
        nonlocal num_units
        for chunk in steps.chunks(sources, place):
            if not scratch.result("chunk", num_units):
                yield _Work("chunk", num_units, chunk)
            num_units += 1

    with workers.WorkerPool(
        num_workers, _set_up, (steps, scratch), _work
    ) as pool:
        try:
            with (
                progress.Bar(input_bytes, "B", "Reading") as bar,
                contextlib.closing(read_ahead(missing())) as jobs,
            ):
                for work, result in pool.run(jobs):
                    chunk, _ = work.source
                    bar.update(steps.size_of(chunk))
                    on_result(result)
            units = (scratch.result("chunk", n) for n in range(num_units))
            total = steps.add(unit["result"] for unit in units)
            steps.check(total)
            if run.todo:
                _reduce(run, steps, scratch, pool, num_units)
        except InputError:
            run.discard()
            raise
    return total


def _reduce(
    run: Run,
    steps: Steps,
    scratch: Scratch,
    pool: workers.WorkerPool,
    num_units: int,
) -> None:
    """Make the buckets that are not complete, and write the files."""
    waiting = set(run.todo)
    made: dict[int, Made] = {}
    missing = []

    def publish(bucket: int, result: dict[str, Any]) -> None:
        """Write the files for which this bucket is the last one."""
        made[bucket] = scratch.path("bucket", bucket), result
        for index in sorted(waiting.intersection(steps.files_of(bucket))):
            buckets = steps.buckets_of(index)
            if not all(map(made.__contains__, buckets)):
                continue
            of_file = {b: made[b] for b in buckets}
            target = run.job.target(index)
            job_steps.publish(steps, index, target, of_file)
            waiting.discard(index)
            for b, (path, _) in of_file.items():
                if waiting.isdisjoint(steps.files_of(b)):
                    os.remove(path)

    needed = {b for index in waiting for b in steps.buckets_of(index)}
    for bucket in sorted(needed):
        if result := scratch.result("bucket", bucket):
            publish(bucket, result)
        else:
            missing.append(bucket)
    work = [_Work("bucket", bucket, num_units) for bucket in missing]
    with progress.Bar(len(work), "buckets", "Writing") as bar:
        for (_, bucket, _), _ in pool.run(work):
            bar.update(1)
            publish(bucket, scratch.result("bucket", bucket))
