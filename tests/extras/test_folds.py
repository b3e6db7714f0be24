"""extras/folds.py: parts of the training set."""

from base.errors import UserError

import pytest

from extras import folds
from tasks.classifier import data
from tasks.classifier.glue import Columns, Example, Split, TaskFiles


def test_folds_are_parts_with_their_share_of_every_label():
    examples = [
        Example(str(i), "text", None, "yes" if i < 6 else "no")
        for i in range(20)
    ]
    seen = []
    for number in (1, 2, 3):
        places = range(number - 1, 20, 3)
        held_out, others = folds.split(examples, places, False)
        assert sorted(held_out + others) == sorted(examples)
        assert sum(x.label == "yes" for x in held_out) == 2
        seen += held_out
    assert sorted(seen) == sorted(examples)
    files = task_of(examples)
    with pytest.raises(UserError, match="--num_folds=21: there are 20"):
        folds.fold(files, "", 1, 21)


def task_of(examples: list[Example]) -> TaskFiles:
    train = Split("all.csv", Columns("text"), examples=examples)
    return TaskFiles(("no", "yes"), train, {}, {})


def test_a_fraction_is_held_out_with_its_share_of_every_label(monkeypatch):
    examples = [
        Example(str(i), "text", None, "yes" if i % 3 else "no")
        for i in range(30)
    ]
    monkeypatch.setattr(data, "read_examples", lambda *_: examples)
    files = task_of(None)
    drawn = []
    for seed in (1, 2, 1):
        found = folds.held_out(files, "", 0.1, seed)
        (dev,) = found.dev.values()
        drawn.append(dev.examples)
        assert sorted(x.label for x in dev.examples) == ["no", "yes", "yes"]
        assert sorted(found.train.examples + dev.examples) == sorted(examples)
        assert found.train.drawn != dev.drawn
    assert drawn[0] == drawn[2] != drawn[1]
    with pytest.raises(UserError, match="=0.01 of the 30 rows of all.csv is 0"):
        folds.held_out(files, "", 0.01, 1)
