"""Text to record files: bytes, interruptions, refusals, what is told."""

import collections
import json
import logging
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import time

from base.errors import UserError

import numpy as np
import pytest
import scripts
from corpora import VOCAB_FILE, manual, write
from paths import ROOT

from pretraining import buckets as pretraining_buckets
from pretraining import instances as pretraining_instances
from records import tfrecord

generator = scripts.load("create_pretraining_data")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Two files; together enough for several documents in each bucket."""
    folder = tmp_path_factory.mktemp("corpus")
    pages = manual(60)
    write(folder / "a.txt", pages[:25])
    write(folder / "b.txt", pages[25:])
    return f"{folder}/a.txt,{folder}/b*.txt"


def _flags(corpus: str, output: pathlib.Path | str, **more) -> dict:
    return {
        "input_file": corpus,
        "output_file": str(output),
        "vocab_file": VOCAB_FILE,
        "dupe_factor": 2,
        "num_workers": 1,
        **more,
    }


def _bytes_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if not path.name.startswith(".")
    }


def _error(corpus, output, **more) -> str:
    return scripts.error_of(generator, **_flags(corpus, output, **more))


def _small_buckets(flags: dict, bucket_bytes: int):
    """A plan as main makes it, with more buckets than 1 MB of text has."""
    names = ("input_file", "output_file", "vocab_file")
    config = generator.InstanceConfig(dupe_factor=flags["dupe_factor"])
    plan = generator.make_plan(*(flags[name] for name in names), config)
    per_file = -(-plan.input_bytes // (len(plan.output_files) * bucket_bytes))
    return plan._replace(bucket_bytes=bucket_bytes, buckets_per_file=per_file)


# ---------------------------------------------------------------------------
# What is written
# ---------------------------------------------------------------------------


def test_records_have_the_schema_and_the_originals_ids(corpus, tmp_path):
    scripts.run(generator, **_flags(corpus, tmp_path / "x"))
    assert sorted(os.listdir(tmp_path)) == [".x.manifest.json", "x"]
    schema = pretraining_instances.schema(128, 20)
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


def test_bytes_do_not_depend_on_the_workers(corpus, tmp_path):
    for workers in (1, 2, 3):
        output = tmp_path / str(workers) / "x@5"
        scripts.run(generator, **_flags(corpus, output, num_workers=workers))
    first = _bytes_of(tmp_path / "1")
    assert sorted(first) == [f"x-{i:05}-of-00005" for i in range(5)]
    assert first == _bytes_of(tmp_path / "2") == _bytes_of(tmp_path / "3")
    assert len(set(first.values())) == 5


def test_bytes_depend_on_the_seed(corpus, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2), ("d", -1)):
        scripts.run(
            generator, **_flags(corpus, tmp_path / name, random_seed=seed)
        )
    data = _bytes_of(tmp_path)
    assert data["a"] == data["b"]
    assert len({data["a"], data["c"], data["d"]}) == 3


def test_gzip_holds_the_same_records(corpus, tmp_path):
    import tensorflow as tf

    scripts.run(generator, **_flags(corpus, tmp_path / "plain"))
    scripts.run(
        generator, **_flags(corpus, tmp_path / "gz", compression="GZIP")
    )
    plain = list(tfrecord.read_records(str(tmp_path / "plain")))
    assert plain == list(tfrecord.read_records(str(tmp_path / "gz")))
    dataset = tf.data.TFRecordDataset(
        str(tmp_path / "gz"), compression_type="GZIP"
    )
    assert plain == [record.numpy() for record in dataset]
    sizes = [os.path.getsize(tmp_path / name) for name in ("plain", "gz")]
    assert sizes[1] < sizes[0] / 3


def test_many_buckets_make_each_file(corpus, tmp_path):
    """Bounded memory: no bucket is larger for having fewer files."""
    flags = _flags(corpus, tmp_path / "x@2")
    plan = _small_buckets(flags, 40_000)
    assert plan.num_buckets >= 8
    counts = generator.generate(plan, 2)
    assert counts["documents"] == 60
    written = sum(
        tfrecord.count_records(str(tmp_path / f"x-0000{i}-of-00002"))
        for i in (0, 1)
    )
    assert written == counts["instances"]
    # The long pages of the manual were dealt out in parts.
    assert counts["parts"] > 60
    lines = sum(len(page) for page in manual(60))
    assert counts["sentences"] + counts["lines_without_tokens"] == lines


def test_passes_follow_one_another(tmp_path):
    """All of the text comes once before any of it comes again."""
    documents = [
        [f"{a} {b} {a}" for b in "uvwxyz"] for a in "abcdefghijklmnopqrst"
    ]
    source = write(tmp_path / "in.txt", documents)
    flags = _flags(source, tmp_path / "x", dupe_factor=6)
    plan = _small_buckets(flags, 300)
    assert plan.num_buckets > 2
    generator.generate(plan, 1)
    sequences = [
        tfrecord.decode_example(record)
        for record in tfrecord.read_records(str(tmp_path / "x"))
    ]
    firsts = []
    for features in sequences:
        ids = features["input_ids"].copy()
        count = int(features["masked_lm_weights"].sum())
        positions = features["masked_lm_positions"][:count]
        ids[positions] = features["masked_lm_ids"][:count]
        firsts.append(int(ids[1]))
    size = len(firsts) // 6
    for start in range(0, 6 * size, size):
        assert len(set(firsts[start : start + size])) >= 18
    # Shuffled within a pass, and differently in each.
    assert len({tuple(firsts[i : i + 10]) for i in range(0, 60, size)}) > 1


def test_documents_end_with_their_file(tmp_path):
    """Two files without a blank line at the end are two documents."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    (tmp_path / "b.txt").write_text("four\nfive\n \t\n\x85\nsix\n\n\n")
    seen = [
        part
        for name in "ab"
        for part in pretraining_buckets._read_parts(
            str(tmp_path / f"{name}.txt"), 100, 1000, lambda n: None
        )
    ]
    expected = [b"one\ntwo\nthree", b"four\nfive", b"six"]
    assert seen == [(True, text) for text in expected]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 50])
