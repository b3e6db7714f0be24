"""Named entity data: column files and JSONL, sentences, tags.

A file is read into sentences of words, each word with the number of its line,
so that every error names one and predictions can be written back line for
line. Tags of IOB1 and IOB2 both become IOB2.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from base import text_files
from base.errors import UserError

from absl import logging

DOCUMENT_START = "-DOCSTART-"

# Not with a space at its end, which would make a type of its own.
_TAG = re.compile(r"O|[BI]-\S(.*\S)?")


class Columns(NamedTuple):
    """Where a word and its tag stand, from 0; -1 is the last column."""

    token: int = 0
    label: int = -1


class Sentence(NamedTuple):
    """Words and, where the file has them, their tags."""

    words: list[str]
    tags: list[str] | None
    lines: list[int]  # of each word, from 1
    document: int


class File(NamedTuple):
    """A file as it was read.

    Attributes:
        path: where it is.
        lines: without their ends.
        separator: of its columns; empty for JSONL.
        sentences: in order.
    """

    path: str
    lines: list[str]
    separator: str
    sentences: list[Sentence]

    @property
    def num_words(self) -> int:
        """How many words there are to be classified."""
        return sum(len(sentence.words) for sentence in self.sentences)


# --- Files to sentences -----------------------------------------------------


def read_file(path: str, columns: Columns, needs_tags: bool = True) -> File:
    """Return the sentences of a file, their tags as they stand there.

    Column files have a word per line and a blank line between sentences;
    columns are separated by tabs where the first row has one, else by spaces.
    A line whose word is -DOCSTART- begins a document. In a .jsonl file a
    line is a sentence: `tokens`, `tags` and, if there is more than one
    document, `document`, whatever names it.

    Args:
        path: of the file.
        columns: of column files.
        needs_tags: stop where the column of tags is not there.

    Raises:
        UserError: a file that cannot be read or holds no sentence, a row of
            another width, a column that is not there, an empty word, damaged
            JSON; names file and line.
    """
    text = text_files.read_text(path)
    lines, separator = _lines_of(text), ""
    if path.endswith(".jsonl"):
        sentences = list(_json_sentences(path, text))
    else:
        _check_line_ends(path, lines)
        separator = _separator(lines)
        sentences = list(
            _column_sentences(path, lines, separator, columns, needs_tags)
        )
    if not sentences:
        raise UserError(
            f"{path} holds no sentence; wanted a word and its tag on each "
            "line and a blank line between sentences, or .jsonl"
        )
    return File(path, lines, separator, sentences)


def _lines_of(text: str) -> list[str]:
    # Words hold U+2028 and the like, at which splitlines() would break.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _check_line_ends(path: str, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines, 1):
        if "\r" in line:
            raise UserError(
                f"{path}, line {number}: a carriage return within the line; "
                "lines end in \\n or \\r\\n here: convert the file"
            )


def _is_blank(line: str) -> bool:
    return not line.strip(" \t")


def _separator(lines: Iterable[str]) -> str:
    for line in lines:
        if not _is_blank(line) and line.split()[0] != DOCUMENT_START:
            return "\t" if "\t" in line else " "
    return " "


def _rows(
    path: str, lines: Sequence[str], separator: str, token: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, columns); none between sentences.

    A document's first line is [DOCUMENT_START], however many columns it has;
    the word stands first there, or in the column `token`.
    """
    first = width = 0
    for number, line in enumerate(lines, 1):
        if _is_blank(line):
            yield number, []
            continue
        # In space-separated files as many spaces as one likes.
        row = line.split(separator)
        if separator == " ":
            row = [column for column in row if column]
        if DOCUMENT_START in (row[0], *row[token:][:1]):
            yield number, [DOCUMENT_START]
            continue
        if not first:
            first, width = number, len(row)
        if len(row) != width:
            kind = "tabs" if separator == "\t" else "spaces"
            raise UserError(
                f"{path}, line {number}: {len(row)} columns, wanted {width} "
                f"as in line {first} (they are separated by {kind})"
            )
        yield number, row


def _column_sentences(
    path: str,
    lines: Sequence[str],
    separator: str,
    columns: Columns,
    needs_tags: bool,
) -> Iterator[Sentence]:
    document, sentence = 0, Sentence([], [], [], 0)
    at_end = (len(lines) + 1, [])
    rows = _rows(path, lines, separator, columns.token)
    for number, row in (*rows, at_end):
        if not row or row == [DOCUMENT_START]:
            if sentence.words:
                yield sentence
            document += bool(row)
            sentence = Sentence([], [], [], document)
            continue
        at, width = f"{path}, line {number}", len(row)
        token = label = _place(at, width, "token_column", columns.token)
        if needs_tags or -width <= columns.label < width:
            label = _place(at, width, "label_column", columns.label)
        if not row[token]:
            raise UserError(
                f"{at}: the word (column {token}) is empty; a line between "
                "sentences is blank"
            )
        sentence.words.append(row[token])
        sentence.lines.append(number)
        if label == token:  # words alone
            sentence = sentence._replace(tags=None)
        else:
            sentence.tags.append(row[label])


