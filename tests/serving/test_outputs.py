"""Shards, errors.jsonl and the manifest: whatever the moment of a kill."""

import json
import os
from pathlib import Path

from base.errors import UserError

import pytest

from serving import data, outputs, plan
from serving.data import Place, Problem
from serving.outputs import WindowResult


def make_plan(folder: Path, num_shards: int = 4, **options) -> plan.Plan:
    """Return a plan for 40 lines, of which every seventh is bad."""
    path = folder / "in.txt"
    if not path.exists():
        path.write_text("".join(f"{n}\n" for n in range(100, 140)))
    return plan.make_plan(
        str(path), str(folder / "out"), num_shards, "auto", options
    )


def results(job: plan.Plan, index: int) -> list[WindowResult]:
    """Return results as a model would make them."""

    def parse(place, line, kind):
        if int(line) % 7 == 0:
            raise data.BadInput("divides by 7")
        return data.Input(str(place), place, {"line": line})

    firsts = list(
        data.lines_before(
            job.shards, lambda i: data.count_line_ends(job.shards[i][-1])
        )
    )
    return [
        WindowResult(
            [json.dumps({"id": item.id}) for item in window.inputs],
            window.problems,
            {"inputs": len(window.inputs), "bad": len(window.problems)},
        )
        for window in data.read_windows(job.shards[index], firsts[index], parse)
    ]


def run(job: plan.Plan) -> dict[str, int]:
    """Do what is missing."""
    with outputs.locked(job):
        for index in outputs.begin(job):
            outputs.write_shard(job, index, results(job, index))
        return outputs.finish(job)


def files_of(job: plan.Plan) -> dict[str, bytes]:
    folder = Path(job.output_dir)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_shards_errors_and_counts(tmp_path):
    job = make_plan(tmp_path)
    counts = run(job)
    found = files_of(job)
    assert sorted(found) == [
        ".predictions.manifest.json",
        "errors.jsonl",
        *(f"predictions-{n:05}-of-00004.jsonl" for n in range(4)),
    ]
    lines = [
        json.loads(line)["id"].rpartition(":")[2]
        for name in sorted(found)
        if name.startswith("predictions")
        for line in found[name].splitlines()
    ]
    numbers = [int(line) + 99 for line in lines]
    assert numbers == [n for n in range(100, 140) if n % 7]
    bad = [json.loads(x)["line"] for x in found["errors.jsonl"].splitlines()]
    assert bad == [n - 99 for n in range(100, 140) if n % 7 == 0]
    assert counts == {"inputs": 35, "bad": 5}


@pytest.mark.slow
def test_a_run_killed_at_any_replaced_file_ends_with_the_same_bytes(
    tmp_path, monkeypatch
):
    """Every file appears by os.replace: the run is ended at each of them."""
    job = make_plan(tmp_path)
    run(job)
    wanted = files_of(job)
    replace, remove = os.replace, os.remove

    class Killed(BaseException):
        pass

    steps = 0
    while True:
        steps += 1
        for path in Path(job.output_dir).iterdir():
            path.unlink()
        left = steps

        def count(function):
            def counted(*args):
                nonlocal left
                left -= 1
                if not left:
                    raise Killed
                return function(*args)

            return counted

        monkeypatch.setattr(os, "replace", count(replace))
        monkeypatch.setattr(os, "remove", count(remove))
        try:
            run(job)
            break
        except Killed:
            monkeypatch.setattr(os, "replace", replace)
            monkeypatch.setattr(os, "remove", remove)
            run(job)
            assert files_of(job) == wanted, steps
    assert steps > 20


def test_only_missing_shards_are_made_again(tmp_path):
    job = make_plan(tmp_path)
    counts = run(job)
    wanted = files_of(job)
    Path(job.output(2)).unlink()
    Path(job.output(1)).write_text("changed")
    assert outputs.begin(job) == [1, 2]
    assert run(job) == counts
    assert files_of(job) == wanted
    Path(job.errors).unlink()
    assert outputs.begin(job) == [0, 1, 2, 3]
    assert run(job) == counts
    assert files_of(job) == wanted


@pytest.mark.parametrize(
    "change, words",
    [
        ({"batch_size": 64}, "--batch_size was 32, is 64"),
        ({"model": {"a": "2"}}, "--model, first difference in a"),
        ({"num_shards": 3}, "--num_shards was 4, is 3"),
    ],
)
def test_another_command_is_refused(tmp_path, change, words):
    options = {"batch_size": 32, "model": {"a": "1"}}
    run(make_plan(tmp_path, **options))
    other = make_plan(tmp_path, **options | change)
    with pytest.raises(UserError, match=words):
        run(other)


def test_changed_inputs_and_foreign_predictions_are_refused(tmp_path):
    job = make_plan(tmp_path)
    run(job)
    (tmp_path / "in.txt").write_text("100\n" * 40)
    with pytest.raises(UserError, match="--input_file, first difference at"):
        run(make_plan(tmp_path))
    Path(job.manifest).unlink()
    with pytest.raises(UserError, match="not written by this command"):
        run(make_plan(tmp_path))


def test_an_errors_file_of_the_user_is_not_replaced(tmp_path):
    """It may be the input: the mistakes of an earlier run, to try again."""
    job = make_plan(tmp_path)
    os.makedirs(job.output_dir, exist_ok=True)
    Path(job.errors).write_text("own")
    with pytest.raises(UserError, match="errors.jsonl was not written by this"):
        run(job)
    assert Path(job.errors).read_text() == "own"


def test_two_runs_at_once_are_refused(tmp_path):
    job = make_plan(tmp_path)
    with outputs.locked(job):
        with pytest.raises(UserError, match="another run is writing"):
            run(job)


def test_more_shards_than_can_be_cut_are_fewer(tmp_path):
    (tmp_path / "in.txt").write_text("a\n")
    job = make_plan(tmp_path, 50)
    assert len(job.shards) == 2  # a byte each; the second one has no line
    assert [len(results_ or []) for results_ in map(_lines(job), range(2))] == [
        1,
        0,
    ]


def _lines(job):
    def of(index):
        windows = data.read_windows(
            job.shards[index], 0, lambda p, line, k: data.Input("", p, {})
        )
        return [item for window in windows for item in window.inputs]

    return of


def test_a_misspelt_column_ends_the_run_before_it_begins(tmp_path):
    job = make_plan(tmp_path)

    def parse(place: Place, line: bytes, kind: str):
        raise data.BadInput("no field 'txt'")

    with pytest.raises(UserError, match="line 1 cannot be .* first 10 inputs"):
        plan.check_first_inputs(job, parse)

    def parse_one(place: Place, line: bytes, kind: str):
        if place.number < 9:
            raise data.BadInput("no field 'txt'")
        return data.Input("", place, {})

    plan.check_first_inputs(job, parse_one)
    assert Problem(Place("a", 1), "x").line()
