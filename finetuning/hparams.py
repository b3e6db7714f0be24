"""The runs of a sweep as TensorBoard's HParams page shows them.

The folder `hparams` of a sweep has a file with the names of hyperparameters
and scores, and a folder with one file for each finished run. The files are
written anew after each run and whenever the sweep's command is given, so a run
has one row.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from base import file_system

from absl import logging

FOLDER = "hparams"

# TensorBoard reads files with "tfevents" in their names.
_FILE = "events.out.tfevents.1.sweep"

_NO_SCORES = ("global_step",)


def write(
    output_dir: str,
    values: Mapping[str, Mapping[str, float]],
    results: Mapping[str, Mapping[str, float]],
    metric: str,
    is_last: bool,
) -> None:
    """Write the rows of all finished runs; without TensorBoard only a warning.

    Args:
        output_dir: of the sweep.
        values: name of a run -> {hyperparameter: value}, of all runs.
        results: name of a finished run -> its scores.
        metric: the score that decides; it has the first column of scores.
        is_last: all runs are finished; one line says where the rows are.
    """
    folder = os.path.join(output_dir, FOLDER)
    try:
        _write_columns(folder, values, results, metric)
        for name, scores in results.items():
            _write_row(os.path.join(folder, name), name, values[name], scores)
    except ImportError:
        if is_last:
            logging.warning(
                "%s: not written, since tensorboard is not installed; to "
                "install it: python -m pip install -r requirements.txt",
                folder,
            )
        return
    if is_last:
        logging.info(
            "The runs in TensorBoard's HPARAMS page: tensorboard --logdir=%s",
            folder,
        )


def _write_columns(
    folder: str,
    values: Mapping[str, Mapping[str, float]],
    results: Mapping[str, Mapping[str, float]],
    metric: str,
) -> None:
    """Write the names and values of hyperparameters, and names of scores."""
    from tensorboard.plugins.hparams import api, summary_v2

    names = dict.fromkeys(name for run in values.values() for name in run)
    hyperparameters = [
        api.HParam(
            name,
            api.Discrete(
                sorted({float(run[name]) for run in values.values()}),
                dtype=float,
            ),
        )
        for name in names
    ]
    found = [name for scores in results.values() for name in scores]
    columns = dict.fromkeys([metric, *found, "degenerate"])
    metrics = [api.Metric(name) for name in columns if name not in _NO_SCORES]
    _write_file(
        folder, [(0, summary_v2.hparams_config_pb(hyperparameters, metrics))]
    )


def _write_row(
    folder: str,
    name: str,
    values: Mapping[str, float],
    scores: Mapping[str, float],
) -> None:
    """Write the hyperparameters and the scores of a run.

    Args:
        folder: for this run alone.
        name: of the run.
        values: {hyperparameter: value}.
        scores: of eval_results.txt.
    """
    from tensorboard.plugins.hparams import api_pb2, summary, summary_v2
    from tensorboard.plugins.scalar import summary_v2 as scalar

    step = int(scores.get("global_step", 0))
    # eval_results.txt has `degenerate` only where it is 1.
    scores = {"degenerate": 0.0, **scores}
    written = {
        key: value
        for key, value in scores.items()
        if key not in _NO_SCORES and math.isfinite(value)
    }
    status = "STATUS_FAILURE" if scores["degenerate"] else "STATUS_SUCCESS"
    numbers = {key: float(value) for key, value in values.items()}
    # Nobody knows when an earlier command began the run.
    now = time.time()
    begin = summary_v2.hparams_pb(numbers, name, start_time_secs=now)
    end = summary.session_end_pb(api_pb2.Status.Value(status), now)
    _write_file(
        folder,
        [
            (0, begin),
            *((step, scalar.scalar_pb(k, v)) for k, v in written.items()),
            (step, end),
        ],
    )


def _write_file(folder: str, summaries: Sequence[tuple[int, Any]]) -> None:
    """Write pairs (step, summary) as the one event file of a folder."""
    from tensorboard.compat.proto import event_pb2
    from tensorboard.summary.writer import record_writer

    file_system.make_directory(folder)
    now = time.time()
    events = [event_pb2.Event(wall_time=now, file_version="brain.Event:2")]
    for step, summary in summaries:
        event = event_pb2.Event(wall_time=now, step=step)
        # Some of them are of TensorFlow's class, which is another one.
        event.summary.MergeFromString(summary.SerializeToString())
        events.append(event)
    with file_system.atomic_file(os.path.join(folder, _FILE)) as file:
        writer = record_writer.RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())
