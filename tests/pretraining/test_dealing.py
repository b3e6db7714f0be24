"""Documents of text files, dealt out to buckets of equal size."""

from base.errors import UserError

import numpy as np
import pytest
from corpora import write

from pretraining import dealing


def test_documents_end_with_their_file(tmp_path):
    """Two files without a blank line at the end are two documents."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    (tmp_path / "b.txt").write_text("four\nfive\n \t\n\x85\nsix\n\n\n")
    seen = [
        part
        for name in "ab"
        for part in dealing.read_parts(
            str(tmp_path / f"{name}.txt"), 100, 1000, lambda n: None
        )
    ]
    expected = [b"one\ntwo\nthree", b"four\nfive", b"six"]
    assert seen == [(True, text) for text in expected]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 50])
def test_blocks_do_not_show(tmp_path, monkeypatch, block):
    monkeypatch.setattr(dealing, "_BLOCK_BYTES", block)
    text = "\n\nerste Zeile\r\n\u2028zwei\u00e4\n\n\n \n\u4e2d\n" * 3 + "Ende"
    (tmp_path / "x").write_bytes(text.encode())
    parts = list(
        dealing.read_parts(str(tmp_path / "x"), 999, 999, lambda n: None)
    )
    lines = text.split("\n")
    documents = [[]]
    for line in lines:
        if line.strip():
            documents[-1].append(line)
        elif documents[-1]:
            documents.append([])
    assert [text.decode().split("\n") for _, text in parts] == documents


def test_line_numbers_count_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(dealing, "_BLOCK_BYTES", 64)
    source = tmp_path / "in.txt"
    for number in (1, 2, 17, 100):
        lines = [b"just a line" for _ in range(100)]
        lines[number - 1] = b"just \xc3( a line"
        source.write_bytes(b"\n".join(lines))
        with pytest.raises(UserError, match=rf"line {number} is .* column 6;"):
            list(dealing.read_blocks(str(source), 10**6, lambda n: None))


def test_every_bucket_is_a_random_sample_of_equal_size(tmp_path):
    documents = [[f"document {i} end"] for i in range(1000)]
    source = write(tmp_path / "in.txt", documents)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    dealing.deal_documents([source], 10, 2**20, 7, str(scratch), lambda n: None)
    seen = []
    for bucket in range(10):
        parts = list(dealing.read_bucket(str(scratch), bucket))
        numbers = [number for number, _ in parts]
        assert len(numbers) == 100 and numbers == sorted(numbers)
        assert 400 < np.mean(numbers) < 600
        assert all(text == f"document {n} end" for n, text in parts)
        seen += numbers
    assert sorted(seen) == list(range(1000))
