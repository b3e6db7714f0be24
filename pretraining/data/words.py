"""Count the words of text files.

    ranges of the files --count--> {word: number} of each --add--> of all

Worker processes import this file: no flags here, and no TensorFlow.
"""

import codecs
import collections
import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any

from base import beam, file_system, text_files
from base.errors import InputError
from base.jobs import engine
from base.jobs import run as jobs_run

from absl import logging

import tokenization
from pretraining.data import documents, sources
from pretraining.data.documents import Range, RangeSteps
from pretraining.data.sources import Mix
from tokenization import TokenizerSettings

_BLOCK_BYTES = 1 << 20

# Documents of sources are cut as create_pretraining_data.py cuts them by
# default: the first part decides how often a document is used.
_PART_CHARS = documents.part_size(4 << 20)
_MAX_LINE_BYTES = 1 << 30

# Words of raw text whose split is remembered (about 200 MB).
_MAX_RAW_WORDS = 1 << 21

# Raise it when the same text no longer gives the same words.
_WORDS_VERSION = 1

# --- Reading -----------------------------------------------------------------


def read_blocks(file_range: Range) -> Iterator[str]:
    """Yield the text of a range of a file in blocks that end between words.

    A range has the words that begin in it; spaces and line ends separate words.
    Ranges [0, 4) and [4, 11) of "one two six" have "one two" and "six".

    Raises:
        UserError: the file cannot be read or is not UTF-8; names the line.
    """
    path, start, stop = file_range
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest = ""
    with file_system.open_for_reading(path) as file:
        place, end = (
            documents.next_begin(file, at, b" ", b"\n") for at in (start, stop)
        )
        file.seek(place)
        while True:
            data = file.read(min(_BLOCK_BYTES, end - place))
            place += len(data)
            try:
                text = rest + decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                begin = place - len(error.object)
                raise text_files.utf8_error(path, file, begin, error) from None
            if not data:
                yield text
                return
            # Text without any space or line end is cut at the end of the block.
            cut = max(text.rfind("\n"), text.rfind(" ")) + 1 or len(text)
            rest = text[cut:]
            yield text[:cut]


# --- Counting ----------------------------------------------------------------


@dataclasses.dataclass
class WordSteps(RangeSteps):
    """The steps of counting words, as BasicTokenizer splits them.

    They make no file: the words are what is known of a chunk.

    Attributes:
        tokenizer_settings: how text becomes words.
        mix: how often documents are used.
        no_words: the error for a text without a word.
    """

    tokenizer_settings: TokenizerSettings
    mix: Mix
    no_words: str

    name = "build_vocab"
    num_buckets = num_files = 0

    def setup(self) -> None:
        """Create the tokenizer; what it has split is remembered."""
        self._basic = tokenization.BasicTokenizer(
            settings=self.tokenizer_settings
        )
        self._splits: dict[str, list[str]] = {}

    def map(self, chunk: list) -> tuple[tuple[()], dict[str, Any]]:
        """Count the words of ranges of files, as often as they are used."""
        counts, words = collections.Counter(), collections.Counter()
        raw_words = collections.defaultdict(collections.Counter)  # by uses
        for file_range in itertools.starmap(Range, chunk):
            texts = zip(read_blocks(file_range), itertools.repeat(1))
            if self.mix.names:
                parts = self.mix.read_parts(
                    file_range, _PART_CHARS, _MAX_LINE_BYTES, counts
                )
                texts = ((part.text.decode(), uses) for part, uses in parts)
            for text, uses in texts:
                if uses:
                    raw_words[uses].update(self._basic.clean(text).split())
        for uses, some in raw_words.items():
            for raw_word, number in some.items():
                # Splitting is slow: each different one is split once.
                if raw_word not in self._splits:
                    split = self._basic.split_word(raw_word)
                    self._splits[raw_word] = split
                for word in self._splits[raw_word]:
                    words[word] += uses * number
        if len(self._splits) > _MAX_RAW_WORDS:
            self._splits.clear()
        return (), {"counts": counts, "words": words}

    def check(self, total: dict[str, Any]) -> None:
        """Raise an InputError if there are no words."""
        if not total.get("words"):
            raise InputError(self.no_words)


def count_words(
    inputs: list[list],
    mix: Mix,
    tokenizer_settings: TokenizerSettings,
    output_file: str,
    runner: beam.Flags,
) -> collections.Counter[str]:
    """Return word -> number of occurrences in text files.

    The arguments `inputs` and `mix` are what `sources.read` returns. Words of
    sources count as often as create_pretraining_data.py uses their documents.

    Unfinished work is in hidden files beside the caller's output_file, which
    are removed again. If the run is killed, the next one resumes with them.

    Raises:
        UserError: the files have no text.
    """
    folder = _scratch_folder(
        inputs[0][0] if runner.runner == "beam" else "", output_file
    )
    job = jobs_run.Job(
        [],
        folder,
        f"{os.path.basename(output_file)}.words",
        "",
        {
            "version": _WORDS_VERSION,
            "input_file": inputs,
            **tokenizer_settings.to_dict(),
            **mix.describe(),
        },
    )
    steps = WordSteps(
        tokenizer_settings,
        mix,
        f"no text in the {len(inputs)} input file(s), the first of them "
        f"{inputs[0][0]}",
    )
    try:
        run = engine.make_files(
            job,
            steps,
            documents.split_files(inputs, documents.CHUNK_BYTES),
            runner,
            sum(size for _, size, _ in inputs),
        )
        for line in sources.summarize(run.total["counts"]):
            logging.info("  %s", line)
        return collections.Counter(run.total["words"])
    finally:
        jobs_run.remove(job)


def _scratch_folder(input_file: str, output_file: str) -> str:
    """Return the folder for the words, one that all workers reach."""
    # They reach the text: if that is remote, so is the folder, beside the text
    # unless the output is remote as well. Otherwise all are on one machine or
    # one shared disk, where workers have other working directories.
    for path in (output_file, input_file):
        if file_system.is_remote(path):
            return os.path.dirname(path)
    return os.path.dirname(os.path.abspath(output_file))
