"""Do the work of a job with worker processes of this machine.

    chunks --worker processes--> units: files with the values by bucket
    units --worker processes--> records of a bucket
    buckets --this process--> output file

All of it can be continued: a unit, a bucket and an output file are complete or
not there. The next chunks are read in a thread while the workers are busy. The
memory needed does not grow with the input. The scratch folder holds:

    chunk-000012      values, each with its length before it, by bucket; then
                      uint64 [buckets + 1], offsets at which the buckets begin
    survey-000003     the same for the values of the survey, of bucket 3
    found-000000      result of a bucket of the survey; joined in `found`
    bucket-000003     what is made of bucket 3, until its files are written
    *.json            sizes and counts of a file; written last, so it shows
                      that the file is complete
"""

import collections
import contextlib
import itertools
import json
import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system, progress, read_ahead, text_files, workers
from base.errors import InputError, UserError
from base.jobs import steps as job_steps
from base.jobs.run import Run
from base.jobs.steps import Report, Steps

import numpy as np

_LENGTH = struct.Struct("<Q")

# --- Files of the scratch folder ---------------------------------------------


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

    def write(
        self, kind: str, index: int, write: Callable[[Any], dict[str, Any]]
    ) -> None:
        """Write a file, and behind it what `write` has returned."""
        path = self.path(kind, index)
        with file_system.atomic_file(path, sync=False) as file:
            result = write(file)
            result["bytes"] = file.tell()
        with file_system.atomic_file(f"{path}.json", sync=False) as file:
            file.write(json.dumps(result).encode())

    def write_unit(
        self,
        kind: str,
        index: int,
        pairs: Iterable[tuple[int, bytes]],
        num_buckets: int,
        result: dict[str, Any],
    ) -> None:
        """Write values by bucket."""
        buckets = collections.defaultdict(list)
        for bucket, value in pairs:
            buckets[bucket] += _LENGTH.pack(len(value)), value

        def write(file) -> dict[str, Any]:
            bounds = np.zeros(num_buckets + 1, np.uint64)
            for bucket, data in buckets.items():
                bounds[bucket + 1] = sum(map(len, data))
            for bucket in sorted(buckets):
                file.writelines(buckets[bucket])
            file.write(np.cumsum(bounds, dtype=np.uint64).tobytes())
            return result

        self.write(kind, index, write)

    def read_bucket(
        self, kind: str, num_units: int, bucket: int, num_buckets: int
    ) -> Iterator[bytes]:
        """Yield the values of a bucket from all units."""
        for index in range(num_units):
            with open(self.path(kind, index), "rb") as file:
                file.seek(8 * (bucket - num_buckets - 1), os.SEEK_END)
                start, end = struct.unpack("<QQ", file.read(16))
                file.seek(start)
                data = file.read(end - start)
            place = 0
            while place < len(data):
                (size,) = _LENGTH.unpack_from(data, place)
                place += _LENGTH.size + size
                yield data[place - size : place]


# --- The work of a worker process --------------------------------------------


class _Work(NamedTuple):
    """A job of a worker process.

    Attributes:
        kind: of the file to make: "chunk", "survey", "found" or "bucket".
        index: its number.
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
        self.found = b""

    def do(self, work: _Work, report: Report) -> dict[str, Any] | None:
        """Make the file of a job; return the result of a chunk."""
        steps, scratch, index = self.steps, self.scratch, work.index
        if work.kind == "chunk":
            chunk, place = work.chunk
            pairs, result = steps.map(chunk, report)
            scratch.write_unit(
                "chunk",
                index,
                pairs,
                steps.num_buckets,
                {"place": place, "result": result},
            )
            return result
        if work.kind == "found":
            values = scratch.read_bucket(
                "survey", work.num_units, index, steps.survey.num_buckets
            )

            def write(file) -> dict[str, Any]:
                file.write(steps.survey.reduce(values))
                return {}

            scratch.write("found", index, write)
            return None
        values = scratch.read_bucket(
            "chunk", work.num_units, index, steps.num_buckets
        )
        if work.kind == "survey":
            pairs = steps.survey.map(values)
            scratch.write_unit(
                "survey", index, pairs, steps.survey.num_buckets, {}
            )
            return None
        scratch.write(
            "bucket",
            index,
            lambda file: steps.reduce(index, values, self._load_found(), file),
        )
        return None

    def _load_found(self) -> Any:
        """Return the results of the survey."""
        path = os.path.join(self.scratch.folder, "found")
        if self.steps.survey and not len(self.found) and os.path.getsize(path):
            # Mapped: it takes memory only as far as there is some.
            with open(path, "rb") as file:
                self.found = mmap.mmap(
                    file.fileno(), 0, access=mmap.ACCESS_READ
                )
        return self.found


# --- The run -----------------------------------------------------------------


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

    Raises:
        UserError: bad input.
    """
    scratch = _Scratch(run.job.scratch_dir)
    with workers.WorkerPool(
        num_workers, _Worker, (steps, scratch), _Worker.do
    ) as pool:
        try:
            with progress.Bar(
                input_bytes, "B", "Reading", unit_scale=True
            ) as bar:
                num_units = _map(steps, sources, scratch, pool, bar, on_result)
            total = steps.add(_results(scratch, num_units))
            steps.check(total)
            if run.todo:
                _survey(steps, scratch, pool, num_units)
                _reduce(steps, run, scratch, pool, num_units)
        except InputError:
            run.discard()
            raise
    return total


