"""Read input files as a stream of items, in chunks of bounded size.

The reading process decompresses and finds where an item begins and ends; all
else is left to the workers. Chunk boundaries depend on the files alone, so that
a run that continues another finds the same chunks.
"""

import re
from collections.abc import Iterator, Sequence

from base.errors import UserError

from corpus import dumps, items, sources, tables
from corpus.items import Chunk, CorpusFlags, Item, Problem, Source
from corpus.sources import Blocks

DOCUMENT_SEPARATORS = ("file", "blank_line")

# Blank lines and the end of the line before them.
_BLANK_LINES = re.compile(rb"\r?\n(?:[ \t\r\f\v]*\n)+")

# What is kept of an item that is too long, to name it.
_HEAD_BYTES = 2**12

# --- Chunks ------------------------------------------------------------------


def read_chunks(
    files: Sequence[str],
    flags: CorpusFlags,
    chunk_bytes: int,
    start: Sequence[int] = (0, 0),
) -> Iterator[Chunk]:
    """Yield the items of all files in chunks.

    Small files share a chunk, and large ones have many.

    Args:
        files: paths.
        flags: of the run.
        chunk_bytes: a chunk ends with the item that reaches this size.
        start: where the first chunk begins: `end` of the chunk before it.

    Raises:
        UserError: a file cannot be opened, has no language, or needs a
            library that is not installed.
    """
    gathered, size, num_bytes = [], 0, 0
    first_file, skipped = start
    for number in range(first_file, len(files)):
        count = 0
        for item, read in read_items(files[number], flags):
            num_bytes += read
            count += 1
            if number == first_file and count <= skipped:
                continue
            gathered.append(item)
            size += len(item.data)
            if size >= chunk_bytes:
                yield Chunk(gathered, (number, count), num_bytes)
                gathered, size, num_bytes = [], 0, 0
    if gathered:
        yield Chunk(gathered, (len(files), 0), num_bytes)


def read_items(path: str, flags: CorpusFlags) -> Iterator[tuple[Item, int]]:
    """Yield (item, bytes of the file read since the item before).

    What cannot be read is an item too, with a problem and without data.

    Raises:
        UserError: see `read_chunks`.
    """
    with Blocks(path) as blocks:
        source, problem = find_source(path, blocks, flags.language)
        if problem:
            yield Item(source, 0, b"", problem), blocks.position()
            return
        if source.kind == items.PARQUET:
            yield from _read_rows(source, blocks, flags)
            return
        read = {
            items.DUMP: _read_pages,
            items.JSON_LINES: _read_lines,
            items.TEXT: _read_texts,
        }[source.kind]
        before = 0
        for item in read(source, blocks, flags):
            now = blocks.position()
            yield item, now - before
            before = now


def find_source(
    path: str, blocks: Blocks, language: str
) -> tuple[Source, Problem | None]:
    """Return the kind and language of a file, and why it cannot be used.

    Args:
        path: of the file.
        blocks: the file, opened.
        language: --language; "" for the dump's own.

    Raises:
        UserError: neither the flag nor the file names the language.
    """
    kind = sources.find_kind(blocks)
    if not kind.name:
        problem = Problem("unreadable_file", path, "", kind.detail)
        return Source(path, "", language), problem
    namespaces = ()
    if kind.name == items.DUMP:
        head = sources.head_as_utf8(blocks)
        header = dumps.read_header(head)
        language, namespaces = (
            language or header.language.lower(),
            header.namespaces,
        )
    if not language:
        what = kind.name.replace("_", " ")
        raise UserError(
            f"{path} ({what}) does not name its language, which decides where "
            "sentences end: give it by --language, such as --language=en"
        )
    return Source(path, kind.name, language, namespaces), None


# --- Dumps -------------------------------------------------------------------


def _read_pages(
    source: Source, blocks: Blocks, flags: CorpusFlags
) -> Iterator[Item]:
    """Yield the pages of a dump."""
    number, is_reported = 0, False
    for piece in dumps.split_pages(blocks, flags.max_item_bytes):
        if piece.problem == "truncated":
            is_reported = True
            yield _damaged(source, number, blocks.damage, piece.data)
            continue
        number += 1
        if not piece.problem:
            yield Item(source, number, piece.data)
        elif piece.problem == "too_long":
            yield _too_long(
                source, number, page_place(number, piece.data), flags
            )
        else:
            yield _problem(
                source,
                number,
                "broken_item",
                page_place(number, piece.data),
                "does not end (no </page>) before the next page"
                if piece.data
                else "has </page> without <page>",
            )
    if blocks.damage and not is_reported:
        yield _damaged(source, number, blocks.damage, b"")
    elif not number and not is_reported:
        yield _problem(source, 0, "unreadable_file", "", "has no page")


def page_place(number: int, data: bytes) -> str:
    """Return "page 12 'Title'" for the XML of a page."""
    title = dumps.title_of(data)
    return f"page {number} {title!r}" if title else f"page {number}"


