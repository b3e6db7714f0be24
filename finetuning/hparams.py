"""The runs of a sweep as TensorBoard's HParams page shows them.

The folder `hparams` of a sweep has a file with the names of hyperparameters
and scores, and a folder with one file for each finished run. The files are
written anew after each run and whenever the sweep's command is given, so a run
has one row.
"""

import math
import os
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

FOLDER = "hparams"

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
    from tensorboard.plugins.hparams import api

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
    with _new_writer(folder).as_default():
        api.hparams_config(hyperparameters, metrics)


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
    from tensorboard.plugins.hparams import api, api_pb2, summary

    step = int(scores.get("global_step", 0))
    # eval_results.txt has `degenerate` only where it is 1.
    scores = {"degenerate": 0.0, **scores}
    status = "STATUS_FAILURE" if scores["degenerate"] else "STATUS_SUCCESS"
    # The public API has no way to say that a run failed.
    end = summary.session_end_pb(api_pb2.Status.Value(status))
    with _new_writer(folder).as_default():
        api.hparams({key: float(v) for key, v in values.items()}, name)
        for key, value in scores.items():
            if key not in _NO_SCORES and math.isfinite(value):
                tf.summary.scalar(key, value, step)
        tf.summary.experimental.write_raw_pb(end.SerializeToString(), step)


def _new_writer(folder: str) -> tf.summary.SummaryWriter:
    """Return a writer to a folder; the file of an earlier one is removed."""
    for path in tf.io.gfile.glob(os.path.join(folder, "events.*")):
        tf.io.gfile.remove(path)
    return tf.summary.create_file_writer(folder)
