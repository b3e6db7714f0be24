"""run_classifier.py --teacher_answers as a user runs it."""

import json
import types
from pathlib import Path

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
    write_data,
)
from fine_tuned_models import distilled_data
from interruptions import interrupted_at
from prediction_runs import (
    answers,
    batch_predict,
    predict,
    predictions,
    write_lines,
)

from checkpoints import weight_files
from extras.distillation import students
from extras.distillation.classes import ClassifierDistillation
from tasks.classifier import model as classifier_model
from tasks.settings import DistillationFlags
from training.objective import Objective

run_classifier = scripts.load("run_classifier")

# What a resumed run may not change.
DISTILLATION = (
    "teacher_answers",
    "distillation_temperature",
    "distillation_alpha",
    "learn_all_answers",
)
# The texts without a label, which the training set does not have.
TEXTS = [
    text
    for text in dict.fromkeys(text for text, _ in sentences(80, 9))
    if text not in dict(sentences(200, 1))
][:60]
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
    """A model to train, data, and two teachers with their answers."""
    data = write_data(tmp_path_factory.mktemp("data"))
    found = {
        "data": data,
        "model": tiny.write_model(data / "model", CONFIG, VOCAB),
        "sure": write_teacher(data / "sure", VOCAB, ["bad", "good"], True),
        # Another vocabulary and another order of the labels.
        "other": write_teacher(
            data / "other", OTHER_VOCAB, ["good", "bad"], False
        ),
    }
    texts = [{"text": text} for text in [*train_texts(data), *TEXTS]]
    for name in ("sure", "other"):
        out = data / f"{name}_answers"
        found[out.name] = answers(found[name], texts, out)
    return found


def train_texts(data: Path) -> list[str]:
    """Return the texts of the training file."""
    lines = (data / "train.tsv").read_text().splitlines()[1:]
    return [line.split("\t")[0] for line in lines]


