"""create_pretraining_data.py: bytes, interruptions, mistakes, log lines."""

import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import time

import generator_runs
import numpy as np
import pytest
from absl import flags
from corpora import VOCAB_FILE, manual, write
from paths import ROOT

from pretraining.data import generation
from pretraining.data import schema as pretraining_schema
from records import tfrecord


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Two files of text."""
    return generator_runs.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.slow
def test_records_have_the_schema_and_the_originals_ids(corpus, tmp_path):
    generator_runs.run(corpus, tmp_path / "x", compression="GZIP")
    assert sorted(os.listdir(tmp_path)) == [".x.manifest.json", "x"]
    assert tfrecord.is_gzip(str(tmp_path / "x"))
    schema = pretraining_schema.schema(128, 20)
    count = 0
    for record in tfrecord.read_records(str(tmp_path / "x")):
        features = tfrecord.decode_example(record)
        assert features.keys() == schema.keys()
        for name, feature in schema.items():
            assert len(features[name]) == feature.length
            assert features[name].dtype == feature.dtype
        assert features["input_ids"][0] == 101
        length = features["input_mask"].sum()
        assert features["input_ids"][length - 1] == 102
        assert not features["input_ids"][length:].any()
        count += 1
    manifest = json.loads((tmp_path / ".x.manifest.json").read_text())
    (entry,) = manifest["files"].values()
    assert entry["counts"]["instances"] == count > 1000


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_workers(corpus, tmp_path):
    for workers in (1, 3):
        output = tmp_path / str(workers) / "x@5"
        generator_runs.run(corpus, output, num_workers=workers)
    first = generator_runs.bytes_of(tmp_path / "1")
    assert sorted(first) == [f"x-{i:05}-of-00005" for i in range(5)]
    assert first == generator_runs.bytes_of(tmp_path / "3")
    assert len(set(first.values())) == 5


@pytest.mark.slow
def test_packed_records_hold_the_sequences_of_unpacked_ones(
    corpus, tmp_path, caplog
):
    """The same seed draws the same sequences; rows have the schema."""
    generator_runs.run(corpus, tmp_path / "single")
    with caplog.at_level(logging.INFO):
        for name, workers in (("one@3", 1), ("two@3", 2)):
            generator_runs.run(
                corpus,
                tmp_path / name,
                pack_sequences=True,
                num_workers=workers,
            )
    data = generator_runs.bytes_of(tmp_path)
    found = [data[f"one-{i:05}-of-00003"] for i in range(3)]
    assert found == [data[f"two-{i:05}-of-00003"] for i in range(3)]
    schema = pretraining_schema.packed_schema(128, 20, 8)
    lengths, rows, predictions = [], 0, 0
    for index in range(3):
        path = str(tmp_path / f"one-{index:05}-of-00003")
        for record in tfrecord.read_records(path):
            features = tfrecord.decode_example(record)
            assert {k: (str(v.dtype), len(v)) for k, v in features.items()} == {
                name: feature[:2] for name, feature in schema.items()
            }
            lengths += np.bincount(features["sequence_ids"])[1:].tolist()
            predictions += int(features["masked_lm_weights"].sum())
            rows += 1
    single = [
        int(tfrecord.decode_example(record)["input_mask"].sum())
        for record in tfrecord.read_records(str(tmp_path / "single"))
    ]
    assert sorted(lengths) == sorted(single)
    fill = sum(lengths) / rows / 128
    assert fill > 0.97
    assert f"fill: {fill:.2%} of the rows' tokens" in caplog.text
    unused = 20 * rows - predictions
    assert f"{unused:,} of {20 * rows:,} unused" in caplog.text


@pytest.mark.slow
def test_killed_at_any_moment(corpus, tmp_path):
    """After any number of kill -9 the bytes are those of a whole run."""
    flags = generator_runs.flags_for(
        corpus, tmp_path / "whole" / "x@3", num_workers=2
    )
    flags.update(dupe_factor=40, random_seed=3)
    start = time.monotonic()
    subprocess.run(
        generator_runs.command(flags), check=True, capture_output=True
    )
    seconds = time.monotonic() - start
    flags["output_file"] = str(tmp_path / "killed" / "x@3")
    rng, kills, finished = random.Random(3), 0, False
    while not finished:
        process = subprocess.Popen(
            generator_runs.command(flags),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            # After ten kills let it end, however slow the machine is.
            limit = None if kills >= 10 else rng.uniform(0.2, seconds)
            process.wait(limit)
            finished = True
            assert process.returncode == 0
        except subprocess.TimeoutExpired:
            kills += 1
            # Its workers too, or the parent alone.
            if kills % 2:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
    assert generator_runs.bytes_of(
        tmp_path / "killed"
    ) == generator_runs.bytes_of(tmp_path / "whole")
    names = set(os.listdir(tmp_path / "killed"))
    assert names == set(os.listdir(tmp_path / "whole"))


def test_interrupt_is_clean(corpus, tmp_path):
    flags = generator_runs.flags_for(
        corpus, tmp_path / "x", num_workers=2, dupe_factor=100
    )
    process = subprocess.Popen(
        generator_runs.command(flags),
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(tmp_path.glob(".x.scratch/chunk-*.json")):
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(0.5)  # the workers work by now
    os.killpg(process.pid, signal.SIGINT)
    error = process.communicate(timeout=300)[1]
    assert process.returncode == 1
    assert "Traceback" not in error
    assert "\r" not in error, "a bar was drawn into a pipe"
    assert error.endswith("ERROR: interrupted\n")
    assert "Give the same command again to resume" in error


@pytest.mark.parametrize(
    "flags, text",
    [
        ({"input_file": None}, "give --input_file or --sources"),
        ({"masked_lm_prob": 0}, "--masked_lm_prob=0: 0.0 is not a number"),
        ({"mask_token_prob": 0.95}, "add up to 1.05; together they can be 1"),
        ({"max_sequences_per_pack": 4}, "max_sequences_per_pack needs --pack"),
        (
            {"pack_sequences": True, "max_sequences_per_pack": 26},
            "_pack=26: must be from 2 to 25",
        ),
        ({"input_file": "/no/*.txt"}, "no file matches '/no/*.txt'"),
        ({"input_file": ","}, "--input_file is empty"),
        ({"output_file": "x@0"}, "--output_file=x@0: wanted name@N"),
        ({"output_file": "x@" + "9" * 5000}, "wanted name@N"),
        ({"output_file": "/tmp/"}, "'/tmp/' is not a file name"),
        ({"output_file": "a,/tmp"}, "/tmp is a directory; add a file name"),
        ({"output_file": "a,b,./a"}, "/a is named twice"),
        ({"output_file": "/dev/stdin,/proc/self/fd/0"}, "is named twice"),
        ({"output_file": f"{VOCAB_FILE}/x"}, "File exists"),
        ({"vocab_file": "/no/vocab"}, "/no/vocab"),
    ],
)
def test_bad_flags(corpus, tmp_path, monkeypatch, flags, text):
    monkeypatch.chdir(tmp_path)
    assert text in generator_runs.error_of(corpus, tmp_path / "x", **flags)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "flag, value",
    [
        ("random_seed", -1),
        ("random_seed", 2**32),
        ("num_workers", 100_000),
        ("max_seq_length", 10**8),
        ("max_predictions_per_seq", 10**14),
        ("dupe_factor", 10**20),
    ],
)
def test_numbers_that_are_refused(corpus, tmp_path, flag, value):
    with pytest.raises(flags.IllegalFlagValueError, match=flag):
        generator_runs.run(corpus, tmp_path / "x", **{flag: value})


@pytest.mark.slow
@pytest.mark.parametrize(
    "data, text",
    [
        (b"", "no document with text"),
        (b"\x01\n\n\x02\n", "no document with text"),
        (b"a\nb\n\nc\nabc\xe9 f\n", "in.txt: line 5 is not UTF-8"),
        (b"x " * 5_000_000, "line 1 is longer than 4 MB (--bucket_mb)"),
    ],
)
def test_bad_text(tmp_path, data, text):
    source = tmp_path / "in.txt"
    source.write_bytes(data)
    assert text in generator_runs.error_of(str(source), tmp_path / "out" / "x")
    # No file is left, so the same command works once the input is mended.
    assert os.listdir(tmp_path / "out") == []
    if not data:
        write(source, manual(4))
        generator_runs.run(str(source), tmp_path / "out" / "x")


def test_vocabulary_must_have_what_is_needed(corpus, tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\nthe\n")
    message = generator_runs.error_of(corpus, tmp_path / "x", vocab_file=vocab)
    assert "[SEP] [MASK] missing" in message
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    message = generator_runs.error_of(corpus, tmp_path / "x", vocab_file=vocab)
    assert "nothing to draw random replacements from" in message


def test_examples_and_summary_are_logged(corpus, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(generation, "_NUMBERS_LOGGED", 140)
    with caplog.at_level(logging.INFO):
        generator_runs.run(
            corpus, tmp_path / "long", max_seq_length=200, dupe_factor=1
        )
    lines = [record.getMessage() for record in caplog.records]
    sizes = [len(x.split()) for x in lines if x.startswith("input_ids: ")]
    assert sizes == [1 + 140]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        generator_runs.run(corpus, tmp_path / "x")
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert text.count("*** Example ***") == 1
    tokens = re.findall(r"^tokens: (\[CLS\] .*)$", text, re.M)
    ids = re.findall(r"^input_ids: (.*)$", text, re.M)
    assert len(tokens) == len(ids) == 1
    first = next(tfrecord.read_records(str(tmp_path / "x")))
    features = tfrecord.decode_example(first)
    assert ids[0].split() == list(map(str, features["input_ids"]))
    length = features["input_mask"].sum()
    assert tokens[0].split()[0] == "[CLS]"
    assert len(tokens[0].split()) == length
    count = tfrecord.count_records(str(tmp_path / "x"))
    assert f"Wrote {count:,} sequences of " in text
    assert f" tokens on average to {tmp_path}/x, of 60 documents" in text


def test_generator_needs_no_tensorflow():
    code = (
        "import sys, create_pretraining_data, pretraining.data.steps\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
    )