def _damaged(
    source: Source, number: int, damage: str | None, page: bytes
) -> Item:
    """Return the item for a dump that ends too early, after `number` pages."""
    damage = damage or "ends without </mediawiki>"
    where = f" within {page_place(number + 1, page)}" if page else ""
    detail = f"{damage}{where}; the {number:,} pages before it are used"
    return _problem(source, number, "damaged_file", "", detail)


# --- JSON lines --------------------------------------------------------------


def _read_lines(
    source: Source, blocks: Blocks, flags: CorpusFlags
) -> Iterator[Item]:
    r"""Yield the lines of a file that are not blank. Only \n ends a line."""
    number = 0
    for line, is_whole in _split(
        blocks, re.compile(rb"\n"), flags.max_item_bytes
    ):
        number += 1
        if not is_whole:
            yield _too_long(source, number, f"line {number}", flags)
        elif line.strip():
            yield Item(source, number, line)
    if blocks.damage:
        yield _cut(source, number, blocks.damage, "line")


# --- Plain text --------------------------------------------------------------


def _read_texts(
    source: Source, blocks: Blocks, flags: CorpusFlags
) -> Iterator[Item]:
    """Yield the documents of a text file."""
    is_split = flags.document_separator == "blank_line"
    separator = _BLANK_LINES if is_split else None
    number = 0
    for text, is_whole in _split(blocks, separator, flags.max_item_bytes):
        if not is_whole:
            number += 1
            yield _too_long(source, number, f"document {number}", flags)
        elif text.strip():
            number += 1
            yield Item(source, number, text)
    if blocks.damage:
        yield _cut(source, number, blocks.damage, "document")
    elif not number:
        problem = Problem("unreadable_file", source.path, "", "has no text")
        yield Item(source, 0, b"", problem)


def _split(
    blocks: Blocks, separator: re.Pattern[bytes] | None, max_bytes: int
) -> Iterator[tuple[bytes, bool]]:
    """Yield (piece between separators, whether it is whole).

    A piece longer than `max_bytes` is yielded once as (its beginning, False).
    In a damaged file, the last piece ends with its last whole line.
    """
    rest, is_too_long = b"", False
    for block in blocks:
        rest += block
        pieces = []
        if separator:
            *pieces, rest = separator.split(rest)
        for piece in pieces:
            if is_too_long or len(piece) > max_bytes:
                yield piece[:_HEAD_BYTES], False
            else:
                yield piece, True
            is_too_long = False
        if len(rest) > max_bytes:
            is_too_long = True
        if is_too_long:
            # A separator may stand across two blocks.
            rest = rest[-_HEAD_BYTES:]
    if blocks.damage:  # The last line is cut.
        rest = rest[: rest.rfind(b"\n") + 1]
    if is_too_long:
        yield rest[:_HEAD_BYTES], False
    elif rest:
        yield rest, True


def _cut(source: Source, number: int, damage: str, what: str) -> Item:
    """Return the item for a text or JSON file that ends too early."""
    detail = f"{damage}, in {what} {max(number, 1)} or behind it; what comes "
    detail += "before the damage is used"
    return _problem(source, number, "damaged_file", "", detail)


# --- Parquet -----------------------------------------------------------------


def _read_rows(
    source: Source, blocks: Blocks, flags: CorpusFlags
) -> Iterator[tuple[Item, int]]:
    """Yield (the text of a row, bytes of the file that it stands for)."""
    number = 0
    try:
        for text, num_bytes in tables.read_column(
            source.path, flags.text_column, blocks
        ):
            number += 1
            data = (text or "").encode("utf-8", "surrogatepass")
            if len(data) > flags.max_item_bytes:
                place = f"row {number}"
                yield (
                    _too_long(source, number, place, flags),
                    num_bytes,
                )
            else:
                yield Item(source, number, data), num_bytes
    except tables.TableError as error:
        detail = str(error)
        reason = "unreadable_file"
        if number:
            reason = "damaged_file"
            detail += f"; the {number:,} rows before the damage are used"
        yield _problem(source, number, reason, "", detail), 0
        return
    if not number:
        yield _problem(source, 0, "unreadable_file", "", "has no row"), 0


# --- Problems ----------------------------------------------------------------


def _problem(
    source: Source, number: int, reason: str, place: str, detail: str
) -> Item:
    """Return an item that cannot be used."""
    problem = Problem(reason, source.path, place, detail)
    return Item(source, number, b"", problem)


def _too_long(
    source: Source, number: int, place: str, flags: CorpusFlags
) -> Item:
    """Return the item for a page, line or text above the limit."""
    detail = (
        f"is larger than {flags.max_item_bytes / 1e6:g} MB (--max_document_mb)"
    )
    if source.kind == items.TEXT and flags.document_separator == "file":
        detail += (
            "; if blank lines separate its documents, give "
            "--document_separator=blank_line"
        )
    return _problem(source, number, "too_long", place, detail)
