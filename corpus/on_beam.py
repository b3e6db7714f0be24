"""Make the text files of a plan with Apache Beam, on one machine or many.

The files are the same, byte for byte, as those of generation.py: both read the
input in chunks (reading.py), make documents of their items with the same code
(documents.py), and put documents together by their keys (shards.py).

    input files
      --read--> chunks of items
      --make documents--> (key, text), and the counts of each chunk
      --group by key--> distinct documents
      --count lines--> hashes of repeated lines (--drop_repeated_lines)
      --group by bucket--> text of a bucket, a file in the scratch folder
      --group by output file--> output files, renamed when they are complete

No group grows with the corpus. A text occurs at most once per chunk in a group
of equal documents, buckets are ranges of hash values, and what is grouped by
output file are paths, not text.

A file is read by one worker, which only decompresses it and cuts it into
chunks; the work on the chunks is spread over all workers.
"""

import collections
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from base import beam as base_beam

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems

from corpus import outputs, reading, repeated_lines, shards, summary, units
from corpus.items import Chunk
from corpus.plan import Plan

JOB_NAME = "prepare_corpus"

# Of all problems so many are kept, as in the local runner.
_MOST_PROBLEMS = units.MAX_PROBLEMS

# --- Running -----------------------------------------------------------------


def make_files(
    plan: Plan,
    manifest: dict[str, Any],
    to_do: list[tuple[str, int]],
    beam_options: str,
) -> None:
    """Make the output files `to_do`.

    Args:
        plan: the run; its files are at paths that all workers reach.
        manifest: changed in place, and written.
        to_do: (split, index in `plan.output_files[split]`) of each.
        beam_options: the flag.
    """
    scratch_dir = f"{plan.output_dir}/.corpus.scratch"
    for folder in (scratch_dir, *outputs.folders(plan)):
        if not FileSystems.exists(folder):
            FileSystems.mkdirs(folder)
    # Those of a run that was killed.
    base_beam.remove_files(f"{scratch_dir}/bucket-*")
    results_path = f"{scratch_dir}/results.json"

    def paths_of(name: tuple[str, int]) -> tuple[str, str]:
        split, index = name
        path = plan.output_files[split][index]
        return path, _entry_path(scratch_dir, split, index)

    files = manifest["files"]
    to_do = base_beam.without_finished(to_do, paths_of, files)
    if to_do or not FileSystems.exists(results_path):
        base_beam.run(
            lambda pipeline: _build(pipeline, plan, to_do, scratch_dir),
            beam_options,
            JOB_NAME,
        )
        base_beam.without_finished(to_do, paths_of, files)
    manifest["corpus"] = base_beam.read_json(results_path)
    outputs.write_manifest(plan, manifest)
    base_beam.remove_files(f"{scratch_dir}/*")


def _build(
    pipeline: beam.Pipeline,
    plan: Plan,
    to_do: list[tuple[str, int]],
    scratch_dir: str,
) -> None:
    """Add all steps to the pipeline."""
    inputs_path = f"{scratch_dir}/inputs.json"
    made = (
        base_beam.create(pipeline, enumerate(plan.input_files), inputs_path)
        | "Read" >> beam.ParDo(_Read(plan.reading))
        | "SpreadChunks" >> beam.Reshuffle()
        | "MakeDocuments"
        >> beam.ParDo(_MakeDocuments(plan.units)).with_outputs(
            _MakeDocuments.RESULTS, main="documents"
        )
    )
    results = made[
        _MakeDocuments.RESULTS
    ] | "AddResults" >> beam.CombineGlobally(_AddResults())
    _ = results | "WriteResults" >> beam.ParDo(
        _WriteResults(inputs_path, f"{scratch_dir}/results.json")
    )
    distinct = (
        made.documents
        | "GroupByKey" >> beam.GroupByKey()
        | "Distinct" >> beam.ParDo(_Distinct())
    )
    num_bytes = beam.pvalue.AsSingleton(results | beam.Map(_num_bytes))
    repeated = None
    if plan.drop_repeated_lines:
        repeated = beam.pvalue.AsSingleton(
            _find_repeated_lines(distinct, plan.drop_repeated_lines)
        )
    written = (
        distinct
        | "Deal" >> beam.ParDo(_Deal(plan, to_do), num_bytes)
        | "GroupByBucket" >> beam.GroupByKey()
        | "WriteBucket" >> beam.ParDo(_WriteBucket(plan, scratch_dir), repeated)
    )
    paths = [(name, plan.output_files[name[0]][name[1]]) for name in to_do]
    files = base_beam.create(pipeline, paths, f"{scratch_dir}/files.json")
    by_file = base_beam.group_by_file(written, files)
    _ = by_file | "Publish" >> beam.ParDo(_Publish(scratch_dir))