def test_blocks_do_not_show(tmp_path, monkeypatch, block):
    monkeypatch.setattr(pretraining_buckets, "_BLOCK_BYTES", block)
    text = "\n\nerste Zeile\r\n\u2028zwei\u00e4\n\n\n \n\u4e2d\n" * 3 + "Ende"
    (tmp_path / "x").write_bytes(text.encode())
    parts = list(
        pretraining_buckets._read_parts(
            str(tmp_path / "x"), 999, 999, lambda n: None
        )
    )
    lines = text.split("\n")
    documents = [[]]
    for line in lines:
        if line.strip():
            documents[-1].append(line)
        elif documents[-1]:
            documents.append([])
    assert [text.decode().split("\n") for _, text in parts] == documents


def test_every_bucket_is_a_random_sample_of_equal_size(tmp_path):
    documents = [[f"document {i} end"] for i in range(1000)]
    source = write(tmp_path / "in.txt", documents)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    pretraining_buckets.deal_documents(
        [source], 10, 2**20, 7, str(scratch), lambda n: None
    )
    seen = []
    for bucket in range(10):
        parts = list(pretraining_buckets._read_bucket(str(scratch), bucket))
        numbers = [number for number, _ in parts]
        assert len(numbers) == 100 and numbers == sorted(numbers)
        assert 400 < np.mean(numbers) < 600
        assert all(text == f"document {n} end" for n, text in parts)
        seen += numbers
    assert sorted(seen) == list(range(1000))


def test_as_many_files_as_documents(tmp_path):
    """A bucket of one document borrows random next sentences elsewhere."""
    words = "zero one two three four five six".split()
    documents = [[f"{word} {word}"] * 9 for word in words]
    source = write(tmp_path / "in.txt", documents)
    counts = scripts.run(generator, **_flags(source, tmp_path / "x@7"))
    assert counts is None
    mixed = collections.Counter()
    for index in range(7):
        path = str(tmp_path / f"x-{index:05}-of-00007")
        for record in tfrecord.read_records(path):
            features = tfrecord.decode_example(record)
            ids = features["input_ids"].copy()
            count = int(features["masked_lm_weights"].sum())
            ids[features["masked_lm_positions"][:count]] = features[
                "masked_lm_ids"
            ][:count]
            a = set(ids[(features["segment_ids"] == 0)].tolist())
            b = set(ids[features["segment_ids"] == 1].tolist())
            is_random = features["next_sentence_labels"][0]
            assert len(a & b - {102}) == (not is_random)
            mixed[is_random] += 1
    assert mixed[0] > 5 and mixed[1] > 5
    assert "only 7 documents" in _error(source, tmp_path / "y@8")


# ---------------------------------------------------------------------------
# Interruptions and refusals
# ---------------------------------------------------------------------------


