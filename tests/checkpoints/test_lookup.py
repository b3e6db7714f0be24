"""Which checkpoint a path refers to, and the files beside it."""

from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest

from checkpoints import lookup, training_state, weight_files
from checkpoints.run_folder import WEIGHTS_NAME, RunFolder

TENSORS = {"x": np.zeros([2], np.float32)}


@pytest.fixture
def run(model, tmp_path) -> Path:
    """An output_dir with two training checkpoints."""
    folder = tmp_path / "run"
    folder.mkdir()
    state = training_state.TrainingState(
        RunFolder.read(str(folder)), model.variables, {}
    )
    state.save(1)
    state.save(2)
    return folder


def test_a_prefix_is_itself(run):
    prefix = str(run / "model.ckpt-1")
    assert lookup.find_checkpoint(prefix) == prefix
    assert lookup.find_training_checkpoint(prefix) == prefix


def test_finished_weights_come_before_training_checkpoints(run):
    newest = str(run / "model.ckpt-2")
    assert lookup.find_checkpoint(str(run)) == newest
    weights = str(run / WEIGHTS_NAME)
    weight_files.write(weights, TENSORS)
    assert lookup.find_checkpoint(str(run)) == weights
    assert lookup.find_training_checkpoint(str(run)) == newest


def test_one_file_of_a_checkpoint_is_refused(run):
    for suffix in weight_files.SUFFIXES:
        with pytest.raises(UserError, match="give the prefix .*model.ckpt-1$"):
            lookup.find_checkpoint(f"{run}/model.ckpt-1{suffix}")


def test_other_paths_are_refused(tmp_path):
    weight_files.write(str(tmp_path / "other"), TENSORS)
    (tmp_path / "file").write_text("")
    for name, words in {
        "": "it holds .*other.index: name one, without .index",
        "file": "is a file; give a checkpoint prefix",
        "nothing": "--init_checkpoint=.*nothing: no such checkpoint",
    }.items():
        with pytest.raises(UserError, match=words):
            lookup.find_checkpoint(str(tmp_path / name))
    (tmp_path / "training_config.json").write_text("{}")
    with pytest.raises(UserError, match="the training there is not finished"):
        lookup.find_checkpoint(str(tmp_path))
    with pytest.raises(UserError, match="hub is hf://owner/no_such"):
        lookup.find_checkpoint("owner/no_such")
    with pytest.raises(UserError, match="--resume_from=.*no `checkpoint` file"):
        lookup.find_training_checkpoint(str(tmp_path))
    with pytest.raises(UserError, match="--resume_from=.*no such checkpoint"):
        lookup.find_training_checkpoint(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "name",
    [
        "bert_model.ckpt.index",
        "model.ckpt-1000000.index",  # BioBERT's
        "model.safetensors",
        "model.safetensors.index.json",
        "checkpoint",
    ],
)
def test_a_directory_with_any_checkpoint_is_not_written_to(tmp_path, name):
    lookup.check_no_checkpoint(str(tmp_path / "new"), "output_dir")
    (tmp_path / "bert_model.ckpt.tmp.index").write_text("")  # a killed run's
    lookup.check_no_checkpoint(str(tmp_path), "output_dir")
    (tmp_path / name).write_text("")
    with pytest.raises(UserError, match=f"holds a checkpoint already .{name}"):
        lookup.check_no_checkpoint(str(tmp_path), "output_dir")


@pytest.mark.parametrize(
    "names",
    [
        ["tokenizer.json"],
        ["modules.json", "vocab.txt"],
        ["bert_config.json"],
        ["1_Pooling/config.json"],
        ["2_Dense/model.safetensors"],
        ["onnx/model.onnx"],
    ],
)
def test_files_of_other_programs_are_not_replaced(tmp_path, names):
    for name in ("README.md", ".git/config", "data/vocab.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    lookup.check_no_checkpoint(str(tmp_path), "output")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    words = f"--output={tmp_path} holds files of a model already "
    with pytest.raises(UserError) as caught:
        lookup.check_no_checkpoint(str(tmp_path), "output")
    assert str(caught.value).startswith(f"{words}({', '.join(names)}); ")


def test_files_beside_a_prefix_and_in_a_directory(tmp_path, monkeypatch):
    (tmp_path / "vocab.txt").write_text("")
    found = str(tmp_path / "vocab.txt")
    assert lookup.beside(str(tmp_path / "model.ckpt"), "vocab.txt") == found
    assert lookup.beside(str(tmp_path), "vocab.txt") == found
    assert lookup.beside(str(tmp_path), "config.json") is None
    monkeypatch.chdir(tmp_path)
    assert lookup.beside("model.ckpt", "vocab.txt") == "./vocab.txt"
    assert lookup.folder_of("gs://bucket/model.ckpt") == "gs://bucket"


@pytest.mark.parametrize("name", ["out[1]", "a*", "a?", "back\\slash"])
def test_names_that_tensorflow_takes_for_patterns(run, name):
    """It would not find the files of such a prefix."""
    folder = run.rename(run.with_name(name))
    weight_files.remove(str(folder / "model.ckpt-1"))
    for path in (folder, folder / "model.ckpt-2"):
        with pytest.raises(UserError, match="takes for a pattern"):
            lookup.find_checkpoint(str(path))
    with pytest.raises(UserError, match=r"--output=.*takes for a pattern"):
        lookup.check_no_checkpoint(str(folder), "output")
