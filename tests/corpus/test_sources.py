"""corpus/sources.py: compression, encodings, kinds of files, damage."""

import bz2
import gzip
import json
import lzma

import pytest

from corpus import items
from corpus.sources import Blocks, find_kind

COMPRESS = {
    "": bytes,
    "gzip": gzip.compress,
    "bzip2": lambda data: bz2.compress(data, 1),  # in blocks of 100 kB
    "xz": lzma.compress,
}
TEXT = "Ein Wörterbuch, 辞書. " * 9000  # more than the head


def content(path) -> tuple[bytes, str | None]:
    with Blocks(str(path)) as blocks:
        return b"".join(blocks), blocks.damage


def kind(path) -> tuple[str, str]:
    with Blocks(str(path)) as blocks:
        return find_kind(blocks)


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"]
)
def test_content_is_utf8_without_mark(tmp_path, compression, encoding):
    text = f"<mediawiki>{TEXT}</mediawiki>"
    path = tmp_path / "name.that.says.nothing"
    path.write_bytes(COMPRESS[compression](text.encode(encoding)))
    assert content(path) == (text.encode(), None)
    assert kind(path) == (items.DUMP, "")
    with Blocks(str(path)) as blocks:
        assert blocks.compression == compression


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "xz"])
def test_what_follows_a_stream_is_another_one_or_damage(tmp_path, compression):
    """Python's readers of bzip2 and xz end there as at the end of a file."""
    compress, path = COMPRESS[compression], tmp_path / "x"
    parts = [TEXT[:1000], TEXT[1000:5000], TEXT[5000:]]
    path.write_bytes(b"".join(compress(part.encode()) for part in parts))
    assert content(path) == (TEXT.encode(), None)
    for between in (b"x" * 64, b"\0" * 99 + b"BZ"):
        path.write_bytes(compress(b"before ") + between + compress(b"behind"))
        found, damage = content(path)
        assert found in (b"before ", b"")  # gzip finds it with the first bytes
        assert damage.startswith(f"has damaged {compression} data")


def test_zeros_between_streams_of_xz_are_padding(tmp_path):
    path, padding = tmp_path / "x", b"\0" * 2**18
    before, behind = lzma.compress(b"before "), lzma.compress(b"behind")
    path.write_bytes(before + padding + behind + padding)
    assert content(path) == (b"before behind", None)
    path.write_bytes(bz2.compress(b"all") + b"\0" * 8)
    assert content(path)[0] == b"all" and content(path)[1]


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"<?xml version='1.0'?>\n<mediawiki xml:lang='en'>", items.DUMP),
        (b"\n  <page>\n<title>", items.DUMP),
        (b"<!-- made by -->\n<mediawiki>", items.DUMP),
        (b'{"text": "a"}\n{"text": "b"}\n', items.JSON_LINES),
        (b'\n\n { "id": 1}', items.JSON_LINES),
        (b"{}\n", items.JSON_LINES),
        (b"PAR1\x15\x04\0\0", items.PARQUET),
        (b"{Braces} are no JSON.\n", items.TEXT),
        (b"[[a]] < b\n", items.TEXT),
        (b"<pagelet> is not a tag of dumps", items.TEXT),
        (b"Par1 of it. pk and 7Z too.", items.TEXT),
        (b"\n\n", items.TEXT),
        ("Пример".encode(), items.TEXT),
        ("Пример".encode("utf-16"), items.TEXT),
        (b"A latin-1 word: caf\xe9.", items.TEXT),
    ],
)
def test_kinds_are_told_by_content(tmp_path, data, expected):
    (tmp_path / "x.zip").write_bytes(data)
    assert kind(tmp_path / "x.zip") == (expected, "")


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\x7fELF\x02\x01\0\0", "is a binary file"),
        (b"\x28\xb5\x2f\xfd123", "compressed by zstd; decompress it first"),
        (b"7z\xbc\xaf\x27\x1c12", "is a 7z archive; extract it first"),
        (b"%PDF-1.7", "is a PDF document"),
        (gzip.compress(bz2.compress(b"a"), mtime=0), "compressed twice"),
        (b"<?xml version='1.0'?><rss></rss>", "no MediaWiki dump"),
        (json.dumps([{"text": "a"}]).encode(), "is a JSON array"),
        (b"\n<!DocType html>\n<html>", "is HTML; extract its text first"),
        ("Пример для".encode("cp1251") * 9, "is neither UTF-8 nor UTF-16"),
        (b"BZh9123456", "has damaged bzip2 data (Invalid data stream)"),
        (gzip.compress(TEXT.encode(), mtime=0)[:12], "ends in the middle of"),
    ],
    # gzip holds the time, so the data cannot name the tests.
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_what_cannot_be_read_is_named(tmp_path, data, words):
    (tmp_path / "x").write_bytes(data)
    name, detail = kind(tmp_path / "x")
    assert name == "" and words in detail


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "xz"])
def test_content_before_the_damage_is_kept(tmp_path, compression):
    """Of a truncated file, and of one with a flipped bit."""
    # Random digits, so that the compressed stream is long.
    text = "".join(str(n * n) for n in range(60_000)).encode()
    data = bytearray(COMPRESS[compression](text))
    (tmp_path / "x").write_bytes(data[: len(data) // 2])
    found, damage = content(tmp_path / "x")
    assert text.startswith(found) and 0.2 < len(found) / len(text) < 0.8
    assert damage == f"ends in the middle of its {compression} stream"
    data[-len(data) // 4] ^= 16
    (tmp_path / "x").write_bytes(data)
    found, damage = content(tmp_path / "x")
    assert damage.startswith(f"has damaged {compression} data (")
    assert len(found) > len(text) // 2
    assert text.startswith(found[: len(text) // 2])


@pytest.mark.parametrize("length", [10, 900_000])
def test_content_before_bad_utf16_is_kept(tmp_path, length):
    """Also if the error is in the part that tells the kind."""
    text = "<mediawiki>" + "ж" * length
    whole = text.encode("utf-16")
    for end, words in (
        (b"\x00\xdc\x00\xdc" + b"a\0" * 10**6, "is not UTF-16 any more: ille"),
        (b"a", "is not UTF-16 any more: trun"),
    ):
        (tmp_path / "x").write_bytes(whole + end)
        assert kind(tmp_path / "x") == (items.DUMP, "")
        found, damage = content(tmp_path / "x")
        assert found == text.encode() and damage.startswith(words)
