"""run_ner.py as a user runs it, on sentences a tiny model can learn."""

import errno
import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny

import checkpoints
import feature_tagging
import finetuning
import heads
import layer_features
import modeling
import ner_data
import ner_export
import ner_records
import serving
import sweeps
from modeling import BertConfig

run_ner = scripts.load("run_ner")
convert_checkpoint = scripts.load("convert_checkpoint")
export_saved_model = scripts.load("export_saved_model")

NAMES = {"PER": ["ann", "bob"], "LOC": ["rome", "oslo"]}
OTHERS = ["the", "a", "was", "in", "saw", "."]
SECOND = {"PER": "jr", "LOC": "city"}
PIECES = [*NAMES["PER"], *NAMES["LOC"], *OTHERS, "##x", *SECOND.values()]
VOCAB = [*tiny.SPECIAL, *PIECES]
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
CONFIG = tiny.config_of(VOCAB)


def sentences(count: int, seed: int) -> list[list[tuple[str, str]]]:
    """Words with tags in IOB1: "annx", "oslo city"; some are long."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        words: list[tuple[str, str]] = []
        for _ in range(rng.integers(1, 6) + 25 * (number % 20 == 19)):
            words += [(str(word), "O") for word in rng.choice(OTHERS, 2)]
            kind = ("PER", "LOC")[rng.integers(2)]
            name = str(rng.choice(NAMES[kind])) + "x" * rng.integers(3)
            words.append((name, f"I-{kind}"))
            if rng.integers(2):
                words.append((SECOND[kind], f"I-{kind}"))
        made.append(words)
    return made


def write_columns(path: Path, rows, with_tags: bool = True) -> None:
    lines = ["-DOCSTART- O", ""] if with_tags else []
    for sentence in rows:
        lines += [
            " ".join(pair if with_tags else pair[:1]) for pair in sentence
        ]
        lines.append("")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    """An encoder with weights, vocabulary and configuration beside them."""
    return tiny.write_model(tmp_path_factory.mktemp("model"), CONFIG, VOCAB)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("train", 160, 1), ("dev", 40, 2)):
        write_columns(folder / f"{name}.txt", sentences(count, seed))
    write_columns(folder / "test.txt", sentences(21, 3))
    write_columns(folder / "words.txt", sentences(21, 3), with_tags=False)
    return folder


def flags_for(model_dir: Path, data_dir: Path, out: Path, **more) -> dict:
    return {
        "train_file": str(data_dir / "train.txt"),
        "dev_file": str(data_dir / "dev.txt"),
        "test_file": str(data_dir / "test.txt"),
        "init_checkpoint": str(model_dir),
        "output_dir": str(out),
        "max_seq_length": 32,
        "train_batch_size": 8,
        "num_train_epochs": 5,
        "learning_rate": 1e-2,
        "do_train": True,
        "do_eval": True,
    } | more


def only(flags: dict, **jobs) -> dict:
    """Do these jobs and no other."""
    return flags | {"do_train": False, "do_eval": False} | jobs


def values_of(prefix: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


@pytest.fixture(scope="module")
def finished(model_dir, data_dir, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    flags = flags_for(model_dir, data_dir, out, do_predict=True)
    flags["gradient_accumulation_steps"] = 2  # of batches of any length
    assert scripts.run(run_ner, **flags) == 0
    return out


# --- What comes out -------------------------------------------------------


def test_it_learns_and_says_so(finished):
    results = tiny.results_of(finished, "eval_results.txt")
    scores = {"precision", "recall", "f1"}
    assert set(results) == {
        *scores,
        *(f"{kind}_{name}" for kind in NAMES for name in scores),
        *("accuracy", "loss", "global_step"),
    }
    assert results["f1"] > 0.9 and results["accuracy"] > 0.95
    records = checkpoints.join(str(finished), "train.tf_record")
    count = sum(1 for _ in tf.data.TFRecordDataset(records))
    assert count > 160  # some sentences have two windows
    assert results["global_step"] == int(count / 8 * 5)


def test_predictions_line_for_line(finished, data_dir):
    given = (data_dir / "test.txt").read_text().splitlines()
    found = (finished / "predictions.txt").read_text().splitlines()
    assert len(found) == len(given)
    pairs = []
    for before, after in zip(given, found, strict=True):
        if not before:
            assert after == ""
            continue
        start, _, tag = after.rpartition(" ")
        assert start == before and tag in LABELS
        if not before.startswith("-DOCSTART-"):
            pairs.append((before.split()[1][2:], tag[2:]))
    types = np.array(pairs)
    assert np.mean(types[:, 0] == types[:, 1]) > 0.95
    results = tiny.results_of(finished, "test_results.txt")
    assert results["f1"] > 0.9 and "global_step" not in results


def test_predictions_are_the_models(finished):
    """By hand: each word of one short and one long sentence, no padding."""
    model = heads.BertForTokenClassification(CONFIG, len(LABELS))
    checkpoints.restore_weights(model.variables, str(finished), required="")
    path = str(finished / "predictions.txt")
    file = ner_data.read_file(path, ner_data.Columns(0, -1))
    sentence = file.sentences[0]
    ids, places = [VOCAB.index("[CLS]")], []
    for word in sentence.words:
        places.append(len(ids))
        stem = word.rstrip("x")
        ids.append(VOCAB.index(stem))
        ids += [VOCAB.index("##x")] * (len(word) - len(stem))
    ids.append(VOCAB.index("[SEP]"))
    assert len(ids) < 32
    logits = model({"input_ids": tf.constant([ids])})[0].numpy()
    tags = [LABELS[best] for best in logits[places].argmax(-1)]
    assert ner_data.normalized_tags(tags) == sentence.tags


def test_exported_directory_is_complete(finished):
    config = json.loads((finished / "bert_config.json").read_text())
    assert list(config["id2label"].values()) == list(LABELS)
    assert config["task"] == "token_classification"
    assert config["max_seq_length"] == 32
    assert config["document_context"] is False
    names = values_of(finished / "bert_model.ckpt")
    assert names["output_weights"].shape == (5, 16)
    assert not any(name.endswith("adam_m") for name in names)


def test_other_scripts_know_what_it_is(finished, features, tmp_path):
    """Transformers has a class for one, for a BiLSTM it has none."""
    flags = {"output_format": "huggingface"}
    out = tmp_path / "hf"
    scripts.run(
        convert_checkpoint, input=str(finished), output=str(out), **flags
    )
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["label2id"] == {n: i for i, n in enumerate(LABELS)}
    flags |= {"input": str(features), "output": str(tmp_path / "other")}
    line = scripts.error_of(convert_checkpoint, **flags)
    assert "has no class in transformers" in line
    flags = {"init_checkpoint": str(finished)}
    flags["export_dir"] = str(tmp_path / "1")
    line = scripts.error_of(export_saved_model, **flags)
    assert "export it with run_ner.py --do_export" in line


def test_words_without_tags(finished, data_dir, tmp_path):
    """The same tags; a fitted model needs neither training nor dev file."""
    flags = flags_for(finished, data_dir, tmp_path, train_file=None)
    flags |= {"dev_file": None, "test_file": str(data_dir / "words.txt")}
    scripts.run(run_ner, **only(flags, do_predict=True))
    found = (tmp_path / "predictions.txt").read_text().splitlines()
    wanted = (finished / "predictions.txt").read_text().splitlines()[2:]
    assert [line.split() for line in found] == [
        line.split()[::2] for line in wanted
    ]
    assert not (tmp_path / "test_results.txt").exists()


def test_predictions_do_not_depend_on_padding(finished, data_dir, tmp_path):
    found = []
    for name, more in {
        "padded": {"pad_to_max_length": True},
        "other": {"predict_batch_size": 5},
    }.items():
        flags = flags_for(finished, data_dir, tmp_path / name, **more)
        scripts.run(run_ner, **only(flags, do_predict=True))
        found.append(tiny.results_of(tmp_path / name, "test_results.txt"))
    wanted = tiny.results_of(finished, "test_results.txt")
    for results in found:
        assert results["loss"] == pytest.approx(wanted["loss"], abs=1e-5)


def test_unknown_tags_are_told_not_scored(finished, data_dir, tmp_path, caplog):
    test = tmp_path / "test.txt"
    test.write_text("ann B-PER\n\nrome B-GPE\n")
    flags = flags_for(finished, data_dir, tmp_path, test_file=str(test))
    scripts.run(run_ner, **only(flags, do_predict=True))
    assert "test.txt, line 3: tag 'B-GPE': the training file" in caplog.text
    lines = (tmp_path / "predictions.txt").read_text().splitlines()
    assert lines == ["ann B-PER B-PER", "", "rome B-GPE B-LOC"]
    assert not (tmp_path / "test_results.txt").exists()
    flags = only(flags | {"dev_file": str(test)}, do_eval=True)
    line = scripts.error_of(run_ner, **flags)
    assert "line 3: tag 'B-GPE'" in line and "only LOC, PER" in line


def fitted_with(source: Path, folder: Path, **changes) -> Path:
    """A copy of a fitted model whose configuration says something else."""
    shutil.copytree(source, folder)
    path = folder / "bert_config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(config))
    return folder


def test_a_fitted_model_says_what_it_sees(finished, data_dir, tmp_path, caplog):
    """Another context is an error, another length a warning."""
    flags = only(flags_for(finished, data_dir, tmp_path), do_predict=True)
    line = scripts.error_of(run_ner, **flags, document_context=True)
    assert "fitted with document_context=False" in line
    assert "max_seq_length" not in caplog.text
    flags |= {"max_seq_length": 16, "document_context": False}
    scripts.run(run_ner, **flags)
    assert "--max_seq_length=16; the model was fitted with 32" in caplog.text


def test_json_lines_with_documents(finished, data_dir, tmp_path, caplog):
    """The neighbours are in the window; the answer is the sentence's own."""
    test = tmp_path / "test.jsonl"
    rows = [
        {"tokens": ["ann", "saw", "rome"], "document": 1},
        {"tokens": ["oslo"] * 70, "document": 1},
        {"tokens": ["bob"], "document": 2},
    ]
    test.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = fitted_with(finished, tmp_path / "model", document_context=True)
    flags = flags_for(model, data_dir, tmp_path, test_file=str(test))
    del flags["max_seq_length"]
    scripts.run(run_ner, **only(flags, do_predict=True))
    text = (tmp_path / "predictions.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert [len(x["predicted_tags"]) for x in found] == [3, 70, 1]
    assert found[0]["predicted_tags"] == ["B-PER", "O", "B-LOC"]
    assert found[2]["predicted_tags"] == ["B-PER"]
    assert set(found[1]["predicted_tags"]) <= {"B-LOC", "I-LOC"}
    path = str(tmp_path / "predict.tf_record")
    lengths = [
        sum(
            tf.train.Example.FromString(x.numpy())
            .features.feature["input_mask"]
            .int64_list.value
        )
        for x in tf.data.TFRecordDataset(path)
    ]
    assert set(lengths[:-1]) == {32} and lengths[-1] == 3


# --- SavedModel -------------------------------------------------------------


def check_served(signatures, out: Path) -> None:
    """Words and texts both get the tags in predictions.txt."""
    file = ner_data.read_file(
        str(out / "predictions.txt"), ner_data.Columns(0, -1)
    )
    width = max(len(sentence.words) for sentence in file.sentences)
    words = [s.words + [""] * (width - len(s.words)) for s in file.sentences]
    tags = [s.tags + [""] * (width - len(s.words)) for s in file.sentences]
    found = signatures["words"](words=tf.constant(words))
    assert found["tags"].numpy().astype(str).tolist() == tags
    scores = found["scores"].numpy()
    assert ((scores > 1 / len(LABELS)) == (np.array(words) != "")).all()
    texts = [" ".join(sentence.words) for sentence in file.sentences]
    found = signatures["serving_default"](text=tf.constant(texts))
    assert found["words"].numpy().astype(str).tolist() == words
    assert found["tags"].numpy().astype(str).tolist() == tags
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5)


