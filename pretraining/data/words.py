"""Count the words of text files, whole files or ranges of their bytes.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import codecs
import collections
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from base import file_system, progress, text_files
from base.errors import UserError

import tokenization
from pretraining.data.documents import Range

_BLOCK_BYTES = 1 << 22

# Different words of raw text kept at once (about 200 MB), so that the memory
# does not grow with the corpus.
_MAX_RAW_WORDS = 1 << 21

# --- Reading -----------------------------------------------------------------


def read_blocks(
    file_range: Range,
    report: Callable[[int], None] = lambda num_bytes: None,
    open_file: Callable[[str], IO[bytes]] = file_system.open_for_reading,
) -> Iterator[str]:
    """Yield the text of a range of a file in blocks that end between words.

    A range has the words that begin in it; spaces and line ends separate words.
    Ranges [0, 4) and [4, 11) of "one two six" have "one two" and "six".

    Args:
        file_range: UTF-8 text.
        report: called with the number of bytes of every block read.
        open_file: opens a path to read bytes from.

    Raises:
        UserError: the file cannot be read or is not UTF-8; names the line.
    """
    path, start, stop = file_range
    decoder = codecs.getincrementaldecoder("utf-8")()
    num_lines, rest = 0, ""
    with open_file(path) as file:
        left = sys.maxsize
        if start > 0 or stop < sys.maxsize:
            begin, end = _word_begin(file, start), _word_begin(file, stop)
            file.seek(begin)
            left = end - begin
        while True:
            data = file.read(min(_BLOCK_BYTES, left))
            left -= len(data)
            try:
                text = rest + decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                place = f" of those from byte {begin} on" if start else ""
                raise _not_utf8(path, num_lines, place, error) from None
            if not data:
                yield text
                return
            num_lines += data.count(b"\n")
            report(len(data))
            # Text without any space or line end is cut at the end of the block.
            end = max(text.rfind("\n"), text.rfind(" ")) + 1 or len(text)
            rest = text[end:]
            yield text[:end]


def _not_utf8(
    path: str, num_lines: int, place: str, error: UnicodeDecodeError
) -> UserError:
    """Return the error for a block of a range of a file.

    Args:
        path: of the file.
        num_lines: of the range before the block.
        place: words for where the range begins, "" at the file's beginning.
        error: of the block.
    """
    block = error.object
    line = num_lines + block.count(b"\n", 0, error.start) + 1
    how = text_files.how_to_mend_utf8(b"" if place else block)
    return UserError(
        f"{path}: line {line}{place} is not UTF-8 text (byte "
        f"0x{block[error.start]:02x}); {how}"
    )


def _word_begin(file: IO[bytes], place: int) -> int:
    """Return the first place from `place` on that follows a space or \\n.

    It is the end of the file if there is none, and 0 for 0. These two bytes
    are never a part of another character in UTF-8.
    """
    if place == 0:
        return 0
    begin = place - 1
    file.seek(begin)
    while data := file.read(1 << 16):
        found = [at for at in (data.find(b" "), data.find(b"\n")) if at >= 0]
        if found:
            return begin + min(found) + 1
        begin += len(data)
    return begin


# --- Counting ----------------------------------------------------------------


class WordCounter:
    """Counts words as BasicTokenizer splits them.

    Splitting is slow, so text is first split at spaces only, and each
    different result is split once.
    """

    def __init__(self, do_lower_case: bool):
        self._basic = tokenization.BasicTokenizer(do_lower_case)
        self._words = collections.Counter()
        self._raw_words = collections.Counter()

    def add(self, text: str) -> None:
        """Count the words of a text."""
        self._raw_words.update(tokenization.clean(text).split())
        if len(self._raw_words) > _MAX_RAW_WORDS:
            self._split_raw_words()

    def counts(self) -> collections.Counter[str]:
        """Return word -> number of occurrences in all texts."""
        self._split_raw_words()
        return self._words

    def _split_raw_words(self) -> None:
        for raw_word, count in self._raw_words.items():
            for word in self._basic.split_word(raw_word):
                self._words[word] += count
        self._raw_words.clear()


def count_words(
    paths: Sequence[str], do_lower_case: bool
) -> collections.Counter[str]:
    """Return word -> number of occurrences in text files.

    Raises:
        UserError: the files have no text.
    """
    counter = WordCounter(do_lower_case)
    total = total_bytes(paths)
    with progress.bar(total, "B", "Reading", unit_scale=True) as bar:
        for path in paths:
            for block in read_blocks(Range(path), bar.update):
                counter.add(block)
    return check_words(counter.counts(), paths)


def count_words_on_beam(
    paths: Sequence[str],
    do_lower_case: bool,
    output_file: str,
    beam_options: str,
) -> collections.Counter[str]:
    """Do the same with Apache Beam, which is imported here.

    Args:
        paths: text files that all workers reach.
        do_lower_case: whether to lower-case the text.
        output_file: the counts are collected in a folder beside it, which
            is removed again.
        beam_options: see base/beam.py.
    """
    from pretraining.data import words_on_beam

    words = words_on_beam.count_words(
        paths, do_lower_case, output_file, beam_options
    )
    return check_words(words, paths)


def check_words(
    words: collections.Counter[str], paths: Sequence[str]
) -> collections.Counter[str]:
    """Return the words; raise a UserError if there are none."""
    if not words:
        raise UserError(
            f"--input_file: no text in {len(paths)} file(s), the first of them "
            f"{paths[0]}"
        )
    return words


def total_bytes(paths: Sequence[str]) -> int | None:
    """Return the size of local files in bytes; None if any is remote."""
    if any(map(file_system.is_remote, paths)):
        return None
    return sum(map(os.path.getsize, paths))
