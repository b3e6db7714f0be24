"""Make the record files of a plan with Apache Beam, on one machine or many.

The files are the same, byte for byte, as those of generation.py: both give the
same parts to the same buckets (documents.py), make a bucket with the same code
(buckets.py), and put the buckets together in the same order (outputs.py).

    ranges of the input files
      --read--> parts of documents
      --group by text--> one of each text, with the number of its copies
      --number the copies--> parts with keys
      --group by bucket--> records of a bucket, a file in the scratch folder
      --group by output file--> output files, renamed when they are complete

No group grows with the corpus. A text that occurs a million times is counted
where it is read, and its copies have different keys. A bucket gets parts by
hash, and a part is at most a 32nd of a bucket. What is grouped by output file
are paths, not records.
"""

import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from base import beam as base_beam
from base import file_system

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindows

from pretraining.data import buckets as pretraining_buckets
from pretraining.data import dealing, documents, outputs
from pretraining.data import plan as pretraining_plan
from pretraining.data.dealing import DealtPart, Lenders
from pretraining.data.documents import Part, Range
from pretraining.data.plan import Plan, Sharing

JOB_NAME = "create_pretraining_data"

# Workers share a large input file in ranges of this size.
_RANGE_BYTES = 2**26

# Texts that are kept to find their copies, before they are handed on.
_COPIES_BYTES = 2**26

# --- Running -----------------------------------------------------------------


def make_files(
    plan: Plan, manifest: dict[str, Any], to_do: list[int], beam_options: str
) -> None:
    """Make the output files with the indices `to_do`.

    Args:
        plan: the run; its files are at paths that all workers reach.
        manifest: changed in place, and written.
        to_do: indices in `plan.output_files`.
        beam_options: the flag.
    """
    scratch_dir = pretraining_plan.shared_scratch_dir(plan.output_files)
    if not FileSystems.exists(scratch_dir):
        FileSystems.mkdirs(scratch_dir)
    # Those of a run that was killed.
    base_beam.remove_files(f"{scratch_dir}/bucket-*")
    corpus_path = _corpus_path(scratch_dir)

    def paths_of(index: int) -> tuple[str, str]:
        return plan.output_files[index], _entry_path(scratch_dir, index)

    files = manifest["files"]
    to_do = base_beam.without_finished(to_do, paths_of, files)
    if to_do or not FileSystems.exists(corpus_path):
        with file_system.open_for_reading(plan.buckets.vocab_file) as file:
            vocab = file.read()
        base_beam.run(
            lambda pipeline: _build(pipeline, plan, to_do, scratch_dir, vocab),
            beam_options,
            JOB_NAME,
        )
        base_beam.without_finished(to_do, paths_of, files)
    manifest["corpus"] = base_beam.read_json(corpus_path)
    outputs.write_manifest(plan, manifest)
    base_beam.remove_files(f"{scratch_dir}/*")


def _build(
    pipeline: beam.Pipeline,
    plan: Plan,
    to_do: Sequence[int],
    scratch_dir: str,
    vocab: bytes,
) -> None:
    """Add all steps to the pipeline."""
    settings = plan.buckets._replace(scratch_dir=scratch_dir)
    ranges = documents.split_files(plan.input_files, _RANGE_BYTES)
    read = base_beam.create(
        pipeline, ranges, f"{scratch_dir}/ranges.json"
    ) | "Read" >> beam.ParDo(_Read(plan.bucket_bytes)).with_outputs(
        _Read.COUNTS, main="parts"
    )
    dealt = (
        read.parts
        | "CombineCopies" >> beam.ParDo(_CombineCopies())
        | "GroupByText" >> beam.GroupByKey()
        | "NumberCopies" >> beam.ParDo(_NumberCopies(settings.random_seed))
    )
    lenders = dealt | "Lenders" >> beam.CombineGlobally(_LendersFn())
    made = (
        dealt
        | "Deal" >> beam.ParDo(_Deal(plan.sharing, to_do))
        | "GroupByBucket" >> beam.GroupByKey()
        | "MakeBucket"
        >> beam.ParDo(
            _MakeBucket(settings, vocab), beam.pvalue.AsSingleton(lenders)
        )
        | "FilesOfBucket" >> beam.ParDo(_FilesOfBucket(plan.sharing, to_do))
    )
    paths = [(index, plan.output_files[index]) for index in to_do]
    files = base_beam.create(pipeline, paths, f"{scratch_dir}/files.json")
    by_file = base_beam.group_by_file(made, files)
    _ = by_file | "Publish" >> beam.ParDo(
        _Publish(plan.sharing, plan.input_files[0][0], scratch_dir)
    )
    _ = (
        read[_Read.COUNTS]
        | "CountFiles" >> beam.CombinePerKey(_add_pairs)
        | "AllCounts" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
        | "WriteCounts" >> beam.ParDo(_WriteCounts(_corpus_path(scratch_dir)))
    )