def _command(flags: dict) -> list[str]:
    script = str(ROOT / "create_pretraining_data.py")
    return [sys.executable, script] + [
        f"--{name}={value}" for name, value in flags.items()
    ]


@pytest.mark.parametrize(
    "output, whole_group", [("x@3", True), ("x", True), ("x@3", False)]
)
def test_killed_at_any_moment(corpus, tmp_path, output, whole_group):
    """kill -9, again and again: the same bytes as without."""
    flags = _flags(corpus, tmp_path / "whole" / output, num_workers=2)
    flags.update(dupe_factor=40, random_seed=3)
    start = time.monotonic()
    subprocess.run(_command(flags), check=True, capture_output=True)
    seconds = time.monotonic() - start
    flags["output_file"] = str(tmp_path / "killed" / output)
    rng, kills, finished = random.Random(output), 0, False
    while not finished:
        process = subprocess.Popen(
            _command(flags),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            # Past ten kills let it end, however slow the machine.
            limit = None if kills >= 10 else rng.uniform(0.2, seconds)
            process.wait(limit)
            finished = True
            assert process.returncode == 0
        except subprocess.TimeoutExpired:
            kills += 1
            if whole_group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
    assert _bytes_of(tmp_path / "killed") == _bytes_of(tmp_path / "whole")
    names = set(os.listdir(tmp_path / "killed"))
    assert names == set(os.listdir(tmp_path / "whole"))


def test_interrupt_is_clean(corpus, tmp_path):
    flags = _flags(corpus, tmp_path / "x", num_workers=2, dupe_factor=100)
    process = subprocess.Popen(
        _command(flags),
        start_new_session=True,
        # A shell that runs the tests in the background ignores Ctrl-C, and
        # children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / ".x.scratch" / "corpus.json").exists():
        time.sleep(0.005)
    time.sleep(0.5)  # the workers work by now
    os.killpg(process.pid, signal.SIGINT)
    error = process.communicate(timeout=300)[1]
    assert process.returncode == 1
    assert "Traceback" not in error
    assert error.endswith("ERROR: interrupted\n")
    assert "same command goes on" in error


def test_only_missing_files_are_made(corpus, tmp_path, caplog):
    flags = _flags(corpus, tmp_path / "x@4")
    scripts.run(generator, **flags)
    before = _bytes_of(tmp_path)
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    (tmp_path / "x-00002-of-00004").unlink()
    with open(tmp_path / "x-00003-of-00004", "ab") as file:
        file.write(b"junk")
    (tmp_path / ".x-00001-of-00004.123.tmp").write_text("left by a kill")
    with caplog.at_level(logging.INFO):
        scripts.run(generator, **flags)
    assert "it is made again" in caplog.text
    assert _bytes_of(tmp_path) == before
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert after.keys() == times.keys()
    changed = {name for name in times if times[name] != after[name]}
    assert changed == {
        "x-00002-of-00004",
        "x-00003-of-00004",
        ".x.manifest.json",
    }


def test_a_finished_command_says_so(corpus, tmp_path, caplog):
    flags = _flags(corpus, tmp_path / "x")
    scripts.run(generator, **flags)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    with caplog.at_level(logging.INFO):
        scripts.run(generator, **{**flags, "num_workers": 2})
    assert "has run to its end before" in caplog.text
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}


@pytest.mark.parametrize(
    "change, text",
    [
        ({"max_seq_length": 64}, "--max_seq_length was 128, is 64"),
        ({"masked_lm_prob": 0.2}, "--masked_lm_prob was 0.15, is 0.2"),
        ({"do_whole_word_mask": True}, "--do_whole_word_mask was False"),
        ({"compression": "GZIP"}, "--compression was , is GZIP"),
        ({"random_seed": 1}, "--random_seed was 12345, is 1"),
        ({"bucket_mb": 8}, "--bucket_mb was 4, is 8"),
    ],
)
def test_another_command_is_refused(corpus, tmp_path, change, text):
    scripts.run(generator, **_flags(corpus, tmp_path / "x"))
    before = _bytes_of(tmp_path)
    assert text in _error(corpus, tmp_path / "x", **change)
    assert _bytes_of(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == [".x.manifest.json", "x"]


def test_another_corpus_or_vocabulary_is_refused(corpus, tmp_path):
    source = write(tmp_path / "in.txt", manual(5))
    vocab = tmp_path / "vocab.txt"
    vocab.write_bytes(pathlib.Path(VOCAB_FILE).read_bytes())
    output = tmp_path / "x"
    scripts.run(generator, **_flags(source, output, vocab_file=vocab))
    with open(vocab, "a") as file:
        file.write("newword\n")
    message = _error(source, output, vocab_file=vocab)
    assert "vocab_file (SHA-256) was" in message
    with open(source, "a") as file:
        file.write("One more sentence.\n")
    message = _error(source, output)
    assert f"--input_file, first difference at {source}" in message
    # Gone is gone: without the file the name is free.
    output.unlink()
    scripts.run(generator, **_flags(source, output))


def test_other_peoples_files_are_not_overwritten(corpus, tmp_path):
    (tmp_path / "x").write_text("precious")
    assert "exists and is not of this command" in _error(corpus, tmp_path / "x")
    assert (tmp_path / "x").read_text() == "precious"
    assert os.listdir(tmp_path) == ["x"]


def test_two_runs_at_once(corpus, tmp_path):
    plan = _small_buckets(_flags(corpus, tmp_path / "x"), 10**6)
    with generator.outputs_lib.locked_scratch(plan):
        message = _error(corpus, tmp_path / "x")
    assert "another run is writing" in message


def test_remote_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    source = "file://" + write(tmp_path / "in.txt", manual(9))
    for output in (f"file://{tmp_path}/far/x@2", tmp_path / "near" / "x@2"):
        scripts.run(generator, **_flags(source, output))
    assert _bytes_of(tmp_path / "far") == _bytes_of(tmp_path / "near")
    assert len(os.listdir(tmp_path / "far")) == 3
    assert sorted(os.listdir(tmp_path)) == ["far", "in.txt", "near"]


# ---------------------------------------------------------------------------
# Mistakes
# ---------------------------------------------------------------------------


def _limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, 2**18))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def test_a_disk_that_takes_no_more(corpus, tmp_path):
    """As a full disk, which a test cannot have: files end at 256 KB."""
    flags = _flags(corpus, tmp_path / "x", dupe_factor=1)
    result = subprocess.run(
        _command(flags),
        preexec_fn=_limit_file_size,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"ERROR: {tmp_path}/x: File too large; mend that")
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "x").exists()
    scripts.run(generator, **flags)
    assert tfrecord.count_records(str(tmp_path / "x")) > 500


