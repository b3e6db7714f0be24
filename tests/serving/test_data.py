"""Reading of shards: every line once, with its number; damage is named."""

import gzip
import io
import os
from pathlib import Path

from base import errors

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import tfrecord
from serving import data, plan
from serving.data import BadInput, Input, InputFile, Place


def parse(place: Place, line: bytes, kind: str) -> Input:
    """Return the line as an input; "bad" is a bad one."""
    if line == b"bad":
        raise BadInput("it is bad")
    return Input(str(place), place, {"line": line})


def read(files: list[InputFile], num_shards: int, **more) -> list[data.Window]:
    """Return the windows of all shards."""
    shards = data.make_shards(files, num_shards)
    firsts = data.lines_before(
        shards, lambda number: data.count_line_ends(shards[number][-1])
    )
    return [
        window
        for shard, first in zip(shards, firsts, strict=True)
        for window in data.read_windows(shard, first, parse, **more)
    ]


def inspect(path) -> InputFile:
    return data.inspect(str(path), os.path.getsize(path))


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
    contents=st.lists(LINES, min_size=1, max_size=3),
    ends=st.booleans(),
    num_shards=st.integers(1, 40),
    window=st.integers(1, 5),
)
def test_every_line_is_in_one_shard_with_its_number(
    tmp_path_factory, contents, ends, num_shards, window
):
    folder = tmp_path_factory.mktemp("lines")
    files, wanted = [], []
    for number, lines in enumerate(contents):
        path = folder / f"{number}.txt"
        data_ = "\n".join(lines).encode() + b"\n" * ends
        path.write_bytes(data_)
        files.append(inspect(path))
        wanted += [
            (path.name, at, line.encode().removesuffix(b"\r"))
            for at, line in enumerate(lines, 1)
        ]
    windows = read(files, num_shards, window_inputs=window)
    assert found_lines(windows) == wanted
    assert max(len(w.inputs) for w in windows) <= window
    shards = data.make_shards(files, num_shards)
    assert len(shards) <= num_shards and all(shards)


def test_files_that_cannot_be_cut_stay_whole(tmp_path):
    """A compressed file is in the shard in which its first byte lies."""
    for name, count in (("a.txt", 10), ("c.txt", 10)):
        (tmp_path / name).write_text("line\n" * count)
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(b"packed\n" * 3)
    names = ("a.txt", "b.txt.gz", "c.txt")
    files = [inspect(tmp_path / name) for name in names]
    assert [file.is_gzip for file in files] == [False, True, False]
    shards = data.make_shards(files, 6)
    holders = [s for s in shards if any(x.file.is_gzip for x in s)]
    assert len(holders) == 1
    found = found_lines(read(files, 6))
    assert [number for name, number, _ in found if name == "b.txt.gz"] == [
        1,
        2,
        3,
    ]
    assert len(found) == 23


def test_line_ends_byte_order_mark_and_blank_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n \r\nfo\xe2\x80\xa8ur\nbad\nsix")
    (window,) = read([inspect(path)], 1)
    assert found_lines([window]) == [
        ("a.txt", 1, b"one"),
        ("a.txt", 4, b"fo\xe2\x80\xa8ur"),  # U+2028 ends no line
        ("a.txt", 6, b"six"),
    ]
    assert window.num_blank == 2
    (problem,) = window.problems
    assert (problem.place.number, problem.reason) == (5, "it is bad")


def test_a_stream_is_read_as_a_file_is(tmp_path):
    content = b"\xef\xbb\xbf\n one\r\n\n{bad\nbad\nsix"
    (tmp_path / "a").write_bytes(content)
    wanted = read([inspect(tmp_path / "a")], 1)
    stream = io.BytesIO(content)
    found = list(data.read_stream(stream, "a", "auto", parse))
    assert found_lines(found) == found_lines(wanted)
    assert found_lines(found)[-1] == ("a", 6, b"six")
    assert [window.num_blank for window in found] == [2]
    assert [p.place.number for p in found[0].problems] == [5]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\xef\xbb\xbf\n\n {}\none", "jsonl"),
        (b"one\n{}", "text"),
        (b"", None),
    ],
)
def test_the_kind_of_a_stream_follows_from_its_first_line(content, kind):
    kinds = set()

    def note(place, line, kind):
        kinds.add(kind)
        return parse(place, line, kind)

    list(data.read_stream(io.BytesIO(content), "a", "auto", note))
    assert kinds == ({kind} if kind else set())


