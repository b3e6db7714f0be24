"""Open input files; find their compression and kind by their content.

The name of a file plays no part: dumps are often renamed, and a file that ends
in .bz2 may have been decompressed by the browser that fetched it.

    file -> decompressed -> UTF-16 converted to UTF-8 -> blocks of bytes

A damaged file gives the blocks before the damage.
"""

import bz2
import codecs
import contextlib
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from base import errors, file_system

from corpus import items

# Blocks are at least this large, except for the last one of a file.
_BLOCK_BYTES = 2**20

# How much of a compressed file is read at once. An error loses what the same
# piece gave before it.
_PACKED_BYTES = 2**13

# How much of a file is looked at to find its kind.
_HEAD_BYTES = 2**16

# What decompression raises for damaged data.
_DAMAGE = (OSError, zlib.error, lzma.LZMAError)

# First bytes of a compressed file -> its name and how to open it.
_COMPRESSIONS = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", lambda file: _Streams(file, bz2.BZ2Decompressor)),
    b"\xfd7zXZ\x00": (
        "xz",
        lambda file: _Streams(file, lzma.LZMADecompressor, padding=b"\0"),
    ),
}

_UTF16_MARKS = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    b"<\x00": "utf-16-le",  # XML that begins without a byte order mark
    b"\x00<": "utf-16-be",
}

# The beginning of a file -> its kind, or what it is that cannot be used.
_KINDS = {
    rb"\x28\xb5\x2f\xfd": "compressed by zstd; decompress it first (zstd -d)",
    rb"7z\xbc\xaf\x27\x1c": "a 7z archive; extract it first",
    rb"PK\x03\x04": "a zip archive; extract it first",
    rb"%PDF": "a PDF document",
    rb"PAR1": items.PARQUET,
    rb".*\0": "a binary file",
    rb"\s*$": items.TEXT,
    rb"\s*(?=<(\?xml|mediawiki|page\b|!--)).*<(mediawiki|page)[\s>]": (
        items.DUMP
    ),
    rb"\s*<(\?xml|mediawiki|page\b|!--)": (
        "XML, but no MediaWiki dump: no <mediawiki> tag"
    ),
    rb"\s*(?i:<!doctype html|<html[\s>])": "HTML; extract its text first",
    rb'\s*\[\s*\{\s*"': (
        "a JSON array; wanted one JSON object per line (jq -c '.[]')"
    ),
    rb'\s*\{\s*("|\})': items.JSON_LINES,
    rb"\s*<doc\s[^\n]*\bid=": items.EXTRACTED,
}


class _Streams:
    """Reads compressed streams that follow one another in a file.

    bz2.open and lzma.open take everything behind a complete stream for the end
    of the file if it does not begin as a stream does. Here it is damage: the
    zeros of a download that was cut off and resumed, for example. `padding` may
    stand between streams, many times.
    """

    def __init__(
        self, file: IO[bytes], create: Callable[[], Any], padding: bytes = b""
    ):
        self._file, self._create, self._padding = file, create, padding
        self._stream = create()

    def read(self, size: int) -> bytes:
        """Return the next bytes; b"" at the end, EOFError within a stream."""
        data = b""
        while not data:
            packed = b""
            if self._stream.eof:
                packed = self._stream.unused_data.lstrip(self._padding)
                while not packed:
                    more = self._file.read(_PACKED_BYTES)
                    if not more:
                        return b""
                    packed = more.lstrip(self._padding)
                self._stream = self._create()
            elif self._stream.needs_input:
                packed = self._file.read(_PACKED_BYTES)
                if not packed:
                    raise EOFError
            data = self._stream.decompress(packed, size)
        return data


class Blocks(contextlib.AbstractContextManager):
    """The decompressed bytes of a file, as UTF-8, in blocks.

    Iterating yields blocks of 1 MB or somewhat more, and ends early if the
    file is damaged; `damage` says so afterwards.

    Attributes:
        head: the first 64 kB; they are yielded all the same. A character at
            their end may be cut.
        damage: None, or what is wrong with the rest of the file.
        compression: "gzip", "bzip2", "xz", or "" for a plain file.
    """

    def __init__(self, path: str):
        self._raw = file_system.open_for_reading(path)
        self.damage: str | None = None
        self.compression = ""
        self._file: IO[bytes] = self._raw
        self._ended = False
        try:
            magic = self._raw.read(8)
            self._raw.seek(0)
            for mark, (name, opener) in _COMPRESSIONS.items():
                if magic.startswith(mark):
                    self.compression, self._file = name, opener(self._raw)
        except file_system.file_errors() as error:
            self._end(f"cannot be read: {errors.reason(error)}")
        data = self._gather(_HEAD_BYTES)
        self._decoder: codecs.IncrementalDecoder | None = None
        for mark, encoding in _UTF16_MARKS.items():
            if data.startswith(mark):
                self._decoder = codecs.getincrementaldecoder(encoding)()
        self.head = self._in_utf8(data).removeprefix(codecs.BOM_UTF8)

    def __exit__(self, *unused) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the blocks, once.

        UTF-8 is not checked here: a wrong byte concerns one page or one line,
        which the worker finds.
        """
        block = self.head + self._in_utf8(self._gather(_BLOCK_BYTES))
        while block:
            yield block
            block = self._in_utf8(self._gather(_BLOCK_BYTES))

    def _in_utf8(self, data: bytes) -> bytes:
        """Return the next bytes of the file as UTF-8."""
        if not self._decoder:
            return data
        try:
            return self._decoder.decode(data, final=self._ended).encode()
        except UnicodeDecodeError as error:
            self._end(f"is not UTF-16 any more: {error.reason}")
            return error.object[: error.start].decode(error.encoding).encode()

    def position(self) -> int:
        """Return how many bytes have been read, as they are on the disk."""
        return self._raw.tell()

    def _end(self, damage: str) -> None:
        self.damage = self.damage or damage
        self._ended = True

    def _gather(self, size: int) -> bytes:
        """Return at least `size` bytes, fewer at the end of the file."""
        # Remote files have no read1.
        read = getattr(self._file, "read1", self._file.read)
        pieces, found, compression = [], 0, self.compression
        while found < size and not self._ended:
            try:
                piece = read(2**17)  # an error loses what it has read
                self._ended = not piece
                pieces.append(piece)
                found += len(piece)
            except EOFError:
                self._end(f"ends in the middle of its {compression} stream")
            except _DAMAGE + file_system.file_errors() as error:
                how = f"cannot be read: {errors.reason(error)}"
                if compression and isinstance(error, _DAMAGE):
                    how = f"has damaged {compression} data ({error})"
                self._end(how)
        return b"".join(pieces)


def find_kind(blocks: Blocks) -> tuple[str, str]:
    """Return the kind of a file and ""; or "" and why it cannot be used."""
    if not blocks.head:
        return "", blocks.damage or "is empty"
    for mark, (name, _) in _COMPRESSIONS.items():
        if blocks.head.startswith(mark):
            return "", f"is compressed twice, inside by {name}"
    for pattern, kind in _KINDS.items():
        if re.match(pattern, blocks.head, re.DOTALL):
            is_read = kind in items.ITEM_NAMES
            return (kind, "") if is_read else ("", f"is {kind}")
    utf_8 = blocks.head.decode("utf-8", "ignore").encode()
    if len(utf_8) < 0.7 * len(blocks.head):
        return "", "is neither UTF-8 nor UTF-16; convert it (iconv -t UTF-8)"
    return items.TEXT, ""
