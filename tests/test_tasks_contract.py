"""What every task has to do, asked of all of them in the same words.

A case (tests/helpers/task_cases.py) is fine-tuned once, by its script, and used
in all ways. `pytest tests/test_tasks_contract.py -k squad_1` runs one case.
"""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path

from base import tables

import by_hand
import exports
import fine_tuned_models
import litert_files
import numpy as np
import page_models
import prediction_runs
import pytest
import scripts
import tensorflow as tf
import tiny
from interruptions import interrupted_at
from marks import nightly
from task_cases import CASES, Predictions, TaskCase, likely

import modeling
from checkpoints.checkpoint import open_checkpoint
from extras import attributions
from tasks.job import FineTuningJob
from tasks.ner.job import NerJob

convert_checkpoint = scripts.load("convert_checkpoint")
litert_model = scripts.load("litert_model")

pytestmark = pytest.mark.slow

# The first case of each script.
FIRST = list({case.script: case for case in reversed(CASES)}.values())[::-1]


def of_cases(cases: list[TaskCase], always: list[TaskCase]):
    """Return the mark that runs a test with each case, some nightly."""
    values = [case if case in always else nightly(case) for case in cases]
    return pytest.mark.parametrize("case", values, ids=lambda case: case.name)


every_task = of_cases(CASES, FIRST)

# What the scripts share with each other and a BiLSTM does not change.
every_script = of_cases(FIRST, FIRST[:1])


# The steps of a loop end at each checkpoint.
CHECKPOINTS = {
    "save_checkpoints_steps": 20,
    "iterations_per_loop": 20,
    "keep_checkpoint_max": 0,
}


class Made:
    """What the scripts made of a case; each when it is first asked for."""

    def __init__(self, case: TaskCase, folder: Path):
        self.case, self.folder = case, folder
        self.script = scripts.load(case.script)
        self.out = folder / "out"
        self.data = folder / "data"
        self.data.mkdir()
        self.flags = case.write(self.data, self.out)

    def run(self, **flags) -> None:
        """Run the task's script with these flags in place of the case's."""
        assert scripts.run(self.script, **self.flags | flags) == 0

    def use(self, out: Path, **flags) -> None:
        """Run the script with the fine-tuned model, without training."""
        self.run(
            init_checkpoint=self.model, output_dir=out, do_train=False, **flags
        )

    @functools.cached_property
    def model(self) -> Path:
        """The fine-tuned model, scored and used: an output_dir.

        All its checkpoints are kept, to compare with.
        """
        self.run(do_predict=True, **CHECKPOINTS)
        return self.out

    @property
    def predicted(self) -> Predictions:
        """What --do_predict wrote."""
        return self.case.predicted(self.model, self.model)

    @functools.cached_property
    def inputs(self) -> Path:
        """The examples as JSON lines."""
        return prediction_runs.write_lines(
            self.folder / "in.jsonl",
            [{"id": n} | given for n, given in enumerate(self.case.inputs)],
        )

    def predict(self, model: Path, out: Path, **flags) -> Predictions:
        """Run batch_predict.py."""
        flags |= self.lists
        found = prediction_runs.predict(model, self.inputs, out, **flags)
        return with_likely(found)

    @property
    def lists(self) -> dict:
        """The flag that lists the answers to a question."""
        return {"num_answers": 20} if self.case.script == "run_squad" else {}

    @functools.cached_property
    def predictions(self) -> Predictions:
        """What batch_predict.py makes of the checkpoint."""
        out = self.folder / "predictions"
        return self.predict(self.model, out, **self.case.options)

    @functools.cached_property
    def litert(self) -> Path:
        """The LiteRT file of export_saved_model.py."""
        file = self.folder / "model.tflite"
        return litert_files.export(self.model, file, **self.case.options)


def with_likely(predictions: Predictions) -> Predictions:
    """Return predictions with n-best lists as task_cases.py has them."""
    return [
        one | {"nbest": likely(one["nbest"])} if "nbest" in one else one
        for one in predictions
    ]


@pytest.fixture(scope="module")
def made_of(tmp_path_factory) -> Callable[[TaskCase], Made]:
    """Return a function of a case -> what was made of it."""
    made: dict[str, Made] = {}

    def get(case: TaskCase) -> Made:
        if case.name not in made:
            made[case.name] = Made(case, tmp_path_factory.mktemp(case.name))
        return made[case.name]

    return get