def test_saved_model_gives_the_predictions(finished, data_dir, tmp_path):
    pytest.importorskip("tensorflow_text")
    flags = flags_for(finished, data_dir, tmp_path)
    scripts.run(run_ner, **only(flags, do_export=True))
    loaded = tf.saved_model.load(str(tmp_path / "saved_model" / "1"))
    check_served(loaded.signatures, finished)
    ids = [[VOCAB.index(t) for t in ("[CLS]", "ann", "saw", "rome", "[SEP]")]]
    ones = [[1] * 5]
    found = loaded.signatures["ids"](
        input_ids=tf.constant(ids),
        input_mask=tf.constant(ones),
        segment_ids=tf.constant([[0] * 5]),
    )
    tags = found["tags"].numpy().astype(str)[0, 1:4].tolist()
    assert ner_data.normalized_tags(tags) == ["B-PER", "O", "B-LOC"]
    nothing = loaded.signatures["words"](words=tf.constant([["", ""]]))
    assert nothing["tags"].numpy().tolist() == [[b"", b""]]
    nothing = loaded.signatures["serving_default"](text=tf.constant(["", " "]))
    assert nothing["tags"].shape == (2, 0)


# --- Features ---------------------------------------------------------------

DEEP = BertConfig.from_dict(CONFIG.to_dict() | {"num_hidden_layers": 4})


