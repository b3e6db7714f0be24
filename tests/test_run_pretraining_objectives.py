"""run_pretraining.py --objective=mlm and ltr, as a user runs it."""

import functools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import prediction_runs
import pytest
import scripts
from marks import nightly
from pretraining_runs import CONFIG, flags_for, write_data
from tiny import results_of, summaries_of, weights_of

from checkpoints import weight_files
from checkpoints.checkpoint import open_checkpoint
from modeling import LEFT_TO_RIGHT, BertConfig
from pretraining.model import BertForPreTraining
from training import curves

run_pretraining = scripts.load("run_pretraining")

KEYS = {
    "mlm": "masked_lm_loss masked_lm_accuracy masked_lm_perplexity global_step",
    "ltr": "lm_loss lm_accuracy lm_perplexity global_step",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


def logged_run(data: Path, out: Path, name: str) -> str:
    """Train and evaluate with an objective; return the log."""
    lines: list[str] = []
    flags = flags_for(
        data,
        out,
        objective=name,
        do_eval=True,
        eval_input_file=data / "dev",
        eval_steps=5,
        eval_batch_size=4,
        keep_steps=5,
        pictures=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        for log in ("absl.logging.info", "base.logs.say"):
            patch.setattr(log, lambda s, *a: lines.append(s % a))
        assert scripts.run(run_pretraining, **flags) == 0
    return "\n".join(lines)


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory) -> Callable[[str], tuple[Path, str]]:
    """A function of an objective -> a run of 12 steps, and what it logged."""

    @functools.cache
    def get(name: str) -> tuple[Path, str]:
        out = tmp_path_factory.mktemp(name)
        return out, logged_run(data, out, name)

    return get


# --- What a run leaves -------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlm", nightly("ltr")])
def test_scores_and_log_lines(finished, name):
    out, log = finished(name)
    results = results_of(out)
    # The tokens are random but for those that are masked.
    assert results.pop("degenerate", 0) == (name == "ltr")
    assert results.keys() == set(KEYS[name].split())
    loss = results[KEYS[name].split()[0]]
    perplexity = results[KEYS[name].split()[2]]
    assert perplexity == pytest.approx(np.exp(loss))
    assert f"Objective {name}: " in log and "head are not trained" in log
    assert all(f"{key} " in log for key in KEYS[name].split())
    # What the perplexity is compared with, and what to do with the model.
    frequencies = float(re.search(r"token frequencies alone: ([\d.]+)", log)[1])
    assert (perplexity > 0.9 * frequencies) == (name == "ltr")
    assert log.endswith(f"The model is in {out}")  # there is no vocabulary
    tags = set(summaries_of(out))
    assert tags > set(KEYS[name].split()) - {"global_step"}
    assert not any("next_sentence" in tag for tag in tags)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlm", nightly("ltr")])
def test_curves_of_the_losses_are_drawn(finished, name):
    out, _ = finished(name)
    assert (out / "curves.png").read_bytes()[:4] == b"\x89PNG"
    loss, accuracy = KEYS[name].split()[:2]
    found = curves.read(str(out), 100, ("loss", loss), accuracy)
    assert list(found.loss) == list(range(1, 13))  # 12 steps
    results = results_of(out)
    assert found.dev_loss[12] == pytest.approx(results[loss])
    assert found.metric[12] == pytest.approx(results[accuracy])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlm", nightly("ltr")])
def test_pooler_and_next_sentence_head_keep_their_weights(finished, name):
    """All variables of a BERT are there; these four have no moments."""
    out, _ = finished(name)
    first, last = (weights_of(out / f"model.ckpt-{n}") for n in (5, 12))
    still = {v for v in last if "/pooler/" in v or "seq_relationship" in v}
    assert len(still) == 4
    assert not any(f"{v}/adam_m" in last for v in still)
    moved = {v for v in last if np.any(first[v] != last[v])}
    assert not moved & still
    assert {v for v in last if "adam" not in v} - moved == still
    assert set(weights_of(out / "bert_model.ckpt")) > still


@pytest.mark.nightly
def test_ltr_writes_the_direction(finished, data):
    out, log = finished("ltr")
    config = open_checkpoint(str(out / "bert_model.ckpt")).config
    assert config.attention_direction == LEFT_TO_RIGHT
    assert "attention_direction is set to left_to_right" in log
    assert "attention_direction" not in (data / "config.json").read_text()
    other = json.loads((finished("mlm")[0] / "bert_config.json").read_text())
    assert "attention_direction" not in other


@pytest.mark.nightly
@pytest.mark.parametrize("name", KEYS)
def test_kept_weights_name_their_objective(
    finished, data, tmp_path, name, caplog
):
    """They are without their run; the pooler is not trained."""
    out, _ = finished(name)
    folder = out / "step-5"
    for path in (out, folder):
        config = json.loads((path / "bert_config.json").read_text())
        assert config["objective"] == name
    run = json.loads((out / "training_config.json").read_text())
    assert "objective" not in run["fixed"]["model"]
    scoring = {"do_train": False, "do_eval": True, "init_checkpoint": folder}
    scoring["eval_input_file"] = data / "dev"
    line = change(data, tmp_path, **scoring)
    assert f"is of a run with --objective={name}, not mlm_nsp" in line
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    (tmp_path / "in.txt").write_text("word\n")
    warning = f"--objective={name}, which does not train the pooler"
    for vectors in ("mean_output", "pooled_output"):
        prediction_runs.predict(
            folder,
            tmp_path / "in.txt",
            tmp_path / vectors,
            task="encoder",
            vectors=vectors,
            vocab_file=tmp_path / "vocab.txt",
            max_seq_length=8,
        )
        assert (warning in caplog.text) == (vectors == "pooled_output")
    # Another objective goes on from the weights, under its own name.
    more = {"objective": "mlm_nsp", "num_train_steps": 1}
    if name == "mlm":
        flags = flags_for(data, tmp_path / "next", **more)
        flags |= {"init_checkpoint": folder, "bert_config_file": None}
        scripts.run(run_pretraining, **flags)
        assert "leaves pooler and next sentence head as they" in caplog.text
        written = (tmp_path / "next" / "bert_config.json").read_text()
        assert "objective" not in written


@pytest.mark.nightly
@pytest.mark.parametrize("name", KEYS)
def test_models_without_pooler_and_next_sentence_head_are_scored(
    finished, data, tmp_path, name
):
    """As masked LMs of other projects are; mlm_nsp needs both."""
    out, _ = finished(name)
    model = tmp_path / "model"
    model.mkdir()
    weights = weights_of(out / "bert_model.ckpt")
    parts = ("/pooler/", "/seq_relationship/")
    weight_files.write(
        str(model / "bert_model.ckpt"),
        {n: v for n, v in weights.items() if not any(p in n for p in parts)},
    )
    config = json.loads((out / "bert_config.json").read_text())
    del config["objective"]
    (model / "bert_config.json").write_text(json.dumps(config))
    flags = flags_for(data, tmp_path / "scores", objective=name)
    flags |= {"do_train": False, "do_eval": True, "init_checkpoint": model}
    flags |= {"eval_input_file": data / "dev", "bert_config_file": None}
    scripts.run(run_pretraining, **flags)
    wanted, found = results_of(out), results_of(tmp_path / "scores")
    # No run is made here that could have failed.
    assert "degenerate" not in found
    for key in set(wanted) - {"global_step", "degenerate"}:
        assert found[key] == pytest.approx(wanted[key], rel=1e-5)
    if name == "mlm":
        flags["objective"] = "mlm_nsp"
        line = scripts.error_of(run_pretraining, **flags)
        assert "bert_model.ckpt has no next sentence head (cls/...)" in line


# --- Checkpoints without a head ----------------------------------------------


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """A model without heads, as sentence encoders and fine-tuned ones are."""
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "bert_config.json").write_text(json.dumps(CONFIG))
    write_parts(folder, "bert/")
    return folder


