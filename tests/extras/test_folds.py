"""extras/folds.py: parts of the training set."""

from base.errors import UserError

import numpy as np
import pytest

from extras import folds
from tasks.classifier import data
from tasks.classifier.task_files import Columns, DataFile, Example, TaskFiles


def task_of(
    examples: list[Example] | None,
    labels: tuple[str, ...] | None = ("no", "yes"),
) -> TaskFiles:
    drawn = {"data": "of a test"}
    train = DataFile("all.csv", Columns("text"), examples=examples, drawn=drawn)
    return TaskFiles(labels, train, {}, {})


def examples_of(*labels: str) -> list[Example]:
    return [Example(str(i), f"text {i}", None, x) for i, x in enumerate(labels)]


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
    # As in every version where no text repeats.
    assert [x.guid for x in seen[:7]] == ["2", "5", "8", "9", "16", "18", "19"]
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
    # The rows that every version has held out where no text repeats.
    assert [x.guid for x in drawn[0]] == ["0", "8", "25"]
    with pytest.raises(UserError, match="=0.01 of the 30 rows of all.csv is 0"):
        folds.held_out(files, 0.01, 1)


# --- What stays together -----------------------------------------------------


def texts_of(examples: list[Example]) -> set[tuple[str, str]]:
    """Return the texts as a model reads them, whatever their case is."""
    return {
        (x.text_a.lower().strip(), (x.text_b or "").lower().strip())
        for x in examples
    }


@pytest.mark.parametrize("labels", [("no", "yes"), None])
def test_copies_of_a_text_are_on_one_side(labels, monkeypatch, caplog):
    """Of pairs both texts count; case and white space do not."""
    rng, examples = np.random.default_rng(1), []
    for number in range(60):
        text = f"review {rng.integers(30)}"
        text = rng.choice([text, text.upper(), f" {text}\u2003"])
        second = (None, "a", "b")[number % 3]
        label = rng.choice(labels or ["0.5", "2", "1e1"])
        examples.append(Example(str(number), str(text), second, str(label)))
    monkeypatch.setattr(data, "read_examples", lambda *_: examples)
    files, seen = task_of(examples, labels), []
    copies = 60 - len(texts_of(examples))
    with caplog.at_level("INFO", logger="absl"):
        split = [folds.fold(files, n, 4) for n in (1, 2, 3, 4)]
    assert f"all.csv: {copies} of 60 rows repeat the text of" in caplog.text
    for found in split:
        own = held_out_by(found, examples)
        assert len(own) == 15
        assert not texts_of(own) & texts_of(found.train.examples)
        seen += own
    assert sorted(seen) == sorted(examples)
    for fraction in (0.1, 0.3, 0.75):
        for seed in (1, 2):
            found = folds.held_out(files, fraction, seed)
            own = held_out_by(found, examples)
            assert len(own) == round(60 * fraction)
            assert not texts_of(own) & texts_of(found.train.examples)


def test_groups_are_on_one_side_with_their_copies(monkeypatch, tmp_path):
    """A copy in another group brings that group along."""
    lines, rng = ["sentence,label,author"], np.random.default_rng(1)
    for number in range(200):
        author = rng.integers(40)
        label = "yes" if rng.random() < 0.3 else "no"
        lines.append(f"text {number},{label},{author}")
    lines += ["Text 0,no,40", "text 1,no,40"]
    path = tmp_path / "all.csv"
    path.write_text("\n".join(lines))
    columns = Columns("sentence", None, "label")
    files = task_of(None)
    files = files._replace(train=DataFile(str(path), columns))
    author_of = [line.rpartition(",")[2] for line in lines[1:]]

    def authors(examples: list[Example]) -> set[str]:
        return {author_of[int(x.guid)] for x in examples}

    together = {author_of[0], author_of[1], "40"}
    examples, seen = data.read_examples(files.train, files), set()
    split = [folds.fold(files, n, 5, "author") for n in range(1, 6)]
    split += [folds.held_out(files, 0.2, seed, "author") for seed in (1, 2, 3)]
    for found in split:
        own = held_out_by(found, examples)
        assert not authors(own) & authors(found.train.examples)
        assert len(together & authors(own)) in (0, 3)
        assert len(own) == pytest.approx(40, abs=3)
        assert sum(x.label == "yes" for x in own) == pytest.approx(12, abs=3)
        seen.add(tuple(own))
    assert len(seen) == 8  # each seed draws others
    with pytest.raises(UserError, match=r"all.csv, line 2: no key 'autor'"):
        folds.fold(files, 1, 5, "autor")
    with pytest.raises(
        UserError, match=r"202 rows of .*38 groups.* is 0: want"
    ):
        folds.held_out(files, 0.001, 1, "author")
    path.write_text("sentence,label,author\na,no,x\nb,yes,\n")
    with pytest.raises(UserError, match=r"line 3: column 'author' is empty"):
        folds.fold(files, 1, 2, "author")