@pytest.fixture(scope="module")
def deep_dir(tmp_path_factory) -> Path:
    return tiny.write_model(tmp_path_factory.mktemp("deep"), DEEP, VOCAB)


def feature_flags(deep_dir: Path, data_dir: Path, out: Path, **more) -> dict:
    flags = flags_for(deep_dir, data_dir, out, feature_based=True)
    flags["learning_rate"] = 0.02
    return flags | {"lstm_units": 8, "num_train_epochs": 12} | more


@pytest.fixture(scope="module")
def features(deep_dir, data_dir, tmp_path_factory) -> Path:
    """A finished run on the weighted sum of the last four layers."""
    out = tmp_path_factory.mktemp("features") / "out"
    flags = feature_flags(deep_dir, data_dir, out, do_predict=True)
    flags |= {"feature_layers": "weighted_sum_last_four"}
    assert scripts.run(run_ner, **flags) == 0
    return out


def test_features_are_learned_from(features, deep_dir):
    assert tiny.results_of(features, "eval_results.txt")["f1"] > 0.8
    config = json.loads((features / "bert_config.json").read_text())
    assert config["feature_layers"] == "weighted_sum_last_four"
    assert config["lstm_units"] == 8
    values = values_of(features / "bert_model.ckpt")
    assert values["layer_weights"].any()
    assert values["bilstm/layer_0/forward_lstm/lstm_cell/kernel"].any()
    for name, value in values_of(deep_dir / "bert_model.ckpt").items():
        np.testing.assert_array_equal(values[name], value)  # frozen
    latest = values_of(Path(tf.train.latest_checkpoint(str(features))))
    slots = [name for name in latest if name.endswith("/adam_m")]
    assert len(slots) == 1 + 2 * 2 * 3 + 2
    assert not any(name.startswith("bert/") for name in slots)


