"""run_pretraining.py as a user runs it, on records small enough to reason on.

Most tests call main inside this process, which saves TensorFlow's start-up;
those that kill, or need devices of their own, start processes.
"""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pretraining_runs
import pytest
import scripts
import tensorflow as tf
from paths import ROOT
from pretraining_runs import (
    CASED,
    CONFIG,
    VOCAB,
    flags_for,
    make_features,
    write_data,
    write_vocab,
)
from tiny import assert_same, results_of, weights_of

from checkpoints import lookup, run_folder, training_state, weight_files
from checkpoints.checkpoint import open_checkpoint
from checkpoints.run_folder import RUN_NAME, RunFolder
from modeling import NAMED_SIZES, BertConfig
from pretraining import flags as pretraining_flags
from pretraining import model as pretraining_model
from pretraining import objectives, records
from pretraining import run as pretraining_run
from training import recipes
from training.loss_scale import Scale
from training.settings import TrainingSettings

run_pretraining = scripts.load("run_pretraining")

LOSSES = ("masked_lm_loss", "next_sentence_loss")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory) -> Path:
    """An uninterrupted run of 12 steps, evaluated, with a cased vocabulary."""
    output_dir = tmp_path_factory.mktemp("finished")
    values = flags_for(
        data,
        output_dir,
        do_eval=True,
        eval_input_file=data / "dev",
        eval_batch_size=4,
        keep_steps="12,5",
        vocab_file=write_vocab(data / "words.txt", CASED),
    )
    scripts.run(run_pretraining, **values)
    return output_dir


@pytest.mark.slow
def test_output_files_and_names(finished):
    weights = weights_of(finished / "bert_model.ckpt")
    model = pretraining_model.BertForPreTraining(BertConfig.from_dict(CONFIG))
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
    model = pretraining_model.BertForPreTraining(BertConfig.from_dict(CONFIG))
    weight_files.restore_weights(
        model.variables, lookup.find_checkpoint(str(finished))
    )
    features = make_features(np.random.default_rng(9), 21)
    batch = {k: tf.constant(v.astype(np.int32)) for k, v in features.items()}
    batch["next_sentence_labels"] = batch["next_sentence_labels"][:, 0]
    objective = objectives.OBJECTIVES["mlm_nsp"].objective
    results = results_of(finished)
    sums = objective.forward(model, batch, None)
    for name in ("masked_lm_accuracy", "next_sentence_accuracy", *LOSSES):
        total, weight = map(float, sums[name])
        assert results[name] == pytest.approx(total / weight, rel=1e-5)
    losses = [results[name] for name in LOSSES]
    assert results["masked_lm_perplexity"] == pytest.approx(np.exp(losses[0]))
    assert results["loss"] == pytest.approx(sum(losses))
    assert results["global_step"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, 12])
def test_kept_weights_are_those_of_the_step(finished, step):
    """Also those of the last step."""
    kept = weights_of(finished / f"step-{step}" / "bert_model.ckpt")
    assert kept["global_step"] == step
    saved = weights_of(finished / f"model.ckpt-{step}")
    slots = ("/adam_m", "/adam_v")
    assert_same(kept, {n: v for n, v in saved.items() if not n.endswith(slots)})
    config = (finished / f"step-{step}" / "bert_config.json").read_text()
    assert config == (finished / "bert_config.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "step-5"])
def test_a_cased_model_stays_cased(finished, folder):
    """Later scripts find the casing."""
    folder = finished / folder
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert settings["do_lower_case"] is False
    tokenizer = open_checkpoint(str(folder)).tokenizer
    assert tokenizer.tokenize("The paris") == ["The", "[UNK]"]


def go_back_to_step_5(folder: Path) -> None:
    """Remove what a run wrote after its first checkpoint."""
    for name in ("model.ckpt-10", "model.ckpt-12", "bert_model.ckpt"):
        weight_files.remove(str(folder / name))
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-5"\n'
        'all_model_checkpoint_paths: "model.ckpt-5"\n'
    )


