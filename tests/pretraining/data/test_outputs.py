"""A run is continued, finished or refused by what its files show."""

import logging
import os
import pathlib

import generator_runs
import pytest
import scripts
from corpora import VOCAB_FILE, manual, write


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Two files of text."""
    return generator_runs.write_corpus(tmp_path_factory.mktemp("corpus"))


def test_only_missing_files_are_made(corpus, tmp_path, caplog):
    flags = generator_runs.flags_for(corpus, tmp_path / "x@4")
    scripts.run(generator_runs.generator, **flags)
    before = generator_runs.bytes_of(tmp_path)
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    (tmp_path / "x-00002-of-00004").unlink()
    with open(tmp_path / "x-00003-of-00004", "ab") as file:
        file.write(b"junk")
    (tmp_path / ".x-00001-of-00004.999999-ab.tmp").write_text("left by a kill")
    with caplog.at_level(logging.INFO):
        scripts.run(generator_runs.generator, **flags)
    assert "it is made again" in caplog.text
    assert generator_runs.bytes_of(tmp_path) == before
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert after.keys() == times.keys()
    changed = {name for name in times if times[name] != after[name]}
    assert changed == {
        "x-00002-of-00004",
        "x-00003-of-00004",
        ".x.manifest.json",
    }


@pytest.mark.parametrize(
    "change, text",
    [
        ({"max_seq_length": 64}, "--max_seq_length was 128, is 64"),
        ({"bucket_mb": 8}, "--bucket_mb was 4, is 8"),
    ],
)
def test_another_command_is_refused(corpus, tmp_path, change, text):
    generator_runs.run(corpus, tmp_path / "x")
    before = generator_runs.bytes_of(tmp_path)
    assert text in generator_runs.error_of(corpus, tmp_path / "x", **change)
    assert generator_runs.bytes_of(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == [".x.manifest.json", "x"]


def test_another_corpus_or_vocabulary_is_refused(corpus, tmp_path):
    source = write(tmp_path / "in.txt", manual(5))
    vocab = tmp_path / "vocab.txt"
    vocab.write_bytes(pathlib.Path(VOCAB_FILE).read_bytes())
    output = tmp_path / "x"
    generator_runs.run(source, output, vocab_file=vocab)
    with open(vocab, "a") as file:
        file.write("newword\n")
    message = generator_runs.error_of(source, output, vocab_file=vocab)
    assert "vocab_file (SHA-256) was" in message
    with open(source, "a") as file:
        file.write("One more sentence.\n")
    message = generator_runs.error_of(source, output)
    assert f"--input_file, first difference at {source}" in message
    # Once the file is deleted, another command may use its name.
    output.unlink()
    generator_runs.run(source, output)
