"""Targets and loss of distillation, by numbers worked out by hand."""

import math
import re
import types

from base.errors import UserError

import numpy as np
import pytest
import scripts
import tensorflow as tf

from finetuning import distillation
from finetuning.distillation import Options
from tasks import teaching

run_classifier = scripts.load("run_classifier")


def test_the_mean_of_teachers_is_one_of_probabilities():
    logits = [np.log([[1.0, 3.0], [4.0, 1.0]]), np.log([[1.0, 1.0], [1, 4]])]
    found = teaching.mean_probabilities(logits, 1.0)
    np.testing.assert_allclose(found, [[0.375, 0.625], [0.5, 0.5]], rtol=1e-6)
    assert found.dtype == np.float32
    # At temperature 2 odds of 3 and 4 become their square roots.
    share = 1.0 / (1.0 + math.sqrt(3.0))
    found = teaching.mean_probabilities(logits, 2.0)
    np.testing.assert_allclose(found[0, 0], (share + 0.5) / 2, rtol=1e-6)
    # Of tags, [words, K], and of logits whose exponentials overflow.
    large = np.array([[[1000.0, 999.0], [-1000.0, 1000.0]]])
    found = teaching.mean_probabilities([large], 1.0)
    np.testing.assert_allclose(
        found, [[[0.7310586, 0.2689414], [0.0, 1.0]]], rtol=1e-5
    )


def test_every_row_weighs_the_same():
    """Four rows, one with a label: a label counts as one row of four."""
    options = Options(("a",), 2.0, 0.75)
    lessons = types.SimpleNamespace(
        count=lambda batch: tf.constant(4.0), sums=dict, names=("tokens",)
    )
    objective = distillation.objective(options, lessons)
    weights = objective.loss_weights({})
    assert set(weights) == {"soft_loss", "label_loss"}
    sums = {"soft_loss": tf.constant(8.0), "label_loss": tf.constant(0.6)}
    loss = objective.total_loss(sums, weights)
    np.testing.assert_allclose(loss, 0.75 * 8.0 / 4 + 0.25 * 0.6 / 4)
    assert objective.names == ("tokens",)


def test_a_perfect_student_has_the_entropy_of_the_targets():
    targets = np.array([[1.0, 0.0], [0.5, 0.5]], np.float32)
    np.testing.assert_allclose(
        teaching.entropy(targets), [0.0, math.log(2.0)], rtol=1e-6
    )


# --- Flags -------------------------------------------------------------------


def parsed(**values):
    f = run_classifier.FLAGS
    f.unparse_flags()
    for name in f:
        f[name].unparse()
    f(["x", *(f"--{name}={value}" for name, value in values.items())])
    return f


def test_flags_as_values():
    assert distillation.read(parsed()) is None
    f = parsed(teacher_checkpoint="a,hf://b/c", distillation_temperature=4)
    assert distillation.read(f) == Options(("a", "hf://b/c"), 4.0, 1.0)


TEACHER = {"teacher_checkpoint": "a", "do_train": True}


@pytest.mark.parametrize(
    "values, flag",
    [
        ({"distillation_alpha": 0.5}, "--distillation_alpha"),
        ({"distillation_temperature": 2}, "--distillation_temperature"),
        ({"transfer_file": "a.txt"}, "--transfer_file"),
        (TEACHER | {"do_train": False}, "--do_train"),
        (TEACHER | {"teacher_checkpoint": "a,b,a"}, "'a' 2 times"),
        (TEACHER | {"teacher_checkpoint": "a,,b"}, "'' 1 times"),
        (TEACHER | {"distillation_temperature": 0}, "_temperature=0"),
        (TEACHER | {"distillation_temperature": "nan"}, "_temperature=nan"),
        (TEACHER | {"distillation_temperature": "inf"}, "_temperature=inf"),
        (TEACHER | {"distillation_alpha": 1.01}, "_alpha=1.01"),
        (TEACHER | {"distillation_alpha": -0.1}, "_alpha=-0.1"),
        (TEACHER | {"distillation_alpha": "nan"}, "_alpha=nan"),
    ],
    ids=str,
)
def test_flags_that_cannot_work(values, flag):
    with pytest.raises(UserError, match=re.escape(flag)):
        distillation.check(parsed(**values), "transfer_file")
