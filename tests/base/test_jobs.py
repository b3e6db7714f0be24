"""base/jobs: runs are opened, refused, continued; both runners do the same."""

import collections
import json
import os

from base import beam, file_system
from base.errors import InputError, UserError
from base.jobs import engine
from base.jobs import run as jobs_run
from base.jobs import steps as job_steps

import numpy as np
import pytest
from word_steps import WordSteps


def job_of(folder, number=2, flag="output_dir", **fingerprint):
    """Return a job of some files."""
    outputs = [f"{folder}/out-{index}" for index in range(number)]
    return jobs_run.Job(outputs, str(folder), "out", flag, fingerprint)


def write(job, index, text=b"text"):
    with jobs_run.publish(job.target(index)) as (file, entry):
        file.write(text)
        entry["counts"] = {"words": index}


# --- Opening and publishing --------------------------------------------------


def test_a_run_does_what_is_left(tmp_path, caplog):
    job = job_of(tmp_path, 3, a=1)
    with jobs_run.open_run(job) as run:
        assert run.todo == [0, 1, 2] and run.total is None
        write(job, 0)
        write(job, 1)
        # It ends before `finish`, as one that is killed.
    (tmp_path / "out-1").write_text("longer")
    with jobs_run.open_run(job) as run:
        assert run.todo == [1, 2]
        assert "6 bytes instead of 4: it is made again" in caplog.text
        write(job, 1)
        with pytest.raises(UserError, match="out-2 has disappeared"):
            run.finish()
        write(job, 2)
        run.finish({"n": 3})
        assert list(run.entries.values()) == [
            {"counts": {"words": n}, "bytes": 4} for n in range(3)
        ]
    names = [".out.manifest.json", "out-0", "out-1", "out-2"]
    assert sorted(os.listdir(tmp_path)) == names
    before = (tmp_path / names[0]).stat().st_mtime_ns
    with jobs_run.open_run(job) as run:
        assert run.todo == [] and run.total == {"n": 3}
        run.finish(run.total)
    assert (tmp_path / names[0]).stat().st_mtime_ns == before
    (tmp_path / "out-1").unlink()
    with jobs_run.open_run(job) as run:
        assert run.todo == [1]


def test_a_file_that_fails_is_not_there(tmp_path):
    job = job_of(tmp_path)
    with jobs_run.open_run(job):
        with pytest.raises(KeyError):
            with jobs_run.publish(job.target(0)) as (file, _):
                file.write(b"half")
                raise KeyError
        assert os.listdir(tmp_path / ".out.scratch") == []
    with jobs_run.open_run(job) as run:
        assert run.todo == [0, 1]


def test_files_of_other_commands_are_refused(tmp_path):
    (tmp_path / "out-1").write_text("mine")
    with pytest.raises(UserError, match="out-1 exists, but was not written"):
        with jobs_run.open_run(job_of(tmp_path)):
            pass
    (tmp_path / "out-1").unlink()
    with jobs_run.open_run(job_of(tmp_path, a=1)):
        pass
    # Nothing is there that could be mixed.
    with jobs_run.open_run(job_of(tmp_path, a=2)):
        write(job_of(tmp_path, a=2), 0)
    with pytest.raises(
        UserError, match="a different command or .*: --a was 2, is 1"
    ):
        with jobs_run.open_run(job_of(tmp_path, a=1)):
            pass
    # Files that nobody has named are replaced.
    with jobs_run.open_run(job_of(tmp_path, flag="", a=1)) as run:
        assert run.todo == [0, 1]


@pytest.mark.parametrize("part", ["fingerprint", "files", "total"])
def test_a_manifest_that_was_changed_is_refused(tmp_path, part):
    job = job_of(tmp_path, a=1)
    with jobs_run.open_run(job) as run:
        write(job, 0)
        write(job, 1)
        run.finish({"counts": {"words": 1}})
    path = tmp_path / ".out.manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, part: {"b": 1}}))
    with pytest.raises(UserError, match="out-0 exists, .* or it is damaged"):
        with jobs_run.open_run(job):
            pass
    # That of a job whose files nobody has named is written again.
    with jobs_run.open_run(job_of(tmp_path, flag="", a=1)) as run:
        assert run.todo == [0, 1] and run.total is None


def test_failures_say_how_to_continue(tmp_path):
    with pytest.raises(
        UserError, match="^x: No space.* the same command again"
    ):
        with jobs_run.open_run(job_of(tmp_path)):
            raise OSError(28, "No space left on device", "x")


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ({"a": 1, "b": 2}, {"a": 1.5, "b": 2}, "--a was 1, is 1.5"),
        ({}, {"a": True}, "--a was None, is True"),
        ({"a": 1}, {}, "--a was 1, is None"),
        ({"c": {"a": 1, "b": 2}}, {"c": {"a": 3, "b": 2}}, "--a was 1, is 3"),
        ({"version of x": 1}, {"version of x": 2}, "version of x was 1, is 2"),
        (
            {"f": [["/a", 1, 2], ["/b", 1, 2]]},
            {"f": [("/a", 1, 2), ("/b", 1, 3)]},
            "/b has changed since (the same size, other content or time of "
            "change)",
        ),
        (
            {"f": [["/a", 1, 2]]},
            {"f": [["/a", 3, 2]]},
            "/a has changed since (1 bytes, now 3)",
        ),
        ({"f": ["/a"]}, {"f": ["/a", "/c"]}, "--f, first difference at /c"),
        ({"f": ["a", "b"]}, {"f": ["b", "a"]}, "--f, first difference at b"),
    ],
)
def test_differences_of_commands_are_named(old, new, expected):
    assert jobs_run.differences(old, old) == []
    assert jobs_run.differences(old, new) == [expected]


