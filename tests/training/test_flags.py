"""Flags that all training scripts share."""

import pytest
import scripts
from absl import flags


@pytest.mark.parametrize("name", ["weight_decay_rate", "learning_rate"])
@pytest.mark.parametrize("script", ["run_pretraining", "run_swag"])
def test_rates_are_not_negative(script, name):
    f = scripts.load(script).FLAGS
    f.unparse_flags()
    with pytest.raises(flags.Error, match=f"{name}=-0.01: .* non-negative"):
        f([script, f"--{name}=-0.01"])
    f.unparse_flags()
    f([script, f"--{name}=0"])
