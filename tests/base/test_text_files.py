"""UTF-8 text and JSON: what is read, and which line is wrong."""

import os

from base import text_files
from base.errors import UserError

import pytest


def test_text_has_no_byte_order_mark(tmp_path):
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfa\r\n\xc3\xa9\n")
    assert text_files.read_text(str(tmp_path / "x")) == "a\r\né\n"


def test_unreadable_text_is_one_line_of_error(tmp_path):
    (tmp_path / "x").write_bytes(b"a\nb\n\xff\n")
    with pytest.raises(UserError, match="x: line 3 is not UTF-8: byte 0xff at"):
        text_files.read_text(str(tmp_path / "x"))
    with pytest.raises(UserError, match="none: cannot be read: No such file"):
        text_files.read_text(str(tmp_path / "none"))
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        text_files.read_text(str(tmp_path))


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="cannot be read twice: give a file"):
        text_files.read_text(str(tmp_path / "pipe"))


def test_json_lines_end_at_line_feeds_alone():
    text = '{"a": 1}\n\n  \n{"b": "x\u2028y"}\r\n'
    found = list(text_files.json_objects("x", text))
    assert found == [(1, {"a": 1}), (4, {"b": "x\u2028y"})]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "x, line 2: not JSON: Expecting property name"),
        ("[1]", "x, line 2: found list, wanted a JSON object"),
        ("1" * 5000, "x, line 2: not JSON: Exceeds the limit"),
        ("[" * 100_000, "x, line 2: not JSON: .*nested too deeply"),
    ],
)
def test_a_bad_json_line_is_named(line, message):
    with pytest.raises(UserError, match=message):
        list(text_files.json_objects("x", "{}\n" + line))


def test_own_json_that_is_damaged_counts_as_missing(tmp_path):
    path = tmp_path / "x.json"
    assert text_files.read_own_json(str(path)) == {}
    for damaged in ('{"a": [1', "[" * 100_000, "\0", "[1]"):
        path.write_text(damaged)
        assert text_files.read_own_json(str(path)) == {}
    path.write_text('{"a": [1]}')
    assert text_files.read_own_json(str(path)) == {"a": [1]}


def test_numbers_by_name(tmp_path):
    path = tmp_path / "eval_results.txt"
    path.write_text("f1 = 0.5\nglobal_step = 12\nloss = nan\nsmall = 1e-05\n")
    found = text_files.read_numbers(str(path))
    assert str(found) == (
        "{'f1': 0.5, 'global_step': 12, 'loss': nan, 'small': 1e-05}"
    )
    for damaged in ("a = b\n", "a\n", "a = 1 = 2\n"):
        path.write_text(damaged)
        with pytest.raises(UserError, match="txt is damaged .*: make it again"):
            text_files.read_numbers(str(path), ": make it again")
