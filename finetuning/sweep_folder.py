"""The output_dir of a sweep: what it may hold, and the best run's files in it.

The runs of a sweep are in its folder `runs`. output_dir itself gets the model
and the results of the best run. It has no run of its own: later commands would
take that run's scores and signs of failure for those of the best model, and the
command of that run would replace the model.
"""

import os
import shutil
from collections.abc import Sequence

from base import file_system
from base.errors import UserError

import tensorflow as tf
from absl import logging

from checkpoints import lookup, run_settings, weight_files
from finetuning import fine_tuned

RUNS = "runs"  # the folder of the runs

RESULTS = "sweep_results.txt"

# The files of a model beside its weights.
_MODEL = (lookup.BERT_CONFIG_NAME, lookup.VOCAB_NAME, "tokenizer_config.json")

_PART = 1 << 24  # bytes that are copied at a time


def has_results(output_dir: str) -> bool:
    """Return whether output_dir is that of a sweep whose runs were finished."""
    return tf.io.gfile.exists(os.path.join(output_dir, RESULTS))


def check_no_run(output_dir: str) -> None:
    """Raise a UserError if output_dir has a run or model that is no sweep's."""
    found = lookup.latest_checkpoint(output_dir)
    # A sweep copies a model after it has written its results.
    if not found and not has_results(output_dir):
        found = fine_tuned.find_weights(output_dir)
    if found:
        raise UserError(
            f"output_dir {output_dir} has a run of its own ({found}), which "
            "--num_restarts and --sweep_* cannot resume: use another "
            "--output_dir for them, or leave them out to resume that run"
        )
    if not has_results(output_dir):
        run_settings.check_free(output_dir)


def check_no_sweep(output_dir: str) -> None:
    """Raise a UserError if output_dir has runs of a sweep."""
    found = RESULTS if has_results(output_dir) else None
    for run in sorted(tf.io.gfile.glob(os.path.join(output_dir, RUNS, "*"))):
        # Without a checkpoint there is nothing to protect.
        if not found and run_settings.read_adjustable(run):
            found = f"{RUNS}/{os.path.basename(run)}"
    if found:
        raise UserError(
            f"output_dir {output_dir} has the runs of a sweep ({found}), whose "
            "best model a single run would replace: use another --output_dir, "
            "or give --num_restarts or --sweep_* as the sweep did"
        )


def copy_best(folder: str, output_dir: str, results: Sequence[str]) -> None:
    """Copy the best run's model and results to the sweep's output_dir.

    A model and results of an earlier copy are removed first, and the index of
    the weights is copied last. Readers take weights without an index for
    missing, so a copy that is killed is never taken for a model, and results
    are never beside another model.
    """
    *data, index = (lookup.WEIGHTS_NAME + end for end in weight_files.SUFFIXES)
    results = list(dict.fromkeys(results))
    for name in (index, *results):
        path = os.path.join(output_dir, name)
        if tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)
    for name in (*_MODEL, *data, *results, index):
        source = os.path.join(folder, name)
        if not tf.io.gfile.exists(source):
            continue
        target = os.path.join(output_dir, name)
        file_system.remove_leftovers(target)
        with (
            file_system.open_for_reading(source) as old,
            file_system.atomic_file(target) as new,
        ):
            shutil.copyfileobj(old, new, _PART)
    logging.info("Copied the best run, %s, to %s", folder, output_dir)
