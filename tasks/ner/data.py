"""Read tagged sentences from column files or JSONL; turn tags into IOB2.

Column files, as CoNLL 2003 is distributed, have a word and its tag on each
line and a blank line between sentences:

    -DOCSTART- O

    Peter I-PER
    lives O

Each word keeps the number of its line: errors name the line, and predictions
are written back line by line.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from base import tables, text_files
from base.errors import UserError, counted

from absl import logging

DOCUMENT_START = "-DOCSTART-"

# A type may hold spaces, but not end with one: "B-LOC " is a mistake in the
# file and would otherwise become an entity type beside "LOC".
_ENTITY_TAG = re.compile(r"[BIELSU]-\S(.*\S)?")

# A word of the web, where other lines that begin with # are comments.
_HASHTAG = re.compile(r"#\w+")

# In CoNLL-U, the number of a row for several words, or for none in the text.
_NO_WORD = re.compile(r"(\d{1,9})[-.]\d+")

# Places of IOB, BIOES and BILOU that begin an entity wherever they stand, and
# those that end one.
_ALWAYS_BEGIN, _END = set("BSU"), set("ELSU")


class Columns(NamedTuple):
    """Numbers of the columns of word and tag, from 0; -1 is the last one."""

    token: int = 0
    label: int = -1


class Sentence(NamedTuple):
    """The words of a sentence, with their tags if the file has tags."""

    words: list[str]
    tags: list[str] | None
    lines: list[int]  # line number of each word, from 1
    document: int  # number of the sentence's document in the file


class File(NamedTuple):
    """The lines of a file, and the sentences in them.

    Attributes:
        path: the file's path.
        lines: every line, without its end.
        separator: tab or space between columns; empty for JSONL.
        sentences: in the order of the file.
        label: number of the column of the tags; None: there is none.
    """

    path: str
    lines: list[str]
    separator: str
    sentences: list[Sentence]
    label: int | None = None

    @property
    def num_words(self) -> int:
        """Number of words, each of which is classified once."""
        return sum(len(sentence.words) for sentence in self.sentences)


def read_file(path: str, columns: Columns, needs_tags: bool = True) -> File:
    """Return the sentences of a file, with the tags unchanged.

    The columns of a file are separated by tabs if its first row has a tab,
    else by spaces. A line whose word is -DOCSTART-, or begins with it and a
    space, begins a document. Comments are passed over, see `_is_comment`, and
    so are rows of CoNLL-U that are not words: 3-4, whose words follow in rows
    of their own, and 3.1.

    Each line of a .jsonl file is a sentence: an object with `tokens`, `tags`
    and, if there are several documents, `document`, any value that is the
    same for all sentences of a document.

    Raises:
        UserError: the file cannot be read or holds no sentence, a row has
            more or fewer columns than the first one, a column is missing or
            numbers the words, a word is empty, JSON is damaged; names file and
            line.
    """
    text = text_files.read_text(path)
    # Words may hold U+2028 and the like, at which splitlines() would break.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if not lines[-1]:
        lines.pop()
    separator = ""
    if path.endswith(".jsonl"):
        sentences = list(_json_sentences(path, text))
    else:
        separator = "\t" if "\t" in _first_row(lines)[1] else " "
        sentences = list(
            _column_sentences(path, lines, separator, columns, needs_tags)
        )
    if not sentences:
        raise UserError(
            f"{path} holds no sentence; wanted a word and its tag on each "
            "line and a blank line between sentences, or .jsonl"
        )
    longest = max(len(sentence.words) for sentence in sentences)
    if longest > 2 and all(_is_numbered(s.words) for s in sentences):
        raise UserError(
            f"{path}, line {sentences[0].lines[0]}: column {columns.token} "
            "numbers the words, as in CoNLL-U and GermEval: name the column of "
            "the words with --token_column, and that of the tags with "
            "--label_column"
        )
    has_column = separator and sentences[0].tags is not None
    label = columns.label if has_column else None
    return File(path, lines, separator, sentences, label)


def _is_blank(line: str) -> bool:
    return not line.strip(" \t")


def _first_row(lines: Iterable[str]) -> tuple[int, str]:
    """Return number and text of the first row of words.

    It is one that begins with #, like a comment, if all rows do.
    """
    first = 0, ""
    for number, line in enumerate(lines, 1):
        # A line of U+00A0 alone is not blank, but split() finds no word in it.
        if _is_blank(line) or line.split()[:1] == [DOCUMENT_START]:
            continue
        if not line.startswith("#"):
            return number, line
        first = first if first[0] else (number, line)
    return first


def _is_comment(
    cells: Sequence[str], width: int, columns: Columns, has_tags: bool
) -> bool:
    """Return whether a line before the first word of a sentence is none.

    It begins with #: "# sent_id = 1" of CoNLL-U, "#" and a source in GermEval,
    "###MEDLINE:95369245" in JNLPBA, and "# id 1a3f domain=en" of MultiCoNER or
    "## id<tab>text" of KLUE, which may have as many cells as a row of words
    has. "# O" is a word and its tag. A hashtag is always a word, so that it is
    missed if its tag is missing.
    """
    if not cells[0].startswith("#"):
        return False
    is_hashtag = _HASHTAG.fullmatch(cells[0])
    if len(cells) != width:
        return bool(columns.token) or len(cells) > 1 or not is_hashtag
    if has_tags:
        label = cells[columns.label]
        return not is_hashtag and label != "O" and not is_entity_tag(label)
    return cells[0] == "#" and "=" in cells[-1]


def _is_numbered(words: Sequence[str]) -> bool:
    """Return whether words are the numbers from 1, as of CoNLL-U."""
    found = [word for word in words if not _NO_WORD.fullmatch(word)]
    return found == [f"{number}" for number in range(1, len(found) + 1)]


def cells_of(line: str, separator: str) -> list[str]:
    """Return the cells of a line that is not blank."""
    # Spaces may be repeated to align columns. str.split() would also split at
    # other whitespace, which belongs to the words.
    cells = line.split(separator)
    return [cell for cell in cells if cell] if separator == " " else cells


def _column_sentences(
    path: str,
    lines: Sequence[str],
    separator: str,
    columns: Columns,
    needs_tags: bool,
) -> Iterator[Sentence]:
    """Yield the sentences of a column file.

    Comments and rows that are no words are left out. A line that begins a
    document may have any number of columns, with the word in the first one or
    in the column of words.
    """
    first, line = _first_row(lines)
    row = cells_of(line, separator)
    width = len(row)
    token, label = columns
    if not needs_tags and not -width <= label < width:
        label = token
    for flag, column in (("token_column", token), ("label_column", label)):
        if width and not -width <= column < width:
            raise UserError(
                f"{path}, line {first}: {counted(width, 'column')}, "
                f"--{flag}={column} is none of them; the first column is 0, "
                "the last one -1"
            )
    # The column of tags may be missing, or be the column of words: -1 is, in a
    # file with one column.
    has_tags = bool(width) and (label - token) % width != 0
    numbered = token and re.match(r"1[-\t ]", line)
    is_tagged = has_tags and (row[label] == "O" or is_entity_tag(row[label]))
    document = num_left_out = 0
    sentence = Sentence([], [] if has_tags else None, [], document)
    # A blank line ends the last sentence.
    for number, line in enumerate((*lines, ""), 1):
        at = f"{path}, line {number}"
        if "\r" in line:
            raise UserError(
                f"{at}: a carriage return within the line; lines have to end "
                "in \\n or \\r\\n: convert the file"
            )
        cells = [] if _is_blank(line) else cells_of(line, separator)
        names = (*cells[:1], *cells[token:][:1])
        begins = any(x.split()[:1] == [DOCUMENT_START] for x in names)
        if begins or not cells:
            if sentence.words:
                yield sentence
            document += begins
            sentence = Sentence([], [] if has_tags else None, [], document)
            continue
        count = len(sentence.words)
        no_word = _NO_WORD.fullmatch(cells[0]) if numbered else None
        # 3-4 comes before word 3, and 3.1 after it.
        if (not count and _is_comment(cells, width, columns, is_tagged)) or (
            no_word and int(no_word[1]) - ("-" in cells[0]) == count
        ):
            num_left_out += 1
            continue
        if len(cells) != width:
            kind = "tabs" if separator == "\t" else "spaces"
            raise UserError(
                f"{at}: {counted(len(cells), 'column')}, wanted {width} as in "
                f"line {first} (they are separated by {kind})"
            )
        if not cells[token]:
            raise UserError(
                f"{at}: the word (column {token % width}) is empty; the line "
                "between two sentences has to be blank"
            )
        sentence.words.append(cells[token])
        sentence.lines.append(number)
        if has_tags:
            sentence.tags.append(cells[label])
    if num_left_out:
        logging.info(
            "%s: %d lines are comments or no words", path, num_left_out
        )


def _json_sentences(path: str, text: str) -> Iterator[Sentence]:
    """Yield the sentences of JSON lines."""
    documents: dict[str, int] = {}
    for number, row in text_files.json_objects(path, text):
        at = f"{path}, line {number}"
        words, tags = tables.require_strings(row, "tokens", at), None
        if row.get("tags") is not None:
            tags = tables.require_strings(row, "tags", at)
            if len(tags) != len(words):
                raise UserError(
                    f"{at}: {len(words)} tokens but {len(tags)} tags; wanted "
                    "one tag for each token"
                )
        for key, found in (("tokens", words), ("tags", tags or ())):
            if not all(found):
                raise UserError(
                    f"{at}: {key!r} has '', wanted strings that are not empty"
                )
        for tag in tags or ():
            tables.check_cell(tag, f"{at}: tag")
        if words:
            # As text: a JSON list or object cannot be the key of a dictionary.
            name = json.dumps(row.get("document"))
            document = documents.setdefault(name, len(documents))
            yield Sentence(words, tags, [number] * len(words), document)


# --- Tags --------------------------------------------------------------------


def is_entity_tag(tag: str) -> bool:
    """Return whether a tag is a place in an entity, "-", and a type.

    Places are those of IOB1, IOB2, BIOES and BILOU. O is no such tag, and
    neither are parts of speech, such as INTJ.
    """
    return bool(_ENTITY_TAG.fullmatch(tag))


def normalized_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags of one sentence in IOB2, where B- begins every entity.

    IOB1 writes B- only between two entities of the same type that touch. BIOES
    has places of its own for the end of an entity and for a single word; BILOU
    calls them L and U:

        words   Peter Blackburn was in  Hamburg Berlin
        IOB1    I-PER I-PER     O   O   I-LOC   B-LOC
        BIOES   B-PER E-PER     O   O   S-LOC   S-LOC
        IOB2    B-PER I-PER     O   O   B-LOC   B-LOC

    conlleval's rule reads all of these, and a model's tags that follow none of
    them: an I-, E- or L- at the beginning, after O, after an end or after
    another type begins an entity. Tags of no entity stay as they are.
    """
    fixed, open_type = [], None
    for tag in tags:
        place, kind = tag[:1], tag[2:]
        if not is_entity_tag(tag):
            fixed.append(tag)
            open_type = None
            continue
        begins = place in _ALWAYS_BEGIN or kind != open_type
        fixed.append(f"{'B' if begins else 'I'}-{kind}")
        open_type = None if place in _END else kind
    return fixed