@pytest.mark.parametrize(
    "flags, text",
    [
        ({"max_seq_length": 7}, "--max_seq_length=7: must be at least 8"),
        ({"max_predictions_per_seq": 0}, "_per_seq=0: must be at least 1"),
        ({"dupe_factor": 0}, "--dupe_factor=0: must be at least 1"),
        ({"masked_lm_prob": 0}, "--masked_lm_prob=0: nothing would be"),
        ({"masked_lm_prob": 15}, "prob=15.0: must be between 0 and 1"),
        ({"short_seq_prob": -0.1}, "--short_seq_prob=-0.1: must be between"),
        ({"mask_token_prob": 0.95}, "add up to 1.05; together they can be 1"),
        ({"compression": "gzip"}, "--compression=gzip: unknown; use GZIP"),
        ({"bucket_mb": 0}, "--bucket_mb=0: must be from 1 to 1024"),
        ({"input_file": "/no/*.txt"}, "no file matches '/no/*.txt'"),
        ({"input_file": str(ROOT)}, "is a directory; use"),
        ({"input_file": ","}, "--input_file is empty"),
        ({"output_file": "x@0"}, "--output_file=x@0: wanted name@N"),
        ({"output_file": "/tmp/"}, "'/tmp/' is no file name"),
        ({"output_file": "a,"}, "'' is no file name"),
        ({"output_file": "a,b,./a"}, "/a is named twice"),
        ({"output_file": "/proc/none/x"}, "/proc/none: No such file"),
        ({"output_file": f"{VOCAB_FILE}/x"}, "File exists"),
        ({"vocab_file": "/no/vocab"}, "/no/vocab"),
    ],
)
def test_bad_flags(corpus, tmp_path, monkeypatch, flags, text):
    monkeypatch.chdir(tmp_path)
    assert text in _error(corpus, tmp_path / "x", **flags)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "data, text",
    [
        (b"", "no document with text in the 1 input files, the first: /"),
        (b"\n \n\t\n\n", "no document with text"),
        (b"\x01\n\n\x02\n", "no document with text"),
        (b"One.\nTwo.\n", "only one document in all input files"),
        (b"One.\nTwo.\n\n\x01\n", "only one document in all input files"),
        (
            b"a\nb\n\nc\nabc\xe9 f\n",
            "in.txt: line 5 is not UTF-8: byte 0xe9 at column 4",
        ),
        (b"\xff\xfeO\x00n\x00", "line 1 is not UTF-8: byte 0xff at column 1"),
        (
            b"x " * 5_000_000,
            "line 1 is longer than 4 MB (--bucket_mb); wanted one sentence",
        ),
    ],
)
def test_bad_text(tmp_path, data, text):
    source = tmp_path / "in.txt"
    source.write_bytes(data)
    assert text in _error(str(source), tmp_path / "out" / "x")
    # Nothing is left, so mending the input is all there is to do.
    assert os.listdir(tmp_path / "out") == []
    write(source, manual(4))
    scripts.run(generator, **_flags(str(source), tmp_path / "out" / "x"))


