"""Do the work of a job with Apache Beam, on one machine or many.

    sources --read--> chunks --map--> (bucket, value), and a result per chunk
    values --group by bucket--> buckets --reduce--> files in the scratch folder
    results, one more group --add--> the total, a file in the scratch folder
    buckets --group by output file--> output files

The pipeline needs only what all runners have. A step has one output, every
step leads to the last one, and things are spread over the workers by grouping
them. Dask's runner ignores the tags of outputs and Reshuffle, and does not run
what does not lead to the last step.

The files are those of the local runner, byte for byte: both call the same
chunks, map and reduce. A source is read by one worker, the chunks are spread
over all of them. Only paths are grouped by output file, not content. The
driver may end before the pipeline does: every file that was published is found
by its entry when the command is given again (run.py).
"""

import json
import os
import pickle
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from base import beam as base_beam
from base import file_system, text_files
from base.errors import UserError
from base.jobs import steps as job_steps
from base.jobs.run import Run, Target
from base.jobs.steps import Steps

import apache_beam as beam

_TOTAL = "total.json"

# The results of chunks are grouped like the values of a bucket of this number.
_RESULTS = -1

# Parts in which a list is read. On Dask all steps work on as many, or fewer.
_PARTS = 256


def make_files(
    steps: Steps, sources: Sequence[Any], run: Run, beam_options: str
) -> dict[str, Any]:
    """Write the output files of a run that are not complete yet.

    Returns the total of the results of `Steps.map`. A worker reads one of the
    sources; the run's files are at paths that all workers reach.
    """
    folder = run.job.shared_dir
    total = os.path.join(folder, _TOTAL)
    if run.todo or not file_system.exists(total):
        try:
            base_beam.run(
                lambda pipeline: _build(pipeline, steps, sources, run),
                beam_options,
                steps.name,
            )
        except UserError:
            run.discard()
            raise
    return text_files.read_own_json(total)


def _build(
    pipeline: beam.Pipeline, steps: Steps, sources: Sequence[Any], run: Run
) -> None:
    """Add all steps to the pipeline."""
    folder, todo = run.job.shared_dir, frozenset(run.todo)
    chunks = create(
        pipeline, sources, f"{folder}/sources.json"
    ) | "Read" >> beam.FlatMap(
        lambda source: (chunk for chunk, _ in steps.chunks([source], None))
    )
    mapped = spread(chunks, "SpreadChunks") | "Map" >> beam.ParDo(_Map(steps))
    nothing = pipeline | "NoChunk" >> beam.Create([(_RESULTS, steps.add([]))])
    made = (
        (mapped, nothing)
        | "AllValues" >> beam.Flatten()
        | "Needed"
        >> beam.Filter(
            lambda pair: (
                pair[0] == _RESULTS
                or todo.intersection(steps.files_of(pair[0]))
            )
        )
        | "GroupByBucket" >> beam.GroupByKey()
        | "Reduce" >> beam.ParDo(_Reduce(steps, folder, todo))
    )
    files = [[index, *run.job.target(index)] for index in run.todo]
    targets = create(
        pipeline, files, f"{folder}/targets.json"
    ) | "Target" >> beam.Map(lambda item: (item[0], Target(*item[1:])))
    _ = (
        (made, targets)
        | "AllFiles" >> beam.Flatten()
        | "GroupByFile" >> beam.GroupByKey()
        | "Publish" >> beam.Map(_publish, steps)
    )


def create(
    pipeline: beam.Pipeline, items: Sequence[Any], path: str
) -> beam.PCollection:
    """Return a collection of items; workers read them from a file.

    `beam.Create` would send the items, of JSON's types, with the pipeline,
    whose size runners limit (Dataflow: 10 MB).
    """
    file_system.write_text(path, json.dumps(items))
    label = os.path.basename(path)
    return (
        pipeline
        | f"{label} parts" >> beam.Create(range(_PARTS))
        | f"{label} read"
        >> beam.FlatMap(lambda part: text_files.read_json(path)[part::_PARTS])
    )


def spread(items: beam.PCollection, label: str) -> beam.PCollection:
    """Spread items over all workers, wherever they were made."""
    return (
        items
        | f"{label} Key"
        >> beam.Map(lambda item: (zlib.crc32(pickle.dumps(item)), item))
        | label >> beam.GroupByKey()
        | f"{label} Item" >> beam.FlatMap(lambda pair: pair[1])
    )


class _Map(beam.DoFn):
    """Yields (bucket, value), and (_RESULTS, what is known of the chunk)."""

    def __init__(self, steps: Steps):
        self._steps = steps

    def setup(self) -> None:
        self._steps.setup()

    def process(self, element: Any) -> Iterator[Any]:
        pairs, result = self._steps.map(element)
        yield from pairs
        yield _RESULTS, result


class _Reduce(beam.DoFn):
    """Writes a bucket, or the total of the results, to the scratch folder.

    It raises a UserError if nothing can be made of the total. The output is
    (index of an output file, (bucket, file, result)), for each that has parts
    of the bucket.
    """

    def __init__(self, steps: Steps, folder: str, todo: frozenset[int]):
        self._steps, self._folder, self._todo = steps, folder, todo

    def setup(self) -> None:
        self._steps.setup()

    def process(
        self, element: tuple[int, Iterable]
    ) -> Iterator[tuple[int, tuple]]:
        bucket, values = element
        if bucket == _RESULTS:
            total = self._steps.add(values)
            self._steps.check(total)
            path = os.path.join(self._folder, _TOTAL)
            file_system.write_text(path, json.dumps(total))
            return
        # A runner may run the same element twice at once.
        name = f"bucket-{bucket:06}.{uuid.uuid4().hex}"
        path = f"{self._folder}/{name}"
        with file_system.atomic_file(path, sync=False) as file:
            result = self._steps.reduce(bucket, values, file)
        for index in self._steps.files_of(bucket):
            if index in self._todo:
                yield index, (bucket, path, result)


def _publish(element: tuple[int, Iterable], steps: Steps) -> None:
    """Write an output file from its buckets."""
    index, values = element[0], list(element[1])
    (target,) = [value for value in values if isinstance(value, Target)]
    found = {v[0]: v[1:] for v in values if not isinstance(v, Target)}
    # A bucket without values has no group.
    buckets = steps.buckets_of(index)
    made = {b: found.get(b, job_steps.NOTHING) for b in buckets}
    job_steps.publish(steps, index, target, made)