def _place(at: str, width: int, flag: str, place: int) -> int:
    """Return a column as a number from 0."""
    if not -width <= place < width:
        raise UserError(
            f"{at}: {width} columns, --{flag}={place} is none of them; columns "
            "count from 0, or from -1 at the end"
        )
    return place % width


def _json_sentences(path: str, text: str) -> Iterator[Sentence]:
    documents: dict[str, int] = {}
    for number, value in text_files.json_objects(path, text):
        at = f"{path}, line {number}"
        words = _strings(at, value, "tokens")
        tags = None
        if value.get("tags") is not None:
            tags = _strings(at, value, "tags")
            if len(tags) != len(words):
                raise UserError(
                    f"{at}: {len(words)} tokens but {len(tags)} tags; wanted "
                    "one for each"
                )
        if words:
            name = json.dumps(value.get("document"))
            document = documents.setdefault(name, len(documents))
            yield Sentence(words, tags, [number] * len(words), document)


def _strings(at: str, value: Mapping, key: str) -> list[str]:
    found = value.get(key)
    if found is None:
        raise UserError(
            f"{at}: no key {key!r}; it has {', '.join(map(repr, value))}"
        )
    if not isinstance(found, list):
        raise UserError(f"{at}: {key} is no list")
    for item in found:
        if not isinstance(item, str) or not item:
            raise UserError(
                f"{at}: {key} has {item!r}; wanted strings that are not empty"
            )
    return found


# --- Tags -------------------------------------------------------------------


def normalized_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags of one sentence in IOB2: B- begins every entity.

    By conlleval's rule, which reads IOB1, IOB2 and what is neither: an I-
    after O or after another type begins an entity.
    """
    fixed, before = [], ""
    for tag in tags:
        if tag[:1] == "I" and tag[2:] != before:
            tag = "B" + tag[1:]
        before = tag[2:]
        fixed.append(tag)
    return fixed


def tagged(file: File, types: Sequence[str] | None = None) -> File:
    """Return the file with its tags checked and in IOB2.

    Args:
        file: from `read_file`.
        types: of entities a tag may name; None: any.

    Raises:
        UserError: no tags, a malformed one, an unknown type; names file and
            line.
    """
    sentences, changed = [], 0
    for sentence in file.sentences:
        at = f"{file.path}, line "
        if sentence.tags is None:
            raise UserError(
                f"{at}{sentence.lines[0]}: no tags; columns need one for the "
                "word and one for the tag (--token_column, --label_column), "
                "JSONL needs `tags`"
            )
        for line, tag in zip(sentence.lines, sentence.tags, strict=True):
            _check_tag(f"{at}{line}", tag, types)
        tags = normalized_tags(sentence.tags)
        changed += sum(a != b for a, b in zip(tags, sentence.tags, strict=True))
        sentences.append(sentence._replace(tags=tags))
    if changed:
        logging.info(
            "%s: %d of %d tags were not IOB2 and became so (I- to B-)",
            file.path,
            changed,
            file.num_words,
        )
    return file._replace(sentences=sentences)


def is_tag(tag: str) -> bool:
    """Whether a tag is O, B-type or I-type."""
    return bool(_TAG.fullmatch(tag))


def _check_tag(at: str, tag: str, types: Sequence[str] | None) -> None:
    if not is_tag(tag):
        how = "--label_column chooses the column"
        if re.fullmatch(r"[EL]-\S+", tag):  # BIOES, BILOU
            how = "write I- here, as IOB2 does"
        elif re.fullmatch(r"[SU]-\S+", tag):
            how = "write B- here, as IOB2 does"
        raise UserError(
            f"{at}: tag {tag!r}; wanted O, B-type or I-type (IOB1 or IOB2; "
            f"{how})"
        )
    if types is not None and tag != "O" and tag[2:] not in types:
        raise UserError(
            f"{at}: tag {tag!r}: the training file has no {tag[2:]!r}, only "
            f"{', '.join(types) or 'O'}; a model cannot know what it was not "
            "shown"
        )


def labels_of(types: Iterable[str]) -> tuple[str, ...]:
    """Return the classes: O, then B- and I- of each type, sorted."""
    names = sorted(set(types))
    return "O", *(f"{place}-{name}" for name in names for place in "BI")


def class_ids(labels: Sequence[str]) -> dict[str, int]:
    """Return tag -> class; where a model lacks B-X, I-X stands for it."""
    ids = {label: number for number, label in enumerate(labels)}
    for label, number in list(ids.items()):
        for place in "BI":
            if label != "O":
                ids.setdefault(place + label[1:], number)
    return ids


def types_in(file: File) -> list[str]:
    """Return the types of entities in a file, sorted.

    Raises:
        UserError: there is none.
    """
    found = {
        tag[2:]
        for sentence in file.sentences
        for tag in sentence.tags or ()
        if tag != "O"
    }
    if not found:
        raise UserError(
            f"{file.path}: every tag is O: there is no entity to learn; is "
            "--label_column right?"
        )
    return sorted(found)