def test_activations_are_those_of_the_first_pieces(
    features, deep_dir, data_dir
):
    """By hand, one sentence, no padding: [words, layers, H]."""
    found = np.load(features / "train_-4_-3_-2_-1.npy")
    model = modeling.TaskModel(DEEP)
    checkpoints.restore_weights(model.variables, str(deep_dir))
    file = ner_data.read_file(str(data_dir / "train.txt"), ner_data.Columns())
    assert found.shape == (file.num_words, 4, 16)
    words = file.sentences[0].words
    ids, places = [VOCAB.index("[CLS]")], []
    for word in words:
        places.append(len(ids))
        stem = word.rstrip("x")
        ids += [VOCAB.index(stem)]
        ids += [VOCAB.index("##x")] * (len(word) - len(stem))
    output = model.encode(
        {"input_ids": tf.constant([[*ids, VOCAB.index("[SEP]")]])}
    )
    for number, layer in enumerate(output.encoder_layers):
        np.testing.assert_allclose(
            found[: len(words), number],
            layer.numpy()[0, places],
            rtol=0,
            atol=1e-5,
        )


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


def test_activations_depend_on_the_configuration(
    features, data_dir, tmp_path, caplog
):
    """The same weights with another activation function give others."""
    config = BertConfig.from_dict(DEEP.to_dict() | {"hidden_act": "relu"})
    model = tiny.write_model(tmp_path / "model", config, VOCAB)
    shutil.copytree(features, tmp_path / "records")
    flags = feature_flags(model, data_dir, tmp_path / "out")
    flags |= {"records_dir": str(tmp_path / "records"), "do_eval": False}
    flags |= {"feature_layers": "weighted_sum_last_four"}
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_ner, **flags | {"num_train_epochs": 0.1})
    assert "train.tf_record: same data, same flags" in caplog.text
    assert "Computing activations" in caplog.text


def test_a_full_disk_is_one_line(deep_dir, data_dir, tmp_path, monkeypatch):
    def no_room(*_) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    flags = feature_flags(deep_dir, data_dir, tmp_path)
    line = scripts.error_of(run_ner, **flags)
    assert re.search(r"does not take the activations, [\d.]+ MB: No sp", line)
    assert not list(tmp_path.glob("*.npy")) + list(tmp_path.glob(".*"))


