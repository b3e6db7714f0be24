"""Defaults that fine-tuning and pre-training do not share."""

from unittest import mock

import pytest
import scripts

from finetuning import flags as finetuning_flags


@pytest.mark.parametrize(
    "name", ["run_classifier", "run_squad", "run_ner", "run_swag"]
)
def test_fine_tuning_corrects_by_default_and_pretraining_does_not(name):
    script = scripts.load(name)
    for argument, corrects in (("", True), ("--nobias_correction", False)):
        script.FLAGS.unparse_flags()
        script.FLAGS["bias_correction"].unparse()
        script.FLAGS(["x", "--output_dir=out", *filter(None, [argument])])
        settings = finetuning_flags.read(script.FLAGS)
        assert settings.training.bias_correction is corrects
        assert "--nobias_correction" in script.FLAGS["bias_correction"].help
    pretraining = scripts.load("run_pretraining").FLAGS["bias_correction"]
    assert pretraining.default is False
    assert "--nobias_correction" not in pretraining.help


@pytest.mark.parametrize(
    "argument, environment, is_restart",
    [
        ("--num_restarts=1", {}, False),
        ("--num_restarts=2", {}, True),
        ("--num_restarts=1", {"BERT_RUN_OF_SWEEP": "1"}, True),
    ],
)
def test_restarts_are_advised_to_single_runs(argument, environment, is_restart):
    f = scripts.load("run_classifier").FLAGS
    f.unparse_flags()
    f(["x", "--output_dir=out", argument])
    with mock.patch.dict("os.environ", environment):
        found = finetuning_flags.read(f).is_restart
    f["num_restarts"].unparse()
    assert found is is_restart
