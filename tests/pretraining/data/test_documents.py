"""Documents of text files, in parts, by ranges of bytes."""

import random

from base.errors import UserError

import pytest

from pretraining.data import documents
from pretraining.data.documents import Part, Range


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


def test_ranges_share_the_documents(tmp_path, monkeypatch):
    """Whatever the ranges and blocks, each document is read once, whole."""
    path = tmp_path / "x"
    pieces = "a bc ä \n \n\n \n\u3000\n \u2028 \x85\n".split(" ")
    rng = random.Random(3)
    for _ in range(1000):
        data = "".join(rng.choices(pieces, k=rng.randrange(30))).encode()
        path.write_bytes(data)

        def read_all(size, block, data=data):
            monkeypatch.setattr(documents, "_BLOCK_BYTES", block)
            return [
                part
                for chunk in documents.split_files(
                    [(str(path), len(data))], size
                )
                for file_range in chunk
                for part in documents.read_parts(file_range, 5, 999)
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
    assert len(set(parts)) == 3


def test_an_error_in_a_range_names_the_line_of_the_file(tmp_path):
    (tmp_path / "x").write_bytes(b"one\n\ntwo\n\nthr\xffee\n")
    with pytest.raises(UserError, match="line 5 is not UTF-8: .* column 4;"):
        list(documents.read_parts(Range(str(tmp_path / "x"), 6, 99), 99, 99))


def test_a_document_is_not_searched_for_beyond_its_range(tmp_path, monkeypatch):
    """A file without blank lines is read once, not once for each range."""
    monkeypatch.setattr(documents, "_BLOCK_BYTES", 2**14)
    path = tmp_path / "x"
    path.write_bytes(b"a line\n" * 100_000)
    read, read_blocks = [], documents.read_blocks

    def counted(*args):
        for block, is_beyond in read_blocks(*args):
            read.append(block)
            yield block, is_beyond

    monkeypatch.setattr(documents, "read_blocks", counted)
    for chunk in documents.split_files([(str(path), 700_000)], 70_000):
        (file_range,) = chunk
        list(documents.read_parts(file_range, 10**9, 99))
    assert sum(map(len, read)) < 3 * 700_000


def test_small_files_share_a_chunk():
    sizes = [("a", 4), ("b", 0), ("c", 5), ("d", 25), ("e", 1)]
    assert documents.split_files(sizes, 8) == [
        [Range("a", 0, 4), Range("c", 0, 5)],
        [Range("d", 0, 8)],
        [Range("d", 8, 16)],
        [Range("d", 16, 24)],
        [Range("d", 24, 25), Range("e", 0, 1)],
    ]


def test_every_bucket_is_a_random_sample():
    buckets = [[] for _ in range(10)]
    for number in range(10_000):
        part = Part(number, 0, b"x")
        buckets[part.bucket(7, 10)].append(number)
    for numbers in buckets:
        # 1,000 expected; a standard deviation is 30.
        assert 850 < len(numbers) < 1150
        assert 4600 < sum(numbers) / len(numbers) < 5400
    assert Part(1, 0, b"x").bucket(8, 10**9) != Part(1, 0, b"x").bucket(
        7, 10**9
    )