def test_a_fitted_model_says_what_it_reads(features, data_dir, tmp_path):
    """Without the flags; with others it is an error."""
    flags = flags_for(features, data_dir, tmp_path, train_file=None)
    scripts.run(run_ner, **only(flags, do_predict=True))
    for name in ("predictions.txt", "test_results.txt"):
        wanted = (features / name).read_text()
        assert (tmp_path / name).read_text() == wanted
    flags = only(flags, do_predict=True, feature_based=True)
    line = scripts.error_of(run_ner, **flags)
    assert "feature_layers are weighted_sum_last_four" in line


def test_features_in_the_graph(features):
    pytest.importorskip("tensorflow_text")
    vocab_file = str(features / "vocab.txt")
    choice = layer_features.table_7(4)["weighted_sum_last_four"]
    model = feature_tagging.BertForFeatureTagging(DEEP, len(LABELS), choice, 8)
    checkpoints.restore_weights(model.variables, str(features), required="")
    tagger = ner_export.Tagger(
        model,
        serving.Tokenizer(vocab_file),
        vocab_file,
        32,
        labels=list(LABELS),
    )
    signatures = tagger.signatures()
    check_served(signatures, features)
    for texts in (["", " "], [""]):
        found = signatures["serving_default"](text=tf.constant(texts))
        assert found["tags"].shape == found["scores"].shape == (len(texts), 0)
    nothing = signatures["words"](words=tf.constant([["", ""]]))
    assert nothing["tags"].numpy().tolist() == [[b"", b""]]


@pytest.mark.parametrize("name", layer_features.table_7(4))
def test_every_row_of_table_7(name, deep_dir):
    """What the BiLSTM reads, by hand."""
    choice = layer_features.table_7(4)[name]
    tf.keras.utils.set_random_seed(1)
    model = feature_tagging.BertForFeatureTagging(DEEP, 5, choice, 3)
    batch = {"input_ids": tf.constant([[2, 6, 7, 3]])}
    output = model.encode(batch)
    layers = output.encoder_layers
    wanted = {
        "embeddings": output.embedding_output,
        "second_to_last": layers[-2],
        "last": layers[-1],
        "weighted_sum_last_four": sum(layers) / 4,
        "concat_last_four": tf.concat(layers, -1),
        "weighted_sum_all": sum(layers) / 4,
    }[name]
    mask = tf.ones([1, 4], tf.int32)
    activations = model.activations(batch)
    logits = model({"activations": activations, "input_mask": mask})
    x = model.bilstm(wanted, mask, None)
    x = heads.project(x, model.output_weights, model.output_bias)
    np.testing.assert_allclose(logits, x, atol=1e-6)
    paths = [variable.path for variable in model.variables]
    assert len(set(paths)) == len(paths)


def test_padding_does_not_reach_the_words():
    """Neither direction of the BiLSTM sees what stands behind a sentence."""
    tf.keras.utils.set_random_seed(1)
    lstm = feature_tagging.BiLstm(4, 3)
    lstm.build()
    x = np.random.default_rng(0).normal(size=[2, 5, 4]).astype(np.float32)
    mask = tf.constant([[1, 1, 1, 0, 0], [1] * 5])
    found = lstm(x, mask, None)
    alone = lstm(x[:1, :3], mask[:1, :3], None)
    np.testing.assert_allclose(found[:1, :3], alone, atol=1e-6)
    assert not found[0, 3:].numpy().any()
    seed = tf.constant(7, tf.uint32)
    np.testing.assert_array_equal(lstm(x, mask, seed), lstm(x, mask, seed))
    assert (lstm(x, mask, seed) != found).numpy().any()


# --- Kill and resume, sweeps ------------------------------------------------


