"""The original's run_classifier.py, and a user's DataProcessor."""

import subprocess
import sys

import numpy as np
import pytest
import scripts
import tensorflow as tf
import text_rows
import tiny
from classifier_runs import CONFIG, VOCAB, flags_for, sentences, write_data
from paths import ROOT
from tiny import results_of

import optimization
import tokenization
from tasks.classifier import processors, task_files

run_classifier = scripts.load("run_classifier")
v1 = tf.compat.v1

MODULE = '''
import csv
import os

import run_classifier


class Films(run_classifier.DataProcessor):
    """As one writes it for the original."""

    def get_train_examples(self, data_dir):
        return self._create(os.path.join(data_dir, "train.tsv"), "train")

    def get_dev_examples(self, data_dir):
        return self._create(os.path.join(data_dir, "dev.tsv"), "dev")

    def get_test_examples(self, data_dir):
        return self._create(os.path.join(data_dir, "test.tsv"), "test")

    def get_labels(self):
        return ["bad", "good"]

    def _create(self, path, name):
        return [
            run_classifier.InputExample(
                guid=f"{name}-{i}",
                text_a=line[0],
                label="bad" if name == "test" else line[1],
            )
            for i, line in enumerate(self._read_tsv(path))
            if i
        ]


class Lists(run_classifier.DataProcessor):
    def get_labels(self):
        return self.labels

    def get_train_examples(self, data_dir):
        return self.examples


class OneLabel(Lists):
    labels = ["good"]


class NoExample(Lists):
    labels, examples = ["bad", "good"], []


class OtherLabel(Lists):
    labels = ["bad", "good"]
    examples = [run_classifier.InputExample("1", "a film", label="great")]


class Numbers(Lists):
    labels = [0, 1]
    examples = [run_classifier.InputExample("1", "a film", label=1)]


class Pairs(Lists):
    labels = ["bad", "good"]
    examples = [
        run_classifier.InputExample("1", "a film", text, label="bad")
        for text in ("a book", None, " ")
    ]


class NoText(Lists):
    labels = ["bad", "good"]
    examples = [run_classifier.InputExample("1", " ", label="bad")]


class NoExamples(Lists):
    labels, examples = ["bad", "good"], ["a film", "bad"]


class OnlyTrain(Lists):
    labels = ["bad", "good"]
    examples = [run_classifier.InputExample("1", "a film", label="bad")]
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, data of --task_name=tsv, and the module of a user."""
    folder = tmp_path_factory.mktemp("user")
    tiny.write_model(folder / "model", CONFIG, VOCAB)
    write_data(folder)
    (folder / "films.py").write_text(MODULE)
    return folder


@pytest.fixture
def in_folder(folder, monkeypatch):
    """The user's folder is the current one."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return folder


def test_labels_that_are_numbers_are_their_words(in_folder):
    found = processors.read_files("films:Numbers", "", ["train"])
    assert found.labels == ("0", "1")
    assert [x.label for x in found.train.examples] == ["1"]


def test_pairs_of_a_processor_without_their_second_text(in_folder, caplog):
    """They are counted: as in the original, they are learned as one text."""
    found = processors.read_files("films:Pairs", "", ["train"])
    assert found.takes_pairs and len(found.train.examples) == 3
    assert "get_train_examples, 2 of 3 have no text_b" in caplog.text


@pytest.mark.nightly
def test_a_processor_trains_as_its_data_would(in_folder, tmp_path):
    """The same scores, predictions and SavedModel as of --task_name=tsv."""
    for name, more in (
        ("tsv", {}),
        ("own", {"task_name": "films", "processor": "films:Films"}),
    ):
        flags = flags_for(in_folder / "model", in_folder, tmp_path / name)
        flags |= {"do_predict": True, "do_export": True} | more
        assert scripts.run(run_classifier, **flags) == 0
    assert results_of(tmp_path / "own") == results_of(tmp_path / "tsv")
    rows = [
        (tmp_path / name / "test_results.tsv").read_text()
        for name in ("tsv", "own")
    ]
    assert rows[0] == rows[1]
    loaded = tf.saved_model.load(str(tmp_path / "own" / "saved_model" / "1"))
    texts = [text for text, _ in sentences(21, 3)]
    found = loaded.signatures["serving_default"](text=tf.constant(texts))
    wanted = [
        [float(p) for p in row.split("\t")] for row in rows[1].splitlines()
    ]
    np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("films", "wanted module:Class"),
        (":Films", "wanted module:Class"),
        ("no_films:Films", "No module named 'no_films'"),
        ("films:Nothing", "no attribute 'Nothing'"),
        ("films:OneLabel", "['good'], wanted two or more"),
        ("films:NoExample", "get_train_examples returns no example"),
        ("films:OtherLabel", "get_train_examples[0]: unknown label 'great'"),
        ("films:NoText", "get_train_examples[0]: text_a is empty"),
        ("films:NoExamples", "wanted an InputExample"),
        ("films:OnlyTrain", "does not define get_dev_examples"),
    ],
)
def test_a_processor_that_cannot_work_is_one_line(
    in_folder, tmp_path, name, words
):
    flags = flags_for(in_folder / "model", in_folder, tmp_path / "out")
    flags |= {"task_name": None, "processor": name}
    line = scripts.error_of(run_classifier, **flags)
    assert line.startswith(f"--processor={name}") and words in line, line
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_a_process_of_the_script_imports_itself_once(folder, tmp_path):
    """The user's module imports run_classifier, which is __main__."""
    flags = flags_for(folder / "model", folder, tmp_path / "out")
    flags |= {"task_name": "films", "processor": "films:OnlyTrain"}
    run = subprocess.run(
        [sys.executable, ROOT / "run_classifier.py"]
        + [f"--{name}={value}" for name, value in flags.items()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    line = run.stderr.splitlines()[-1]
    assert "films:OnlyTrain does not define get_dev_examples" in line, line
    assert run.returncode == 1


def test_a_processor_has_classes_only(in_folder, tmp_path):
    flags = flags_for(in_folder / "model", in_folder, tmp_path / "out")
    flags |= {"processor": "films:Films", "multi_label": True}
    assert "--multi_label" in scripts.error_of(run_classifier, **flags)


# --- Functions ---------------------------------------------------------------


def test_features_are_those_of_our_records(folder, tmp_path):
    """In memory and in a file, pairs and padding among them."""
    tokenizer = tokenization.FullTokenizer(str(folder / "model" / "vocab.txt"))
    pairs = [
        ("good film", "a bad book"),
        ("the book was good " * 9, "bad " * 9),
    ]
    examples = [
        run_classifier.InputExample(str(n), a, b, label)
        for n, ((a, b), label) in enumerate(zip(pairs, "xy", strict=True))
    ]
    ours, _ = text_rows.features(pairs, 16, tokenizer)
    padding = run_classifier.PaddingInputExample()
    arguments = ([*examples, padding], ["x", "y"], 16, tokenizer)
    found = run_classifier.convert_examples_to_features(*arguments)
    for name in ("input_ids", "input_mask", "segment_ids"):
        rows = [getattr(features, name) for features in found]
        np.testing.assert_array_equal(rows[:2], ours[name])
        assert not any(rows[2]) and len(rows[2]) == 16
    assert [x.label_id for x in found] == [0, 1, 0]
    assert [x.is_real_example for x in found] == [True, True, False]
    path = str(tmp_path / "x.tf_record")
    run_classifier.file_based_convert_examples_to_features(*arguments, path)
    records = [
        tf.train.Example.FromString(record.numpy()).features.feature
        for record in tf.data.TFRecordDataset(path)
    ]
    for record, features in zip(records, found, strict=True):
        assert record["input_ids"].int64_list.value == features.input_ids
        assert record["label_ids"].int64_list.value == [features.label_id]
        real = record["is_real_example"].int64_list.value
        assert real == [int(features.is_real_example)]


def test_the_originals_processors(tmp_path):
    (tmp_path / "train.tsv").write_text("a\t1\t\tGood.\nb\t0\t*\tBad\n")
    (tmp_path / "test.tsv").write_text("index\tsentence\n7\tOf course.\n")
    cola = run_classifier.ColaProcessor()
    found = cola.get_train_examples(str(tmp_path))
    assert [(x.text_a, x.text_b, x.label) for x in found] == [
        ("Good.", None, "1"),
        ("Bad", None, "0"),
    ]
    test = cola.get_test_examples(str(tmp_path))
    assert [(x.guid, x.label) for x in test] == [("test-7", "0")]
    for name in ("Mnli", "Mrpc", "Cola", "Xnli"):
        processor = getattr(run_classifier, f"{name}Processor")()
        assert processor.get_labels() == list(
            task_files.find(name, "zh").labels
        )
    quoted = tmp_path / "q.tsv"
    quoted.write_text('"a\tb"\tc\n')
    read = run_classifier.DataProcessor._read_tsv
    assert read(str(quoted)) == [['"a', 'b"', "c"]]
    assert read(str(quoted), quotechar='"') == [["a\tb", "c"]]


def test_pairs_are_cut_in_place():
    a, b = list("abcdef"), list("uvw")
    run_classifier._truncate_seq_pair(a, b, 7)
    assert (a, b) == (list("abcd"), list("uvw"))


@pytest.mark.slow
def test_create_model_learns_in_a_graph():
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)  # of weights and dropout
        ids = tf.constant([[2, 5, 3], [2, 6, 3]])
        loss, each, logits, probabilities = run_classifier.create_model(
            CONFIG,
            True,
            ids,
            tf.ones_like(ids),
            tf.zeros_like(ids),
            tf.constant([1, 2]),
            3,
            False,
        )
        train_op = optimization.create_optimizer(loss, 5e-3, 60, 3, False)
        names = [v.name for v in v1.trainable_variables()]
        assert names[-2:] == ["output_weights:0", "output_bias:0"]
        session.run(v1.global_variables_initializer())
        first = session.run(loss)
        for _ in range(50):
            session.run(train_op)
        last = session.run([loss, each, logits, probabilities])
    assert last[0] < 0.3 * first
    np.testing.assert_allclose(last[0], last[1].mean(), rtol=1e-6)
    np.testing.assert_allclose(last[3], tf.nn.softmax(last[2]), rtol=1e-5)
    assert last[3].argmax(-1).tolist() == [1, 2]
