"""Predict with any task and any model: encode, batch by length, run, decode.

    predictions = predict(task, run, inputs, batch_size)

`run` is a function from the features of a batch to its outputs: of a Keras
model (training/prediction.py), a SavedModel (loading.py) or a LiteRT file
(serving/litert).

Texts differ in length. In the order of the input, most of a batch would be
padding. So rows are sorted by length and cut into batches, each padded to a
multiple of 8. With batches of 2 rows,

    lengths in order        60 7 9 50     padded to 64 64 56 56, 240 tokens
    lengths sorted          60 50 9 7     padded to 64 64 16 16, 160 tokens

The batches are a function of the inputs alone, so that every runner and a
restarted run compute the same numbers.

These `batches` serve all that predicts. Fine-tuning scores and predicts the
records that it keeps on disk (job.py, `outputs`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tasks.rows import Unit, Units
from tasks.task import Input, Model, Outputs, Prediction, Task

if TYPE_CHECKING:
    from records.in_memory import ShortRecords  # TensorFlow

# A batch of short rows has at most this many times batch_size rows.
MORE_ROWS = 8


def predict(
    task: Task,
    run: Model,
    inputs: Sequence[Input],
    batch_size: int,
    counts: Counter[str] | None = None,
) -> list[Prediction | str]:
    """Return the prediction of each input, or why there is none.

    All inputs are sorted by length together. An input whose text was cut has
    `truncated` in its prediction. `counts` gets the number of such inputs, and
    of the tokens that were cut.
    """
    encoded = task.encode(inputs)
    outputs = run_units(task, run, encoded.units, batch_size)
    found = list(task.decode(encoded, outputs))
    for result, left_out in zip(found, encoded.left_out, strict=True):
        if left_out and not isinstance(result, str):
            result["truncated"] = True
            if counts is not None:
                counts.update(truncated=1, left_out=left_out)
    return found


def run_units(
    task: Task, run: Model, units: Sequence[Unit], batch_size: int
) -> list[Outputs]:
    """Return the model's outputs for each unit of rows."""
    found: list[Outputs] = [{}] * len(units)
    sizes = np.array([len(unit) for unit in units])
    # A batch has one number of choices.
    for choices in np.unique(sizes)[::-1].tolist():
        places = np.flatnonzero(sizes == choices)
        data = Units(
            [units[place] for place in places],
            task.checkpoint.row_length,
            task.is_grouped,
        )
        for taken, features in batches(run, data, batch_size, choices):
            outputs = run(features)
            for row, place in enumerate(places[taken].tolist()):
                found[place] = {name: v[row] for name, v in outputs.items()}
    return found


# --- Batches -----------------------------------------------------------------


def batches(
    run: Model, data: "Units | ShortRecords", batch_size: int, group: int = 1
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yield (numbers of rows [n], features [B, S]) of the batches for a model.

    A batch has batch_size rows of the full length, or more shorter rows with at
    most as many tokens: 32 of 128 tokens, 128 of 32. The longest come first: if
    memory is too small, the first batch fails, and not one after an hour. The
    sort is stable: rows of one length keep their order.

    Args:
        run: if each shape is compiled (`few_shapes`), all batches have
            batch_size rows, of few lengths, B > n if the last one is filled up
            with copies; else lengths are multiples of 8, or any (`any_length`).
        data: the rows.
        batch_size: counts the rows in a group one by one.
        group: rows that stay together, such as the choices of a question.
    """
    few_shapes = getattr(run, "few_shapes", False)
    any_length = getattr(run, "any_length", False)
    buckets = data.buckets(is_fine=not few_shapes)
    order, at = np.argsort(-data.lengths, kind="stable"), 0
    while at < len(order):
        length = data.lengths[order[at]]
        if not any_length:
            length = int(buckets[np.searchsorted(buckets, length)])
        more = min(1 if few_shapes else MORE_ROWS, buckets[-1] // length)
        size = max(1, batch_size * more // group)
        taken = order[at : at + size]
        at += size
        rows = np.resize(taken, size) if few_shapes else taken
        yield taken, data.gather(rows, length)