@pytest.mark.slow
def test_kill_9_and_start_again(data, tmp_path):
    """Killed somewhere after a checkpoint, it ends with the same bits.

    It has saved by the clock alone. And it learns: the masked token is told by
    its position, so that its loss is far below log(7) = 1.95.
    """
    values = flags_for(
        data,
        tmp_path / "killed",
        num_train_steps=150,
        save_checkpoints_steps=15,
        log_steps=10,
        do_eval=True,
        eval_input_file=data / "dev",
    )
    scripts.run(run_pretraining, **values | {"output_dir": tmp_path / "whole"})
    results = results_of(tmp_path / "whole")
    assert results["masked_lm_loss"] < 0.7 and "degenerate" not in results
    values |= {"save_checkpoints_steps": 1000, "save_checkpoints_minutes": 1e-4}
    with process_of(values) as process:
        for line in process.stderr:
            if "step 40/" in line:
                process.send_signal(signal.SIGKILL)
                break
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert (tmp_path / "killed" / "checkpoint").exists()
    leftover = tmp_path / "killed" / "model.ckpt-43.tmp.data-00000-of-00001"
    leftover.write_bytes(b"half")
    scripts.run(run_pretraining, **values)
    assert not leftover.exists()
    for name in ("model.ckpt-150", "bert_model.ckpt"):
        whole, killed = (tmp_path / d / name for d in ("whole", "killed"))
        assert_same(weights_of(whole), weights_of(killed))


def process_of(values: dict) -> subprocess.Popen:
    """Start the script as a process, whose log can be read."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py")]
        + [f"--{name}={value}" for name, value in values.items()],
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.nightly
def test_a_size_takes_the_vocabulary_s(data, tmp_path, monkeypatch, caplog):
    """As from_size with the vocabulary's number of tokens; it is resumed."""
    monkeypatch.setitem(NAMED_SIZES, "tiny", (1, 64))
    values = flags_for(data, tmp_path, size="tiny", num_train_steps=2)
    del values["bert_config_file"]
    values["vocab_file"] = write_vocab(tmp_path / "words.txt", CASED)
    scripts.run(run_pretraining, **values)
    written = json.loads((tmp_path / "bert_config.json").read_text())
    assert written == BertConfig.from_size("tiny", VOCAB).to_dict()
    weights = weights_of(tmp_path / "bert_model.ckpt")
    assert weights["bert/embeddings/word_embeddings"].shape == (VOCAB, 64)
    with caplog.at_level("INFO"):
        scripts.run(run_pretraining, **values)
    assert "holds a finished run of 2 steps" in caplog.text


@pytest.mark.slow
def test_a_recipe_is_a_command(data, tmp_path, caplog):
    """The same bits; a flag of the command wins, and one that excludes it.

    What a recipe says of masks is not for records that have some.
    """
    model = json.loads((data / "no_dropout.json").read_text())
    (tmp_path / "model.json").write_text(
        json.dumps(
            model | {"initializer_range": 0.5, "sinusoidal_positions": 0.2}
        )
    )
    recipe = tmp_path / "recipe"
    recipe.write_text(
        "# Comment\n\n--dropout=0\n--initializer_range=0.5\n"
        "--sinusoidal_positions=0.2\n"
        "--learning_rate=0.7\n--warmup_proportion=0.5\n--masked_lm_prob=0.3\n"
        "--bias_correction\n"
    )
    line = change(data, tmp_path, recipe=recipe)
    assert f"{recipe}: wanted --name=value" in line
    recipe.write_text(recipe.read_text().strip() + "=true\n")
    flags = flags_for(data, tmp_path / "1", num_train_steps=4, recipe=recipe)
    scripts.parse(run_pretraining, **flags)
    recipes.apply(run_pretraining.FLAGS, recipe)
    settings = pretraining_flags.read_settings(
        run_pretraining.FLAGS, pretraining_run.Runs(RunFolder(""))
    )
    assert settings.num_warmup_steps == 3
    del flags["num_warmup_steps"]
    scripts.run(run_pretraining, **flags)
    assert "--masked_lm_prob is for records without masks" in caplog.text
    given = {
        "output_dir": tmp_path / "2",
        "recipe": None,
        "bert_config_file": tmp_path / "model.json",
        "bias_correction": True,
        "num_warmup_steps": 2,
    }
    scripts.run(run_pretraining, **flags | given)
    one, two = (
        weights_of(tmp_path / n / "bert_model.ckpt") for n in ("1", "2")
    )
    assert_same(one, two)
    # Fine-tuning has the dropout that the configuration was given with.
    written = json.loads((tmp_path / "1/bert_config.json").read_text())
    assert written["hidden_dropout_prob"] == 0.1
    assert written["initializer_range"] == 0.02
    assert "sinusoidal_positions" not in written


