"""run_classifier.py with fine-tuned models: labels and pairs."""

import json
import shutil
from pathlib import Path

from base import tables

import fine_tuned_models
import numpy as np
import pytest
import scripts
import tensorflow as tf
from classifier_runs import CONFIG, VOCAB, flags_for, sentences
from tiny import results_of

from checkpoints import weight_files
from checkpoints.run_folder import RunFolder
from finetuning import flags as finetuning_flags
from tasks.classifier.model import BertForSequenceClassification
from tasks.fine_tuned import find_source

run_classifier = scripts.load("run_classifier")
convert_checkpoint = scripts.load("convert_checkpoint")

NLI = ["contradiction", "entailment", "neutral"]  # the task's order
OTHER = ["entailment", "neutral", "contradiction"]  # as some on the hub have it
PLACES = [NLI.index(label) for label in OTHER]

# Mean logits of the random models of pairs. Without them the second class
# would be the answer to every pair.
_MEANS = np.array([-7.3, 5.9, -5.4], np.float32)


def write_table(path: Path, header: list[str], rows: list[list[str]]) -> None:
    lines = ["\t".join(row) for row in [header, *rows]]
    path.write_text("\n".join(lines) + "\n")


def pairs(count: int, seed: int) -> list[list[str]]:
    """Return pairs of short sentences, so that no pair is cut."""
    texts = [text[:30].rsplit(" ", 1)[0] for text, _ in sentences(100, seed)]
    return [[texts[i], texts[-i - 1]] for i in range(count)]


@pytest.fixture(scope="module")
def nli_dir(tmp_path_factory) -> Path:
    """The files of MNLI; labels at random."""
    folder = tmp_path_factory.mktemp("nli")
    rng = np.random.default_rng(1)
    header = ["index", "sentence1", "sentence2", "gold_label"]
    for seed, name in enumerate(("matched", "mismatched"), 1):
        rows = [[str(i), *pair] for i, pair in enumerate(pairs(30, seed))]
        write_table(folder / f"test_{name}.tsv", header[:3], rows)
        rows = [[*row, NLI[rng.integers(3)]] for row in rows]
        write_table(folder / f"dev_{name}.tsv", header, rows)
    return folder


@pytest.fixture(scope="module")
def mrpc_dir(tmp_path_factory) -> Path:
    """The development file of MRPC; two of three pairs are paraphrases."""
    folder = tmp_path_factory.mktemp("mrpc")
    header = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
    rows = [
        [str(int(i % 3 > 0)), "1", "2", *pair]
        for i, pair in enumerate(pairs(30, 3))
    ]
    write_table(folder / "dev.tsv", header, rows)
    return folder


def write_model(folder: Path, labels: list[str], is_pair: bool = True) -> Path:
    """Write a model; one of pairs does not give all pairs one answer."""
    fine_tuned_models.write_classifier(folder, CONFIG, VOCAB, labels, is_pair)
    if is_pair:
        prefix = str(folder / "bert_model.ckpt")
        tensors = weight_files.read_weights(prefix)
        tensors["output_bias"] -= _MEANS[: len(labels)]
        weight_files.write(prefix, tensors)
    return folder


def with_outputs(
    folder: Path, model: Path, labels, places=None, **more
) -> Path:
    """Write a copy of a model with other labels, and its outputs moved.

    Args:
        folder: to write.
        model: to copy.
        labels: of the copy; None: it names none.
        places: output i of the copy is output places[i] of the model.
        **more: other settings of the configuration.
    """
    fine_tuned_models.changed(
        model, folder, id2label=labels and dict(enumerate(labels)), **more
    )
    if places:
        prefix = str(folder / "bert_model.ckpt")
        tensors = weight_files.read_weights(prefix)
        for name in ("output_weights", "output_bias"):
            tensors[name] = tensors[name][places]
        weight_files.write(prefix, tensors)
    return folder


@pytest.fixture(scope="module")
def nli_model(tmp_path_factory) -> Path:
    """A model of NLI whose labels are in the task's order."""
    return write_model(tmp_path_factory.mktemp("models") / "nli", NLI)


