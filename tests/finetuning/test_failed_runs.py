"""What a failed run advises: nothing that it did already."""

import pytest

from finetuning import failed_runs
from tasks.bilstm import BiLstmSize
from tasks.settings import RunSettings
from training.settings import Settings


def warning(bilstm=None, do_train=True, is_restart=False, **training) -> str:
    """Return the warning of a run; the fields that advice reads matter."""
    values = dict.fromkeys(RunSettings._fields)
    values |= {
        "do_train": do_train,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "is_restart": is_restart,
        "bilstm": bilstm,
        "training": Settings("out", 0, 32, **training),
    }
    return failed_runs.warning(["first", "second"], RunSettings(**values), 1e-5)


@pytest.mark.parametrize(
    "settings, wanted, unwanted",
    [
        ({}, "first; second", "another --learning_rate"),
        ({}, "--bias_correction", "a higher"),
        ({}, "a lower --learning_rate (it was 5e-05)", "a higher"),
        ({}, "--num_restarts=5 with another --output_dir", "a higher"),
        ({"bias_correction": True}, "--num_restarts", "--bias_correction"),
        ({"is_restart": True}, "--bias_correction", "--num_restarts"),
        ({"learning_rate": 1e-6}, "a higher --learning_rate", "a lower"),
        ({"learning_rate": 0.0}, "above 0, which trains nothing", "seed"),
        ({"bilstm": BiLstmSize(1, 6)}, "another --learning_rate", "lower"),
        ({"do_train": False}, "fine-tuned this model", "(it was"),
    ],
    ids=str,
)
def test_advice_leaves_out_what_was_used(settings, wanted, unwanted):
    text = warning(**settings)
    assert wanted in text and unwanted not in text