def test_what_the_command_says_wins_over_a_recipe(tmp_path):
    recipe = tmp_path / "recipe"
    recipe.write_text(
        "--output=other\n--train_hours=8\n--num_warmup_steps=50\n"
    )
    f = scripts.parse(run_pretraining, output_dir="own", num_train_steps=7)
    recipes.apply(f, recipe)
    assert (f.output_dir, f.train_hours, f.num_warmup_steps) == (
        "own",
        None,
        50,
    )
    assert f["num_warmup_steps"].present
    scripts.parse(run_pretraining)  # forgets them


def test_every_recipe_has_flags_of_the_script():
    for path in recipes.FOLDER.iterdir():
        found = scripts.parse(run_pretraining, train_batch_size=1)
        recipes.apply(found, path.stem)
        assert found.train_batch_size == 1
    scripts.parse(run_pretraining)  # forgets them


# --- What goes wrong ---------------------------------------------------------


def change(data: Path, tmp_path: Path, **changes) -> str:
    values = flags_for(data, tmp_path / "out") | changes
    values = {
        name: str(value).replace("DATA", str(data))
        for name, value in values.items()
        if value is not None
    }
    return scripts.error_of(run_pretraining, **values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_train": False}, "give --do_train, --do_eval or both"),
        ({"bert_config_file": None}, "--bert_config_file is required without"),
        ({"size": "tiny"}, "--size or --bert_config_file, not both"),
        ({"size": "tiny", "bert_config_file": None}, "needs --vocab_file"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"input_file": None}, "--do_train needs --input_file"),
        ({"bert_config_file": "/none.json"}, "/none.json"),
        ({"input_file": "/none/*"}, "no file matches '/none/*'"),
        ({"output_dir": "/proc/none/out"}, "cannot be written"),
        ({"eval_steps": 5}, "--eval_steps needs --eval_input_file"),
        ({"max_seq_length": 64}, "max_position_embeddings=32"),
        ({"max_seq_length": None}, "--max_seq_length is 32"),
        ({"gradient_accumulation_steps": 3}, "use a multiple of 3"),
        ({"vocab_file": "/none.txt"}, "/none.txt"),
        ({"init_checkpoint": "/none"}, "no such checkpoint"),
        ({"resume_from": "hf://a/b"}, "give it as --init_checkpoint"),
        ({"train_hours": 1}, "--train_hours or --num_train_steps, not both"),
        ({"warmup_proportion": 0.1}, "or --num_warmup_steps, not both"),
        ({"recipe": "none"}, "--recipe=none: no such recipe or file; the rec"),
        ({"recipe": "DATA/config.json"}, "config.json: wanted --name=value"),
        ({"recipe": "DATA/train-2"}, "train-2 is no recipe: 'utf-8' codec"),
        ({"max_eval_steps": 0}, "--max_eval_steps=0: 0 is not"),
        ({"learning_rate": "nan"}, "=nan: wanted a"),
        *(
            ({"keep_steps": text}, "--keep_steps")
            for text in ("0", "13", "x", "3,-1", "1.5", "9" * 5000)
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_flags(data, tmp_path, changes, message):
    assert message in change(data, tmp_path, **changes)


def test_a_vocabulary_without_special_tokens(data, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("".join(f"w{n}\n" for n in range(CONFIG["vocab_size"])))
    line = change(data, tmp_path, vocab_file=path)
    assert "words.txt: [UNK] [CLS] [SEP] [MASK] missing" in line


def test_records_of_another_length(data, tmp_path):
    line = change(data, tmp_path, max_seq_length=20)
    assert "input_ids has 16 values, --max_seq_length is 20" in line
    line = change(data, tmp_path, max_predictions_per_seq=4)
    assert "has 3 values, --max_predictions_per_seq is 4" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda data: data[:-7], "39"),
        (lambda data: b"", "no record"),
        # Inside the last record: its header is intact.
        (lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:], "39"),
    ],
)
def test_damaged_records(data, tmp_path, damage, words):
    path = tmp_path / "damaged"
    path.write_bytes(damage((data / "train-0").read_bytes()))
    line = change(data, tmp_path, input_file=path)
    assert str(path) in line and words in line


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
    assert "belongs to a run with file_order" in line
    line = scripts.error_of(run_pretraining, **values | {"random_seed": 1})
    assert "random_seed = 12345, not 1" in line
    swapped = ",".join(str(data / f"train-{n}") for n in (1, 0, 2))
    line = scripts.error_of(run_pretraining, **values | {"input_file": swapped})
    assert "file_order = {'1': 'train-0', '2': 'train-1'}, not" in line


