"""Defaults that fine-tuning and pre-training do not share."""

import json
from unittest import mock

from base.errors import UserError

import pytest
import scripts
from absl import flags

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


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--sweep_batch_sizes=10,20"], None),  # --train_batch_size is unused
        (["--sweep_batch_sizes=20,12"], "--sweep_batch_sizes=12 does not div"),
        (["--sweep_batch_sizes=a"], "--sweep_batch_sizes=a: invalid literal"),
        (["--train_batch_size=32"], "--train_batch_size=32 does not divide"),
    ],
)
def test_all_batches_divide_into_micro_batches(arguments, problem):
    f = scripts.load("run_classifier").FLAGS
    f.unparse_flags()
    for name in f:
        f[name].unparse()
    given = [
        "--output_dir=out",
        "--do_train",
        "--gradient_accumulation_steps=5",
    ]
    f(["x", *given, *arguments])
    if problem is None:
        finetuning_flags.check(f)
        return
    with pytest.raises(UserError, match=problem):
        finetuning_flags.check(f)


@pytest.mark.parametrize("seed", ["-1", "20260101123456"])
def test_a_seed_is_one_that_keras_takes(seed):
    f = scripts.load("run_classifier").FLAGS
    f.unparse_flags()
    with pytest.raises(flags.IllegalFlagValueError, match="random_seed"):
        f(["x", "--output_dir=out", f"--random_seed={seed}"])
    f["random_seed"].unparse()


def test_an_export_that_exists_may_be_of_an_earlier_command(tmp_path):
    """Of a run, or of a sweep that was killed while it copied its best run."""
    f = scripts.load("run_classifier").FLAGS
    export = tmp_path / "saved_model" / "1"
    export.mkdir(parents=True)

    def check(**values) -> None:
        f.unparse_flags()
        for name in f:
            f[name].unparse()
        given = {"output_dir": tmp_path, "do_export": True, "do_train": True}
        arguments = (f"--{k}={v}" for k, v in (given | values).items())
        f(["x", *arguments])
        finetuning_flags.check(f)

    with pytest.raises(UserError, match="saved_model/1 exists already"):
        check()
    (tmp_path / "sweep_results.txt").write_text("")
    check(num_restarts=2)
    with pytest.raises(UserError, match="saved_model/1 exists already"):
        check(do_train=False)


def test_a_run_keeps_its_bias_correction(tmp_path):
    """One that began without it goes on without."""
    f = scripts.load("run_classifier").FLAGS
    run = {"fixed": {}, "adjustable": {"bias_correction": False}}
    (tmp_path / "training_config.json").write_text(json.dumps(run))

    def corrects(*arguments: str) -> bool:
        f.unparse_flags()
        f["bias_correction"].unparse()
        f(["x", f"--output_dir={tmp_path}", *arguments])
        return finetuning_flags.read(f).training.bias_correction

    assert corrects("--do_train")  # without a checkpoint there is no run
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-5"\n'
    )
    (tmp_path / "model.ckpt-5.index").write_text("")
    assert not corrects("--do_train")
    assert corrects("--do_train", "--bias_correction")
    f["do_train"].unparse()
