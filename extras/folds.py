"""A part of the training set is held out: for cross-validation, or to score."""

from collections.abc import Sequence

from base.errors import UserError, counted

import numpy as np

from tasks.classifier import data
from tasks.classifier.glue import Example, TaskFiles


def fold(files: TaskFiles, number: int, count: int) -> TaskFiles:
    """Return the task whose development set is a part of its training set.

    It is trained on the others. `number` of the part is from 1 to `count`. All
    seeds see the same parts.
    """
    train = files.train
    examples = train.examples or data.read_examples(train, files)
    if len(examples) < count:
        raise UserError(
            f"--num_folds={count}: there are {len(examples)} training "
            "examples, and each part needs one"
        )
    places = range(number - 1, len(examples), count)
    own, others = split(examples, places, files.labels is None)
    train = train._replace(part=f"fold{number}of{count}")
    dev = {"held-out fold": train._replace(examples=own)}
    return files._replace(train=train._replace(examples=others), dev=dev)


def held_out(files: TaskFiles, fraction: float, seed: int) -> TaskFiles:
    """Return the task whose development set is a fraction of its training set.

    It is trained on the others.
    """
    train = files.train
    examples = data.read_examples(train, files)
    count = round(len(examples) * fraction)
    if not 0 < count < len(examples):
        raise UserError(
            f"--heldout_fraction={fraction:g} of the "
            f"{counted(len(examples), 'row')} of {train.file} is {count}: "
            "wanted one row or more to score, and one or more to train on"
        )
    # The middles of as many equal stretches.
    places = [len(examples) * (2 * n + 1) // (2 * count) for n in range(count)]
    own, others = split(examples, places, files.labels is None, seed)
    drawn = {"heldout_fraction": fraction, "heldout_seed": seed}
    dev = train._replace(examples=own, drawn={**drawn, "part": "dev"})
    train = train._replace(examples=others, drawn={**drawn, "part": "train"})
    return files._replace(train=train, dev={"held-out rows": dev})


def split(
    examples: Sequence[Example],
    places: Sequence[int],
    is_regression: bool,
    seed: int = 0,
) -> tuple[list[Example], list[Example]]:
    """Return the examples at some places of a drawn order, and all others.

    It is the order of their labels, and examples of one label are in an order
    that the seed draws. So places at equal distances have their share of every
    label, or of every range of numbers. Both lists are in the file's order.
    """
    drawn = np.random.default_rng(seed).permutation(len(examples)).tolist()
    key = float if is_regression else str
    order = sorted(drawn, key=lambda i: key(examples[i].label))
    part = {order[place] for place in places}
    own = [x for i, x in enumerate(examples) if i in part]
    return own, [x for i, x in enumerate(examples) if i not in part]
