"""run_classifier.py --teacher_checkpoint as a user runs it."""

import json
import types
from pathlib import Path

from base.errors import UserError

import fine_tuned_models
import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from classifier_runs import (
    CONFIG,
    VOCAB,
    WORDS,
    flags_for,
    sentences,
    values_of,
    write_data,
)
from fine_tuned_models import changed, distilled_data
from interruptions import interrupted_at

from checkpoints import weight_files
from extras.distillation import teachers
from extras.distillation.classes import ClassifierDistillation
from tasks.classifier import model as classifier_model
from training.objective import Objective

run_classifier = scripts.load("run_classifier")

# What a resumed run may not change, beside the teachers.
DISTILLATION = (
    "distillation_temperature",
    "distillation_alpha",
    "transfer_file",
)
TEXTS = [text for text, _ in sentences(60, 9)]  # the texts without a label
OTHER_VOCAB = [*tiny.SPECIAL, *reversed(WORDS)]


def write_teacher(folder: Path, vocab, labels, is_sure: bool, **more) -> Path:
    """Write a classifier whose answers differ from text to text.

    Args:
        folder: to write.
        vocab: tokens.
        labels: names of the classes; None: a regression.
        is_sure: whether its probabilities are near 0 and 1.
        **more: see fine_tuned_models.write_classifier.
    """
    fine_tuned_models.write_classifier(folder, CONFIG, vocab, labels, **more)
    prefix = str(folder / "bert_model.ckpt")
    tensors = weight_files.read_weights(prefix)
    tensors["output_weights"] *= 1.0 if is_sure else 0.5
    logits = by_hand(folder, vocab, TEXTS[:25], tensors, len(labels or [""]))
    # Half of the answers are above the median.
    middle = np.median(logits - logits[:, -1:], axis=0)
    if labels is None:
        middle = np.median(logits, axis=0)
    tensors["output_bias"] = tensors["output_bias"] - middle
    weight_files.write(prefix, tensors)
    return folder


def by_hand(folder, vocab, texts, tensors=None, num_labels=2) -> np.ndarray:
    """Return a teacher's logits for single texts, [n, K]."""
    model = classifier_model.BertForSequenceClassification(
        CONFIG, num_labels if num_labels > 1 else None
    )
    prefix = str(folder / "bert_model.ckpt")
    tensors = tensors or weight_files.read_weights(prefix)
    for variable in model.variables:
        variable.assign(tensors[variable.path])
    ids = np.zeros([len(texts), 40], np.int32)
    for row, text in enumerate(texts):
        words = ["[CLS]", *text.split(), "[SEP]"]
        ids[row, : len(words)] = [vocab.index(word) for word in words]
    mask = (ids != 0).astype(np.int32)
    return model({"input_ids": ids, "input_mask": mask}).numpy()


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """A model to train, data, texts without labels and two teachers."""
    data = write_data(tmp_path_factory.mktemp("data"))
    (data / "more.txt").write_text("\n".join(TEXTS) + "\n")
    return {
        "data": data,
        "model": tiny.write_model(data / "model", CONFIG, VOCAB),
        "sure": write_teacher(data / "sure", VOCAB, ["bad", "good"], True),
        # Another vocabulary and another order of the labels.
        "other": write_teacher(
            data / "other", OTHER_VOCAB, ["good", "bad"], False
        ),
    }


def flags_of(places, out: Path, **more) -> dict:
    return flags_for(
        places["model"],
        places["data"],
        out,
        **{
            "teacher_checkpoint": f"{places['sure']},{places['other']}",
            "transfer_file": places["data"] / "more.txt",
            "distillation_alpha": 0.75,
            "distillation_temperature": 2.0,
            "gradient_accumulation_steps": 2,
            "num_train_epochs": 0.5,
            "save_checkpoints_steps": 5,
        }
        | more,
    )