def flags_of(places, out: Path, **more) -> dict:
    return flags_for(
        places["model"],
        places["data"],
        out,
        **{
            "teacher_answers": f"{places['sure_answers']},"
            f"{places['other_answers']}",
            "learn_all_answers": True,
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
    """Row by row, by hand, with the teachers' vocabularies and labels."""
    with caplog.at_level("INFO", logger="absl"):
        data, wrapper = distilled_data(
            run_classifier, **flags_of(places, tmp_path / "out")
        )
    texts = train_texts(places["data"]) + TEXTS
    some = [0, 1, 7, 198, 199, 200, 201, 258, 259]
    few = [texts[row] for row in some]
    sure = by_hand(places["sure"], VOCAB, few)
    other = by_hand(places["other"], OTHER_VOCAB, few)[:, ::-1]
    wanted = students.mean_probabilities([sure, other], 2.0)
    found = data.features["soft_targets"]
    assert 0.2 < found[:, 1].mean() < 0.8 and found.std(axis=0).min() > 0.1
    np.testing.assert_allclose(found[some], wanted, atol=1e-5)
    weights = data.features["label_weights"]
    assert weights.tolist() == [1.0] * 200 + [0.0] * 60
    assert data.num_records == 260 == wrapper.job.num_examples(data)
    # What a run that goes on must not change, nor one without teachers.
    fixed = wrapper.fingerprint()
    assert [*fixed] == [*DISTILLATION]
    assert len(fixed["teacher_answers"]) == 2
    assert [*fixed.values()][1:] == [2.0, 0.75, True]
    assert caplog.text.count("on 200 labels") == 2
    assert "200 rows with a label and 60 without" in caplog.text
    # Sorted by length and padded, each text keeps its target.
    batch = data.training(16, seed=1, is_fine=True).batch(3)
    rows = zip(batch["input_ids"], batch["soft_targets"], strict=True)
    for ids, target in rows:
        words = [VOCAB[n] for n in ids if n][1:-1]
        row = texts.index(" ".join(words))
        np.testing.assert_array_equal(target, found[row])


@pytest.mark.nightly
def test_each_fold_learns_the_answers_to_its_own_examples(places, tmp_path):
    """The folds share records_dir; what is held out is not learned."""
    for fold in (1, 2, 1):
        data, wrapper = distilled_data(
            run_classifier,
            **flags_of(places, tmp_path / f"fold{fold}")
            | {"teacher_answers": places["sure_answers"]}
            | {"num_folds": 3, "fold": fold, "records_dir": tmp_path},
        )
        job = wrapper.job
        texts = [example.text_a for example in job.read(job.train)] + TEXTS
        wanted = students.mean_probabilities(
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
    texts = train_texts(places["data"])
    both = [
        answers(x, [{"text": t} for t in [*texts, *TEXTS]], Path(f"{x}_out"))
        for x in folders
    ]
    flags = flags_of(places, tmp_path / "out", regression=True) | {
        "data_dir": tmp_path,
        "teacher_answers": ",".join(map(str, both)),
        "distillation_temperature": 1.0,
    }
    data, _ = distilled_data(run_classifier, **flags)
    first, second = (by_hand(x, VOCAB, TEXTS[:9], None, 1) for x in folders)
    found = data.features["soft_targets"]
    np.testing.assert_allclose(
        found[200:209], (first + second) / 2, rtol=1e-4, atol=1e-4
    )
    flags["distillation_temperature"] = 2.0
    line = scripts.error_of(run_classifier, **flags)
    assert "--distillation_temperature=2 is for classes" in line
    flags["distillation_temperature"] = 1.0
    flags["teacher_answers"] = places["sure_answers"]
    assert "line 1: no key 'value'" in scripts.error_of(run_classifier, **flags)


# --- The loss ----------------------------------------------------------------


def objective_of(labels, temperature: float, alpha: float) -> Objective:
    """Return the objective of a task."""
    own = classifier_model.CLASSIFICATION
    if labels is None:
        own = classifier_model.REGRESSION
    files = types.SimpleNamespace(labels=labels)
    settings = types.SimpleNamespace(output_dir="")
    task = types.SimpleNamespace(text_names=("text_a",))
    job = types.SimpleNamespace(files=files, settings=settings, task=task)
    options = DistillationFlags((), temperature, alpha)
    return ClassifierDistillation(job, options).objective(own)


class Fixed(classifier_model.BertForSequenceClassification):
    """A model with given logits."""

    def __init__(self, logits):
        super().__init__(CONFIG, len(logits[0]) if len(logits[0]) > 1 else None)
        self.logits = tf.constant(logits)

    def __call__(self, batch, seed=None):
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
        "teacher_answers": places["sure_answers"],
        "learn_all_answers": None,
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
    """Killed after step 5. Changed answers are refused."""
    with interrupted_at(r"Saved .*model\.ckpt-5$"):
        scripts.run(run_classifier, **flags_of(places, tmp_path))
    other = flags_of(places, tmp_path, teacher_answers=places["sure_answers"])
    line = scripts.error_of(run_classifier, **other)
    assert "belongs to a run with other teacher_answers" in line
    alone = flags_of(places, tmp_path, **dict.fromkeys(DISTILLATION, None))
    line = scripts.error_of(run_classifier, **alone)
    assert "belongs to a run with distillation_alpha = " in line
    caplog.clear()
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_classifier, **flags_of(places, tmp_path)) == 0
    assert "5 steps are done" in caplog.text
    assert caplog.text.count("Reusing") == 2  # records
    line = (tmp_path / "scalars.jsonl").read_text().splitlines()[-1]
    wanted = {"loss", "soft_loss", "label_loss", "agreement", "accuracy"}
    assert json.loads(line).keys() >= wanted
    config = json.loads((tmp_path / "bert_config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "good"}
    assert not any("distil" in key or "teacher" in key for key in config)
    name = "bert_model.ckpt"
    tiny.check_same_bits(tmp_path / name, finished / name)


# --- What goes wrong ---------------------------------------------------------


def changed(lines: list[dict], path: Path, **keys) -> Path:
    """Write answers of which the last one has other keys."""
    lines = [*lines[:-1], lines[-1] | keys]
    return write_lines(path, lines)


def test_answers_that_cannot_be_used(places, tmp_path):
    """One line, and nothing is trained."""
    lines = predictions(places["sure_answers"])
    last = len(lines)
    text = "\n".join(map(json.dumps, lines))
    (tmp_path / "cut").write_text(text[:-20])
    three = {"bad": 0.1, "good": 0.2, "so": 0.7}
    first = lines[0] | {"probabilities": {"bad": 0.5, "good": 0.5}}
    for found, words in (
        (tmp_path / "cut", f"cut, line {last}: not JSON"),
        (places["data"] / "train.tsv", "train.tsv, line 2: no key 'text'"),
        (f"{places['sure_answers']},/nowhere", "no file matches '/nowhere'"),
        ({"probabilities": three}, "on the labels bad, good, so; those of "),
        ({"probabilities": {"bad": 0.9, "good": 0.9}}, "do not add up to 1"),
        ({"probabilities": {"bad": 1.5, "good": -0.5}}, "do not add up to 1"),
        ({"probabilities": {"bad": None, "good": 1}}, "not finite"),
        ({"probabilities": {"bad": "x", "good": 1}}, "no array of numbers"),
        ({"probabilities": {"bad": [0, 1], "good": 1}}, "no array of numbers"),
        ({"probabilities": {"bad": [0], "good": [1]}}, "[2, 1] numbers, "),
        ({"probabilities": 1}, "'probabilities' is 1, wanted an object"),
        ({"text": None}, "'text' is None, wanted a string"),
        (first, f'another answer to {{"text": "{first["text"]}'[:60]),
        ({"teacher": "other"}, "of teacher other, the first is"),
    ):
        place = ""
        if isinstance(found, dict):
            found = changed(lines, tmp_path / "changed", **found)
            place = "" if "teacher" in words else f"changed, line {last}: "
        flags = flags_of(places, tmp_path / "out", teacher_answers=found)
        line = scripts.error_of(run_classifier, **flags)
        assert place in line and words in line, line
        assert not list((tmp_path / "out").glob("*ckpt*"))


@pytest.mark.nightly
def test_texts_without_an_answer_are_asked(places, tmp_path):
    """Of files that are not there, that are empty, or of other texts."""
    texts = train_texts(places["data"])
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    other = write_lines(
        tmp_path / "other.jsonl", predictions(places["sure_answers"])[200:]
    )
    half = write_lines(
        tmp_path / "half.jsonl", predictions(places["sure_answers"])[100:]
    )
    out = tmp_path / "out"
    for files, known in (
        (tmp_path / "answers", ()),
        (empty, ()),
        (other, ()),
        (half, texts[100:]),
    ):
        asks = [text for text in texts if text not in known]
        flags = flags_of(places, out, teacher_answers=files)
        flags |= {"learn_all_answers": False, "num_train_epochs": 0.1}
        line = scripts.error_of(run_classifier, **flags)
        count = len(asks)
        assert f"{files}: {count} of 200 training texts have no answer" in line
        assert f"""the first is {{"text": "{asks[0][:80]}""" in line
        asked = (out / "unanswered.jsonl").read_text().splitlines()
        wanted = [{"text": text} for text in dict.fromkeys(asks)]
        assert [json.loads(line) for line in asked] == wanted
    predict(
        places["sure"],
        out / "unanswered.jsonl",
        tmp_path / "answers",
        as_teacher=True,
    )
    both = f"{tmp_path}/answers,{half}"
    flags["teacher_answers"] = both
    assert scripts.run(run_classifier, **flags) == 0


def test_what_cannot_be_asked(places, tmp_path):
    flags = {"model": places["sure"], "output_dir": tmp_path / "out"}
    flags |= {"as_teacher": True, "input_file": tmp_path / "train.tf_record"}
    flags["input_file"].write_bytes(b"\5" + bytes(15))
    line = scripts.error_of(batch_predict, **flags)
    assert "--as_teacher: " in line and "which have no words" in line
    line = scripts.error_of(batch_predict, **flags, explain=True)
    assert "give --as_teacher or --explain, not both" in line
