"""Beam's file systems behind the functions of tf.io.gfile."""

from base import beam_files

import pytest
import tensorflow as tf


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_results_are_those_of_tf_io_gfile(tmp_path, prefix):
    root = f"{prefix}{tmp_path}"
    for files in (beam_files, tf.io.gfile):
        folder = f"{root}/{files.__name__}/a/b"
        files.makedirs(folder)
        files.makedirs(folder)
        for name, text in {"one": b"1", "two": b"12", "three": b"678"}.items():
            with files.GFile(f"{folder}/{name}", "wb") as file:
                file.write(text)
        files.rename(f"{folder}/one", f"{folder}/two", overwrite=True)
        with files.GFile(f"{folder}/gone", "wb") as file:
            file.write(b"9")
        files.remove(f"{folder}/gone")

    def seen(files):
        folder = f"{root}/{files.__name__}/a/b"
        with files.GFile(f"{folder}/two", "rb") as file:
            content = file.read()
        return (
            content,
            files.exists(folder),
            files.exists(f"{folder}/two"),
            files.exists(f"{folder}/one"),
            files.isdir(folder),
            files.isdir(f"{folder}/two"),
            files.stat(f"{folder}/three").length,
            [
                path.replace(files.__name__, "x")
                for path in sorted(files.glob(f"{folder}/t*"))
            ],
            sorted(
                name for _, _, names in files.walk(folder) for name in names
            ),
        )

    assert seen(beam_files) == seen(tf.io.gfile)
    assert seen(beam_files)[0] == b"1"
