"""Do the work of a job with worker processes of this machine.

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
"""

import collections
import contextlib
import itertools
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from base import progress, read_ahead, text_files, workers
from base.errors import InputError, UserError
from base.jobs import run as job_run
from base.jobs import steps as job_steps
from base.jobs.run import Run, Target
from base.jobs.steps import Report, Steps

import numpy as np

_LENGTH = struct.Struct("<Q")


class _Scratch(NamedTuple):
    """The files of the scratch folder."""

    folder: str

    def path(self, kind: str, index: int) -> str:
        return os.path.join(self.folder, f"{kind}-{index:06}")

    def result(self, kind: str, index: int) -> dict[str, Any] | None:
        """Return what was written beside a file, None if it is incomplete."""
        path = self.path(kind, index)
        found = text_files.read_own_json(f"{path}.json")
        # No file is synced to the disk. So after a power failure any of them
        # may be incomplete.
        with contextlib.suppress(FileNotFoundError):
            if found and os.path.getsize(path) == found["bytes"]:
                return found
        return None

    def open(self, kind: str, index: int):
        """Open a file and its result for writing; see `job_run.publish`."""
        path = self.path(kind, index)
        return job_run.publish(Target(path, f"{path}.json"), sync=False)

    def write_unit(
        self,
        index: int,
        pairs: Iterable[tuple[int, bytes]],
        num_buckets: int,
        **result: Any,
    ) -> None:
        """Write the values of a chunk by bucket."""
        buckets = collections.defaultdict(list)
        for bucket, value in pairs:
            buckets[bucket] += _LENGTH.pack(len(value)), value
        bounds = np.zeros(num_buckets + 1, np.uint64)
        with self.open("chunk", index) as (file, entry):
            for bucket in sorted(buckets):
                bounds[bucket + 1] = sum(map(len, buckets[bucket]))
                file.writelines(buckets[bucket])
            file.write(np.cumsum(bounds, dtype=np.uint64).tobytes())
            entry.update(result)

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


class _Work(NamedTuple):
    """A job of a worker process.

    Attributes:
        kind: what file to make: "chunk" or "bucket".
        index: the number of that file.
        chunk: to map, and the place behind it.
        num_units: files to read values from.
    """

    kind: str
    index: int
    chunk: tuple[Any, Any] = (None, None)
    num_units: int = 0


class _Worker:
    """A worker process, with what it has loaded."""

    def __init__(self, settings: tuple[Steps, _Scratch]):
        self.steps, self.scratch = settings
        self.steps.setup()

    def do(self, work: _Work, report: Report) -> dict[str, Any] | None:
        """Make the file of a job; return the result of a chunk."""
        steps, scratch, index = self.steps, self.scratch, work.index
        if work.kind == "chunk":
            chunk, place = work.chunk
            pairs, result = steps.map(chunk, report)
            scratch.write_unit(
                index, pairs, steps.num_buckets, place=place, result=result
            )
            return result
        values = scratch.read_bucket(work.num_units, index, steps.num_buckets)
        with scratch.open("bucket", index) as (file, entry):
            entry.update(steps.reduce(index, values, file))
        return None


def make_files(
    steps: Steps,
    sources: Sequence[Any],
    run: Run,
    num_workers: int,
    input_bytes: int | None,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Write the output files of a run that are not complete yet.

    Returns the total of the results of `Steps.map`. `input_bytes` is what its
    reports add up to, None if unknown; `on_result` is called with each result.
    """
    scratch = _Scratch(run.job.scratch_dir)
    with workers.WorkerPool(
        num_workers, _Worker, (steps, scratch), _Worker.do
    ) as pool:
        engine = _Engine(steps, run, scratch, pool)
        try:
            num_units = engine.map(sources, input_bytes, on_result)
            total = steps.add(engine.results(num_units))
            steps.check(total)
            if run.todo:
                engine.reduce(num_units)
        except InputError:
            run.discard()
            raise
    return total


class _Engine(NamedTuple):
    """A run, and the processes that do its work."""

    steps: Steps
    run: Run
    scratch: _Scratch
    pool: workers.WorkerPool

    def map(
        self,
        sources: Sequence[Any],
        input_bytes: int | None,
        on_result: Callable[[dict[str, Any]], None],
    ) -> int:
        """Make the units that are not complete; return the number of all."""
        first, place = 0, None
        while found := self.scratch.result("chunk", first):
            first, place = first + 1, found["place"]
        number = first

        def missing() -> Iterator[_Work]:
            nonlocal number
            for chunk in self.steps.chunks(sources, place):
                if self.scratch.result("chunk", number) is None:
                    yield _Work("chunk", number, chunk)
                number += 1

        jobs = read_ahead.read_ahead(missing())
        with (
            progress.Bar(input_bytes, "B", "Reading", unit_scale=True) as bar,
            contextlib.closing(jobs),
        ):
            for event in self.pool.run(jobs):
                if isinstance(event, workers.Progress):
                    bar.update(event.value)
                else:
                    on_result(event.result)
        return number

    def results(self, num_units: int) -> Iterator[dict[str, Any]]:
        """Yield the results of all chunks."""
        for index in range(num_units):
            found = self.scratch.result("chunk", index)
            if not found:
                raise UserError(
                    f"{self.scratch.path('chunk', index)} has disappeared "
                    "during the run; give the same command again"
                )
            yield found["result"]

    def reduce(self, num_units: int) -> None:
        """Make the buckets that are not complete, and write the files."""
        steps, scratch = self.steps, self.scratch
        waiting = set(self.run.todo)
        buckets_of = {
            index: {bucket for bucket, _ in steps.parts(index)}
            for index in waiting
        }
        needed = sorted(set(itertools.chain.from_iterable(buckets_of.values())))
        made = {
            bucket: (scratch.path("bucket", bucket), result)
            for bucket in needed
            if (result := scratch.result("bucket", bucket))
        }

        def publish(indices: Iterable[int]) -> None:
            """Write the files whose buckets are all complete."""
            for index in indices:
                if index not in waiting or not buckets_of[index] <= made.keys():
                    continue
                buckets = {b: made[b] for b in sorted(buckets_of[index])}
                job_steps.publish(
                    steps, index, self.run.job.target(index), buckets
                )
                waiting.discard(index)
                for bucket, (path, _) in buckets.items():
                    if waiting.isdisjoint(steps.files_of(bucket)):
                        os.remove(path)

        missing = [bucket for bucket in needed if bucket not in made]
        publish(self.run.todo)
        work = [_Work("bucket", b, num_units=num_units) for b in missing]
        with progress.Bar(len(work), "buckets", "Writing") as bar:
            for event in self.pool.run(work):
                if isinstance(event, workers.Done):
                    bar.update(1)
                    bucket = event.job.index
                    path = scratch.path("bucket", bucket)
                    made[bucket] = path, scratch.result("bucket", bucket)
                    publish(steps.files_of(bucket))
