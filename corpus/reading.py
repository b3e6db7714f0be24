"""Read input files as a stream of items, in chunks of bounded size.

The reading process decompresses and finds where an item begins and ends; all
else is left to the workers. Chunk boundaries depend on the files alone, so that
a resumed run finds the same chunks.
"""

import os
import re
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from types import ModuleType

from base import file_system, packages
from base.errors import UserError

from corpus import dumps, items, sources
from corpus.items import Chunk, CorpusFlags, Item, Source, Unusable
from corpus.sources import Blocks

# Blank lines and the end of the line before them.
_BLANK_LINES = re.compile(rb"\r?\n(?:[ \t\r\f\v]*\n)+")

# Between two documents of WikiExtractor.
_DOCUMENTS = re.compile(rb"(?<=</doc>)\s*(?=<doc\s)")

# How much is kept of an item that is too long: a separator may stand across
# two blocks.
_TAIL_BYTES = 2**12


def read_chunks(
    files: Sequence[str],
    flags: CorpusFlags,
    chunk_bytes: int,
    start: Sequence[int] = (0, 0),
) -> Iterator[tuple[Chunk, tuple[int, int]]]:
    """Yield the items of all files in chunks, and where the next one begins.

    Small files share a chunk, and large ones have many: it ends with the item
    that reaches chunk_bytes. A place, such as `start`, is (index of a file,
    number of its items that are read).
    """
    gathered, size, num_bytes = [], 0, 0
    first_file, skipped = start
    for number in range(first_file, len(files)):
        items_of_file = enumerate(read_items(files[number], flags), 1)
        before = 0
        for count, (item, position) in items_of_file:
            num_bytes += position - before
            before = position
            if number == first_file and count <= skipped:
                continue
            gathered.append(item)
            size += len(item.data)
            if size >= chunk_bytes:
                yield Chunk(gathered, num_bytes), (number, count)
                gathered, size, num_bytes = [], 0, 0
    if gathered:
        yield Chunk(gathered, num_bytes), (len(files), 0)


def read_items(path: str, flags: CorpusFlags) -> Iterator[tuple[Item, int]]:
    """Yield (item, bytes of the file read so far).

    What cannot be read is an item too, with a problem and without data.
    """
    with Blocks(path) as blocks:
        source, detail = find_source(path, blocks, flags.language)
        if detail:
            item = Item(source, 0).unusable("unreadable_file", detail)
            yield item, blocks.position()
        elif source.kind == items.PARQUET:
            yield from _read_rows(source, blocks, flags)
        else:
            read = _read_pages if source.kind == items.DUMP else _read_texts
            for item in read(source, blocks, flags):
                yield item, blocks.position()


def find_source(path: str, blocks: Blocks, language: str) -> tuple[Source, str]:
    """Return the kind and language of a file, and why it cannot be used or "".

    Raises:
        UserError: neither the flag --language nor the file names the language.
    """
    kind, detail = sources.find_kind(blocks)
    if not kind:
        return Source(path, "", language), detail
    namespaces = ()
    if kind == items.DUMP:
        own_language, namespaces = dumps.read_header(blocks.head)
        language = language or own_language.lower()
    if not language:
        raise UserError(
            f"{path} ({kind.replace('_', ' ')}) does not name its language, "
            "which decides where sentences end: give it by --language, such as "
            "--language=en"
        )
    return Source(path, kind, language, namespaces), ""


def _too_long(item: Item, flags: CorpusFlags) -> Item:
    detail = f"is larger than {flags.max_document_mb} MB (--max_document_mb)"
    if item.source.kind == items.TEXT and flags.document_separator == "file":
        detail += (
            "; if blank lines separate its documents, give "
            "--document_separator=blank_line"
        )
    return item.unusable("too_long", detail)


def _read_pages(
    source: Source, blocks: Blocks, flags: CorpusFlags
) -> Iterator[Item]:
    """Yield the pages of a dump."""
    number, truncated = 0, None
    for data, problem in dumps.split_pages(blocks, flags.max_item_bytes):
        if problem == "truncated":  # the last piece
            truncated = data
            break
        number += 1
        item = Item(source, number, data)
        if not problem:
            yield item
        elif problem == "too_long":
            yield _too_long(item, flags)
        else:
            yield item.unusable("broken_item", problem)
    if blocks.damage or truncated is not None:
        detail = blocks.damage or "ends without </mediawiki>"
        if truncated:
            detail += f" within {Item(source, number + 1, truncated).place}"
        detail += f"; the {number:,} pages before it are used"
        yield Item(source, number).unusable("damaged_file", detail)
    elif not number:
        yield Item(source, 0).unusable("unreadable_file", "has no page")