def check_agree(found, wanted, place: str = "") -> None:
    """Check that all that is wanted is found, numbers to 1e-4."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            check_agree(found[name], value, f"{place}/{name}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for number, pair in enumerate(zip(found, wanted, strict=True)):
            check_agree(*pair, f"{place}/{number}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=1e-4), place
    else:
        assert found == wanted, place


# --- It learns ---------------------------------------------------------------


@every_task
def test_it_learns(made_of, case):
    made = made_of(case)
    results = tiny.results_of(made.model)
    name, least = case.good
    assert results[name] > least
    assert "degenerate" not in results
    records = sum(
        1 for _ in tf.data.TFRecordDataset(made.out / "train.tf_record")
    )
    # A record for each choice, or for each text.
    records //= {"run_swag": 3, "run_embeddings": 2}.get(case.script, 1)
    assert results["global_step"] == int(records / 8 * 6)


@every_task
def test_scores_by_hand(made_of, case):
    """eval_results.txt and errors.tsv, from the predictions."""
    made = made_of(case)
    results = tiny.results_of(made.model)
    wanted = case.score(case.truths, made.predictions)
    assert {k: results[k] for k in wanted} == pytest.approx(wanted, rel=1e-4)


@every_task
def test_predictions_by_hand(made_of, case):
    """Those of the model's definition, computed row by row in NumPy."""
    made = made_of(case)
    model = by_hand.Model(made.model)
    wanted = {
        number: case.by_hand(model, given, None)
        for number, given in enumerate(case.inputs[:20])
    }
    wanted = {n: one for n, one in wanted.items() if one is not None}
    assert len(wanted) >= 5
    for number, one in wanted.items():
        check_agree(made.predictions[number], one, str(number))


@every_task
def test_the_fine_tuned_model_is_complete(made_of, case):
    """Weights without the optimizer's, and all that other scripts need."""
    made = made_of(case)
    names = tiny.weights_of(made.model / "bert_model.ckpt")
    assert case.head in names
    assert not any(name.endswith(("adam_m", "adam_v")) for name in names)
    config = json.loads((made.model / "bert_config.json").read_text())
    assert config["max_seq_length"] == made.flags["max_seq_length"]
    vocab = (made.data / "model" / "vocab.txt").read_text()
    assert (made.model / "vocab.txt").read_text() == vocab


# --- Every way to predict gives the same -------------------------------------


@every_task
def test_do_predict(made_of, case):
    made = made_of(case)
    check_agree(made.predictions, made.predicted)


@every_task
def test_an_input_without_a_prediction_has_its_fields(made_of, case, tmp_path):
    """Empty ones, so that every input has its line, and every line its keys."""
    made = made_of(case)
    lines = [case.inputs[0], {"label": "x", "more": 1}]
    file = prediction_runs.write_lines(tmp_path / "in.jsonl", lines)
    more = made.lists | case.options
    found, empty = prediction_runs.predict(
        made.model, file, tmp_path / "1", **more
    )
    assert {*found} - {"truncated"} <= {*empty}
    assert {*empty} - {*found} <= {"words", "places"}  # of a text alone
    assert {value for key, value in empty.items() if key != "id"} == {None}
    prediction_runs.predict(
        made.model, file, tmp_path / "2", output_format="csv", **more
    )
    table = tmp_path / "2" / "predictions-00000-of-00001.csv"
    row, empty = (r for _, r in tables.rows(str(table), whole=True))
    filled = {name for name, cell in empty.items() if cell}
    assert filled <= {"label", "input_label", "more"} and len(filled) == 2
    names = {*found} - {"id", "score", "probabilities"}
    assert names <= {*row}


@every_task
def test_padding_and_batches_change_nothing(made_of, case, tmp_path):
    """Nor does max_seq_length, left out: the model has it.

    Starts of answers in the padding compete for the n-best list of questions,
    as in the original: there only the batches are others.
    """
    made = made_of(case)
    made.use(
        tmp_path,
        do_predict=True,
        pad_to_max_length=case.script != "run_squad",
        predict_batch_size=3,
        max_seq_length=None,
    )
    check_agree(case.predicted(tmp_path, made.model), made.predicted)
    again, before = map(tiny.results_of, (tmp_path, made.model))
    del before["global_step"]
    assert {k: again[k] for k in before} == pytest.approx(before, abs=1e-4)


