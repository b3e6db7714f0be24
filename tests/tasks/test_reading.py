"""Reading of windows: every line once, with its number; damage is named."""

import gzip
import io
import json
import os
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import tfrecord
from tasks import reading
from tasks.task import Input, Place


def parse(place: Place, line: bytes, kind: str) -> Input:
    """Return the line as an input; "bad" is a bad one."""
    if line == b"bad":
        raise UserError("it is bad")
    return Input(str(place), place, {"line": line})


def read(path: Path) -> list[reading.Window]:
    return list(reading.read_windows(reading.inspect(str(path)), parse))


def found_lines(windows) -> list[tuple[str, int, bytes]]:
    return [
        (os.path.basename(x.place.path), x.place.number, x.texts["line"])
        for window in windows
        for x in window.inputs
    ]


LINES = st.lists(
    st.text("ab\r é", max_size=12).map(lambda text: "x" + text.strip()),
    min_size=1,
    max_size=12,
)


@given(
    lines=LINES,
    end=st.sampled_from(["", "\n"]),
    block=st.integers(1, 20),
    window=st.integers(1, 5),
    is_gzip=st.booleans(),
)
def test_every_line_is_read_once_with_its_number(
    tmp_path_factory, lines, end, block, window, is_gzip
):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    content = ("\n".join(lines) + end).encode()
    path.write_bytes(gzip.compress(content) if is_gzip else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_BLOCK", block)
        patch.setattr(reading, "WINDOW_INPUTS", window)
        windows = read(path)
    assert found_lines(windows) == [
        ("a.txt", number, line.encode().removesuffix(b"\r"))
        for number, line in enumerate(lines, 1)
    ]
    assert max(len(w.inputs) for w in windows) <= window
    assert sum(w.num_bytes for w in windows) == path.stat().st_size


def test_a_window_has_the_bytes_of_its_own_lines(tmp_path, monkeypatch):
    """Progress is of what is predicted, not of what is read ahead."""
    monkeypatch.setattr(reading, "WINDOW_INPUTS", 2)
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\nthree\nfour\nfive")
    windows = read(tmp_path / "a.txt")
    assert [w.num_bytes for w in windows] == [8, 11, 4]


CONTENT = b"\xef\xbb\xbfone\r\n\n \r\nfo\xe2\x80\xa8ur\nbad\nsix"


@pytest.mark.parametrize("is_stream", [False, True])
def test_line_ends_byte_order_mark_and_blank_lines(tmp_path, is_stream):
    if is_stream:
        windows = reading.read_stream(
            io.BytesIO(CONTENT), "a.txt", "auto", parse
        )
    else:
        (tmp_path / "a.txt").write_bytes(CONTENT)
        windows = read(tmp_path / "a.txt")
    (window,) = windows
    assert found_lines([window]) == [
        ("a.txt", 1, b"one"),
        ("a.txt", 4, b"fo\xe2\x80\xa8ur"),  # U+2028 ends no line
        ("a.txt", 6, b"six"),
    ]
    assert window.num_blank == 2
    (problem,) = window.problems
    assert (problem.place.number, problem.reason) == (5, "it is bad")


def test_rows_of_a_table_are_objects(tmp_path):
    """A damaged row is a problem; a table is not lines of text."""
    path = tmp_path / "a.csv"
    path.write_text('n;b\n1;"x\ny"\n2\n\n3;bad\n', "utf-8-sig")
    (window,) = read(path)
    assert [(n, json.loads(row)) for _, n, row in found_lines([window])] == [
        (2, {"n": "1", "b": "x\ny"}),
        (6, {"n": "3", "b": "bad"}),
    ]
    (problem,) = window.problems
    assert (problem.place.number, problem.reason[:18]) == (
        4,
        "1 column, wanted 2",
    )
    with pytest.raises(UserError, match="a.csv is a table by its name"):
        reading.inspect(str(path), "text")


def test_queries_that_arrive_together_are_a_window():
    """Who asks through a pipe waits for the answer, and leaves it open."""
    receive, send = os.pipe()
    with os.fdopen(receive, "rb") as stream:
        windows = reading.read_stream(stream, "in", "auto", parse, True)
        for asked, wanted in (
            (b"\none\n", [(2, b"one")]),
            (b"two\nthr", [(3, b"two")]),
            (b"ee\nfour\n", [(4, b"three"), (5, b"four")]),
        ):
            os.write(send, asked)
            found = found_lines([next(windows)])
            assert [(n, line) for _, n, line in found] == wanted
        os.write(send, b"five")
        os.close(send)
        found = [(n, line) for _, n, line in found_lines(windows)]
        assert found == [(6, b"five")]


def test_a_line_that_is_too_long_is_named_and_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 1000)
    monkeypatch.setattr(reading, "_BLOCK", 64)
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n" + b"x" * 5000 + b"\nthree\n")
    (window,) = read(path)
    assert [n for _, n, _ in found_lines([window])] == [1, 3]
    (problem,) = window.problems
    assert problem.place.number == 2 and "more than" in problem.reason
    assert problem.line().endswith(f'"text": "{"x" * 200}..."}}')


