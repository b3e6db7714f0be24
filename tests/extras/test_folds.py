"""extras/folds.py: parts of the training set."""

from base.errors import UserError

import pytest

from extras import folds
from tasks.classifier.glue import Example


def test_folds_are_parts_with_their_share_of_every_label():
    examples = [
        Example(str(i), "text", None, "yes" if i < 6 else "no")
        for i in range(20)
    ]
    seen = []
    for number in (1, 2, 3):
        held_out, others = folds.split(examples, number, 3, False)
        assert sorted(held_out + others) == sorted(examples)
        assert sum(x.label == "yes" for x in held_out) == 2
        seen += held_out
    assert sorted(seen) == sorted(examples)
    with pytest.raises(UserError, match="--num_folds=21: there are 20"):
        folds.split(examples, 1, 21, False)