def check_served(made: Made, saved: Path, out: Path) -> None:
    """Check a SavedModel's answers to strings, and to ids.

    The ids are what batch_predict.py makes.
    """
    loaded = tf.saved_model.load(str(saved))

    def called(**texts):
        """The model called as a Keras layer calls it, with one argument."""
        return loaded(texts if len(texts) > 1 else [*texts.values()][0])

    labels = list(made.predictions[0].get("probabilities", ()))
    by_call = dict(loaded.signatures) | {"serving_default": called}
    for signatures in (loaded.signatures, by_call):
        found = made.case.served(signatures, made.case.inputs, labels)
        for one, wanted in zip(found, made.predictions, strict=True):
            check_agree({name: wanted[name] for name in one}, one)
    check_agree(made.predict(saved, out), made.predictions)


@every_script
def test_do_export(made_of, case, tmp_path):
    made = made_of(case)
    made.use(tmp_path, do_eval=False, do_export=True)
    check_served(made, tmp_path / "saved_model" / "1", tmp_path / "out")


# Of the tasks with several cases, one is exported by its script.
@of_cases(
    [c for c in CASES if c.name not in ("classifier", "squad_1", "ner")], []
)
def test_export_saved_model(made_of, case, tmp_path):
    made = made_of(case)
    saved = exports.export(made.model, tmp_path / "1", **case.options)
    check_served(made, saved, tmp_path / "out")