def test_damage_in_a_file_is_a_problem_and_keeps_what_is_before(tmp_path):
    packed = gzip.compress(b"".join(b"%d line\n" % n for n in range(5000)))
    (tmp_path / "a.gz").write_bytes(packed[: len(packed) // 2])
    with (tmp_path / "b.tf_record").open("wb") as file:
        with tfrecord.RecordWriter(file) as writer:
            writer.write_examples({"x": np.arange(9)[:, None]})
    whole = (tmp_path / "b.tf_record").read_bytes()
    (tmp_path / "b.tf_record").write_bytes(whole[:-5])
    windows = read(tmp_path / "a.gz")
    lines = [line for *_, line in found_lines(windows)]
    assert lines and lines == [b"%d line" % n for n in range(len(lines))]
    (problem,) = [p for window in windows for p in window.problems]
    assert "gzip is damaged" in problem.reason
    (window,) = read(tmp_path / "b.tf_record")
    assert len(window.inputs) == 8
    (problem,) = window.problems
    assert problem.place == Place(str(tmp_path / "b.tf_record"), 9, "record")
    assert "cut off after 8 whole records" in problem.reason


@pytest.mark.parametrize(
    "content, kind",
    [
        (b"one\n{}", "text"),
        (b"", "text"),
        (b'\xef\xbb\xbf\n {"a": 1}', "jsonl"),
        (b"[MASK] is text", "text"),
        ("text".encode("utf-16"), "is in UTF-16: save it as UTF-8"),
        (b"te\0xt", "zero bytes"),
        (b'[\n {"a": 1}', "not one array"),
        (b"\x1f\x8bdamaged gzip.", "cannot be read"),
    ],
)
def test_the_kind_of_a_file_follows_from_its_content(tmp_path, content, kind):
    path = tmp_path / "a"
    path.write_bytes(content)
    if kind in ("text", "jsonl"):
        assert reading.inspect(str(path)).kind == kind
        return
    with pytest.raises(UserError, match=kind):
        reading.inspect(str(path))


@pytest.mark.parametrize(
    "content, kinds",
    [
        (b"\xef\xbb\xbf\n\n {}\none", {"jsonl"}),
        (b"one\n{}", {"text"}),
        (b"", set()),
        (b"PK\x03\x04\x14\0", None),
        (b"[{", None),
    ],
)
def test_the_kind_of_a_stream_follows_from_its_first_line(content, kinds):
    found = set()

    def note(place, line, kind):
        found.add(kind)
        return parse(place, line, kind)

    windows = reading.read_stream(io.BytesIO(content), "a", "auto", note)
    if kinds is None:
        with pytest.raises(UserError, match="^a "):
            list(windows)
        return
    list(windows)
    assert found == kinds


def test_a_compressed_file_without_content_is_empty(tmp_path):
    """Spark writes one for each part without a line; the others decide."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n'))
    files = reading.find_inputs(f"{tmp_path}/*.gz", "auto")
    assert [(Path(f.path).name, f.kind) for f in files] == [
        ("b.jsonl.gz", "jsonl")
    ]