def as_classes(tags: Sequence[str], labels: Sequence[str]) -> Sequence[str]:
    """Return the IOB2 tags of a sentence in the scheme of a model's labels.

    The scheme is BIOES, BILOU or IOB2.
    """
    places = {label[0] for label in labels if is_entity_tag(label)}
    if not places & _END:
        return tags
    end, single = "LU" if places & {"L", "U"} else "ES"
    fixed = list(tags)
    for first, last, kind in entities(tags):
        fixed[last] = f"{single if first == last else end}-{kind}"
    return fixed


def with_iob2_tags(file: File, types: Sequence[str] | None = None) -> File:
    """Return a file with its tags checked and normalized to IOB2.

    Every type is accepted unless `types` are given.

    Raises:
        UserError: a sentence has no tags, a tag is malformed or of an unknown
            type; names file and line.
    """
    sentences = []
    for sentence in file.sentences:
        at = f"{file.path}, line "
        if sentence.tags is None:
            raise UserError(
                f"{at}{sentence.lines[0]}: no tags; a column file needs a "
                "column of words and one of tags (--token_column, "
                "--label_column), JSONL needs `tags`"
            )
        for line, tag in zip(sentence.lines, sentence.tags, strict=True):
            if tag != "O" and not is_entity_tag(tag):
                raise UserError(
                    f"{at}{line}: tag {tag!r}; wanted O, B-type or I-type "
                    "(IOB1, IOB2, BIOES or BILOU; --label_column chooses the "
                    "column)"
                )
            if types is not None and tag != "O" and tag[2:] not in types:
                raise UserError(
                    f"{at}{line}: tag {tag!r}: the training file has no "
                    f"{tag[2:]!r}, only {', '.join(types) or 'O'}; the model "
                    "has no class for it"
                )
        tags = normalized_tags(sentence.tags)
        sentences.append(sentence._replace(tags=tags))
    return file._replace(sentences=sentences)