def write_parts(folder: Path, *parts: str) -> None:
    """Write the variables of a new model whose paths begin so."""
    model = BertForPreTraining(BertConfig.from_dict(CONFIG))
    kept = [v for v in model.variables if v.path.startswith(parts)]
    weight_files.write(
        str(folder / "bert_model.ckpt"), weight_files.as_tensors(kept)
    )


@pytest.mark.parametrize("action", ["do_train", "do_eval"])
def test_a_missing_head_is_named(action, encoder, data, tmp_path):
    """And models that have it; nothing is written."""
    flags = {"bert_config_file": None, "init_checkpoint": encoder}
    flags |= {"do_train": False, action: True, "eval_input_file": data / "dev"}
    line = change(data, tmp_path, **flags)
    assert "ckpt has no masked LM or next sentence head (cls/...); mode" in line
    assert "hf://google-bert/bert-base-uncased" in line
    assert ("--new_head trains a new one" in line) == (action == "do_train")
    line = change(data, tmp_path, **flags, objective="mlm")
    assert "ckpt has no masked LM head (cls/...); models that have it" in line
    assert not (tmp_path / "out").exists()


def test_a_missing_next_sentence_head_is_named(encoder, data, tmp_path):
    """As masked LMs of other projects lack it; --objective=mlm goes."""
    model = tmp_path / "model"
    shutil.copytree(encoder, model)
    write_parts(model, "bert/", "cls/predictions/")
    flags = {"bert_config_file": None, "init_checkpoint": model}
    line = change(data, tmp_path, **flags)
    assert "has no next sentence head (cls/...); --objective=mlm does" in line
    line = change(data, tmp_path, **flags, objective="mlm", new_head=True)
    assert "--new_head: " in line and "has all heads of --objective=mlm" in line
    assert "--new_head needs --do_train" in change(
        data, tmp_path, **flags, new_head=True, do_train=False, do_eval=True
    )


