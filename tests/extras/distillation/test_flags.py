"""Flags of distillation: values, and what cannot work."""

import re

from base import flags as declared_flags
from base.errors import UserError

import pytest
import scripts
from absl import flags

from tasks.settings import DistillationFlags

run_classifier = scripts.load("run_classifier")


def test_flags_as_values():
    f = scripts.parse(
        run_classifier, teacher_answers="a,b/*", distillation_temperature=4
    )
    found = declared_flags.read(DistillationFlags, f)
    assert found == DistillationFlags(("a", "b/*"), 4.0, 1.0)


ANSWERS = {"teacher_answers": "a", "do_train": True}


@pytest.mark.parametrize(
    "values, flag",
    [
        ({"distillation_alpha": 0.5}, "--distillation_alpha"),
        ({"distillation_temperature": 2}, "--distillation_temperature"),
        ({"learn_all_answers": True}, "--learn_all_answers"),
        (ANSWERS | {"do_train": False}, "--do_train"),
        (ANSWERS | {"distillation_temperature": 0}, "_temperature=0"),
        (ANSWERS | {"distillation_temperature": "nan"}, "_temperature=nan"),
        (ANSWERS | {"distillation_temperature": "inf"}, "_temperature=inf"),
        (ANSWERS | {"distillation_alpha": 1.01}, "_alpha=1.01"),
        (ANSWERS | {"distillation_alpha": -0.1}, "_alpha=-0.1"),
        (ANSWERS | {"distillation_alpha": "nan"}, "_alpha=nan"),
    ],
    ids=str,
)
def test_flags_that_cannot_work(values, flag):
    with pytest.raises((UserError, flags.Error), match=re.escape(flag)):
        declared_flags.check(scripts.parse(run_classifier, **values))
