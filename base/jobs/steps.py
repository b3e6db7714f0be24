"""What a tool tells the engine: its chunks, its map and its reduce.

The bytes of the output must not depend on who does the work, in which order,
or how often it was interrupted. So a bucket is made from the set of its values
(`reduce` sorts them), and everything random in it follows from its number.
"""

import collections
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from base import file_system
from base.errors import InputError
from base.jobs import run
from base.jobs.run import Target

# The file of a bucket, and what `Steps.reduce` has returned.
Made = tuple[str, dict[str, Any]]
NOTHING: Made = ("", {"bounds": [0], "counts": {}})

# Values of a list that a total keeps, such as the problems that are shown.
MOST_LISTED = 100


class Steps:
    """The work of a tool. Instances are pickled and sent to the workers.

    Each of the files has the same number of buckets, one after the other; or
    each bucket gives the same number of files a slice of its own.

    Attributes:
        name: the job's name in the lists of Beam's runners.
        num_buckets: how many buckets there are: a multiple or a divisor of the
            number of files.
        num_files: how many output files there are.
        num_passes: how many slices a file has of each of its buckets. A file
            begins with the first slice of all its buckets.
        empty_file: the error for an output file without a byte; "" if there
            may be such files.
    """

    name: str
    num_buckets: int
    num_files: int
    num_passes = 1
    empty_file = ""

    def files_of(self, bucket: int) -> range:
        """Return the output files that have slices of a bucket."""
        return _share(bucket, self.num_buckets, self.num_files)

    def buckets_of(self, index: int) -> range:
        """Return the buckets that an output file is made of."""
        return _share(index, self.num_files, self.num_buckets)

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

    def size_of(self, chunk: Any) -> int:
        """Return the bytes of the input that a chunk stands for."""
        raise NotImplementedError

    def map(
        self, chunk: Any
    ) -> tuple[Iterable[tuple[int, bytes]], dict[str, Any]]:
        """Return (bucket, value) pairs, and what is known of the chunk.

        What is known has types of JSON: dictionaries of numbers, such as
        `counts`, and lists; see `add`.
        """
        raise NotImplementedError

    def add(self, results: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Add up results of `map` into one result of the same form.

        Numbers of the same name are added up. Of lists the values that come
        first in their order stay, each once and at most MOST_LISTED.
        """
        total = {"counts": collections.Counter()}
        for result in results:
            _add(total, result)
        return total

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


def _add(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what is known of a chunk to a total."""
    for name, value in more.items():
        if isinstance(value, dict):
            _add(total.setdefault(name, collections.Counter()), value)
        elif isinstance(value, list):
            listed = itertools.groupby(sorted([*total.get(name, ()), *value]))
            total[name] = [one for one, _ in listed][:MOST_LISTED]
        else:
            total[name] += value


def _share(number: int, total: int, others: int) -> range:
    """Return which of some others belong to one of a total of things.

    To number 1 of 2 belong 2 and 3 of 4; to number 1 of 4, and to 0, 0 of 2.
    """
    first = number * others // total
    return range(first, first + max(1, others // total))


def publish(
    steps: Steps, index: int, target: Target, made: Mapping[int, Made]
) -> None:
    """Write an output file from its buckets.

    `made` maps each of its buckets, in order, to (file, what `reduce`
    returned). The copies of a sentence in several passes lie as far apart as
    they can: of buckets a, b in 3 passes the file has a0 b0 a1 b1 a2 b2. The
    counts of a bucket that several files share go to the first.
    """
    counts = collections.Counter()
    for bucket, (_, result) in made.items():
        if steps.files_of(bucket)[0] == index:
            counts.update(result["counts"])
    parts = []
    for number, bucket in itertools.product(range(steps.num_passes), made):
        files = steps.files_of(bucket)
        first = number * len(files) + files.index(index)
        path, result = made[bucket]
        bounds = result["bounds"][first : first + 2]
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
