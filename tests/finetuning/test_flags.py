"""Flags of fine-tuning: defaults, values made of several, what cannot work."""

from base.errors import UserError

import pytest
import scripts
from absl import flags

from checkpoints.model import Checkpoint
from checkpoints.run_folder import RunFolder
from checkpoints.trained_for import TrainedFor
from finetuning import flags as finetuning_flags
from finetuning import runner
from modeling import BertConfig
from tasks.job import usual_rate
from tasks.settings import RunSettings


def parsed(*arguments: str, script: str = "run_classifier") -> flags.FlagValues:
    f = scripts.parse(scripts.load(script))
    f(["x", "--output_dir=out", *arguments])
    return f


def read(f: flags.FlagValues) -> RunSettings:
    return finetuning_flags.read_settings(f, RunFolder.read(f.output_dir))


@pytest.mark.parametrize("script", ["run_classifier", "run_squad"])
def test_fine_tuning_corrects_by_default_and_pretraining_does_not(script):
    for arguments, corrects in (((), True), (("--nobias_correction",), False)):
        settings = read(parsed(*arguments, script=script))
        assert settings.bias_correction is corrects
    pretraining = scripts.load("run_pretraining").FLAGS
    assert pretraining["bias_correction"].default is False


@pytest.mark.parametrize(
    "argument, problem",
    [
        ("--sweep_batch_sizes=10,20", None),  # --train_batch_size is unused
        ("--sweep_batch_sizes=20,12", "--sweep_batch_sizes=12"),
        ("--sweep_batch_sizes=a", "--sweep_batch_sizes=a"),
        ("--train_batch_size=32", "--train_batch_size=32"),
    ],
)
def test_all_batches_divide_into_micro_batches(argument, problem):
    f = parsed("--do_train", "--gradient_accumulation_steps=5", argument)
    if problem is None:
        finetuning_flags.check_flags(f)
        return
    with pytest.raises(UserError, match=problem):
        finetuning_flags.check_flags(f)


@pytest.mark.parametrize(
    "flag, value",
    [
        ("random_seed", -1),  # not one that Keras takes
        ("random_seed", 20260101123456),
        ("train_batch_size", 10**9),
        ("predict_batch_size", 10**12),
        ("num_restarts", 10**9),
        ("bilstm_layers", 10**6),
    ],
)
def test_numbers_that_are_refused(flag, value):
    with pytest.raises(flags.IllegalFlagValueError, match=flag):
        parsed(f"--{flag}={value}")


def test_an_export_that_exists_may_be_of_an_earlier_command(tmp_path):
    """Of a run, or of a sweep that was killed while it copied its best run."""
    (tmp_path / "saved_model" / "1").mkdir(parents=True)
    given = [f"--output_dir={tmp_path}", "--do_export"]
    with pytest.raises(UserError, match="saved_model/1 exists already"):
        read(parsed(*given, "--do_train"))
    (tmp_path / "sweep_results.txt").write_text("")
    read(parsed(*given, "--do_train", "--num_restarts=2"))
    with pytest.raises(UserError, match="saved_model/1 exists already"):
        read(parsed(*given))


@pytest.mark.parametrize(
    "num_examples, given, steps, warning",
    [
        (2490, [], 233, ""),  # RTE: 3 epochs, as in the original
        (2399, [], 374, "5 epochs"),
        (
            480,
            [],
            300,
            "20 epochs (300 steps) instead of 3, which are only 45 steps for "
            "480 examples; --num_train_epochs=3 overrides this",
        ),
        (480, ["--num_train_epochs=3"], 45, "45 steps are few to learn from"),
        (480, ["--num_train_epochs=16"], 240, ""),
        (480, ["--train_batch_size=4"], 360, ""),
        (7, [], 300, "1372 epochs"),
    ],
)
def test_few_examples_get_more_epochs(
    num_examples, given, steps, warning, caplog
):
    settings = read(parsed("--do_train", *given))
    training = runner.with_steps(settings, num_examples)
    assert training.num_train_steps == steps
    assert training.num_warmup_steps == steps // 10
    assert warning in caplog.text if warning else not caplog.text


@pytest.mark.parametrize(
    "units, layers, rate",
    [
        (128, None, 5e-4),
        (256, None, 5e-4),
        (384, None, None),
        (768, "sum", 1e-3),
    ],
)
def test_rates_that_were_measured(units, layers, rate):
    config = BertConfig(100, hidden_size=units, num_attention_heads=2)
    source = Checkpoint("", config, TrainedFor(feature_layers=layers))
    usual = usual_rate(source)
    assert (usual and usual[0]) == rate


def test_a_rate_is_given_however_it_is_set():
    """By a program that sets the flag, as well."""
    f = parsed()
    assert not read(f).is_rate_given
    f.learning_rate = 5e-5
    assert read(f).is_rate_given
    assert read(parsed("--learning_rate=5e-5")).is_rate_given
