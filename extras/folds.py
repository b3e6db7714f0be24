"""Cross-validation: a part of the training set is held out from training."""

from collections.abc import Sequence

from base.errors import UserError

import numpy as np

from tasks.classifier import data
from tasks.classifier.glue import Example, TaskFiles


def held_out(
    files: TaskFiles, data_dir: str, number: int, count: int
) -> TaskFiles:
    """Return the task whose development set is a part of its training set.

    It is trained on the others. `number` of the part is from 1 to `count`.
    """
    train = files.train
    examples = train.examples or data.read_examples(data_dir, train, files)
    own, others = split(examples, number, count, files.labels is None)
    train = train._replace(part=f"fold{number}of{count}")
    dev = {"held-out fold": train._replace(examples=own)}
    return files._replace(train=train._replace(examples=others), dev=dev)


def split(
    examples: Sequence[Example], number: int, count: int, is_regression: bool
) -> tuple[list[Example], list[Example]]:
    """Return the examples of a part, and all others.

    Examples are dealt to the parts one by one in the order of their labels,
    those of one label in a drawn order. So each part has its share of every
    label, or of every range of numbers. The parts depend on the examples alone:
    all seeds see the same ones.
    """
    if len(examples) < count:
        raise UserError(
            f"--num_folds={count}: there are {len(examples)} training "
            "examples, and each part needs one"
        )
    drawn = np.random.default_rng(0).permutation(len(examples)).tolist()
    key = float if is_regression else str
    order = sorted(drawn, key=lambda i: key(examples[i].label))
    part = set(order[number - 1 :: count])
    own = [x for i, x in enumerate(examples) if i in part]
    return own, [x for i, x in enumerate(examples) if i not in part]