class Entity(NamedTuple):
    """An entity of a sentence: its first and last word, and its type."""

    first: int
    last: int
    type: str

    @property
    def words(self) -> slice:
        """The places of its words."""
        return slice(self.first, self.last + 1)


def entities(tags: Iterable[str]) -> list[Entity]:
    """Return the entities of tags in IOB2.

    >>> entities(["B-LOC", "I-LOC", "O", "B-PER"])
    [Entity(first=0, last=1, type='LOC'), Entity(first=3, last=3, type='PER')]
    """
    found: list[Entity] = []
    for place, tag in enumerate(tags):
        if not is_entity_tag(tag):
            continue
        if tag[0] == "B":
            found.append(Entity(place, place, tag[2:]))
        elif found:
            found[-1] = found[-1]._replace(last=place)
    return found


def iob2_labels(file: File) -> tuple[str, ...]:
    """Return the names of the classes: O, then B- and I- of each type, sorted.

    A file with entities of the types PER and LOC gives O, B-LOC, I-LOC, B-PER,
    I-PER.

    Raises:
        UserError: the file has no entity, or a type in two spellings.
    """
    tags = {tag for s in file.sentences for tag in s.tags or ()} - {"O"}
    if not tags:
        raise UserError(
            f"{file.path}: every tag is O: there is no entity to learn; check "
            "--label_column"
        )
    types, spellings = sorted({tag[2:] for tag in tags}), {}
    for name in types:
        tables.check_spelling(name, file.path, spellings)
    return "O", *(f"{place}-{name}" for name in types for place in "BI")


def class_ids(labels: Sequence[str]) -> dict[str, int]:
    """Return {tag: class id}.

    A published model may lack B-X or I-X, for example if no two entities
    touched in its IOB1 training file; the other one then stands for it.
    """
    ids = {label: number for number, label in enumerate(labels)}
    for label, number in list(ids.items()):
        for place in "BIELSU" if is_entity_tag(label) else "":
            ids.setdefault(place + label[1:], number)
    return ids