@pytest.mark.nightly
def test_files_of_the_same_name_and_size_with_other_content(
    data, finished, tmp_path, caplog
):
    """Records, vocabulary and held-out records are known by their content.

    A run of an earlier version, which did not note it, goes on.
    """
    shutil.copytree(finished, out := tmp_path / "out")
    shutil.copytree(data, other := tmp_path / "other")
    values = flags_for(other, out, vocab_file=other / "words.txt")
    values |= {"eval_input_file": other / "dev", "eval_steps": 12}
    assert scripts.run(run_pretraining, **values) == 0
    assert "heldout_data" not in caplog.text
    pretraining_runs.write_records(other / "dev", 21, seed=10)
    go_back_to_step_5(out)
    assert scripts.run(run_pretraining, **values) == 0
    assert "heldout_data changes" in caplog.text
    write_vocab(other / "words.txt", [*CASED[1:], CASED[0]])
    line = scripts.error_of(run_pretraining, **values)
    assert "other vocabulary; its records have ids of that" in line
    line = change(
        data, tmp_path / "2", resume_from=out, vocab_file=other / "words.txt"
    )
    assert "is a run with another vocabulary than" in line
    write_vocab(other / "words.txt", CASED)
    same = (other / "words.txt").read_bytes().replace(b"\n", b"\r\n")
    (other / "words.txt").write_bytes(same)
    assert scripts.run(run_pretraining, **values) == 0
    pretraining_runs.write_records(other / "train-1", 41, seed=8)
    line = scripts.error_of(run_pretraining, **values)
    assert "other records (train-1); restore them" in line
    assert "--resume_from" in line
    config = json.loads((out / RUN_NAME).read_text())
    del config["fixed"]["records"], config["fixed"]["vocabulary"]
    (out / RUN_NAME).write_text(json.dumps(config))
    assert scripts.run(run_pretraining, **values) == 0


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