def _find_repeated_lines(
    distinct: beam.PCollection, most: int
) -> beam.PCollection:
    """Return one element, the sorted hashes of lines that occur too often."""
    return (
        distinct
        | "Lines" >> beam.FlatMap(_line_keys)
        | "CountLines" >> beam.CombinePerKey(sum)
        | "Repeated" >> beam.Filter(lambda found: found[1] > most)
        | "Hashes" >> beam.Keys()
        | "AllHashes" >> beam.CombineGlobally(_SortedHashes())
    )


# --- Steps: documents --------------------------------------------------------


class _Read(beam.DoFn):
    """Yields the chunks of an input file, given as (its number, path)."""

    def __init__(self, settings: reading.ReadSettings):
        self._settings = settings

    def process(self, element: tuple[int, str]) -> Iterator[tuple[int, Chunk]]:
        number, path = element
        for chunk in reading.read_chunks([path], self._settings):
            yield number, chunk


class _MakeDocuments(beam.DoFn):
    """Makes documents of the items of a chunk.

    The output is (key, (split, text)), and to RESULTS what units.gather
    returns, with a place for each problem.
    """

    RESULTS = "results"

    def __init__(self, settings: units.UnitSettings):
        self._settings = settings

    def process(self, element: tuple[int, Chunk]) -> Iterator[Any]:
        number, chunk = element
        texts, result = units.gather(
            self._settings, chunk, lambda num_bytes: None
        )
        for split, found in texts.items():
            for key, text in found.items():
                yield key.to_bytes(8, "big"), (split, text)
        base_beam.count(JOB_NAME, result["counts"])
        # Chunks come in any order; problems are listed in that of the input.
        result["problems"] = [
            ((number, chunk.index, place), problem)
            for place, problem in enumerate(result["problems"])
        ]
        result["units"] = 1
        yield beam.pvalue.TaggedOutput(self.RESULTS, result)


class _AddResults(beam.CombineFn):
    """Adds up the results of chunks."""

    def create_accumulator(self) -> dict[str, Any]:
        return {
            "units": 0,
            "num_documents": collections.Counter(),
            "num_bytes": collections.Counter(),
            "counts": collections.Counter(),
            "problems": [],
            "inputs": {},
        }

    def add_input(self, accumulator: dict, element: dict) -> dict[str, Any]:
        return self.merge_accumulators([accumulator, element])

    def merge_accumulators(self, accumulators: Iterable) -> dict[str, Any]:
        total = self.create_accumulator()
        for result in accumulators:
            total["units"] += result["units"]
            for name in ("num_documents", "num_bytes", "counts"):
                total[name].update(result[name])
            total["problems"] = sorted(total["problems"] + result["problems"])
            del total["problems"][_MOST_PROBLEMS:]
            for path, entry in result["inputs"].items():
                units.add_input_entry(total["inputs"], path, entry)
        return total

    def extract_output(self, accumulator: dict) -> dict[str, Any]:
        return accumulator


class _WriteResults(beam.DoFn):
    """Writes the sum of all results, in the form of units.sum_results.

    Raises:
        UserError: there is no document.
    """

    def __init__(self, inputs_path: str, path: str):
        self._inputs_path, self._path = inputs_path, path

    def process(self, total: dict[str, Any]) -> None:
        input_files = [p for _, p in base_beam.read_json(self._inputs_path)]
        inputs = total["inputs"]
        corpus = {
            "units": total["units"],
            "documents": sum(total["num_documents"].values()),
            "counts": dict(total["counts"]),
            "problems": [problem for _, problem in total["problems"]],
            "inputs": {
                path: inputs[path] for path in input_files if path in inputs
            },
        }
        if not corpus["documents"]:
            raise summary.no_document_error(input_files, corpus)
        base_beam.write_json(self._path, corpus)


def _num_bytes(total: dict[str, Any]) -> dict[str, int]:
    """Return the bytes of all texts by split."""
    return dict(total["num_bytes"])