def flags_of(model: Path, data: Path, out: Path, task: str, **more) -> dict:
    flags = flags_for(model, data, out, task_name=task, do_train=False)
    return flags | {"max_seq_length": None} | more


# --- The order of the labels -------------------------------------------------


@pytest.mark.slow
def test_outputs_in_another_order_give_the_same_answers(
    nli_model, nli_dir, tmp_path, caplog
):
    """In our format and in that of Hugging Face, whose models differ so."""
    other = with_outputs(tmp_path / "other", nli_model, OTHER, PLACES)
    scripts.run(
        convert_checkpoint,
        input=str(other),
        output=str(tmp_path / "theirs"),
        output_format="huggingface",
    )
    outs = [tmp_path / f"out{number}" for number in range(3)]
    models = (nli_model, other, tmp_path / "theirs")
    for model, out in zip(models, outs, strict=True):
        caplog.clear()
        flags = flags_of(model, nli_dir, out, "MNLI", do_predict=True)
        with caplog.at_level("INFO", logger="absl"):
            scripts.run(run_classifier, **flags)
    assert f"order of {tmp_path}/theirs: {', '.join(OTHER)}" in caplog.text
    answers = (outs[0] / "MNLI-m.tsv").read_text()
    assert len(set(answers.split()) & set(NLI)) > 1
    probs = np.loadtxt(outs[0] / "test_results.tsv")
    for out in outs[1:]:
        assert results_of(out) == pytest.approx(results_of(outs[0]), abs=1e-5)
        assert (out / "MNLI-m.tsv").read_text() == answers
        found = np.loadtxt(out / "test_results.tsv")
        np.testing.assert_allclose(found, probs[:, PLACES], atol=1e-5)


@pytest.mark.slow
def test_f1_is_that_of_the_label_1_wherever_it_stands(mrpc_dir, tmp_path):
    model = write_model(tmp_path / "model", ["0", "1"])
    with_outputs(tmp_path / "other", model, [1, 0], [1, 0])
    results = []
    for name in ("model", "other"):
        out = tmp_path / f"{name}_out"
        flags = flags_of(tmp_path / name, mrpc_dir, out, "MRPC")
        scripts.run(run_classifier, **flags)
        results.append(results_of(out))
    assert results[0] == pytest.approx(results[1], abs=1e-5)
    assert results[0]["f1"] != pytest.approx(results[0]["accuracy"], abs=1e-3)


@pytest.mark.nightly
def test_an_interrupted_run_has_the_labels_of_its_task(
    nli_model, nli_dir, tmp_path
):
    """Not those of init_checkpoint, whose head it has trained further."""
    shutil.copytree(nli_dir, tmp_path / "data")
    (tmp_path / "data" / "train.tsv").write_bytes(
        (nli_dir / "dev_matched.tsv").read_bytes()
    )
    other = with_outputs(tmp_path / "other", nli_model, OTHER, PLACES)
    out = tmp_path / "out"
    flags = flags_of(other, tmp_path / "data", out, "MNLI")
    flags |= {"max_seq_length": 40}
    scripts.run(run_classifier, **flags | {"do_train": True})
    wanted = results_of(out)
    for path in out.glob("bert_*"):
        path.unlink()  # they are written when training has ended
    scripts.run(run_classifier, **flags)
    assert results_of(out) == pytest.approx(wanted, abs=1e-5)


def test_a_class_without_examples_has_no_weight(
    nli_model, nli_dir, tmp_path, caplog
):
    """The weights of the others are 1 on average; they were 2/3 as large."""
    data = tmp_path / "data"
    data.mkdir()
    rows = [
        [str(i), *pair, NLI[i % 4 == 0]] for i, pair in enumerate(pairs(40, 1))
    ]
    header = ["index", "sentence1", "sentence2", "gold_label"]
    write_table(data / "train.tsv", header, rows)
    flags = flags_of(nli_model, data, tmp_path, "MNLI", do_eval=False)
    flags |= {"do_train": True, "max_seq_length": 40}
    flags |= {"class_weights": "balanced"}
    folder, f = RunFolder(""), scripts.parse(run_classifier, **flags)
    settings = finetuning_flags.read_settings(f, folder)
    with caplog.at_level("INFO", logger="absl"):
        source = find_source(settings)
        job = run_classifier.create_work(settings, source).job
        job.learned()
    assert "contradiction 0.6667, entailment 2, neutral 0" in caplog.text
    assert "No training example has the label neutral: " in caplog.text


