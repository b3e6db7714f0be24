"""What a tool tells the engine: its chunks, its map and its reduce.

The bytes of the output must not depend on who does the work, in which order,
or how often it was interrupted. So a bucket is made from the set of its values
(`reduce` sorts them), and everything random in it follows from its number.
"""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from base import file_system
from base.errors import InputError
from base.jobs import run
from base.jobs.run import Target

Report = Callable[[int], None]

# The file of a bucket, and what `Steps.reduce` has returned.
Made = tuple[str, dict[str, Any]]
NOTHING: Made = ("", {"bounds": [0], "counts": {}})


class Steps:
    """The work of a tool. Instances are pickled and sent to the workers.

    Attributes:
        name: the job's name in the lists of Beam's runners.
        num_buckets: how many buckets there are.
        empty_file: the error for an output file without a byte; "" if there
            may be such files.
    """

    name: str
    num_buckets: int
    empty_file = ""

    def chunks(
        self, sources: Sequence[Any], place: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (chunk, place where the next one begins), both of JSON's types.

        A chunk is what `map` takes at once. This is called in the process that
        hands out the work, and should do no more than find chunks. It begins at
        `place`, which was yielded before. By default the sources, such as
        paths, are the chunks.
        """
        first = place or 0
        return zip(sources[first:], itertools.count(first + 1), strict=False)

    def setup(self) -> None:
        """Load what `map` and `reduce` need; called once in each worker."""

    def map(
        self, chunk: Any, report: Report
    ) -> tuple[Iterable[tuple[int, bytes]], dict[str, Any]]:
        """Return (bucket, value) pairs, and what is known of the chunk.

        What is known has types of JSON; numbers to add up are under `counts`.
        `report` is called with the bytes of the input that are done.
        """
        raise NotImplementedError

    def add(self, results: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Return the total of some results of `map`, of the same form."""
        counts = collections.Counter()
        for result in results:
            counts.update(result["counts"])
        return {"counts": counts}

    def check(self, total: dict[str, Any]) -> None:
        """Raise an InputError if nothing can be made of this input."""

    def reduce(
        self, bucket: int, values: Iterable[bytes], file: IO[bytes]
    ) -> dict[str, Any]:
        """Write a bucket to an open file.

        The values come in any order and can be iterated over once.

        Returns:
            bounds: offsets in the file, the first 0, the last its size. The
                slices between them may go to different output files. A
                bucket without anything may have no slice.
            counts: numbers by name.
        """
        raise NotImplementedError

    def parts(self, index: int) -> Iterable[tuple[int, int]]:
        """Return (bucket, slice) for the parts of an output file."""
        raise NotImplementedError

    def files_of(self, bucket: int) -> Sequence[int]:
        """Return the output files that have parts of a bucket."""
        raise NotImplementedError


def publish(
    steps: Steps, index: int, target: Target, made: Mapping[int, Made]
) -> None:
    """Write an output file from its buckets.

    `made` maps a bucket to (file, what `reduce` returned). The counts of a
    bucket that several files share go to the first.
    """
    counts = collections.Counter()
    for bucket, (_, result) in made.items():
        if steps.files_of(bucket)[0] == index:
            counts.update(result["counts"])
    parts = []
    for bucket, number in steps.parts(index):
        path, result = made[bucket]
        bounds = result["bounds"][number : number + 2]
        if len(bounds) == 2 and bounds[0] < bounds[1]:
            parts.append((path, *bounds))
    if not parts and steps.empty_file:
        raise InputError(steps.empty_file)
    with run.publish(target) as (file, entry):
        for path, start, end in parts:
            with file_system.open_for_reading(path) as source:
                source.seek(start)
                while start < end:
                    block = source.read(min(end - start, 2**20))
                    file.write(block)
                    start += len(block)
        entry["counts"] = counts