@pytest.mark.slow
def test_two_phases_continue_weights_moments_and_step(
    data, finished, tmp_path, caplog
):
    """6 steps here, 6 there: the same as 12 in one go, on the same data."""
    first = flags_for(
        data, tmp_path / "1", stop_after_steps=6, keep_steps="3,10"
    )
    scripts.run(run_pretraining, **first)
    assert (tmp_path / "1" / "bert_model.ckpt.index").exists()
    assert not (tmp_path / "1" / "step-10").exists()
    # Without flags, steps and warm-up stay what they were.
    second = flags_for(
        data,
        tmp_path / "2",
        resume_from=tmp_path / "1",
        keep_steps="3,5,10",
        num_train_steps=None,
        num_warmup_steps=None,
    )
    scripts.run(run_pretraining, **second)
    assert "which goes on here" not in caplog.text
    # Step 3 is in the first phase's folder, also where that is a prefix.
    missed = "6 steps are done, so the weights of 5 cannot be kept"
    assert caplog.text.count(missed) == 1
    assert (tmp_path / "2" / "step-10" / "bert_model.ckpt.index").exists()
    prefix = str(tmp_path / "1" / "model.ckpt-6")
    settings = TrainingSettings("", num_train_steps=12, keep_steps=(3, 5))
    runs = pretraining_run.Runs.read("", prefix)
    pretraining_run.warn_of_missed_steps(settings, runs)
    assert caplog.text.count(missed) == 2
    assert_same(
        weights_of(finished / "model.ckpt-12"),
        weights_of(tmp_path / "2" / "model.ckpt-12"),
    )
    second |= {"output_dir": tmp_path / "3", "keep_steps": None}
    second |= {"num_train_steps": 7, "num_warmup_steps": 2, "dropout": 0.5}
    second |= {"learning_rate": None, "train_batch_size": 4}
    scripts.run(run_pretraining, **second)
    for words in (
        "learning_rate = 0.01, not 5e-05",
        "num_warmup_steps = 3, not 2",
        "train_batch_size = 8, not 4",
        "other model (attention_probs_dropout_prob, hidden_dropout_prob)",
    ):
        assert f"which goes on here, has {words}" in caplog.text
    assert caplog.text.count("which goes on here") == 4
    line = change(data, tmp_path, resume_from=data)
    assert "no `checkpoint` file" in line
    line = change(data, tmp_path, resume_from="x", init_checkpoint="y")
    assert "not both" in line


@pytest.mark.nightly
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


@pytest.mark.slow
def test_a_wsd_run_ends_or_goes_on_at_any_step(data, tmp_path):
    """With Muon, whose moments are resumed to the bit as well."""

    def run(name: str, **changes) -> dict:
        values = flags_for(
            data,
            tmp_path / name,
            optimizer="muon",
            schedule="wsd",
            num_warmup_steps=3,
            keep_checkpoint_max=1,
            save_checkpoints_steps=100,
        )
        scripts.run(run_pretraining, **(values | changes))
        return weights_of(tmp_path / name / "bert_model.ckpt")

    whole, short = run("20", num_train_steps=20), run("10", num_train_steps=10)
    run("stopped", num_train_steps=20, stop_after_steps=8)
    # The warm-up is that of the run.
    ended = {"num_train_steps": 10, "num_warmup_steps": None}
    assert_same(short, run("stopped", **ended))
    assert_same(short, run("stopped", **ended))  # it is over
    # Where its rate began to fall there is a checkpoint.
    more = {"resume_from": tmp_path / "stopped" / "model.ckpt-8"}
    more["num_warmup_steps"] = None
    assert_same(whole, run("longer", num_train_steps=20, **more))
    assert_same(short, run("branch", **(more | ended)))


# --- What output_dir holds already ------------------------------------------


def test_an_output_dir_has_one_run_at_a_time(data, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "_LOCK_SECONDS", 0.0)
    out = tmp_path / "out"
    with run_folder.locked(str(out)):
        line = scripts.error_of(run_pretraining, **flags_for(data, out))
        assert f"another run is writing --output_dir={out}; wait" in line
        assert not list(out.iterdir())
    assert not out.exists()