@pytest.mark.slow
def test_a_new_head_is_trained(encoder, data, tmp_path, caplog):
    """The encoder is that of the checkpoint; the same command resumes."""
    flags = flags_for(data, tmp_path / "out", new_head=True, dropout=0.0)
    flags |= {"bert_config_file": None, "init_checkpoint": encoder}
    flags |= {"num_train_steps": 1, "num_warmup_steps": 0}  # changes nothing
    assert scripts.run(run_pretraining, **flags) == 0
    assert "or next sentence head (cls/...): new weights take" in caplog.text
    found = weights_of(tmp_path / "out" / "bert_model.ckpt")
    for name, value in weights_of(encoder / "bert_model.ckpt").items():
        np.testing.assert_array_equal(found[name], value)
    assert "cls/predictions/transform/dense/kernel" in found
    assert scripts.run(run_pretraining, **flags) == 0


# --- What goes wrong ---------------------------------------------------------


def change(data: Path, tmp_path: Path, **changes) -> str:
    values = flags_for(data, tmp_path / "out") | changes
    return scripts.error_of(run_pretraining, **values)


def test_configurations_of_the_other_direction(data, tmp_path):
    path = tmp_path / "config.json"
    flags = {"bert_config_file": path}
    path.write_text(json.dumps(CONFIG | {"attention_direction": LEFT_TO_RIGHT}))
    for name in ("mlm", "mlm_nsp"):
        line = change(data, tmp_path, objective=name, **flags)
        assert f"--objective={name} needs bidirectional: use" in line
    path.write_text(json.dumps(CONFIG | {"attention_direction": "leftward"}))
    line = change(data, tmp_path, objective="ltr", **flags)
    assert f"{path}: bert config: unknown attention_direction" in line


def test_unknown_objectives(data, tmp_path):
    line = change(data, tmp_path, objective="both")
    assert "value should be one of <mlm_nsp|mlm" in line


@pytest.mark.nightly
def test_a_run_keeps_its_objective(finished, data, tmp_path):
    mlm, ltr = (finished(name)[0] for name in ("mlm", "ltr"))
    line = change(data, tmp_path, output_dir=mlm)
    assert "belongs to a run with objective = mlm, not mlm_nsp" in line
    line = change(data, tmp_path, output_dir=mlm, objective="ltr")
    assert "belongs to a run with objective = mlm, not ltr" in line
    line = change(data, tmp_path, resume_from=mlm, objective="ltr")
    assert f"--resume_from={mlm} is of a run with --objective=mlm, not" in line
    assert "--init_checkpoint" in line
    scoring = {"do_train": False, "do_eval": True, "output_dir": ltr}
    scoring["eval_input_file"] = data / "dev"
    line = change(data, tmp_path, **scoring)
    assert "is of a run with --objective=ltr, not mlm_nsp" in line


@pytest.mark.nightly
def test_weights_of_the_other_direction_are_not_scored(
    finished, data, tmp_path
):
    """Copied without their run, by a version that did not name objectives."""
    model = tmp_path / "model"
    model.mkdir()
    for path in finished("ltr")[0].glob("bert_*"):
        (model / path.name).write_bytes(path.read_bytes())
    config = json.loads((model / "bert_config.json").read_text())
    del config["objective"]
    (model / "bert_config.json").write_text(json.dumps(config))
    flags = {"do_train": False, "do_eval": True, "init_checkpoint": model}
    flags["eval_input_file"] = data / "dev"
    line = change(data, tmp_path, **flags, objective="mlm")
    assert f"{model}/bert_model.ckpt is a left_to_right model" in line
    values = flags_for(data, tmp_path / "out") | flags
    del values["bert_config_file"]
    line = scripts.error_of(run_pretraining, **values, objective="mlm")
    assert "--objective=mlm needs bidirectional" in line
    # The other way round: weights of a BERT as a left-to-right LM.
    (model / "bert_config.json").write_text(json.dumps(CONFIG))
    line = scripts.error_of(run_pretraining, **values, objective="ltr")
    assert "is a bidirectional model, --objective=ltr scores" in line