@pytest.mark.parametrize(
    ("fold", "own", "weights"),
    [
        (1, "balanced", [2 / 4, 1, 4 / 2, 1]),
        (2, "balanced", [2 / 5, 1, 4 / 3, 6 / 1]),
        (1, {"a": 3, "all": 3, "b": 3, "rare": 3}, [3, 3, 3, 3]),
        (1, None, [1, 1, 1, 1]),
    ],
)
def test_positives_of_labels_are_weighted(tmp_path, caplog, fold, own, weights):
    """By negatives / positives of the rows of this fold's training, or a file.

    The one row of the label "rare" is trained on in the second fold alone. All
    rows have the label "all".
    """
    labels = ["a,all"] * 8 + ["all,b"] * 4 + ["a,all,b,rare"]
    rows = [[f"film {number}", cell] for number, cell in enumerate(labels)]
    write_table(tmp_path / "train.tsv", ["sentence", "label"], rows)
    model = write_model(tmp_path / "model", ["x", "y"], is_pair=False)
    flags = flags_for(model, tmp_path, tmp_path, do_eval=False)
    flags |= {"multi_label": True, "num_folds": 2, "fold": fold}
    if isinstance(own, dict):
        (tmp_path / "own.json").write_text(json.dumps(own))
        own = tmp_path / "own.json"
    parsed = scripts.parse(run_classifier, **flags, class_weights=own)
    settings = finetuning_flags.read_settings(parsed, RunFolder(""))
    with caplog.at_level("INFO", logger="absl"):
        source = find_source(settings)
        job = run_classifier.create_work(settings, source).job
        learned = job.learned()
    if own == "balanced":
        pairs_ = zip(("a", "all", "b", "rare"), weights, strict=True)
        line = ", ".join(f"{name} {weight:.4g}" for name, weight in pairs_)
        assert f"Weights of the positives: {line}" in caplog.text
    no = "No training example has the label rare: the model does not learn it"
    assert (no in caplog.text) == (fold == 1)

    class Fixed:
        multi_label = True
        loss = BertForSequenceClassification.loss

        def __call__(self, *_):
            return tf.math.log([[3.0, 1, 1, 1], [1, 1, 1, 3]])

    batch = {
        "label_ids": tf.constant([[1, 1, 0, 0], [0, 1, 1, 1]]),
        "input_mask": tf.ones([2, 5], tf.int32),
    }
    sums = learned.objective.forward(Fixed(), batch, None)
    # Of the positives: 3/4, 1/2 and 1/2, 1/2, 3/4; of the negatives 1/2.
    a, of_all, b, rare = weights
    loss = (a + rare) * np.log(4 / 3) + (2 * of_all + b + 3) * np.log(2)
    np.testing.assert_allclose(sums["label_loss"], [loss / 4, 2], rtol=1e-6)
    np.testing.assert_allclose(sums["accuracy"], [0, 2])


# --- What does not fit -------------------------------------------------------


def test_a_model_of_single_texts_does_not_score_pairs(mrpc_dir, tmp_path):
    """Such as one of CoLA, whose labels are those of MRPC."""
    model = write_model(tmp_path / "cola", ["0", "1"], is_pair=False)
    flags = flags_of(model, mrpc_dir, tmp_path / "out", "MRPC")
    line = scripts.error_of(run_classifier, **flags)
    assert "the task has pairs, but" in line and "on single texts" in line
    assert not (tmp_path / "out").exists()