@pytest.mark.slow
def test_a_run_that_continues_another_has_steps_of_its_own(
    data, finished, tmp_path
):
    """The first phase was given no --stop_after_steps, so it did all."""
    flags = flags_for(data, tmp_path / "2", resume_from=finished)
    line = scripts.error_of(run_pretraining, **flags)
    assert (
        "12 steps are done in" in line
        and "ends after 12: give a larger" in (line)
    )
    assert not list((tmp_path / "2").glob("bert_model*"))


@pytest.mark.slow
def test_a_finished_run_keeps_its_settings_and_its_step(
    data, finished, tmp_path, caplog
):
    settings = (finished / RUN_NAME).read_text()
    evaluation = {"do_eval": True, "eval_input_file": data / "dev"}
    for changed, words in (
        ({"num_train_steps": 4}, "num_train_steps = 12, not 4"),
        ({"learning_rate": 0.5}, "learning_rate = "),
    ):
        flags = flags_for(data, finished, **evaluation | changed)
        line = scripts.error_of(run_pretraining, **flags)
        assert f"holds a finished run with {words}" in line
    scripts.run(run_pretraining, **flags | {"do_train": False})
    assert results_of(finished)["global_step"] == 12
    assert (finished / RUN_NAME).read_text() == settings
    assert "training files too" not in caplog.text
    shutil.copy(data / "train-1", tmp_path / "other-name")
    more = {"do_train": False, "eval_input_file": tmp_path / "other-name"}
    more |= {"output_dir": tmp_path / "out", "init_checkpoint": finished}
    scripts.run(run_pretraining, **flags | more)
    assert "1 evaluation files are training files too" in caplog.text


def test_files_of_one_name_in_two_folders_are_told_apart(tmp_path):
    """Else a run would go on with one of them changed, or in another order."""
    for folder, rows in (("a", 3), ("b", 4)):
        (tmp_path / "1" / folder).mkdir(parents=True)
        pretraining_runs.write_records(tmp_path / "1" / folder / "x", rows, 0)
    shutil.copytree(tmp_path / "1", tmp_path / "2")

    def describe(*names: str) -> dict:
        files = [str(tmp_path / name) for name in names]
        config = BertConfig.from_dict(pretraining_runs.CONFIG)
        return records.find_data(
            files, config, pretraining_runs.INSTANCES
        ).describe()

    found = describe("1/a/x", "1/b/x")
    assert found["file_order"] == {"1": "a/x", "2": "b/x"}
    assert found != describe("1/b/x", "1/a/x")
    assert found == describe("2/a/x", "2/b/x")
    assert describe("1/b/x") == describe("2/b/x")  # in one folder: its name


@pytest.mark.nightly
def test_a_run_killed_after_keeping_keeps_again(data, tmp_path, monkeypatch):
    """The weights of step 7 are kept, but the last checkpoint is of step 5."""
    save = training_state.TrainingState.save

    def save_or_die(state, step, stays):
        if step == 10:
            raise KeyboardInterrupt
        return save(state, step, stays)

    values = flags_for(data, tmp_path, keep_steps="7,10", num_train_steps=10)
    monkeypatch.setattr(training_state.TrainingState, "save", save_or_die)
    with pytest.raises(KeyboardInterrupt):
        scripts.run(run_pretraining, **values)
    first = weights_of(tmp_path / "step-10" / "bert_model.ckpt")
    monkeypatch.undo()
    (tmp_path / "step-10" / "bert_model.ckpt.index").unlink()
    scripts.run(run_pretraining, **values)
    assert_same(first, weights_of(tmp_path / "step-10" / "bert_model.ckpt"))


# --- 16-bit types ------------------------------------------------------------


@pytest.mark.nightly
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
    go_back_to_step_5(tmp_path)
    scripts.run(run_pretraining, **values, dtype="float32")
    assert "dtype changes from float16 to float32" in caplog.text