class _Distinct(beam.DoFn):
    """Yields (key, split, text, number of duplicates) of equal documents."""

    def process(self, element: tuple[bytes, Iterable]) -> Iterator[tuple]:
        key, found = int.from_bytes(element[0], "big"), iter(element[1])
        split, text = next(found)
        duplicates = 0
        for _, other in found:
            text, duplicates = min(text, other), duplicates + 1
        yield key, split, text, duplicates


# --- Steps: repeated lines ---------------------------------------------------


def _line_keys(element: tuple) -> Iterator[tuple[bytes, int]]:
    """Yield (hash, number of occurrences) of the lines of a document."""
    _, _, text, _ = element
    counts = collections.Counter(repeated_lines.line_hashes(text))
    for value, number in counts.items():
        yield value.to_bytes(8, "big"), number


class _SortedHashes(beam.CombineFn):
    """Collects hash values in a sorted array."""

    def create_accumulator(self) -> list[bytes]:
        return []

    def add_input(self, accumulator: list, element: bytes) -> list[bytes]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable) -> list[bytes]:
        return [value for values in accumulators for value in values]

    def extract_output(self, accumulator: list[bytes]) -> np.ndarray:
        values = [int.from_bytes(value, "big") for value in accumulator]
        return np.sort(np.array(values, np.uint64))


# --- Steps: files ------------------------------------------------------------


class _Deal(beam.DoFn):
    """Yields ((split, shard, bucket), (key, text, duplicates))."""

    def __init__(self, plan: Plan, to_do: list[tuple[str, int]]):
        self._numbers = {
            split: len(paths) for split, paths in plan.output_files.items()
        }
        self._to_do = frozenset(map(tuple, to_do))

    def process(
        self, element: tuple, num_bytes: dict[str, int]
    ) -> Iterator[tuple[tuple, tuple]]:
        key, split, text, duplicates = element
        num_shards = self._numbers[split]
        shard = shards.shard_of(key, num_shards)
        if (split, shard) in self._to_do:
            buckets = shards.num_buckets(num_bytes.get(split, 0), num_shards)
            bucket = shards.shard_of(key, num_shards * buckets)
            yield (split, shard, bucket), (key, text, duplicates)


class _WriteBucket(beam.DoFn):
    """Writes the text of a bucket to a file of the scratch folder.

    The output is ((split, shard), (bucket, path, bytes, counts)).
    """

    def __init__(self, plan: Plan, scratch_dir: str):
        self._min_document_chars = plan.units.documents.min_document_chars
        self._scratch_dir = scratch_dir

    def process(
        self, element: tuple[tuple, Iterable], repeated: np.ndarray | None
    ) -> Iterator[tuple[tuple, tuple]]:
        (split, shard, bucket), found = element
        found = list(found)
        text, counts = shards.format_documents(
            ((key, text) for key, text, _ in found),
            repeated,
            self._min_document_chars,
        )
        counts["duplicates"] += sum(duplicates for _, _, duplicates in found)
        base_beam.count(f"{JOB_NAME}_{split}", counts)
        # A runner may run the same element twice at once.
        name = f"bucket-{split}-{bucket:08}.{uuid.uuid4().hex}"
        path = f"{self._scratch_dir}/{name}"
        with base_beam.create_file(path) as file:
            file.write(text)
        yield (split, shard), (bucket, path, len(text), dict(counts))


class _Publish(beam.DoFn):
    """Writes an output file from its buckets; it appears when it is complete.

    The size and counts go to a JSON file in the scratch folder.
    """

    def __init__(self, scratch_dir: str):
        self._scratch_dir = scratch_dir

    def process(self, element: tuple[tuple, Iterable]) -> Iterator[str]:
        (split, index), written = element
        path, parts = base_beam.parts_of_file(written)
        counts, size = collections.Counter(), 0
        with base_beam.published_file(path) as target:
            for _, source, num_bytes, more in parts:
                with base_beam.open_file(source) as file:
                    while block := file.read(2**20):
                        target.write(block)
                size += num_bytes
                counts.update(more)
        entry = {"bytes": size, "counts": dict(counts)}
        base_beam.write_json(
            _entry_path(self._scratch_dir, split, index), entry
        )
        yield path


def _entry_path(scratch_dir: str, split: str, index: int) -> str:
    return f"{scratch_dir}/{split}-{index:05}.json"