def _results(scratch: _Scratch, num_units: int) -> Iterator[dict[str, Any]]:
    """Yield the results of all chunks.

    Raises:
        UserError: a file is gone.
    """
    for index in range(num_units):
        found = scratch.result("chunk", index)
        if not found:
            raise UserError(
                f"{scratch.path('chunk', index)} has disappeared during the "
                "run; give the same command again"
            )
        yield found["result"]


def _map(
    steps: Steps,
    sources: Sequence[Any],
    scratch: _Scratch,
    pool: workers.WorkerPool,
    bar: progress.Bar,
    on_result: Callable[[dict[str, Any]], None],
) -> int:
    """Make the units that are not complete; return the number of all."""
    first, place = 0, None
    while found := scratch.result("chunk", first):
        first, place = first + 1, found["place"]
    number = first

    def missing() -> Iterator[_Work]:
        nonlocal number
        for chunk in steps.chunks(sources, place):
            if scratch.result("chunk", number) is None:
                yield _Work("chunk", number, chunk)
            number += 1

    jobs = read_ahead.read_ahead(missing())
    with contextlib.closing(jobs):
        for event in pool.run(jobs):
            if isinstance(event, workers.Progress):
                bar.update(event.value)
            else:
                on_result(event.result)
    return number


def _do_missing(
    scratch: _Scratch,
    pool: workers.WorkerPool,
    kind: str,
    number: int,
    num_units: int,
) -> None:
    """Make the files of a kind that are not complete."""
    missing = [
        _Work(kind, index, num_units=num_units)
        for index in range(number)
        if scratch.result(kind, index) is None
    ]
    with progress.Bar(len(missing), "buckets", "Surveying") as bar:
        for _ in pool.run(missing):
            bar.update(1)


def _survey(
    steps: Steps, scratch: _Scratch, pool: workers.WorkerPool, num_units: int
) -> None:
    """Write the file `found`, where the job has a survey."""
    path = os.path.join(scratch.folder, "found")
    if not steps.survey or os.path.exists(path):
        return
    _do_missing(scratch, pool, "survey", steps.num_buckets, num_units)
    number = steps.survey.num_buckets
    _do_missing(scratch, pool, "found", number, steps.num_buckets)
    with file_system.atomic_file(path, sync=False) as file:
        for index in range(number):
            with open(scratch.path("found", index), "rb") as part:
                file.write(part.read())


def _reduce(
    steps: Steps,
    run: Run,
    scratch: _Scratch,
    pool: workers.WorkerPool,
    num_units: int,
) -> None:
    """Make the buckets that are not complete, and write the output files."""
    waiting = set(run.todo)
    buckets_of = {
        index: {bucket for bucket, _ in steps.parts(index)} for index in waiting
    }
    needed = sorted(set(itertools.chain.from_iterable(buckets_of.values())))
    made = {
        bucket: (scratch.path("bucket", bucket), result)
        for bucket in needed
        if (result := scratch.result("bucket", bucket))
    }
    missing = [
        _Work("bucket", bucket, num_units=num_units)
        for bucket in needed
        if bucket not in made
    ]

    def publish(index: int) -> None:
        buckets = {bucket: made[bucket] for bucket in buckets_of[index]}
        target = run.job.target(index)
        job_steps.publish(steps, index, target, dict(sorted(buckets.items())))
        waiting.discard(index)
        for bucket, (path, _) in buckets.items():
            if waiting.isdisjoint(steps.files_of(bucket)):
                os.remove(path)

    for index in run.todo:
        if buckets_of[index] <= made.keys():
            publish(index)
    with progress.Bar(len(missing), "buckets", "Writing") as bar:
        for event in pool.run(missing):
            bar.update(1)
            bucket = event.job.index
            path = scratch.path("bucket", bucket)
            made[bucket] = path, scratch.result("bucket", bucket)
            for index in steps.files_of(bucket):
                if index in waiting and buckets_of[index] <= made.keys():
                    publish(index)
