"""Runs of batch_predict.py, and the lines that they write."""

import json
from collections.abc import Iterable
from pathlib import Path

import classifier_runs
import fine_tuned_models
import pytest
import scripts

batch_predict = scripts.load("batch_predict")


def write_classifier(folder: Path) -> Path:
    """Write a classifier of 24 tokens and data with longer sentences."""
    fine_tuned_models.write_classifier(
        folder / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        ["bad", "good"],
        length=24,
    )
    return classifier_runs.write_data(folder)


def write_lines(path: Path, values) -> Path:
    """Write objects as JSON lines."""
    lines = [json.dumps(value) for value in values]
    path.write_text("\n".join(lines) + "\n")
    return path


def predict(model: Path, inputs: Path | str, out: Path, **flags) -> list[dict]:
    """Run the script and return the objects of all shards, in order."""
    flags = {
        "model": str(model),
        "input_file": str(inputs),
        "output_dir": str(out),
        **flags,
    }
    assert scripts.run(batch_predict, **flags) == 0
    return predictions(out)


def answers(model: Path, texts: Iterable[dict], out: Path, **flags) -> Path:
    """Have a teacher answer texts, and return the directory of answers."""
    inputs = write_lines(Path(f"{out}.texts.jsonl"), texts)
    predict(model, inputs, out, as_teacher=True, **flags)
    return out


def predictions(out: Path) -> list[dict]:
    """Return the objects in the shards of a directory."""
    return [
        json.loads(line)
        for path in sorted(out.glob("predictions-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def problems(out: Path) -> list[dict]:
    """Return the objects in errors.jsonl."""
    text = (out / "errors.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def check_same(found: list[dict], wanted: list[dict]) -> None:
    """Check that predictions differ by rounding at most."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert list(one) == list(other)
        for key, value in one.items():
            if isinstance(value, (dict, list, float)):
                ours, theirs = json.dumps(value), json.dumps(other[key])
                assert numbers(ours) == pytest.approx(
                    numbers(theirs), rel=1e-5, abs=2e-5
                )
            else:
                assert value == other[key]


def numbers(text: str) -> list[float]:
    """Return all numbers of a JSON value, in order."""
    found: list[float] = []

    def keep(value: str) -> float:
        found.append(float(value))
        return found[-1]

    json.loads(text, parse_float=keep, parse_int=keep)
    return found
