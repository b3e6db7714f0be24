"""Flags of distillation: values, and what cannot work."""

import functools
import re

from base import flags as declared_flags
from base.errors import UserError

import pytest
import scripts
from absl import flags

from extras.distillation import flags as distillation_flags
from extras.distillation.teachers import Options

run_classifier = scripts.load("run_classifier")
parsed = functools.partial(scripts.parse, run_classifier)


def test_flags_as_values():
    assert distillation_flags.read(parsed()) is None
    f = scripts.parse(
        run_classifier,
        teacher_checkpoint="a,hf://b/c",
        distillation_temperature=4,
    )
    assert distillation_flags.read(f) == Options(("a", "hf://b/c"), 4.0, 1.0)


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
    with pytest.raises((UserError, flags.Error), match=re.escape(flag)):
        f = parsed(**values)
        declared_flags.check(f)
        distillation_flags.check(f)