def test_a_stream_that_is_no_text_is_refused():
    for content in (b"PK\x03\x04\x14\0", b"[{", b"a\0b"):
        with pytest.raises(errors.UserError, match="^a "):
            list(data.read_stream(io.BytesIO(content), "a", "auto", parse))


@pytest.mark.parametrize("num_shards", [1, 7])
def test_a_line_that_is_too_long_is_named_and_skipped(
    tmp_path, monkeypatch, num_shards
):
    monkeypatch.setattr(data, "LONGEST_LINE", 100)
    monkeypatch.setattr(data, "_BLOCK", 64)
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n" + b"x" * 1000 + b"\nthree\n")
    windows = read([inspect(path)], num_shards)
    assert [line for *_, line in found_lines(windows)] == [b"one", b"three"]
    (problem,) = [p for window in windows for p in window.problems]
    assert problem.place.number == 2 and "more than" in problem.reason
    assert [n for _, n, _ in found_lines(windows)] == [1, 3]


def test_damage_in_a_file_is_a_problem_and_keeps_what_is_before(tmp_path):
    packed = gzip.compress(b"".join(b"%d line\n" % n for n in range(5000)))
    (tmp_path / "a.gz").write_bytes(packed[: len(packed) // 2])
    with (tmp_path / "b.tf_record").open("wb") as file:
        with tfrecord.RecordWriter(file) as writer:
            writer.write_examples({"x": np.arange(9)[:, None]})
    whole = (tmp_path / "b.tf_record").read_bytes()
    (tmp_path / "b.tf_record").write_bytes(whole[:-5])
    windows = read([inspect(tmp_path / "a.gz")], 1)
    lines = [line for *_, line in found_lines(windows)]
    assert lines and lines == [b"%d line" % n for n in range(len(lines))]
    (problem,) = [p for window in windows for p in window.problems]
    assert "gzip is damaged" in problem.reason
    (window,) = read([inspect(tmp_path / "b.tf_record")], 1)
    assert len(window.inputs) == 8
    (problem,) = window.problems
    assert problem.place == Place(str(tmp_path / "b.tf_record"), 9, "record")
    assert "cut off after 8 whole records" in problem.reason


@pytest.mark.parametrize(
    "content, kind",
    [
        (b"text", "text"),
        (b"", "text"),
        (b'\xef\xbb\xbf\n {"a": 1}', "jsonl"),
        (b"[MASK] is text", "text"),
        ("text".encode("utf-16"), "zero bytes"),
        (b"te\0xt", "zero bytes"),
        (b'[\n {"a": 1}', "not one array"),
        (b"\x1f\x8bdamaged gzip.", "damaged"),
    ],
)
def test_the_kind_of_a_file_follows_from_its_content(tmp_path, content, kind):
    path = tmp_path / "a"
    path.write_bytes(content)
    if kind in ("text", "jsonl"):
        assert inspect(path).kind == kind
    else:
        with pytest.raises(errors.UserError, match=kind):
            inspect(path)


def test_a_bad_line_is_shown_shortened():
    place = Place("a.jsonl", 3)
    line = data.Problem(place, "why", "é" * 500).line()
    assert '"file": "a.jsonl", "line": 3, "reason": "why"' in line
    assert line.count("é") == 200 and line.endswith('..."}')


def test_a_compressed_file_without_content_is_empty(tmp_path):
    """Spark writes one for each part without a line; the others decide."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n'))
    files = plan.find_inputs(f"{tmp_path}/*.gz", "auto")
    assert [(Path(f.path).name, f.kind) for f in files] == [
        ("b.jsonl.gz", "jsonl")
    ]
