"""prepare_corpus.py: runs that are killed, repeated or changed."""

import gzip
import os
import random
import signal
import subprocess
import time

from base.jobs import local

import corpus_runs
import pytest
from corpora import write
from corpus_runs import CHINESE, ENGLISH, article, bytes_of, error_of, run

from corpus import generation

BLANK = {"document_separator": "blank_line", "language": "en"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The output of a run over both dumps, with held-out documents."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    run(f"{ENGLISH},{CHINESE}", folder, heldout_fraction=0.5)
    return folder


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path):
    """After any number of kill -9 the bytes are those of a whole run."""
    rng = random.Random(5)
    texts = [[article(rng.random())] * 20 for _ in range(3000)]
    (tmp_path / "x.gz").write_bytes(
        gzip.compress("\n\n".join("\n".join(t) for t in texts).encode())
    )
    # The sizes of chunks depend on the compressed size.
    assert sum(len(t[0]) * 20 for t in texts) > 8 * 2**19
    flags = corpus_runs.flags_for(
        tmp_path / "x.gz",
        tmp_path / "whole",
        num_workers=2,
        heldout_fraction=0.1,
        drop_repeated_lines=25,
        **BLANK,
    )
    start = time.monotonic()
    subprocess.run(corpus_runs.command(flags), check=True, capture_output=True)
    seconds = time.monotonic() - start
    flags["output_dir"] = str(tmp_path / "killed")
    kills, finished = 0, False
    while not finished:
        process = subprocess.Popen(
            corpus_runs.command(flags),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            # After four kills let it end, however slow the machine is.
            limit = None if kills >= 4 else rng.uniform(0.4, 1) * seconds
            process.wait(limit)
            finished = True
            assert process.returncode == 0
        except subprocess.TimeoutExpired:
            kills += 1
            if kills % 2:  # the workers too
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")
    names = set(os.listdir(tmp_path / "killed"))
    assert names == set(os.listdir(tmp_path / "whole"))


@pytest.fixture
def small_chunks(tmp_path, monkeypatch):
    """Flags of a run of some twenty chunks."""
    monkeypatch.setattr(generation, "_LEAST_CHUNK_BYTES", 1000)
    write(tmp_path / "x", [[article(n)] for n in range(200)])
    return {"input_file": str(tmp_path / "x"), "heldout_fraction": 0.1, **BLANK}


def test_finished_work_is_not_done_again(tmp_path, small_chunks, monkeypatch):
    flags = corpus_runs.flags_for(
        "", tmp_path / "a", num_shards=3, **small_chunks
    )
    all_jobs = corpus_runs.stopped_run(flags, monkeypatch, 10**6)
    assert len(all_jobs) == 24  # 20 chunks, and 4 files
    flags["output_dir"] = str(tmp_path / "b")
    assert corpus_runs.stopped_run(flags, monkeypatch, 5) == [0, 1, 2, 3, 4, 5]
    # The worker may have finished a sixth chunk before the run ended.
    begun = corpus_runs.stopped_run(flags, monkeypatch, 4)
    assert begun[0] in (5, 6) and len(begun) == 5
    rest = corpus_runs.stopped_run(flags, monkeypatch, 20 - begun[0] - 4 + 2)
    assert begun[3] < rest[0] <= begun[4] + 1
    # Now only buckets are missing, and no chunk is read; the worker may have
    # been ahead.
    names = corpus_runs.stopped_run(flags, monkeypatch, 10**6)
    assert len(names) <= 3
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def test_a_worker_that_outlives_its_run_leaves_nothing(
    tmp_path, small_chunks, monkeypatch
):
    """A killed worker takes a moment to end, when the next run has begun."""
    with subprocess.Popen(["sleep", "600"]) as worker:
        name = f".train-00000-of-00002.txt.{worker.pid}-ab.tmp"
        make_files = local.make_files

        def end_worker(*arguments):
            assert (tmp_path / "out" / name).exists()
            worker.kill()
            worker.wait()
            return make_files(*arguments)

        monkeypatch.setattr(local, "make_files", end_worker)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / name).touch()
        run(small_chunks.pop("input_file"), tmp_path / "out", **small_chunks)
        assert not (tmp_path / "out" / name).exists()


def test_a_file_that_is_gone_is_made_again(tmp_path, caplog):
    run(ENGLISH, tmp_path / "out")
    before = bytes_of(tmp_path / "out")
    (tmp_path / "out" / "train-00000-of-00002.txt").unlink()
    os.truncate(tmp_path / "out" / "train-00001-of-00002.txt", 10)
    (tmp_path / "out" / "corpus.json").unlink()
    run(ENGLISH, tmp_path / "out")
    assert bytes_of(tmp_path / "out") == before
    assert "has 10 bytes instead of" in caplog.text
    (tmp_path / "out" / "corpus.json").unlink()
    run(ENGLISH, tmp_path / "out")
    assert bytes_of(tmp_path / "out") == before


@pytest.mark.parametrize(
    "more, words",
    [
        ({"heldout_fraction": 0.2}, "--heldout_fraction was 0.5, is 0.2"),
        (
            {"input_file": str(ENGLISH)},
            f"--input_file, first difference at {CHINESE}",
        ),
    ],
)
def test_a_different_command_is_refused(whole, more, words):
    before = bytes_of(whole)
    inputs = f"{ENGLISH},{CHINESE}"
    flags = {"heldout_fraction": 0.5, "input_file": inputs, **more}
    message = error_of(flags.pop("input_file"), whole, **flags)
    assert f"{whole} was begun by a different command: {words}" in message
    assert bytes_of(whole) == before


def test_other_versions_of_libraries_are_refused(whole, monkeypatch):
    monkeypatch.setattr(generation.importlib.metadata, "version", lambda _: "9")
    message = error_of(f"{ENGLISH},{CHINESE}", whole, heldout_fraction=0.5)
    assert "version of sentencex was 1." in message and ", is 9" in message


@pytest.mark.slow  # imports TensorFlow
def test_remote_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    text = write(tmp_path / "x", [[article(n)] for n in range(9)])
    source = f"file://{text},file://{ENGLISH}"
    flags = {**BLANK, "heldout_fraction": 0.5}
    for output in (f"file://{tmp_path}/far", tmp_path / "near"):
        run(source, output, **flags)
    far, near = bytes_of(tmp_path / "far"), bytes_of(tmp_path / "near")
    assert far == near and len(far) == 4
    assert sorted(os.listdir(tmp_path)) == ["far", "near", "x"]