def _read_texts(
    source: Source, blocks: Blocks, flags: CorpusFlags
) -> Iterator[Item]:
    r"""Yield the lines of JSON, or the documents of text.

    Only \n ends a line of JSON. Blank ones are counted, so that numbers are
    those of an editor.
    """
    separator = None
    if source.kind == items.JSON_LINES:
        separator = re.compile(rb"\n")
    elif source.kind == items.EXTRACTED:
        separator = _DOCUMENTS
    elif flags.document_separator == "blank_line":
        separator = _BLANK_LINES
    number = 0
    for text, is_whole in _split(blocks, separator, flags.max_item_bytes):
        has_text = not is_whole or bool(text.strip())
        number += has_text or source.kind == items.JSON_LINES
        item = Item(source, number, text)
        if not is_whole:
            yield _too_long(item, flags)
        elif has_text:
            yield item
    if blocks.damage:
        place = Item(source, max(number, 1)).place
        detail = f"{blocks.damage}, in {place} or behind it; "
        detail += "what comes before the damage is used"
        yield Item(source, number).unusable("damaged_file", detail)
    elif not number:
        yield Item(source, 0).unusable("unreadable_file", "has no text")


def _split(
    blocks: Blocks, separator: re.Pattern[bytes] | None, max_bytes: int
) -> Iterator[tuple[bytes, bool]]:
    """Yield (piece between separators, whether it is whole).

    A piece longer than `max_bytes` is yielded once as (b"", False). In a
    damaged file, the last piece ends with its last whole line.
    """
    rest, is_too_long = b"", False
    for block in blocks:
        rest += block
        pieces = []
        if separator:
            *pieces, rest = separator.split(rest)
        for piece in pieces:
            is_whole = not is_too_long and len(piece) <= max_bytes
            yield (piece if is_whole else b""), is_whole
            is_too_long = False
        is_too_long = is_too_long or len(rest) > max_bytes
        if is_too_long:
            rest = rest[-_TAIL_BYTES:]
    if blocks.damage:  # The last line is cut.
        rest = rest[: rest.rfind(b"\n") + 1]
    if is_too_long:
        yield b"", False
    elif rest:
        yield rest, True


def require_pyarrow(path: str) -> ModuleType:
    """Return pyarrow.parquet, or tell how to install it.

    It is optional, as most corpora are dumps or text.
    """
    what = f"the parquet file {path}"
    return packages.load(
        "pyarrow.parquet", what, "pyarrow", "requirements-parquet.txt"
    )


def _read_rows(
    source: Source, blocks: Blocks, flags: CorpusFlags
) -> Iterator[tuple[Item, int]]:
    """Yield (the text of a row, bytes of the file that it and all before take).

    One row group at most is in memory.
    """
    parquet = require_pyarrow(source.path)
    import pyarrow

    # Parquet is read from its end, which a compressed file does not allow, and
    # by pyarrow, which takes no remote file.
    is_plain = not (blocks.compression or file_system.is_remote(source.path))
    number, size, detail = 0, 0, ""
    try:
        with open(source.path, "rb") if is_plain else TemporaryFile() as file:
            if not is_plain:
                file.writelines(blocks)
            if blocks.damage:
                raise Unusable("unreadable_file", blocks.damage)
            table = parquet.ParquetFile(file)
            column, names = flags.text_column, table.schema_arrow.names
            if column not in names:
                raise Unusable(
                    "unreadable_file",
                    f"has no column {column!r}, but {', '.join(names)}; name "
                    "one by --text_column",
                )
            size = os.fstat(file.fileno()).st_size
            for batch in table.iter_batches(256, columns=[column]):
                # "a.b" reads the part b of a column a, too.
                place = batch.schema.names.index(column)
                for text in batch.column(place).to_pylist():
                    if not isinstance(text, str | None):
                        raise Unusable(
                            "unreadable_file",
                            f"has values such as {text!r:.40} in column "
                            f"{column!r}; wanted text",
                        )
                    number += 1
                    data = (text or "").encode("utf-8", "surrogatepass")
                    item = Item(source, number, data)
                    if len(data) > flags.max_item_bytes:
                        item = _too_long(item, flags)
                    yield item, size * number // table.metadata.num_rows
        if not number:
            detail = "has no row"
    except Unusable as unusable:
        _, detail = unusable.args
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = f"is a damaged parquet file ({' '.join(str(error).split())})"
    if detail and number:
        detail += f"; the {number:,} rows before the damage are used"
        yield Item(source, number).unusable("damaged_file", detail), size
    elif detail:
        yield Item(source, 0).unusable("unreadable_file", detail), size