@every_task
def test_litert(made_of, case, tmp_path):
    pytest.importorskip("ai_edge_litert")
    made = made_of(case)
    flags = {"model": made.litert, "input_file": made.inputs}
    flags |= {"output_file": tmp_path / "out.jsonl"}
    assert scripts.run(litert_model, **flags | made.lists) == 0
    text = (tmp_path / "out.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    check_agree(with_likely(found), made.predictions)


@every_task
def test_onnx(made_of, case, tmp_path):
    """OpenVINO gives the same answers, or the file cannot be written."""
    pytest.importorskip("onnx")
    pytest.importorskip("openvino")
    made, path = made_of(case), tmp_path / "m.onnx"
    flags = {"init_checkpoint": made.model, "export_dir": path}
    flags |= {"format": "onnx"} | case.options
    config = open_checkpoint(str(made.model)).config
    lacking = (
        made.flags.get("long_texts") == "windows",
        made.flags.get("bilstm_layers"),
        config.attention_direction != modeling.BIDIRECTIONAL,
    )
    if any(lacking):
        line = scripts.error_of(exports.export_saved_model, **flags)
        assert "an ONNX file lacks" in line
        return
    assert scripts.run(exports.export_saved_model, **flags) == 0
    flags = {"model": path, "input_file": made.inputs}
    flags |= {"output_file": tmp_path / "out.jsonl"}
    assert scripts.run(litert_model, **flags | made.lists) == 0
    text = (tmp_path / "out.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    check_agree(with_likely(found), made.predictions)
    found = made.predict(path, tmp_path / "out")
    check_agree(found, made.predictions)


@every_task
def test_the_page(made_of, case):
    """What tools.playground shows of an input."""
    made = made_of(case)
    model = page_models.load(str(made.model), **case.options)
    for number in (0, 7):
        given, wanted = case.inputs[number], made.predictions[number]
        if "tokens" in given:
            given = {"text": " ".join(given["tokens"])}
            wanted = {
                "entities": [
                    {name: entity[name] for name in ("text", "type", "score")}
                    for entity in wanted["entities"]
                ]
            }
        else:
            wanted = {
                k: v for k, v in wanted.items() if k not in ("id", "nbest")
            }
        check_agree(model.predict(**given), wanted)


@of_cases([c for c in CASES if c.script == "run_classifier"], FIRST)
def test_the_words_that_decide(made_of, case, tmp_path, monkeypatch):
    """Those of task_cases.py: "good" and "bad", in pairs in the second text.

    Their attributions add up to the output of the model, by that of a text
    without words.
    """
    made = made_of(case)
    # With this BiLSTM, and with the maximum over windows, the derivative jumps
    # on some ways from the baseline, which more points do not mend.
    jumps = case.name in ("pairs_bilstm", "multi_label")
    if jumps:
        monkeypatch.setattr(attributions, "_MOST_STEPS", 64)
    found = made.predict(made.model, tmp_path / "out", explain=True)
    reasons = [one.pop("attributions") for one in found]
    check_agree(found, made.predictions)
    hits = []
    for one, own, given in zip(found, reasons, case.inputs, strict=True):
        value = one.get("value")
        if value is None:
            share = one["probabilities"][own["label"]]
            assert share == max(one["probabilities"].values())
            value = np.log(share / (1 - share))
        assert own["value"] == pytest.approx(value, rel=1e-3, abs=1e-3)
        words = [pair for name in given for pair in own[name]]
        difference = own["value"] - own["baseline"]
        missed = sum(adds for _, adds in words) - difference
        assert abs(missed) <= (own.get("gap", 0.01) + 1e-3) * abs(difference)
        # In the numbers, 1.5 for "good" and else -0.5, "bad" says nothing.
        deciding = {
            "multi_label": {"good", "bad", "film"},
            "regression": {"good"},
        }.get(case.name, {"good", "bad"})
        if deciding & {word for word, _ in words} and abs(difference) > 0.3:
            best, _ = max(words, key=lambda pair: pair[1])
            hits.append(best in deciding)
    if not jumps:
        assert not any("gap" in own for own in reasons)
    assert len(hits) > 8 and np.mean(hits) > 0.9, hits


# --- Runs --------------------------------------------------------------------


@every_script
def test_killed_and_resumed_it_ends_with_the_same_bits(made_of, case, tmp_path):
    made = made_of(case)
    flags = CHECKPOINTS | {"output_dir": tmp_path}
    for step in (20, 40):
        with interrupted_at(rf"Saved .*model\.ckpt-{step}$"):
            made.run(**flags)
    name = "model.ckpt-40"
    tiny.check_same_bits(tmp_path / name, made.model / name)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name, seen",
    [
        ("classifier", "all 50 predictions are"),
        ("regression", "predictions are almost"),
        # At such a rate the rounding of the processor decides for which tag.
        ("ner", "words are tagged"),
        ("swag", "answers are choice"),
    ],
)
def test_a_failed_run_says_so(made_of, tmp_path, caplog, name, seen):
    """In a warning and in eval_results.txt; also when it is scored again."""
    made = made_of(next(case for case in CASES if case.name == name))
    flags = {"output_dir": tmp_path, "learning_rate": 10.0}
    flags |= {"num_train_epochs": 1, "bias_correction": True}
    if name == "regression":  # at a high rate its predictions scatter
        flags["learning_rate"] = 1e-9
    results = []
    for do_train, first in (
        (True, "This run failed: "),
        (False, "The run that fine-tuned this model failed: "),
    ):
        made.run(**flags, do_train=do_train)
        last = caplog.records[-1]
        assert last.levelname == "WARNING"
        assert last.getMessage().startswith(first)
        assert seen in last.getMessage()
        results.append(tiny.results_of(tmp_path))
    assert results[0] == results[1] and results[0]["degenerate"] == 1


@every_task
def test_a_model_no_better_than_the_trivial_answer_has_failed(
    made_of, case, tmp_path, monkeypatch, caplog
):
    """Although its answers are not all the same."""
    made = made_of(case)
    assert made.model
    is_class = case.good[0] == "accuracy"
    for job in (FineTuningJob, NerJob):
        monkeypatch.setattr(job, "outputs", spoiled(job.outputs, is_class))
    made.use(tmp_path, do_eval=True)
    last = caplog.records[-1]
    assert last.levelname == "WARNING"
    text = last.getMessage()
    assert text.startswith("The run that fine-tuned this model failed: ")
    assert case.trivial in text
    assert tiny.results_of(tmp_path)["degenerate"] == 1


def spoiled(outputs: Callable, is_class: bool) -> Callable:
    """Return `outputs` of a job such that the best answer is the worst.

    That of every seventh example only if it is one of classes, or of three
    choices: the others have that of one of them. Of vectors every other one is
    turned around, since two are compared.
    """

    def changed(*args) -> dict:
        found = outputs(*args)
        for name, values in found.items():
            if is_class and name == "logits":
                rows = values if values.ndim == 2 else values.reshape(-1, 3)
                worst = -rows[::7]
                rows[:] = rows[1]
                rows[::7] = worst
            elif name == "embedding":
                values[::2] *= -1
            else:
                found[name] = (name == "probabilities") - values
        return found

    return changed


@every_script
def test_a_narrow_model_has_its_rate(made_of, case, tmp_path, caplog):
    """Without the flag, the measured one, said and recorded."""
    flags = {"learning_rate": None, "num_train_epochs": 1}
    made_of(case).run(output_dir=tmp_path, **flags)
    run = json.loads((tmp_path / "training_config.json").read_text())
    assert run["adjustable"]["learning_rate"] == 5e-4
    assert "0.0005, that of models of at most 256 units; --l" in caplog.text
    assert "learning rate 0.0005" in caplog.text  # the plan


@every_script
def test_a_finished_run_is_not_repeated(made_of, case, caplog):
    made = made_of(case)
    path = made.model / "bert_model.ckpt.data-00000-of-00001"
    before = path.read_bytes()
    results = tiny.results_of(made.model)
    with caplog.at_level("INFO", logger="absl"):
        made.run(do_predict=True)
    assert "holds a finished run" in caplog.text and "Reusing" in caplog.text
    scored = rf"Evaluation results of \w+ \(in full: {made.model}/eval"
    assert re.search(scored, caplog.text)
    where = re.findall(r"Predictions of \w+: (.*)", caplog.text)
    assert where and all(Path(file).read_text() for file in where)
    assert path.read_bytes() == before
    assert tiny.results_of(made.model) == results


@pytest.mark.nightly
def test_a_run_goes_on_with_the_same_windows(made_of, caplog):
    """The same flags again say nothing, others are another run's."""
    made = made_of(next(c for c in CASES if c.name == "multi_label"))
    made.use(made.folder / "again", long_texts="windows")
    assert "fine-tuned with" not in caplog.text
    made.use(made.folder / "mean", window_pooling="mean")
    assert "doc_stride 2, max_windows 8, pooling max" in caplog.text
    flags = made.flags | {"window_pooling": "mean"}
    line = scripts.error_of(made.script, **flags)
    assert "long_texts = {'pooling': 'max'}, not" in line, line


def test_the_scores_of_labels_are_those_at_the_thresholds_of_the_model(made_of):
    made = made_of(next(c for c in CASES if c.name == "multi_label"))
    config = json.loads((made.model / "bert_config.json").read_text())
    _, *rows = (made.model / "label_scores.tsv").read_text().splitlines()
    found = [float(row.split("\t")[1]) for row in rows]
    assert found == pytest.approx(config["thresholds"], abs=1e-4)
    assert found != [0.5] * len(found)


@every_task
def test_hugging_face_there_and_back(made_of, case, tmp_path):
    made = made_of(case)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    flags = {"input": made.model, "output": theirs}
    flags["output_format"] = "huggingface"
    # Left to right, transformers would classify by [CLS], which sees itself.
    for name, words in (("bilstm", "BiLSTM"), ("regression", "reads [CLS]")):
        if name in case.name:
            assert words in scripts.error_of(convert_checkpoint, **flags)
            assert not theirs.exists()
            return
    scripts.run(convert_checkpoint, **flags)
    flags = {"input": theirs, "output": ours, "output_format": "original"}
    scripts.run(convert_checkpoint, **flags)
    name = "bert_model.ckpt"
    tiny.check_same_bits(ours / name, made.model / name)
    found = made.predict(ours, tmp_path / "out", **case.options)
    check_agree(found, made.predictions)


# --- What goes wrong ---------------------------------------------------------


@every_script
def test_damaged_weights_are_neither_scored_nor_used(made_of, case, tmp_path):
    """A score or an answer made of them would look like any other."""
    made = made_of(case)
    model = fine_tuned_models.damage(made.model, tmp_path / "damaged")
    out = tmp_path / "out"
    flags = made.flags | {"init_checkpoint": model, "output_dir": out}
    flags |= {"do_train": False, "do_eval": False}
    for job in ("do_eval", "do_predict"):
        line = scripts.error_of(made.script, **flags | {job: True})
        assert "not finite numbers" in line
    names = {path.name for path in out.iterdir()}
    assert not any("results" in name or "predictions" in name for name in names)


@every_task
def test_a_model_of_another_task_is_refused(made_of, case, tmp_path):
    """Also one whose head has the same shape."""
    made = made_of(case)
    for other in ("run_classifier", "run_squad", "run_ner", "run_swag"):
        if other == case.script:
            continue
        of_other = next(c for c in CASES if c.script == other)
        flags = of_other.write(tmp_path, tmp_path / "out")
        flags |= {"init_checkpoint": made.model, "do_train": False}
        flags |= {"do_eval": False, "do_predict": True}
        line = scripts.error_of(scripts.load(other), **flags)
        assert str(made.model) in line, line