@pytest.fixture(scope="module")
def finished(places, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    assert scripts.run(run_classifier, **flags_of(places, out)) == 0
    return out


# --- Targets -----------------------------------------------------------------


@pytest.mark.slow
def test_targets_are_what_the_teachers_answer(places, tmp_path, caplog):
    """Row by row, by hand, with the vocabularies of the teachers."""
    with caplog.at_level("INFO", logger="absl"):
        data, job = distilled_data(
            run_classifier, **flags_of(places, tmp_path / "out")
        )
    lines = (places["data"] / "train.tsv").read_text().splitlines()[1:]
    texts = [line.split("\t")[0] for line in lines] + TEXTS
    some = [0, 1, 7, 198, 199, 200, 201, 258, 259]
    few = [texts[row] for row in some]
    sure = by_hand(places["sure"], VOCAB, few)
    other = by_hand(places["other"], OTHER_VOCAB, few)[:, ::-1]
    wanted = teachers.mean_probabilities([sure, other], 2.0)
    found = data.features["soft_targets"]
    assert 0.2 < found[:, 1].mean() < 0.8 and found.std(axis=0).min() > 0.1
    np.testing.assert_allclose(found[some], wanted, atol=1e-5)
    weights = data.features["label_weights"]
    assert weights.tolist() == [1.0] * 200 + [0.0] * 60
    assert data.num_records == 260 == job.num_examples(data)
    # What a run that goes on must not change, nor one without teachers.
    fixed = job.wrapper.fingerprint()
    assert [*fixed] == ["teacher_checkpoint", *DISTILLATION]
    assert (fixed[teachers.FLAG], *list(fixed.values())[1:3]) == (
        [teacher.digest for teacher in job.wrapper.teachers],
        2.0,
        0.75,
    )
    assert caplog.text.count("on the 200 training examples") == 2
    assert "200 rows with a label and 60 without" in caplog.text
    # Sorted by length and padded, each text keeps its target.
    batch = data.training(16, seed=1, is_fine=True).batch(3)
    rows = zip(batch["input_ids"], batch["soft_targets"], strict=True)
    for ids, target in rows:
        words = [VOCAB[n] for n in ids if n][1:-1]
        row = texts.index(" ".join(words))
        np.testing.assert_array_equal(target, found[row])


@pytest.mark.slow
def test_a_teacher_reads_texts_as_it_was_trained_to(places, tmp_path):
    """At once, where the student reads windows."""
    data, _ = distilled_data(
        run_classifier,
        **flags_of(places, tmp_path / "out", teacher_checkpoint=places["sure"])
        | {"long_texts": "windows", "max_seq_length": 8, "doc_stride": 3},
    )
    wanted = teachers.mean_probabilities(
        [by_hand(places["sure"], VOCAB, TEXTS)], 2.0
    )
    found = data.features["soft_targets"][200:]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.nightly
def test_each_fold_learns_the_answers_to_its_own_examples(places, tmp_path):
    """The folds share records_dir, where the answers are kept."""
    for fold in (1, 2, 1):
        data, job = distilled_data(
            run_classifier,
            **flags_of(places, tmp_path / f"fold{fold}")
            | {"teacher_checkpoint": places["sure"], "transfer_file": None}
            | {"num_folds": 3, "fold": fold, "records_dir": tmp_path},
        )
        texts = [example.text_a for example in job.read(job.train)]
        wanted = teachers.mean_probabilities(
            [by_hand(places["sure"], VOCAB, texts)], 2.0
        )
        found = data.features["soft_targets"]
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.nightly
def test_numbers_of_several_teachers_are_averaged(places, tmp_path):
    for name in ("train", "dev"):
        text = (places["data"] / f"{name}.tsv").read_text()
        text = text.replace("\tgood\n", "\t2\n").replace("\tbad\n", "\t-1\n")
        (tmp_path / f"{name}.tsv").write_text(text)
    folders = [
        write_teacher(tmp_path / name, VOCAB, None, is_sure)
        for name, is_sure in (("a", True), ("b", False))
    ]
    flags = flags_of(places, tmp_path / "out", regression=True) | {
        "data_dir": tmp_path,
        "teacher_checkpoint": ",".join(map(str, folders)),
        "transfer_file": tmp_path / "pairs.jsonl",
        "distillation_temperature": 1.0,
    }
    lines = [json.dumps({"text": text}) for text in TEXTS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    data, _ = distilled_data(run_classifier, **flags)
    first, second = (by_hand(x, VOCAB, TEXTS[:9], None, 1) for x in folders)
    found = data.features["soft_targets"]
    np.testing.assert_allclose(
        found[200:209], (first + second) / 2, rtol=1e-4, atol=1e-4
    )
    flags["distillation_temperature"] = 2.0
    line = scripts.error_of(run_classifier, **flags)
    assert "--distillation_temperature=2 is for classes" in line


# --- The loss ----------------------------------------------------------------


def objective_of(labels, temperature: float, alpha: float) -> Objective:
    """Return the objective of a task."""
    job = types.SimpleNamespace(files=types.SimpleNamespace(labels=labels))
    options = teachers.Options((), temperature, alpha)
    return ClassifierDistillation(job, options).objective()


class Fixed:
    """A model with given logits."""

    def __init__(self, logits):
        self.logits = tf.constant(logits)

    def __call__(self, batch, seed):
        return self.logits


def test_the_loss_of_a_batch_by_hand():
    """Four rows: with a label, two without, and one that fills the batch."""
    logits = np.array([[1, 2], [0, 0], [3, 1], [9, 9]], np.float32)
    targets = np.array([[0.5, 0.5], [1, 0], [0.9, 0.1], [1, 0]], np.float32)
    batch = {
        "input_mask": tf.ones([4, 3], tf.int32),
        "label_ids": tf.constant([0, 0, 0, 0]),
        "label_weights": tf.constant([1.0, 0.0, 0.0, 1.0]),
        "soft_targets": tf.constant(targets),
        "example_weights": tf.constant([1.0, 1.0, 1.0, 0.0]),
    }
    objective = objective_of(["bad", "good"], 4.0, 0.3)
    sums = objective.forward(Fixed(logits), batch, None)
    assert set(sums) == set(objective.names)
    scaled = np.exp(logits / 4.0)
    log_probs = np.log(scaled / scaled.sum(-1, keepdims=True))
    soft = -16.0 * (targets * log_probs).sum(-1)[:3].sum()
    label = np.log(1.0 + np.exp(1.0))
    np.testing.assert_allclose(sums["soft_loss"], (soft, 3.0), rtol=1e-6)
    np.testing.assert_allclose(sums["label_loss"], (label, 1.0), rtol=1e-6)
    # Of the equal logits and targets the first class counts, twice.
    assert [float(x) for x in sums["agreement"]] == [2.0, 3.0]
    assert [float(x) for x in sums["accuracy"]] == [0.0, 1.0]
    weights = objective.loss_weights(batch)
    loss = objective.total_loss({n: sums[n][0] for n in weights}, weights)
    np.testing.assert_allclose(loss, (0.3 * soft + 0.7 * label) / 3.0, 1e-6)


def test_the_loss_of_numbers_by_hand():
    batch = {
        "input_mask": tf.ones([3, 2], tf.int32),
        "label_ids": tf.constant([1.0, 0.0, 0.0]),
        "label_weights": tf.constant([1.0, 0.0, 0.0]),
        "soft_targets": tf.constant([[2.0], [3.0], [-1.0]]),
    }
    objective = objective_of(None, 1.0, 0.5)
    model = Fixed([[4.0], [3.0], [0.0]])
    sums = objective.forward(model, batch, None)
    assert [float(x) for x in sums["soft_loss"]] == [5.0, 3.0]
    assert [float(x) for x in sums["label_loss"]] == [9.0, 1.0]
    weights = objective.loss_weights(batch)
    loss = objective.total_loss({n: sums[n][0] for n in weights}, weights)
    np.testing.assert_allclose(loss, 0.5 * 5.0 / 3 + 0.5 * 9.0 / 3)


# --- Runs --------------------------------------------------------------------


@pytest.mark.slow
def test_a_student_follows_its_teacher_against_the_labels(places, tmp_path):
    """The labels are the opposite of the teacher's answers."""
    logits = by_hand(places["sure"], VOCAB, TEXTS)
    is_sure = abs(logits[:, 1] - logits[:, 0]) > 0.5
    texts = np.array(TEXTS)[is_sure].tolist()
    answers = logits[is_sure].argmax(-1)
    assert len(texts) > 30 and 0.3 < answers.mean() < 0.7
    names = ["good", "bad"]  # the wrong way round
    lines = ["sentence\tlabel"]
    lines += [f"{t}\t{names[a]}" for t, a in zip(texts, answers, strict=True)]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "test.tsv").write_text("\n".join(["sentence", *texts]) + "\n")
    # The student begins with the teacher's encoder, and so learns fast.
    prefix = str(places["sure"] / "bert_model.ckpt")
    tensors = weight_files.read_weights(prefix)
    encoder = {n: v for n, v in tensors.items() if "output_" not in n}
    model = tiny.write_model(tmp_path / "model", CONFIG, VOCAB)
    weight_files.write(str(model / "bert_model.ckpt"), encoder)
    flags = flags_of(places, tmp_path / "out", do_predict=True) | {
        "data_dir": tmp_path,
        "init_checkpoint": model,
        "teacher_checkpoint": places["sure"],
        "transfer_file": None,
        "distillation_alpha": 1.0,
        "distillation_temperature": 1.0,
        "gradient_accumulation_steps": 1,
        "num_train_epochs": 30,
        "learning_rate": 1e-2,
        "save_checkpoints_steps": 1000,
    }
    assert scripts.run(run_classifier, **flags) == 0
    probs = np.loadtxt(tmp_path / "out" / "test_results.tsv")
    assert (probs.argmax(-1) == answers).all(), (probs, logits[is_sure])
    wanted = tf.nn.softmax(logits[is_sure]).numpy()
    assert np.abs(probs - wanted).mean() < 0.1
    results = tiny.results_of(tmp_path / "out")
    assert results["accuracy"] == 0.0 and "degenerate" not in results


@pytest.mark.nightly
def test_a_run_in_two_parts_ends_with_the_same_bits(
    places, finished, tmp_path, caplog
):
    """Killed after step 5; its targets are read, not computed."""
    with interrupted_at(r"Saved .*model\.ckpt-5$"):
        scripts.run(run_classifier, **flags_of(places, tmp_path))
    other = places["data"] / "test.tsv"
    other = flags_of(places, tmp_path, transfer_file=other)
    line = scripts.error_of(run_classifier, **other)
    assert "belongs to a run with other transfer_file" in line
    names = ("teacher_checkpoint", *DISTILLATION)
    alone = flags_of(places, tmp_path, **dict.fromkeys(names, None))
    line = scripts.error_of(run_classifier, **alone)
    assert "belongs to a run with distillation_alpha = " in line
    caplog.clear()
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_classifier, **flags_of(places, tmp_path)) == 0
    assert "5 steps are done" in caplog.text
    assert caplog.text.count("Reusing") == 6  # 2 records, 2 x 2 outputs
    assert "Running the teacher" not in caplog.text
    line = (tmp_path / "scalars.jsonl").read_text().splitlines()[-1]
    wanted = {"loss", "soft_loss", "label_loss", "agreement", "accuracy"}
    assert json.loads(line).keys() >= wanted
    config = json.loads((tmp_path / "bert_config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "good"}
    assert not any("distil" in key or "teacher" in key for key in config)
    wanted = values_of(finished / "bert_model.ckpt")
    for name, value in values_of(tmp_path / "bert_model.ckpt").items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


# --- What goes wrong ---------------------------------------------------------


def test_teachers_that_cannot_teach(places, tmp_path):
    """One line, and nothing is written."""
    sure = places["sure"]
    number = fine_tuned_models.write_classifier(
        tmp_path / "number", CONFIG, VOCAB, None
    )
    three = fine_tuned_models.write_classifier(
        tmp_path / "three", CONFIG, VOCAB, ["bad", "good", "so"]
    )
    reader = fine_tuned_models.write_reader(tmp_path / "reader", CONFIG, VOCAB)
    unnamed = changed(sure, tmp_path / "unnamed", id2label=None)
    for teacher, words in (
        ("/nowhere", "--teacher_checkpoint=/nowhere: no such checkpoint"),
        (places["model"], "has no fine-tuned head for this task (output_wei"),
        (reader, "has no fine-tuned head for this task (output_wei"),
        (
            changed(sure, tmp_path / "task", task="token_classification"),
            "task in its configuration is token_classification",
        ),
        (number, "predicts numbers, this task has classes"),
        (three, "was fine-tuned on the labels bad, good, so; those of this"),
        (unnamed, "was fine-tuned on the labels LABEL_0, LABEL_1; those of"),
        (
            changed(sure, tmp_path / "pair", sentence_pairs=True),
            "was fine-tuned on pairs, this task has single texts",
        ),
        (
            changed(sure, tmp_path / "long", max_position_embeddings=8),
            "--max_seq_length=40 is more than the model's max_position_emb",
        ),
    ):
        flags = flags_of(places, tmp_path / "out", teacher_checkpoint=teacher)
        line = scripts.error_of(run_classifier, **flags)
        assert words in line, line
        assert not (tmp_path / "out" / "train.tf_record").exists()
    flags = flags_of(places, tmp_path / "out", transfer_file="/nowhere/*")
    line = scripts.error_of(run_classifier, **flags)
    assert line == "--transfer_file: no file matches '/nowhere/*'"
    (tmp_path / "pairs.tsv").write_text("good\tbad\n")
    flags["transfer_file"] = tmp_path / "pairs.tsv"
    line = scripts.error_of(run_classifier, **flags)
    assert f"{tmp_path}/pairs.tsv, line 1: 2 columns, wanted 1" in line


def test_a_regression_is_not_taught_by_a_classifier(places, tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("sentence\tlabel\na\t1\nb\t2\n")
    flags = flags_of(places, tmp_path / "out", regression=True)
    flags |= {"data_dir": tmp_path, "distillation_temperature": 1.0}
    line = scripts.error_of(run_classifier, **flags)
    assert "tells 2 classes apart, this task is a regression" in line


@pytest.mark.slow
def test_a_teacher_that_lacks_weights(places, tmp_path):
    """It is found before the first step."""
    teacher = changed(places["sure"], tmp_path / "part")
    prefix = str(teacher / "bert_model.ckpt")
    tensors = weight_files.read_weights(prefix)
    del tensors["bert/pooler/dense/kernel"]
    weight_files.write(prefix, tensors)
    flags = flags_of(places, tmp_path / "out", teacher_checkpoint=teacher)
    with pytest.raises(UserError, match="bert/pooler/dense/kernel"):
        distilled_data(run_classifier, **flags)
    assert not list((tmp_path / "out").glob("*.npy"))
