"""A part of the training set is held out: for cross-validation, or to score."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from base import logs, tables
from base.errors import UserError, counted

import numpy as np

from checkpoints import lookup
from checkpoints.run_folder import RUN_NAME, RunFolder, differing
from tasks.classifier import data
from tasks.classifier.task_files import DataFile, Example, TaskFiles

# --- Parts -------------------------------------------------------------------


def fold(
    files: TaskFiles, number: int, count: int, group_column: str | None = None
) -> TaskFiles:
    """Return the task whose development set is a part of its training set.

    It is trained on the others. `number` of the part is from 1 to `count`. All
    seeds see the same parts. Rows with the same value in the column of groups
    are in one part, and so are copies of a text.
    """
    train = files.train
    examples = train.examples or data.read_examples(train, files)
    units, single, known = units_of(files, examples, group_column)
    if (found := len(units) + len(single)) < count:
        raise UserError(
            f"--num_folds={count}: there are {found} training examples, or "
            "groups of them that stay together, and each part needs one"
        )
    parts = dealt(units, files, examples, [1.0] * count)
    # Each of the others goes to the part that has the fewest rows so far.
    for row in single:
        min(parts, key=len).append(row)
    how = {"num_folds": count, "fold": number, **known}
    files = files._replace(train=train._replace(part=f"fold{number}of{count}"))
    return divided(files, examples, parts[number - 1], "held-out fold", how)


def held_out(
    files: TaskFiles,
    fraction: float,
    seed: int,
    group_column: str | None = None,
) -> TaskFiles:
    """Return the task whose development set is a fraction of its training set.

    It is trained on the others. What stays together is as in `fold`.
    """
    examples = data.read_examples(files.train, files)
    units, single, known = units_of(files, examples, group_column, seed)
    own, _ = dealt(units, files, examples, [fraction, 1 - fraction])
    count = round(len(examples) * fraction) - len(own)
    count = min(max(count, 0), len(single))
    # The middles of as many equal stretches.
    own += [
        single[len(single) * (2 * n + 1) // (2 * count)] for n in range(count)
    ]
    if not 0 < len(own) < len(examples):
        what = f", {len(units):,} groups and {len(single):,} others,"
        raise UserError(
            f"--heldout_fraction={fraction:g} of the "
            f"{counted(len(examples), 'row')} of {files.train.path}"
            f"{what * bool(units)} is {len(own)}: wanted one row or more to "
            "score, and one or more to train on"
        )
    how = {"heldout_fraction": fraction, "heldout_seed": seed, **known}
    return divided(files, examples, own, "held-out rows", how)


def divided(
    files: TaskFiles,
    examples: Sequence[Example],
    own: Sequence[int],
    title: str,
    how: Mapping[str, Any],
) -> TaskFiles:
    """Return the task that is scored on the rows `own`, trained on the others.

    Both have the order of the file. The record of a run says how they were
    drawn.
    """
    drawn = {**files.train.identity, **how}
    is_own = np.zeros(len(examples), bool)
    is_own[own] = True
    train, dev = (
        files.train._replace(
            examples=list(itertools.compress(examples, rows.tolist())),
            drawn={**drawn, "part": part},
        )
        for part, rows in (("train", ~is_own), ("dev", is_own))
    )
    return files._replace(train=train, dev={title: dev})


def dealt(
    units: Sequence[Sequence[int]],
    files: TaskFiles,
    examples: Sequence[Example],
    shares: Sequence[float],
) -> list[list[int]]:
    """Return the rows of units in as many parts as there are shares.

    The largest unit comes first. Each goes to the part that has the least of
    its labels so far, for the part's share; of numbers, which fifth of all
    they are in counts.
    """
    labels = [example.label for example in examples]
    if files.labels is None:
        ranks = np.argsort(np.argsort(np.array(labels, float)))
        labels = ranks * 5 // len(ranks)
    _, classes, totals = np.unique(
        np.array(labels, object), return_inverse=True, return_counts=True
    )
    totals = np.append(totals, len(labels))
    parts: list[list[int]] = [[] for _ in shares]
    has = np.zeros((len(shares), len(totals)))  # rows of each class, and all
    for unit in sorted(units, key=len, reverse=True):
        own = np.bincount(classes[unit], minlength=len(totals))
        own[-1] = len(unit)
        excess = (has + own / 2) @ (own / totals) / shares
        best = int(excess.argmin())
        parts[best] += unit
        has[best] += own
    return parts


# --- What stays together -----------------------------------------------------


def units_of(
    files: TaskFiles,
    examples: Sequence[Example],
    group_column: str | None,
    seed: int = 0,
) -> tuple[list[list[int]], list[int], dict[str, Any]]:
    """Return the rows that stay together, those that are alone, and why.

    What the record of a run says of the first ones is last; it is empty without
    them.

    Together are the copies of a text, and the rows of a group with theirs.
    Texts that differ in case or white space are copies: an uncased model reads
    no difference.

    The others are in the order of their labels, and those of one label in an
    order that the seed draws. So places at equal distances have their share of
    every label, or of every range of numbers.
    """
    from scipy.sparse import coo_array, csgraph  # take a while to import

    keys = [
        tuple(" ".join((t or "").casefold().split()) for t in x[1:3])
        for x in examples
    ]
    if copies := len(keys) - len({*keys}):
        logs.say(
            "%s: %s of %s repeat the text of another one, but for case and "
            "white space; copies are held out together, or not at all",
            files.train.path,
            f"{copies:,}",
            counted(len(keys), "row"),
        )
    # A graph with an edge from each row to the first one of its text, and to
    # the first one of its group.
    if group_column:
        keys += groups_of(files.train, examples, group_column)
    firsts: dict[Any, int] = {}
    size, rows = len(examples), np.arange(len(keys)) % len(examples)
    first = [firsts.setdefault(key, n % size) for n, key in enumerate(keys)]
    graph = coo_array((np.ones(len(keys)), (rows, first)), (size, size))
    _, unit_of = csgraph.connected_components(graph, directed=False)
    units: dict[int, list[int]] = {}
    for row in np.random.default_rng(seed).permutation(size).tolist():
        units.setdefault(unit_of[row], []).append(row)
    key = float if files.labels is None else str
    alone = [unit[0] for unit in units.values() if len(unit) == 1]
    alone.sort(key=lambda row: key(examples[row].label))
    together = [unit for unit in units.values() if len(unit) > 1]
    known = {"group_column": group_column, "together": len(together) or None}
    return together, alone, {n: v for n, v in known.items() if v}


def groups_of(
    train: DataFile, examples: Sequence[Example], column: str
) -> list[str]:
    """Return the group of each row.

    Raises:
        UserError: a row has none.
    """
    found, hint = [], " (--group_column)"
    rows = data.rows_by_guid(train)
    for example in examples:
        line, row = rows[example.guid]
        at, kinds = f"{train.path}, line {line}", (str, int, float, bool)
        found.append(str(tables.require(row, column, kinds, at, hint)))
        if not found[-1].strip():
            raise UserError(
                f"{at}: column {column!r} is empty{hint}: fill it, or delete "
                "the row"
            )
    return found


# --- The rows of a model that is used as it is -------------------------------


def rows_of_run(prefix: str | None) -> Mapping[str, Any]:
    """Return what the run of a checkpoint says of its rows; {}: nothing."""
    if not prefix:
        return {}
    found = RunFolder.read(lookup.folder_of(prefix)).fixed.get("data")
    return found if isinstance(found, dict) else {}


def check_not_seen(
    train: DataFile, own: Mapping[str, Any], prefix: str
) -> None:
    """Check that a command holds out the rows that a run has held out.

    `own` is what the run of the checkpoint says of its rows.

    Raises:
        UserError: the model may have learned rows that it is scored on.
    """
    for name, value in train.drawn.items():
        if own.get(name) == value:
            continue
        what = f"has no {RUN_NAME} beside it"
        if own:
            found = differing(name, own.get(name), value)
            what = f"was trained with {found}"
        raise UserError(
            f"{prefix} {what}: it would be scored on rows of {train.path} that "
            "it may have learned; give what its training had, name a "
            "--dev_file, or --do_train a model that has not seen them"
        )
    logs.say("%s was trained without the rows that are held out", prefix)
