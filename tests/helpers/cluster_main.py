"""Runs the script SCRIPT in a process that kills itself at the place in FAIL.

FAIL is "<place>:<number>", each a moment that a kill from outside would hardly
hit:

    step:7      inside step 7, between two sums over the machines
    files:8     while checkpoint 8 is saved: its data are there, its index not
    list:8      checkpoint 8 is there, but not in the list of checkpoints
    evaluate:2  in batch 2 of an evaluation
    wait:8      no kill: saving checkpoint 8 takes so long that another
                machine can be killed meanwhile
"""

import importlib
import os
import signal
import time

from base import script

import tensorflow as tf

from checkpoints import training_state, weight_files
from training import evaluation, train_step


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail_in_step(number: int) -> None:
    original = train_step.Step._replica_step

    def replica_step(self, batch, step, *others):
        def look(step):
            if int(step) == number:
                die()

        # The step's first sum over the machines has been asked for by the
        # others, who wait in this step then.
        with tf.control_dependencies([tf.py_function(look, [step], [])]):
            return original(self, batch, tf.identity(step), *others)

    train_step.Step._replica_step = replica_step


def fail_while_saving(number: int, between_files: bool) -> None:
    name = f"model.ckpt-{number}"
    write, write_list = weight_files.write, training_state.TrainingState

    def half(prefix, tensors):
        write(prefix, tensors)
        if prefix.endswith(name):
            tf.io.gfile.remove(prefix + ".index")
            die()

    def unlisted(self, prefixes):
        if prefixes[-1].endswith(name):
            die()
        original(self, prefixes)

    if between_files:
        weight_files.write = half
    else:
        original = write_list._write_list
        write_list._write_list = unlisted


def wait_while_saving(number: int) -> None:
    write = weight_files.write

    def slowly(prefix, tensors):
        if prefix.endswith(f"model.ckpt-{number}"):
            open(os.environ["FAIL_SIGN"], "w").close()
            time.sleep(2)
        write(prefix, tensors)

    weight_files.write = slowly


def fail_in_evaluation(number: int) -> None:
    original = evaluation.Evaluator.__call__

    def evaluate(self):
        step, seen = self._step, []

        def counting(batch):
            seen.append(0)
            if len(seen) == number:
                die()
            return step(batch)

        self._step = counting
        return original(self)

    evaluation.Evaluator.__call__ = evaluate


place, _, number = os.environ.get("FAIL", "").partition(":")
if place == "step":
    fail_in_step(int(number) - 1)  # the first step has number 0 there
elif place in ("files", "list"):
    fail_while_saving(int(number), place == "files")
elif place == "evaluate":
    fail_in_evaluation(int(number))
elif place == "wait":
    wait_while_saving(int(number))
script.run(importlib.import_module(os.environ["SCRIPT"]).main)
