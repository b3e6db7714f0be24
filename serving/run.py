"""Predict the shards of a plan on this machine, one after the other.

    shard -> windows -> batches by length -> model -> lines in order -> file

Memory holds one window, whatever the size of the input.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence

from base import progress
from base.errors import UserError

from absl import logging

from serving import data, outputs
from serving.data import Problem, Window
from serving.outputs import WindowResult
from serving.plan import Plan
from tasks import predict
from tasks.task import Model, Prediction, Task


def predict_window(
    task: Task, run_model: Model, window: Window, batch_size: int
) -> WindowResult:
    """Return the predictions of a window.

    Args:
        task: of the model.
        run_model: see `model.load`.
        window: the inputs.
        batch_size: see `predict.make_batches`.
    """
    found = predict.predict(task, run_model, window.inputs, batch_size)
    return window_result(window, found)


def window_result(
    window: Window, predictions: Sequence[Prediction | str]
) -> WindowResult:
    """Return the lines, problems and counts of a window.

    Args:
        window: the inputs.
        predictions: of each, or why it has none.
    """
    lines, problems = [], list(window.problems)
    num_truncated = 0
    for item, found in zip(window.inputs, predictions, strict=True):
        if isinstance(found, str):
            problems.append(Problem(item.place, found, f"id {item.id}"))
            continue
        num_truncated += "truncated" in found
        line = {"id": item.id} | found
        lines.append(json.dumps(line, ensure_ascii=False))
    # Those found by the model after those found by the parser.
    problems.sort(key=lambda problem: problem.place.number)
    counts = {
        "inputs": len(window.inputs) + len(window.problems),
        "predicted": len(lines),
        "bad_inputs": len(problems),
        "truncated": num_truncated,
        "blank_lines": window.num_blank,
    }
    return WindowResult(lines, problems, counts)


# --- Shards ------------------------------------------------------------------


def predict_shards(
    plan: Plan,
    to_do: Sequence[int],
    task: Task,
    load_model: Callable[[], Model],
    batch_size: int,
) -> None:
    """Write the shards with the numbers `to_do`.

    Raises:
        UserError: an input cannot be read any more.
    """
    run_model = load_model()
    total = sum(plan.shard_bytes(index) for index in to_do)
    before = data.lines_before(
        plan.shards,
        lambda number: data.count_line_ends(plan.shards[number][-1]),
    )
    wanted, num_inputs, began = set(to_do), 0, time.monotonic()
    with progress.bar(total, "B", "Predicting", unit_scale=True) as bar:

        def results(index: int, lines: int) -> Iterator[WindowResult]:
            nonlocal num_inputs
            windows = data.read_windows(plan.shards[index], lines, task.parse)
            for window in windows:
                result = predict_window(task, run_model, window, batch_size)
                num_inputs += len(window.inputs)
                seconds = max(time.monotonic() - began, 1e-9)
                bar.note(f"{num_inputs / seconds:,.1f} inputs/s")
                bar.update(window.num_bytes)
                yield result

        for index, lines in enumerate(before):
            if index in wanted:
                outputs.write_shard(plan, index, results(index, lines))
    seconds = time.monotonic() - began
    logging.info(
        "Predicted %d inputs in %s, %.1f inputs/s",
        num_inputs,
        progress.format_seconds(seconds),
        num_inputs / max(seconds, 1e-9),
    )


def log_summary(counts: dict[str, int], plan: Plan) -> None:
    """Log what a run has done.

    Raises:
        UserError: there is no prediction.
    """
    logging.info("***** Predictions *****")
    logging.info("  Inputs = %d", counts["inputs"])
    logging.info("  Predicted = %d", counts["predicted"])
    logging.info("  Truncated = %d", counts["truncated"])
    logging.info("  Blank lines = %d", counts["blank_lines"])
    logging.info("  Bad inputs = %d (%s)", counts["bad_inputs"], plan.errors)
    if counts["bad_inputs"]:
        logging.warning(
            "%d of %d inputs have no prediction; %s names each with its reason",
            counts["bad_inputs"],
            counts["inputs"],
            plan.errors,
        )
    if not counts["inputs"]:
        raise UserError("the inputs hold no text and no record")
    if not counts["predicted"]:
        raise UserError(
            f"none of {counts['inputs']} inputs could be predicted; see "
            f"{plan.errors}"
        )
    more = len(plan.shards) - 1
    others = f" and {more} more files" if more else ""
    logging.info("Wrote %s%s", plan.output(0), others)