# --- Steps: parts ------------------------------------------------------------


class _Read(beam.DoFn):
    """Reads the documents that begin in a range of a file.

    Elements are `Range`s. The output are parts of documents, and to COUNTS
    (path, (number of documents, number of parts)).
    """

    COUNTS = "counts"

    def __init__(self, bucket_bytes: int):
        self._bucket_bytes = bucket_bytes

    def process(self, element: tuple) -> Iterator[Any]:
        num_documents = num_parts = 0
        file_range = Range(*element)
        for part in documents.read_parts(
            file_range,
            dealing.part_size(self._bucket_bytes),
            self._bucket_bytes,
            open_file=base_beam.open_file,
        ):
            num_documents += part.index == 0
            num_parts += 1
            yield part
        base_beam.count(JOB_NAME, {"documents": num_documents})
        yield beam.pvalue.TaggedOutput(
            self.COUNTS, (file_range.path, (num_documents, num_parts))
        )


class _CombineCopies(beam.DoFn):
    """Counts the copies of a text within a bundle, so that few are grouped.

    Elements are parts. The output is (content, (bytes of the part, number of
    copies)).
    """

    def start_bundle(self) -> None:
        self._parts: dict[int, list] = {}
        self._num_bytes = 0

    def process(self, part: Part) -> Iterator[tuple[bytes, tuple[bytes, int]]]:
        found = self._parts.get(part.content)
        if found:
            found[1] += 1
            return
        # The key needs the number of the copy, which is not known yet.
        data = dealing.to_bytes(
            DealtPart(part.document, part.index, 0, part.text)
        )
        self._parts[part.content] = [data, 1]
        self._num_bytes += len(data)
        if self._num_bytes >= _COPIES_BYTES:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[Any]:
        for element in self._flush():
            yield GlobalWindows.windowed_value(element)

    def _flush(self) -> Iterator[tuple[bytes, tuple[bytes, int]]]:
        for content, (data, copies) in self._parts.items():
            yield content.to_bytes(8, "little"), (data, copies)
        self.start_bundle()


class _NumberCopies(beam.DoFn):
    """Gives each copy of a text its number, and with it its key.

    Elements are the groups of `_CombineCopies`. The output are the bytes of
    parts.
    """

    def __init__(self, random_seed: int):
        self._random_seed = random_seed

    def process(self, element: tuple[bytes, Iterable]) -> Iterator[bytes]:
        content, found = int.from_bytes(element[0], "little"), iter(element[1])
        data, copies = next(found)
        copies += sum(more for _, more in found)
        document, index, _, text = dealing.from_bytes(data)
        part = Part(document, index, content, text)
        for copy in range(copies):
            yield dealing.to_bytes(
                dealing.deal_part(part, self._random_seed, copy)
            )


class _LendersFn(beam.CombineFn):
    """Finds the parts that lend random next sentences."""

    def create_accumulator(self) -> list[DealtPart]:
        return []

    def add_input(self, accumulator: list, element: bytes) -> list[DealtPart]:
        part = dealing.from_bytes(element)
        return Lenders([*accumulator, part]).parts

    def merge_accumulators(self, accumulators: Iterable) -> list[DealtPart]:
        return Lenders(part for parts in accumulators for part in parts).parts

    def extract_output(self, accumulator: list) -> list[DealtPart]:
        return accumulator


# --- Steps: buckets ----------------------------------------------------------


class _Deal(beam.DoFn):
    """Yields (bucket, bytes of a part) for the buckets of the files to make."""

    def __init__(self, sharing: Sharing, to_do: Sequence[int]):
        self._sharing, self._to_do = sharing, frozenset(to_do)

    def process(self, element: bytes) -> Iterator[tuple[int, bytes]]:
        key = dealing.from_bytes(element).key
        bucket = dealing.bucket_of(key, self._sharing.num_buckets)
        if not self._to_do.isdisjoint(self._sharing.files_of(bucket)):
            yield bucket, element


