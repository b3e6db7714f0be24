"""extras/folds.py: parts of the training set."""

from base.errors import UserError

import pytest

from extras import folds
from tasks.classifier import data
from tasks.classifier.glue import Columns, Example, Split, TaskFiles


def task_of(examples: list[Example] | None) -> TaskFiles:
    train = Split("all.csv", Columns("text"), examples=examples)
    return TaskFiles(("no", "yes"), train, {}, {})


def examples_of(*labels: str) -> list[Example]:
    return [Example(str(i), "text", None, x) for i, x in enumerate(labels)]


def held_out_by(files: TaskFiles, examples: list[Example]) -> list[Example]:
    """Return what a task is scored on; it is trained on all others."""
    (dev,) = files.dev.values()
    assert sorted(files.train.examples + dev.examples) == sorted(examples)
    return dev.examples


def test_folds_are_parts_with_their_share_of_every_label():
    examples = examples_of(*["yes"] * 6, *["no"] * 14)
    files, seen = task_of(examples), []
    for number in (1, 2, 3):
        own = held_out_by(folds.fold(files, number, 3), examples)
        assert sum(x.label == "yes" for x in own) == 2
        seen += own
    assert sorted(seen) == sorted(examples)
    with pytest.raises(UserError, match="--num_folds=21: there are 20"):
        folds.fold(files, 1, 21)


def test_a_fraction_is_held_out_with_its_share_of_every_label(monkeypatch):
    examples = examples_of(*["no", "yes", "yes"] * 10)
    monkeypatch.setattr(data, "read_examples", lambda *_: examples)
    files, drawn = task_of(None), []
    for seed in (1, 2, 1):
        found = folds.held_out(files, 0.1, seed)
        drawn.append(held_out_by(found, examples))
        assert sorted(x.label for x in drawn[-1]) == ["no", "yes", "yes"]
        assert found.train.drawn != next(iter(found.dev.values())).drawn
    assert drawn[0] == drawn[2] != drawn[1]
    with pytest.raises(UserError, match="=0.01 of the 30 rows of all.csv is 0"):
        folds.held_out(files, 0.01, 1)