def test_line_numbers_count_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining_buckets, "_BLOCK_BYTES", 64)
    source = tmp_path / "in.txt"
    for number in (1, 2, 17, 100):
        lines = [b"just a line" for _ in range(100)]
        lines[number - 1] = b"just \xc3( a line"
        source.write_bytes(b"\n".join(lines))
        with pytest.raises(UserError, match=rf"line {number} is .* column 6;"):
            list(
                pretraining_buckets._read_blocks(
                    str(source), 10**6, lambda n: None
                )
            )


def test_vocabulary_must_have_what_is_needed(corpus, tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\nthe\n")
    message = _error(corpus, tmp_path / "x", vocab_file=vocab)
    assert "[SEP] [MASK] missing" in message
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    message = _error(corpus, tmp_path / "x", vocab_file=vocab)
    assert "nothing to draw random replacements from" in message


# ---------------------------------------------------------------------------
# What is told
# ---------------------------------------------------------------------------


def test_examples_and_summary_are_logged(corpus, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        scripts.run(generator, **_flags(corpus, tmp_path / "x"))
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert text.count("*** Example ***") == 20
    tokens = re.findall(r"^tokens: (.*)$", text, re.M)
    ids = re.findall(r"^input_ids: (.*)$", text, re.M)
    assert len(tokens) == len(ids) == 20
    first = next(tfrecord.read_records(str(tmp_path / "x")))
    features = tfrecord.decode_example(first)
    assert ids[0].split() == list(map(str, features["input_ids"]))
    length = features["input_mask"].sum()
    assert tokens[0].split()[0] == "[CLS]"
    assert len(tokens[0].split()) == length
    count = tfrecord.count_records(str(tmp_path / "x"))
    assert f"Wrote {count} total instances" in text
    lines = sum(len(page) for page in manual(60))
    told = dict(re.findall(r"^  ([\w ]+): ([\d,]+)", text, re.M))
    assert told["documents"] == "60"
    assert told["instances"] == f"{count:,}"
    skipped = int(re.search(r"\((\d+) lines without", text)[1])
    assert int(told["sentences"].replace(",", "")) + skipped == lines


def _warnings(tmp_path, caplog, text: str, **flags) -> str:
    source = tmp_path / "in.txt"
    source.write_text(text, encoding="utf-8")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        scripts.run(generator, **_flags(source, tmp_path / "x", **flags))
    return " ".join(record.getMessage() for record in caplog.records)


def test_good_text_gives_no_warning(tmp_path, caplog):
    text = "\n\n".join("\n".join(page) for page in manual(60) if len(page) > 20)
    assert _warnings(tmp_path, caplog, text) == ""


@pytest.mark.parametrize(
    "text, flags, warning",
    [
        ("a sentence\n\nanother one\n\nthird\n", {}, "one sentence only"),
        ("\u3042 \u05d0 \u1200 known\nwords\n\nmore\n", {}, "tokens are [UNK]"),
        ("word " * 300 + "\nx\n\n" + "word " * 300, {}, "longer than a seq"),
        ("One two.\n\nThree.\nfour", {}, "filled to"),
        ("a b\n\x01\n\x02\n\nc d", {}, "2 lines hold no token"),
        ("a b\n\nc d", {"do_lower_case": False}, "looks uncased"),
        ("a b\n\nc d", {"max_seq_length": 512}, "caps the 77 predictions"),
    ],
)
def test_warnings(tmp_path, caplog, text, flags, warning):
    assert warning in _warnings(tmp_path, caplog, text, **flags)


def test_generator_needs_no_tensorflow():
    code = (
        "import sys, create_pretraining_data, pretraining_buckets\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
    )
