"""run_pretraining.py as a user runs it, on records small enough to reason on.

Most tests call main inside this process, which saves TensorFlow's start-up;
those that kill, or need devices of their own, start processes.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scripts
import tensorflow as tf
from paths import ROOT
from pretraining_runs import (
    CONFIG,
    assert_same,
    flags_for,
    make_features,
    weights_of,
    write_data,
)
from tiny import results_of

import modeling
from checkpoints import weight_files
from pretraining import model as pretraining_model
from training.loss_scale import Scale

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory) -> Path:
    """An uninterrupted run of 12 steps, evaluated."""
    output_dir = tmp_path_factory.mktemp("finished")
    values = flags_for(
        data, output_dir, do_eval=True, eval_input_file=data / "dev"
    )
    scripts.run(run_pretraining, **values, eval_batch_size=4)
    return output_dir


@pytest.mark.slow
def test_output_files_and_names(finished):
    weights = weights_of(finished / "bert_model.ckpt")
    model = pretraining_model.BertForPreTraining(
        modeling.BertConfig.from_dict(CONFIG)
    )
    assert set(weights) == {variable.path for variable in model.variables}
    assert "bert/encoder/layer_0/attention/self/query/kernel" in weights
    trained = weights_of(finished / "model.ckpt-12")
    slots = {f"{name}/adam_{slot}" for name in weights for slot in "mv"}
    assert set(trained) == set(weights) | slots | {"global_step"}
    assert trained["global_step"] == 12
    for name, value in weights.items():
        np.testing.assert_array_equal(trained[name], value)
    config = json.loads((finished / "bert_config.json").read_text())
    assert config.items() >= CONFIG.items()
    kept = sorted(path.name for path in finished.glob("model.ckpt*.index"))
    assert kept == [f"model.ckpt-{step}.index" for step in (10, 12, 5)]


@pytest.mark.slow
def test_evaluation_reads_each_record_once(finished, data):
    """21 records in batches of 4: the last holds one and three fillings."""
    model = pretraining_model.BertForPreTraining(
        modeling.BertConfig.from_dict(CONFIG)
    )
    weight_files.restore_weights(model.variables, str(finished))
    features = make_features(np.random.default_rng(9), 21)
    batch = {k: tf.constant(v.astype(np.int32)) for k, v in features.items()}
    output = model(batch)
    weights = features["masked_lm_weights"]
    log_probs = tf.nn.log_softmax(output.masked_lm_logits).numpy()
    losses = -np.take_along_axis(
        log_probs, features["masked_lm_ids"][:, :, None], 2
    )[:, :, 0]
    expected = (losses * weights).sum() / weights.sum()
    results = results_of(finished)
    assert results["masked_lm_loss"] == pytest.approx(expected, rel=1e-5)
    assert results["masked_lm_perplexity"] == pytest.approx(
        np.exp(expected), rel=1e-5
    )
    hits = log_probs.argmax(-1) == features["masked_lm_ids"]
    assert results["masked_lm_accuracy"] == pytest.approx(
        (hits * weights).sum() / weights.sum(), rel=1e-6
    )
    labels = features["next_sentence_labels"]
    next_log_probs = tf.nn.log_softmax(output.next_sentence_logits).numpy()
    assert results["next_sentence_loss"] == pytest.approx(
        -np.take_along_axis(next_log_probs, labels, 1).mean(), rel=1e-5
    )
    assert results["next_sentence_accuracy"] == pytest.approx(
        (next_log_probs.argmax(-1) == labels[:, 0]).mean()
    )
    assert results["loss"] == pytest.approx(
        results["masked_lm_loss"] + results["next_sentence_loss"], rel=1e-5
    )
    assert results["global_step"] == 12


@pytest.mark.slow
def test_training_learns(data, tmp_path):
    values = flags_for(data, tmp_path, num_train_steps=150, log_steps=150)
    scripts.run(
        run_pretraining,
        **values,
        do_eval=True,
        eval_input_file=data / "dev",
    )
    # The masked token is told by its position: far below log(7) = 1.95.
    assert results_of(tmp_path)["masked_lm_loss"] < 0.7


def go_back_to_step_5(folder: Path) -> None:
    """Remove what a run wrote after its first checkpoint."""
    for name in ("model.ckpt-10", "model.ckpt-12", "bert_model.ckpt"):
        weight_files.remove(str(folder / name))
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-5"\n'
        'all_model_checkpoint_paths: "model.ckpt-5"\n'
    )


@pytest.mark.slow
def test_resumed_run_ends_with_the_same_bits(data, finished, tmp_path):
    """Stopped after the checkpoint at 5, with a half-written one beside."""
    values = flags_for(data, tmp_path)
    scripts.run(run_pretraining, **values | {"num_train_steps": 12})
    go_back_to_step_5(tmp_path)
    leftover = tmp_path / "model.ckpt-10.tmp.data-00000-of-00001"
    leftover.write_bytes(b"half")
    scripts.run(run_pretraining, **values)
    assert not leftover.exists()
    for name in ("model.ckpt-12", "bert_model.ckpt"):
        assert_same(weights_of(finished / name), weights_of(tmp_path / name))


@pytest.mark.slow
def test_kill_9_and_start_again(data, tmp_path):
    """Killed somewhere after a checkpoint, it ends with the same bits."""
    values = flags_for(
        data, tmp_path / "killed", num_train_steps=100, log_steps=10
    )
    scripts.run(run_pretraining, **values | {"output_dir": tmp_path / "whole"})
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py")]
        + [f"--{k}={v}" for k, v in values.items()],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if " step 40/100" in line:
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    scripts.run(run_pretraining, **values)
    assert_same(
        weights_of(tmp_path / "whole" / "model.ckpt-100"),
        weights_of(tmp_path / "killed" / "model.ckpt-100"),
    )


@pytest.mark.slow
def test_init_checkpoint_starts_from_weights(data, finished, tmp_path, caplog):
    values = flags_for(
        data,
        tmp_path,
        init_checkpoint=finished,
        num_train_steps=1,
        num_warmup_steps=1,
    )
    with caplog.at_level("INFO"):
        scripts.run(run_pretraining, **values)
    assert "The only step has learning rate 0" in caplog.text
    # The only update has the rate of step 1, the end: 0. Weights stay.
    assert_same(
        weights_of(finished / "bert_model.ckpt"),
        weights_of(tmp_path / "bert_model.ckpt"),
    )
    count = len(weights_of(finished / "bert_model.ckpt"))
    assert f"{count} variables restored, 0 new, 0 unused" in caplog.text


@pytest.mark.slow
def test_summaries_hold_the_log_line(finished):
    names = set()
    for path in finished.glob("events.out.tfevents*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            names |= {value.tag for value in event.summary.value}
    assert names >= {
        "loss",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "learning_rate",
        "sequences_per_second",
        "tokens_per_second",
    }


# --- What goes wrong ---------------------------------------------------------


def change(data: Path, tmp_path: Path, **changes) -> str:
    values = flags_for(data, tmp_path / "out") | changes
    values = {k: v for k, v in values.items() if v is not None}
    return scripts.error_of(run_pretraining, **values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_train": False}, "give --do_train, --do_eval or both"),
        ({"bert_config_file": None}, "--bert_config_file is required without"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"input_file": None}, "--do_train needs --input_file"),
        ({"bert_config_file": "/none.json"}, "/none.json"),
        ({"input_file": "/none/*"}, "no file matches '/none/*'"),
        ({"eval_steps": 5}, "--eval_steps needs --eval_input_file"),
        ({"max_seq_length": 64}, "max_position_embeddings=32"),
        ({"gradient_accumulation_steps": 3}, "use a multiple of 3"),
        ({"vocab_file": "/none.txt"}, "/none.txt"),
        ({"init_checkpoint": "/none"}, "no such checkpoint"),
        ({"resume_from": "hf://a/b"}, "give it as --init_checkpoint"),
        ({"initial_loss_scale": 8}, "is for --dtype=float16, found --dtype="),
        ({"dtype": "float16", "initial_loss_scale": 0.5}, "=0.5: wanted a"),
        ({"dtype": "float16", "initial_loss_scale": "nan"}, "=nan: wanted a"),
        ({"dtype": "float16", "loss_scale_backoff": 1}, "between 0 and 1"),
    ],
)
def test_bad_flags(data, tmp_path, changes, message):
    assert message in change(data, tmp_path, **changes)


def test_records_of_another_length(data, tmp_path):
    line = change(data, tmp_path, max_seq_length=20)
    assert "input_ids has 16 values, --max_seq_length is 20" in line
    line = change(data, tmp_path, max_predictions_per_seq=4)
    assert "has 3 values, --max_predictions_per_seq is 4" in line


@pytest.mark.slow
def test_records_with_ids_beyond_the_vocabulary(data, tmp_path):
    config = tmp_path / "small.json"
    config.write_text(json.dumps(CONFIG | {"vocab_size": 40}))
    line = change(data, tmp_path, bert_config_file=config)
    assert "train-" in line and "outside 0..39 (vocab_size" in line


@pytest.mark.parametrize("size", [-7, 0])
def test_truncated_records(data, tmp_path, size):
    path = tmp_path / "cut"
    whole = (data / "train-0").read_bytes()
    path.write_bytes(whole[:size])
    line = change(data, tmp_path, input_file=path)
    assert str(path) in line
    assert "39" in line or "no record" in line


@pytest.mark.slow
def test_corrupted_record(data, tmp_path):
    path = tmp_path / "corrupt"
    content = bytearray((data / "train-0").read_bytes())
    content[-100] ^= 1  # inside the last record: headers are intact
    path.write_bytes(content)
    line = change(data, tmp_path, input_file=path)
    assert str(path) in line and "39" in line


@pytest.mark.slow
def test_output_dir_of_another_model_or_data(data, finished, tmp_path):
    config = tmp_path / "other.json"
    config.write_text(json.dumps(CONFIG | {"num_hidden_layers": 2}))
    values = flags_for(data, finished)
    line = scripts.error_of(
        run_pretraining, **values | {"bert_config_file": config}
    )
    assert "model = {'num_hidden_layers': 1}, not {'num_hidden_layers': 2}" in (
        line
    )
    line = scripts.error_of(
        run_pretraining, **values | {"input_file": f"{data}/train-0"}
    )
    assert "belongs to a run with data" in line
    line = scripts.error_of(run_pretraining, **values | {"random_seed": 1})
    assert "random_seed = 12345, not 1" in line


@pytest.mark.slow
def test_checkpoint_that_contradicts_the_model(data, finished, tmp_path):
    config = tmp_path / "wide.json"
    config.write_text(json.dumps(CONFIG | {"intermediate_size": 64}))
    line = change(
        data, tmp_path, bert_config_file=config, init_checkpoint=finished
    )
    assert "[16, 64]" in line and "[16, 32]" in line
    deeper = tmp_path / "deep.json"
    deeper.write_text(json.dumps(CONFIG | {"num_hidden_layers": 2}))
    line = change(
        data,
        tmp_path,
        bert_config_file=deeper,
        init_checkpoint=finished / "bert_model.ckpt",
    )
    assert "lacks 16 variables that the model needs" in line


@pytest.mark.slow
def test_init_checkpoint_hints(data, finished, tmp_path):
    line = change(
        data, tmp_path, init_checkpoint=finished / "bert_model.ckpt.index"
    )
    assert f"give the prefix all its files share, {finished}/bert" in line
    line = change(data, tmp_path, init_checkpoint=data)
    assert "is a directory without" in line


def test_evaluation_needs_trained_weights(data, tmp_path):
    line = change(
        data,
        tmp_path,
        do_train=False,
        do_eval=True,
        eval_input_file=data / "dev",
    )
    assert "untrained weights would score noise" in line


@pytest.mark.slow
def test_non_finite_loss_names_step_and_checkpoint(data, tmp_path):
    """A rate beyond reason: the weights overflow after a good checkpoint."""
    line = change(
        data,
        tmp_path,
        learning_rate=1e30,
        num_warmup_steps=0,
        save_checkpoints_steps=1,
        num_train_steps=50,
    )
    assert "at step" in line and "the last good checkpoint is" in line


def test_unwritable_output_dir(data, tmp_path):
    (tmp_path / "file").write_text("")
    line = change(data, tmp_path, output_dir=tmp_path / "file" / "out")
    assert "cannot be written" in line


@pytest.mark.slow
def test_two_phases_continue_weights_moments_and_step(data, finished, tmp_path):
    """6 steps here, 6 there: the same as 12 in one go, on the same data."""
    first = flags_for(data, tmp_path / "1", stop_after_steps=6)
    scripts.run(run_pretraining, **first)
    assert (tmp_path / "1" / "bert_model.ckpt.index").exists()
    second = flags_for(data, tmp_path / "2", resume_from=tmp_path / "1")
    scripts.run(run_pretraining, **second)
    assert_same(
        weights_of(finished / "model.ckpt-12"),
        weights_of(tmp_path / "2" / "model.ckpt-12"),
    )
    line = change(data, tmp_path, resume_from=data)
    assert "no `checkpoint` file" in line
    line = change(data, tmp_path, resume_from="x", init_checkpoint="y")
    assert "not both" in line


@pytest.mark.slow
def test_sigterm_saves_and_the_same_command_goes_on(data, tmp_path):
    values = flags_for(data, tmp_path / "out", num_train_steps=100000)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py")]
        + [f"--{name}={value}" for name, value in values.items()],
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    for line in process.stderr:
        lines.append(line)
        if " step 4/" in line:
            process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    text = "".join(lines)
    assert "Stopped by SIGTERM after step" in text and "Traceback" not in text
    step = int(text.split("Stopped by SIGTERM after step ")[1].split(";")[0])
    assert (tmp_path / "out" / f"model.ckpt-{step}.index").exists()


@pytest.mark.slow
def test_options_of_the_optimizer_reach_it(data, finished, tmp_path):
    """A run that differs in one flag ends with different weights."""
    scripts.run(run_pretraining, **flags_for(data, tmp_path), optimizer="lamb")
    found, other = (
        weights_of(folder / "bert_model.ckpt")
        for folder in (tmp_path, finished)
    )
    assert all(np.isfinite(value).all() for value in found.values())
    name = "bert/encoder/layer_0/output/dense/kernel"
    assert np.abs(found[name] - other[name]).max() > 1e-6


# --- 16-bit types ------------------------------------------------------------


@pytest.mark.slow
def test_a_16_bit_run_resumes_with_the_same_bits(
    data, finished, tmp_path, caplog
):
    caplog.set_level("INFO", logger="absl")
    values = flags_for(data, tmp_path)
    scripts.run(run_pretraining, **values, dtype="float16")
    whole = weights_of(tmp_path / "model.ckpt-12")
    go_back_to_step_5(tmp_path)
    scripts.run(run_pretraining, **values, dtype="auto")
    assert "--dtype=auto: float16, as the run in" in caplog.text
    assert_same(whole, weights_of(tmp_path / "model.ckpt-12"))
    wide, start = (weights_of(finished / f"model.ckpt-{n}") for n in (12, 5))
    runs = (wide, start, whole)
    state = {f"loss_scale/{name}" for name in Scale._fields}
    assert whole.keys() - wide.keys() == state
    assert all(whole[name].dtype == value.dtype for name, value in wide.items())
    kernels = [w["cls/predictions/transform/dense/kernel"] for w in runs]
    moved, difference = (np.abs(k - kernels[0]).mean() for k in kernels[1:])
    assert 0 < difference < 0.1 * moved
    scripts.run(run_pretraining, **values, dtype="float32")
    assert "dtype changes from float16 to float32" in caplog.text
