"""base/resuming.py: locks, states of files, differences of commands."""

import os

from base import resuming
from base.errors import UserError

import pytest


def test_state_of_a_file(tmp_path):
    path = tmp_path / "x"
    assert resuming.file_state(str(path)) is None
    path.write_bytes(b"abc")
    os.utime(path, ns=(5, 7_000_000_001))
    assert resuming.file_state(str(path)) == [3, 7_000_000_001]


def test_absolute_paths(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert resuming.absolute_path("a/../b") == f"{tmp_path}/b"
    assert resuming.absolute_path("~/a") == "/home/me/a"
    assert resuming.absolute_path("gs://a/b") == "gs://a/b"


def test_a_folder_is_locked_and_removed_if_empty(tmp_path):
    folder = str(tmp_path / "a" / "b")
    with resuming.locked_folder(folder, "the text"):
        with pytest.raises(UserError, match="another run is writing the text"):
            with resuming.locked_folder(folder, "the text"):
                pass
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)
    with resuming.locked_folder(folder, "the text"):
        open(f"{folder}/x", "w").close()
    assert os.listdir(folder) == ["x"]
    resuming.empty_folder(folder)
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"a": 1.5, "b": 2}, ["--a was 1, is 1.5"]),
        ({}, {"a": True}, ["--a was None, is True"]),
        ({"a": 1}, {}, ["--a was 1, is None"]),
        (
            {"version of x": "1"},
            {"version of x": "2"},
            ["version of x was 1, is 2"],
        ),
        (
            {"f": [["/a", 1, 2], ["/b", 1, 2]]},
            {"f": [("/a", 1, 2), ("/b", 1, 3)]},
            [
                "--f, first difference at /b (the same size, another time of "
                "change)"
            ],
        ),
        (
            {"f": [["/a", 1, 2]]},
            {"f": [["/a", 3, 2]]},
            ["--f, first difference at /a (1 bytes, now 3)"],
        ),
        ({"f": ["/a"]}, {"f": ["/a", "/c"]}, ["--f, first difference at /c"]),
        (
            {"f": ["/a", "/b"]},
            {"f": ["/b", "/a"]},
            ["--f, first difference at /b"],
        ),
    ],
)
def test_differences_are_named(old, new, expected):
    assert resuming.differences(old, new) == expected