def test_a_run_in_three_parts_ends_with_the_same_bits(
    features, deep_dir, data_dir, tmp_path
):
    """Ended while activations are written, by SIGTERM, and not at all."""
    flags = feature_flags(deep_dir, data_dir, tmp_path)
    flags |= {"feature_layers": "weighted_sum_last_four", "do_eval": False}
    flags |= {"save_checkpoints_steps": 4, "iterations_per_loop": 1}
    compute = ner_records.word_outputs

    def compute_and_stop(*args) -> None:
        compute(*args)
        # Another run with this records_dir writes another file.
        assert str(os.getpid()) in args[-1] and Path(args[-1]).exists()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ner_records, "word_outputs", compute_and_stop)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_ner, **flags)
    path = tmp_path / "train_-4_-3_-2_-1.npy"
    assert not path.exists() and not list(tmp_path.glob(".*"))

    save = checkpoints.TrainingState.save

    def save_and_stop(state, step: int) -> str:
        if step == 8:
            os.kill(os.getpid(), signal.SIGTERM)
        return save(state, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.TrainingState, "save", save_and_stop)
        assert scripts.run(run_ner, **flags) == 1
    assert scripts.run(run_ner, **flags) == 0
    killed = values_of(tmp_path / "bert_model.ckpt")
    for key, value in values_of(features / "bert_model.ckpt").items():
        np.testing.assert_array_equal(killed[key], value, err_msg=key)


def test_sweep(model_dir, data_dir, tmp_path):
    flags = flags_for(model_dir, data_dir, tmp_path, num_train_epochs=1)
    flags |= {"sweep_learning_rates": "0.01", "do_predict": True}
    assert scripts.run(run_ner, **flags) == 0
    lines = (tmp_path / "sweep_results.txt").read_text().splitlines()
    assert lines[1].startswith("lr0.01_seed12345 ")
    assert lines[2].startswith("f1: best")
    assert (tmp_path / "predictions.txt").exists()


# --- What goes wrong ------------------------------------------------------


def test_data_are_read_before_training(
    model_dir, data_dir, tmp_path, monkeypatch
):
    """Those of every job asked for, in a sweep too."""
    monkeypatch.setattr(
        finetuning.Trainer, "train", lambda _: pytest.fail("trained")
    )
    monkeypatch.setattr(
        sweeps, "run_all", lambda *_: pytest.fail("began a sweep")
    )
    bad = tmp_path / "bad.txt"
    bad.write_text("ann B-PER\nrome\n")
    flags = flags_for(model_dir, data_dir, tmp_path / "out")
    for changes in (
        {"dev_file": str(bad)},
        {"dev_file": str(bad), "do_eval": False, "eval_steps": 5},
        {"test_file": str(bad), "do_predict": True},
        {"test_file": str(bad), "do_predict": True, "num_restarts": 2},
    ):
        line = scripts.error_of(run_ner, **flags | changes)
        assert "bad.txt, line 2: 1 columns, wanted 2" in line


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"do_train": False, "do_eval": False}, "give --do_train"),
        ({"train_file": None}, "--do_train needs --train_file"),
        ({"dev_file": None}, "--do_eval needs --dev_file"),
        (
            {"dev_file": None, "do_eval": False, "eval_steps": 5},
            "--eval_steps needs --dev_file",
        ),
        ({"do_predict": True, "test_file": None}, "--do_predict needs"),
        ({"train_file": "/nowhere"}, "--train_file=/nowhere: no such file"),
        ({"test_file": "/nowhere"}, "--test_file=/nowhere: no such file"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        ({"init_checkpoint": None}, "--bert_config_file is required"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"token_column": 2}, "line 3: 2 columns, --token_column=2 is none"),
        ({"label_column": 0}, "line 3: no tags"),
        ({"label_column": 5}, "--label_column=5 is none of them"),
        ({"train_batch_size": 1000, "num_train_epochs": 0.1}, "make no step"),
        ({"early_stopping_patience": 2}, "needs --eval_steps"),
        ({"do_train": False}, "is no fitted tagger"),
        ({"feature_layers": "last"}, "--feature_layers is for"),
        ({"lstm_units": 3}, "--lstm_units is for --feature_based"),
        ({"feature_based": True}, "the model has 1 layers, which allow emb"),
        (
            {"feature_based": True, "init_checkpoint": None},
            "--feature_based needs --init_checkpoint",
        ),
        (
            {
                "feature_based": True,
                "feature_layers": "last",
                "records_dir": "file:///tmp/run_ner_remote",
            },
            "name a local --records_dir",
        ),
    ],
    ids=str,
)
def test_flags_that_cannot_work(model_dir, data_dir, tmp_path, changes, words):
    flags = flags_for(model_dir, data_dir, tmp_path / "out") | changes
    line = scripts.error_of(run_ner, **flags)
    assert words in line, line