# --- Own files ---------------------------------------------------------------


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_predictions_do_not_replace_the_test_set(tmp_path, ending):
    """Nor do they stand beside it, where no later command reads either."""
    model = write_model(tmp_path / "model", ["bad", "good"], is_pair=False)
    data = tmp_path / "data"
    data.mkdir()
    (data / f"test.{ending}").write_text("sentence\ngood film\n")
    (tmp_path / "link").symlink_to(data)
    flags = flags_of(model, data, tmp_path / "link", "tsv", do_predict=True)
    line = scripts.error_of(run_classifier, **flags | {"do_eval": False})
    assert f"has the test file test.{ending}: --do_predict writes" in line
    assert [path.name for path in data.iterdir()] == [f"test.{ending}"]


@pytest.mark.parametrize("labels", [("bad", "good"), None])
def test_every_row_of_a_test_file_has_an_answer(tmp_path, caplog, labels):
    """An empty one where the text is."""
    model = write_model(tmp_path / "model", labels, is_pair=False)
    path, out = tmp_path / "five.csv", tmp_path / "out"
    path.write_text('sentence\ngood film\n""\nbad film\n\n"  "\n')
    flags = flags_of(model, tmp_path, out, "tsv", do_predict=True)
    flags |= {"data_dir": None, "test_file": path, "do_eval": False}
    flags["regression"] = labels is None
    assert scripts.run(run_classifier, **flags) == 0
    wanted = [True, False, True, False, False]
    lines = (out / "test_results.tsv").read_text().split("\n")[:-1]
    assert [bool(line.strip()) for line in lines] == wanted
    assert {line.count("\t") for line in lines} == {int(labels is not None)}
    rows = tables.rows(str(out / "test_results.csv"), whole=True)
    table = [row for _, row in rows]
    texts = ["good film", "", "bad film", "", "  "]
    assert [row.pop("sentence") for row in table] == texts
    for cells in zip(*(row.values() for row in table), strict=True):
        assert [cell != "" for cell in cells] == wanted
    submission = (out / "test.tsv").read_text().split("\n")[1:-1]
    answers = [line.split("\t") for line in submission]
    assert [number for number, _ in answers] == [*"01234"]
    assert [answer != "" for _, answer in answers] == wanted
    assert "'sentence' is empty in 3 of 5 rows (first: line 3): their" in (
        caplog.text
    )


@pytest.mark.slow
def test_one_number_is_scored(tmp_path):
    """No correlation is defined for it; the loss is."""
    model = write_model(tmp_path / "model", None, is_pair=False)
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\ngood film\t1.5\n")
    flags = flags_of(model, tmp_path, tmp_path / "out", "tsv", regression=True)
    scripts.run(run_classifier, **flags)
    results = results_of(tmp_path / "out")
    assert results["pearson"] == results["spearman"] == 0.0
    assert results["loss"] > 0.0


@pytest.mark.nightly
def test_the_function_on_a_number_is_applied_until_training(tmp_path):
    """To scores, predictions and the export; a model that learns has none."""
    model = write_model(tmp_path / "model", None, is_pair=False)
    other = fine_tuned_models.changed(
        model, tmp_path / "other", output_activation="tanh"
    )
    text = "sentence\tlabel\ngood film\t1.5\nbad film\t0.5\n"
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text(text)
    more = {"regression": True, "do_predict": True}
    found = []
    for number, source in enumerate((model, other)):
        out = tmp_path / f"out{number}"
        flags = flags_of(source, tmp_path, out, "tsv", **more)
        scripts.run(run_classifier, **flags)
        numbers = np.loadtxt(out / "test_results.tsv")
        loss = np.square(numbers - [1.5, 0.5]).mean()
        assert results_of(out)["loss"] == pytest.approx(loss, rel=1e-4)
        found.append(numbers)
    np.testing.assert_allclose(found[1], np.tanh(found[0]), rtol=1e-4)
    out = tmp_path / "trained"
    flags = flags_of(other, tmp_path, out, "tsv", **more)
    scripts.run(run_classifier, **flags | {"do_train": True})
    assert "output_activation" not in (out / "bert_config.json").read_text()