class _MakeBucket(beam.DoFn):
    """Writes the records of a bucket to a file of the scratch folder.

    Elements are (bucket, bytes of its parts). The output is (bucket, path,
    result of `write_bucket`).
    """

    def __init__(
        self, settings: pretraining_buckets.BucketSettings, vocab: bytes
    ):
        self._settings, self._vocab = settings, vocab

    def setup(self) -> None:
        # The bytes of the vocabulary come with the step, so that workers need
        # not reach its path.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "vocab.txt")
            with open(path, "wb") as file:
                file.write(self._vocab)
            self._maker = pretraining_buckets.BucketMaker(
                self._settings._replace(vocab_file=path)
            )

    def process(
        self, element: tuple[int, Iterable[bytes]], lenders: list[DealtPart]
    ) -> Iterator[tuple[int, str, dict]]:
        bucket, parts = element
        # A runner may run the same element twice at once.
        path = FileSystems.join(
            self._settings.scratch_dir, f"bucket-{bucket:05}.{uuid.uuid4().hex}"
        )
        with base_beam.create_file(path) as file:
            result = pretraining_buckets.write_bucket(
                self._maker,
                bucket,
                sorted(map(dealing.from_bytes, parts)),
                lambda: lenders,
                file,
                lambda share: None,
            )
        base_beam.count(JOB_NAME, result["counts"])
        yield bucket, path, result


class _FilesOfBucket(beam.DoFn):
    """Yields (index of an output file, bucket, path, result) for each file."""

    def __init__(self, sharing: Sharing, to_do: Sequence[int]):
        self._sharing, self._to_do = sharing, frozenset(to_do)

    def process(self, element: tuple) -> Iterator[tuple[int, tuple]]:
        for index in self._sharing.files_of(element[0]):
            if index in self._to_do:
                yield index, element


# --- Steps: files ------------------------------------------------------------


class _Publish(beam.DoFn):
    """Writes an output file from its buckets; it appears when it is complete.

    Elements are (index, its path, and buckets as `_MakeBucket` yields them).
    The size and counts go to a JSON file in the scratch folder.
    """

    def __init__(self, sharing: Sharing, first_input: str, scratch_dir: str):
        self._sharing, self._first_input = sharing, first_input
        self._scratch_dir = scratch_dir

    def process(self, element: tuple[int, Iterable]) -> Iterator[str]:
        index, (path, made) = element[0], base_beam.parts_of_file(element[1])
        paths = {bucket: source for bucket, source, _ in made}
        results = {bucket: result for bucket, _, result in made}
        counts = outputs.count_file(
            self._sharing, index, results, self._first_input
        )
        entry = {"counts": counts}
        with base_beam.published_file(path) as target:
            for bucket, start, end in outputs.slices_of(
                self._sharing, index, results
            ):
                with base_beam.open_file(paths[bucket]) as source:
                    outputs.copy_bytes(source, start, end, target)
            entry["bytes"] = target.tell()
        base_beam.write_json(_entry_path(self._scratch_dir, index), entry)
        yield path


class _WriteCounts(beam.DoFn):
    """Writes the counts of the corpus, from (path, (documents, parts))."""

    def __init__(self, path: str):
        self._path = path

    def process(self, element: list[tuple[str, tuple]]) -> None:
        numbers = [found for _, found in element]
        counts = {
            "documents": sum(num_documents for num_documents, _ in numbers),
            "parts": sum(num_parts for _, num_parts in numbers),
            "files_without_text": sum(not found[0] for found in numbers),
        }
        base_beam.write_json(self._path, counts)


def _add_pairs(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the sums of the first and of the second numbers."""
    first = second = 0
    for one, two in pairs:
        first, second = first + one, second + two
    return first, second


# --- Paths -------------------------------------------------------------------


def _entry_path(scratch_dir: str, index: int) -> str:
    return FileSystems.join(scratch_dir, f"file-{index:05}.json")


def _corpus_path(scratch_dir: str) -> str:
    return FileSystems.join(scratch_dir, "counts.json")
