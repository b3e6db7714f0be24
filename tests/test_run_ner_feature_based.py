"""run_ner.py --feature_based: a BiLSTM on layers of a frozen encoder."""

import dataclasses
import errno
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from ner_runs import VOCAB, flags_for, only, write_data
from tiny import weights_of

from checkpoints import lookup, training_state, weight_files
from checkpoints.checkpoint import open_checkpoint
from tasks import loading
from tasks.ner import data as ner_data
from tasks.ner import job as ner_job
from training.task_model import TaskModel

run_ner = scripts.load("run_ner")

DEEP = tiny.config_of(VOCAB, num_hidden_layers=4)


@pytest.fixture(scope="module")
def deep_dir(tmp_path_factory) -> Path:
    return tiny.write_model(tmp_path_factory.mktemp("deep"), DEEP, VOCAB)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def feature_flags(deep_dir: Path, data_dir: Path, out: Path, **more) -> dict:
    flags = flags_for(deep_dir, data_dir, out, feature_based=True)
    flags["learning_rate"] = 0.05
    return flags | {"lstm_units": 8, "num_train_epochs": 16} | more


@pytest.fixture(scope="module")
def features(deep_dir, data_dir, tmp_path_factory) -> Path:
    """A finished run on the weighted sum of the last four layers."""
    out = tmp_path_factory.mktemp("features") / "out"
    flags = feature_flags(deep_dir, data_dir, out, do_predict=True)
    flags |= {"feature_layers": "weighted_sum_last_four"}
    assert scripts.run(run_ner, **flags) == 0
    return out


@pytest.mark.nightly
def test_features_are_learned_from(features, deep_dir):
    assert tiny.results_of(features, "eval_results.txt")["f1"] > 0.8
    config = json.loads((features / "bert_config.json").read_text())
    assert config["feature_layers"] == "weighted_sum_last_four"
    assert config["lstm_units"] == 8
    values = weights_of(features / "bert_model.ckpt")
    assert values["layer_weights"].any()
    assert values["bilstm/layer_0/forward_lstm/lstm_cell/kernel"].any()
    for name, value in weights_of(deep_dir / "bert_model.ckpt").items():
        np.testing.assert_array_equal(values[name], value)  # frozen
    latest = weights_of(tf.train.latest_checkpoint(str(features)))
    slots = [name for name in latest if name.endswith("/adam_m")]
    assert len(slots) == 1 + 2 * 2 * 3 + 2
    assert not any(name.startswith("bert/") for name in slots)


@pytest.mark.nightly
def test_activations_are_those_of_the_first_pieces(
    features, deep_dir, data_dir
):
    """By hand, one sentence, no padding: [words, layers, H]."""
    found = np.load(features / "train_-4_-3_-2_-1.npy")
    model = TaskModel(DEEP)
    weight_files.restore_weights(
        model.variables, lookup.find_checkpoint(str(deep_dir))
    )
    file = ner_data.read_file(str(data_dir / "train.txt"), ner_data.Columns())
    assert found.shape == (file.num_words, 4, 16)
    words = file.sentences[0].words
    ids, places = [VOCAB.index("[CLS]")], []
    for word in words:
        places.append(len(ids))
        stem = word.rstrip("x")
        ids += [VOCAB.index(stem)]
        ids += [VOCAB.index("##x")] * (len(word) - len(stem))
    output = model.bert(
        **model.encoder_inputs(
            {"input_ids": tf.constant([[*ids, VOCAB.index("[SEP]")]])}
        )
    )
    for number, layer in enumerate(output.encoder_layers):
        np.testing.assert_allclose(
            found[: len(words), number],
            layer.numpy()[0, places],
            rtol=0,
            atol=1e-5,
        )


@pytest.mark.nightly
def test_activations_are_computed_once(features, deep_dir, data_dir, caplog):
    flags = feature_flags(deep_dir, data_dir, features)
    flags |= {"feature_layers": "weighted_sum_last_four"}
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_ner, **flags) == 0
    assert "Computing activations" not in caplog.text
    assert "holds a finished run" in caplog.text
    other = {"feature_layers": "last"}
    line = scripts.error_of(run_ner, **(flags | other))
    assert "belongs to a run with data" in line


