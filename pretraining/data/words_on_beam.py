"""Count the words of text files with Apache Beam, on one machine or many.

    ranges of the input files
      --count--> (word, number) of each range
      --add--> (word, number), text files in a folder beside the vocabulary,
               or beside the text if only that is remote

The driver reads these files. They have one line for each different word, so
they fit in its memory as the words of the local runner do.
"""

import collections
import os
import uuid
from collections.abc import Iterator, Sequence

from base import beam as base_beam
from base import file_system, resuming

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from pretraining.data import documents, words
from pretraining.data.documents import Range

JOB_NAME = "build_vocab"

# Workers share a large input file in ranges of this size.
_RANGE_BYTES = 2**26


def count_words(
    paths: Sequence[str],
    do_lower_case: bool,
    output_file: str,
    beam_options: str,
) -> collections.Counter[str]:
    """Return word -> number of occurrences; see words.count_words_on_beam."""
    sizes = [(path, resuming.file_state(path)[0]) for path in paths]
    ranges = documents.split_files(sizes, _RANGE_BYTES)
    name = os.path.basename(output_file)
    # A folder of its own: a run that was killed may have left another.
    scratch = FileSystems.join(
        _scratch_folder(paths[0], output_file), f".{name}.{uuid.uuid4().hex}"
    )
    FileSystems.mkdirs(scratch)

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            base_beam.create(pipeline, ranges, f"{scratch}/ranges.json")
            | "Count" >> beam.ParDo(_Count(do_lower_case))
            | "Add" >> beam.CombinePerKey(sum)
            | "Format" >> beam.MapTuple(_format)
            | "Write" >> beam.io.WriteToText(FileSystems.join(scratch, "words"))
        )

    try:
        base_beam.run(build, beam_options, JOB_NAME)
        return _read(scratch)
    finally:
        base_beam.remove_folder(scratch)


def _scratch_folder(input_file: str, output_file: str) -> str:
    """Return the folder for the counts of words, one that all workers reach.

    They reach the text: if that is remote, so is the folder, beside the text
    unless the vocabulary is remote as well. Else all are on one machine, or on
    one shared disk, where workers have other working directories.
    """
    if file_system.is_remote(output_file):
        return os.path.dirname(output_file)
    if file_system.is_remote(input_file):
        return os.path.dirname(input_file)
    return os.path.dirname(os.path.abspath(output_file))


class _Count(beam.DoFn):
    """Yields (word, number of occurrences) of a range of a file."""

    def __init__(self, do_lower_case: bool):
        self._do_lower_case = do_lower_case

    def process(self, element: tuple) -> Iterator[tuple[str, int]]:
        counter = words.WordCounter(self._do_lower_case)
        for block in words.read_blocks(
            Range(*element), open_file=base_beam.open_file
        ):
            counter.add(block)
        counts = counter.counts()
        base_beam.count(JOB_NAME, {"words": counts.total()})
        yield from counts.items()


def _format(word: str, number: int) -> str:
    """Return a line of the files of counts. Words have no spaces."""
    return f"{number} {word}"


def _read(scratch: str) -> collections.Counter[str]:
    """Return the counts in the files of a folder."""
    counts = collections.Counter()
    (found,) = FileSystems.match([FileSystems.join(scratch, "words*")])
    for file_found in found.metadata_list:
        with base_beam.open_file(file_found.path) as file:
            for line in file.read().decode().split("\n")[:-1]:
                number, word = line.split(" ")
                counts[word] = int(number)
    return counts