def test_another_model_is_named_alone(caplog):
    old = {"model": [["a", "1"]], "b": 1}
    new = {"model": [("a", "2")], "b": 2}
    for models, *words in (
        (("one", "two"), "its model is one, not two"),
        (("", "two"), "its model is another, not two"),
        (("one", "one"), "its model one has changed since", "--b was 1, is 2"),
    ):
        assert jobs_run.differences(old, new, models) == words
    assert "--b was 1, is 2" in caplog.text


def test_files_are_known_by_their_content(tmp_path):
    """Not by their time of change, which cp -p and rsync keep."""

    def state() -> dict:
        return {"f": [file_system.file_identity(str(path))]}

    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.utime(path, ns=(0, 5))
    old = state()
    path.write_bytes(b"two")
    os.utime(path, ns=(0, 5))
    (found,) = jobs_run.differences(old, state())
    assert found.startswith(f"{path} has changed since (the same size, other")
    path.write_bytes(b"one")
    assert jobs_run.differences(old, state()) == []


def test_a_large_file_is_known_by_parts_of_it_and_its_time(tmp_path):
    path = tmp_path / "large"
    blocks = np.zeros([40, 2**19], np.uint8)

    def state(time: int = 5) -> list:
        path.write_bytes(blocks.tobytes())
        os.utime(path, ns=(0, time))
        return file_system.file_identity(str(path))

    before = state()
    for place in (0, 20, 39):
        blocks[place, place] = 1
        assert state() != before
        blocks[place, place] = 0
    assert state() == before
    assert state(6) != before


# --- Chunks, map and reduce --------------------------------------------------

TEXTS = [f"{'ab' * (n % 5)} {n % 3} end" for n in range(40)]


def expected(steps) -> list[bytes]:
    """Return the bytes of the files, from a single pass."""
    words = collections.Counter(" ".join(TEXTS).split())
    files = [b"", b""]
    for bucket in range(steps.num_buckets):
        for word in sorted(words):
            if steps.bucket(word) == bucket:
                files[bucket // 2] += f"{word} {words[word]}\n".encode()
    return files


def contents(job) -> list[bytes]:
    return [open(path, "rb").read() for path in job.outputs]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_local_run(tmp_path, num_workers):
    job, steps = job_of(tmp_path), WordSteps()
    results = []
    done = engine.make_files(
        job, steps, TEXTS, beam.Flags(num_workers), on_result=results.append
    )
    assert contents(job) == expected(steps)
    assert done.total["counts"]["texts"] == len(results) == 40
    assert done.todo == [0, 1]
    assert sum(e["counts"]["words"] for e in done.entries.values()) == sum(
        text.count(b"\n") for text in contents(job)
    )
    assert not (tmp_path / ".out.scratch").exists()


def test_a_file_that_was_cut_by_a_power_failure_is_made_again(tmp_path):
    """Nothing of the scratch folder waits for the disk."""
    job, steps = job_of(tmp_path), WordSteps()
    scratch = engine.Scratch(job.scratch_dir)
    with pytest.raises(UserError, match="no more"):
        engine.make_files(job, WordSteps(fails_in=3), TEXTS, beam.Flags(1))
    files = sorted(os.listdir(job.scratch_dir))
    assert "bucket-000002.json" in files
    os.truncate(scratch.path("chunk", 7), 9)
    os.truncate(scratch.path("bucket", 2), 0)
    (tmp_path / ".out.scratch" / "chunk-000004.json").write_text('{"by')
    engine.make_files(job, steps, TEXTS, beam.Flags(1))
    assert contents(job) == expected(steps)


def test_input_of_which_nothing_can_be_made_leaves_nothing(tmp_path):
    job = job_of(tmp_path, a=1)
    with pytest.raises(InputError, match="^no text$"):
        engine.make_files(job, WordSteps(), [], beam.Flags(1))
    assert os.listdir(tmp_path) == []


def test_an_empty_file_is_an_error_where_it_must_not_be(tmp_path):
    made = {0: job_steps.NOTHING, 1: job_steps.NOTHING}
    steps, target = WordSteps(), job_of(tmp_path).target(0)
    steps.empty_file = "nothing in it"
    with pytest.raises(InputError, match="nothing in it"):
        job_steps.publish(steps, 0, target, made)
