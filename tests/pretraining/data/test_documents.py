"""Documents of text files, in parts, by ranges of bytes, and their copies."""

import collections
import io
import random

from base.errors import UserError

import pytest

from pretraining.data import documents
from pretraining.data.documents import CopyCounter, Range


def read(path, part_bytes=999, max_line_bytes=999):
    """Return the parts of a whole file."""
    whole = Range(str(path))
    return list(documents.read_parts(whole, part_bytes, max_line_bytes))


def test_documents_end_with_their_file(tmp_path):
    """Two files without a blank line at the end are two documents."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    (tmp_path / "b.txt").write_text("four\nfive\n \t\n\x85\nsix\n\n\n")
    seen = [part for name in "ab" for part in read(tmp_path / f"{name}.txt")]
    expected = [b"one\ntwo\nthree", b"four\nfive", b"six"]
    assert [(part.index, part.text) for part in seen] == [
        (0, text) for text in expected
    ]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 50])
def test_blocks_do_not_show(tmp_path, monkeypatch, block):
    monkeypatch.setattr(documents, "_BLOCK_BYTES", block)
    text = "\n\nerste Zeile\r\n\u2028zwei\u00e4\n\n\n \n\u4e2d\n" * 3 + "Ende"
    (tmp_path / "x").write_bytes(text.encode())
    parts = read(tmp_path / "x")
    lines = text.split("\n")
    expected = [[]]
    for line in lines:
        if line.strip():
            expected[-1].append(line)
        elif expected[-1]:
            expected.append([])
    assert [part.text.decode().split("\n") for part in parts] == expected


def test_line_numbers_count_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "_BLOCK_BYTES", 64)
    source = tmp_path / "in.txt"
    for number in (1, 2, 17, 100):
        lines = [b"just a line" for _ in range(100)]
        lines[number - 1] = b"just \xc3( a line"
        source.write_bytes(b"\n".join(lines))
        with pytest.raises(UserError, match=rf"line {number} is .* column 6;"):
            read(source)


def test_ranges_share_the_documents(monkeypatch):
    """Whatever the ranges and blocks, each document is read once, whole."""
    pieces = "a bc ä \n \n\n \n\u3000\n \u2028 \x85\n".split(" ")
    rng = random.Random(3)
    for _ in range(2000):
        data = "".join(rng.choices(pieces, k=rng.randrange(30))).encode()

        def read_all(size, block, data=data):
            monkeypatch.setattr(documents, "_BLOCK_BYTES", block)
            return [
                part
                for file_range in documents.split_files(
                    [("x", len(data))], size
                )
                for part in documents.read_parts(
                    file_range, 5, 999, open_file=lambda _: io.BytesIO(data)
                )
            ]

        whole = read_all(10**6, 64)
        assert read_all(rng.randint(1, 9), rng.randint(1, 9)) == whole


def test_a_long_document_comes_in_parts(tmp_path):
    (tmp_path / "x").write_text("one two\nthree\nfour\n\none two\nthree\nsix")
    parts = read(tmp_path / "x", part_bytes=10)
    assert [(part.index, part.text) for part in parts] == [
        (0, b"one two\nthree"),
        (1, b"four"),
        (0, b"one two\nthree"),
        (1, b"six"),
    ]
    # The same beginning is the same document; the rest differs.
    assert len({part.document for part in parts}) == 1
    assert len({part.content for part in parts}) == 3


def test_an_error_in_a_range_names_the_range(tmp_path):
    (tmp_path / "x").write_bytes(b"one\n\ntwo\n\nthr\xffee\n")
    with pytest.raises(UserError, match="line 3 of those from byte 6 on is"):
        list(documents.read_parts(Range(str(tmp_path / "x"), 6, 99), 99, 99))


def test_copies_are_numbered(monkeypatch):
    monkeypatch.setattr(CopyCounter, "_RECENT", 3)
    counter, seen = CopyCounter(), collections.Counter()
    rng = random.Random(5)
    for _ in range(3000):
        content = rng.choice([rng.randrange(40), rng.randrange(2**64)])
        assert counter.count(content) == seen[content]
        seen[content] += 1