@pytest.mark.nightly
def test_activations_depend_on_the_configuration(
    features, data_dir, tmp_path, caplog
):
    """The same weights with another activation function give others."""
    config = dataclasses.replace(DEEP, hidden_act="relu")
    model = tiny.write_model(tmp_path / "model", config, VOCAB)
    shutil.copytree(features, tmp_path / "records")
    flags = feature_flags(model, data_dir, tmp_path / "out")
    flags |= {"records_dir": str(tmp_path / "records"), "do_eval": False}
    flags |= {"feature_layers": "weighted_sum_last_four"}
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_ner, **flags | {"num_train_epochs": 0.1})
    assert "train.tf_record: same data, same flags" in caplog.text
    assert "Computing activations" in caplog.text


def test_a_full_disk_is_named(deep_dir, data_dir, tmp_path, monkeypatch):
    def no_room(*_) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    flags = feature_flags(deep_dir, data_dir, tmp_path)
    with pytest.raises(OSError, match="No space left") as error:
        scripts.run(run_ner, **flags)
    # base/script.py makes one line of it, with this path.
    assert error.value.file_written == str(tmp_path / "train_-4_-3_-2_-1.npy")
    assert not list(tmp_path.glob("*.npy")) + list(tmp_path.glob(".*"))


@pytest.mark.nightly
def test_a_fine_tuned_models_layers_hold(features, data_dir, tmp_path):
    """Without the flags; with others it is an error."""
    flags = flags_for(features, data_dir, tmp_path, train_file=None)
    scripts.run(run_ner, **only(flags, do_predict=True))
    for name in ("predictions.txt", "test_results.txt"):
        wanted = (features / name).read_text()
        assert (tmp_path / name).read_text() == wanted
    flags = only(flags, do_predict=True)
    assert scripts.run(run_ner, **flags, feature_based=True) == 0
    line = scripts.error_of(run_ner, **flags, lstm_units=8)
    assert "--lstm_units needs --feature_based" in line
    fine_tuned = "weighted_sum_last_four"
    for name, value, wanted in (
        ("feature_based", False, True),
        ("feature_layers", "last", fine_tuned),
        ("lstm_units", 9, 8),
    ):
        given = {"feature_based": True, name: value}
        line = scripts.error_of(run_ner, **flags | given)
        assert f"--{name}={value}, but the model was trained with" in line
        assert f"{name}={wanted}: leave the flag out" in line


@pytest.mark.nightly
def test_the_graph_gives_the_predictions(features):
    pytest.importorskip("tensorflow_text")
    checkpoint = open_checkpoint(str(features))
    settings = loading.describe(checkpoint, needs_rows=False)
    tagger = loading.load_graph(settings)
    signatures = tagger.signatures()
    columns = ner_data.Columns(0, -1)
    file = ner_data.read_file(str(features / "predictions.txt"), columns)
    for sentence in file.sentences:
        words = tf.constant([sentence.words])
        text = tf.constant([" ".join(sentence.words)])
        for found in (
            signatures["words"](words=words),
            signatures["serving_default"](text=text),
        ):
            assert found["tags"].numpy().astype(str).tolist() == [sentence.tags]
            assert (found["scores"].numpy() > 1 / 5).all()
    for texts in (["", " "], [""]):
        found = signatures["serving_default"](text=tf.constant(texts))
        assert found["tags"].shape == found["scores"].shape == (len(texts), 0)
    nothing = signatures["words"](words=tf.constant([["", ""]]))
    assert nothing["tags"].numpy().tolist() == [[b"", b""]]


@pytest.mark.nightly
def test_a_run_in_three_parts_ends_with_the_same_bits(
    features, deep_dir, data_dir, tmp_path
):
    """Ended while activations are written, by SIGTERM, and not at all."""
    flags = feature_flags(deep_dir, data_dir, tmp_path)
    flags |= {"feature_layers": "weighted_sum_last_four", "do_eval": False}
    flags |= {"save_checkpoints_steps": 40}
    compute = ner_job.fill_words

    def compute_and_stop(*args) -> None:
        compute(*args)
        # Another run with this records_dir writes another file.
        (written,) = tmp_path.glob(".train_*.tmp")
        assert str(os.getpid()) in written.name
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ner_job, "fill_words", compute_and_stop)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_ner, **flags)
    path = tmp_path / "train_-4_-3_-2_-1.npy"
    assert not path.exists() and not list(tmp_path.glob(".*"))

    save = training_state.TrainingState.save

    def save_and_stop(state, step: int, stays: bool = True) -> str:
        if step == 80:
            os.kill(os.getpid(), signal.SIGTERM)
        return save(state, step, stays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_state.TrainingState, "save", save_and_stop)
        assert scripts.run(run_ner, **flags) == 1
    assert scripts.run(run_ner, **flags) == 0
    name = "bert_model.ckpt"
    tiny.check_same_bits(tmp_path / name, features / name)
