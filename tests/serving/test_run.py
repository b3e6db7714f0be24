"""Files, errors.jsonl and their counts, whatever the moment of a kill."""

import json
import os
from pathlib import Path

from base.errors import UserError
from base.jobs import run as jobs_run

import pytest

from serving import run
from serving.run import Result
from tasks import reading
from tasks.reading import InputFile
from tasks.task import Input


@pytest.fixture
def files(tmp_path) -> list[InputFile]:
    """Four files of ten numbers each; those that 7 divides are bad."""
    for n in range(4):
        numbers = range(100 + 10 * n, 110 + 10 * n)
        (tmp_path / f"{n}.txt").write_text("\n".join(map(str, numbers)))
    return reading.find_inputs(f"{tmp_path}/*.txt", "auto")


def results(file: InputFile) -> list[Result]:
    """Return results as a model would make them."""

    def parse(place, line, kind):
        if int(line) % 7 == 0:
            raise UserError("divides by 7")
        return Input(str(place), place, {"line": line})

    return [
        Result(
            [json.dumps({"id": int(x.texts["line"])}) for x in window.inputs],
            window.problems,
            {"inputs": len(window.inputs), "bad": len(window.problems)},
        )
        for window in reading.read_windows(file, parse)
    ]


def predict(job, files) -> tuple[list[int], dict[str, int]]:
    """Do what is missing; return the numbers of these files, and counts."""
    with jobs_run.open_run(job) as this_run:
        parts = run.parts_to_do(this_run, files)
        for part in parts:
            run.write_file(part, results(part.file))
        return [part.number for part in parts], run.finish(this_run)


def contents(job) -> dict[str, bytes]:
    folder = Path(job.outputs[0]).parent
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_only_missing_files_are_made_again(tmp_path, files):
    job = run.create_job(files, str(tmp_path / "out"), {})
    todo, counts = predict(job, files)
    assert todo == [0, 1, 2, 3]
    assert counts == {"inputs": 35, "bad": 5}
    wanted = contents(job)
    assert sorted(wanted) == [
        ".predictions.manifest.json",
        "errors.jsonl",
        *(f"predictions-{n:05}-of-00004.jsonl" for n in range(4)),
    ]
    lines = b"".join(wanted[name] for name in sorted(wanted)[2:]).splitlines()
    numbers = [json.loads(line)["id"] for line in lines]
    assert numbers == [n for n in range(100, 140) if n % 7]
    bad = map(json.loads, wanted["errors.jsonl"].splitlines())
    assert [(Path(x["file"]).name, x["line"]) for x in bad] == [
        (f"{n // 10 - 10}.txt", n % 10 + 1) for n in range(105, 140, 7)
    ]
    Path(job.outputs[2]).unlink()
    Path(job.outputs[1]).write_text("changed")
    assert predict(job, files) == ([1, 2], counts)
    assert contents(job) == wanted
    # The errors of single files are there no more.
    Path(job.outputs[-1]).unlink()
    assert predict(job, files) == ([0, 1, 2, 3], counts)
    assert contents(job) == wanted


def test_a_file_that_was_replaced_by_one_of_its_size_and_time(tmp_path, files):
    """As by cp -p: its predictions would be those of two files."""
    job = run.create_job(files, str(tmp_path / "out"), {})
    predict(job, files)
    path = tmp_path / "2.txt"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("3", "4"))
    os.utime(path, ns=times)
    job = run.create_job(files, str(tmp_path / "out"), {})
    with pytest.raises(UserError, match="2.txt has changed since .the same"):
        predict(job, files)


@pytest.mark.slow
def test_a_run_killed_at_any_replaced_file_ends_with_the_same_bytes(
    tmp_path, files, monkeypatch
):
    """Every file appears by os.replace: the run is ended at each of them."""
    job = run.create_job(files, str(tmp_path / "out"), {})
    predict(job, files)
    wanted = contents(job)
    functions = {name: getattr(os, name) for name in ("replace", "remove")}

    class Killed(BaseException):
        pass

    def killing(function):
        def counted(*args):
            nonlocal left
            left -= 1
            if not left:
                raise Killed
            return function(*args)

        return counted

    step, is_killed = 0, True
    while is_killed:
        step += 1
        jobs_run.remove(job)
        left = step
        for name, function in functions.items():
            monkeypatch.setattr(os, name, killing(function))
        try:
            predict(job, files)
            is_killed = False
        except Killed:
            pass
        monkeypatch.undo()
        predict(job, files)
        assert contents(job) == wanted, step
    assert step > 20
