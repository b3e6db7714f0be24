"""export_saved_model.py: errors, and the choice of the task."""

import json
import zipfile

import pytest
import scripts
from exports import CONFIG, VOCAB, export, export_saved_model, write_model

from checkpoints import huggingface
from tasks import saved_model
from tasks.classifier import model as classifier_model
from training.task_model import TaskModel

pytest.importorskip("tensorflow_text")


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"init_checkpoint": None}, "--init_checkpoint is required"),
        ({"export_dir": None}, "--export_dir is required"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        ({"export_dir": "/tmp"}, "exists already"),
        ({"export_dir": "/dev/null/x/1"}, "--export_dir=/dev/null/x cannot be"),
        ({"max_seq_length": 21}, "max_position_embeddings=20"),
        ({"task": "classifier"}, "has no head for it: it can do encoder"),
        ({"task": "masked_lm"}, "has no head for it: it can do encoder"),
        ({"task": "question_answering"}, "has no head for it"),
        ({"task": "token_classification"}, "has no head for it"),
        ({"bert_config_file": "/nowhere"}, "/nowhere"),
        ({"vocab_file": "/nowhere"}, "/nowhere"),
    ],
    ids=str,
)
def test_errors_name_the_flag_or_the_file(tmp_path, flags, words):
    source = write_model(tmp_path / "model", TaskModel(CONFIG).variables)
    given = {"init_checkpoint": str(source), "export_dir": str(tmp_path / "1")}
    line = scripts.error_of(export_saved_model, **(given | flags))
    assert words in line, line


@pytest.mark.parametrize(
    "fine_tuned, task, words",
    [
        ("token_classification", None, "names no labels"),
        ("token_classification", "classifier", "is token_classification, --ta"),
        ("token_classification", "multiple_choice", "needs multiple_choice"),
        ("multiple_choice", "classifier", "is multiple_choice, --task=class"),
        (None, "multiple_choice", "is not set, --task=multiple_choice needs"),
    ],
)
def test_the_task_of_the_configuration_decides_between_heads_of_one_shape(
    tmp_path, fine_tuned, task, words
):
    """Heads of regression, tagging and multiple choice can all be [1, H]."""
    model = classifier_model.BertForSequenceClassification(CONFIG, None)
    settings = {"task": fine_tuned} if fine_tuned else {}
    source = write_model(tmp_path / "model", model.variables, **settings)
    line = scripts.error_of(
        export_saved_model,
        init_checkpoint=str(source),
        export_dir=str(tmp_path / "1"),
        task=task,
    )
    assert words in line, line
    assert not (tmp_path / "1").exists()


@pytest.fixture
def made(monkeypatch):
    """The exports that would be written, which takes seconds each."""
    exports = []
    monkeypatch.setattr(
        saved_model, "write", lambda export, *_: exports.append(export)
    )
    return exports


@pytest.mark.parametrize(
    "flags, length",
    [({}, 9), ({"task": "encoder"}, 9), ({"max_seq_length": 20}, 20)],
    ids=str,
)
def test_the_length_is_the_fine_tuned_one_unless_given(
    tmp_path, made, flags, length
):
    model = classifier_model.BertForSequenceClassification(CONFIG, None)
    source = write_model(tmp_path / "model", model.variables, max_seq_length=9)
    export(source, tmp_path / "1", **flags)
    assert made.pop().max_seq_length == length


def test_capitals_in_the_vocabulary_are_a_casing(tmp_path, made):
    source = write_model(tmp_path / "model", TaskModel(CONFIG).variables)
    vocab = source / "vocab.txt"
    vocab.write_text(vocab.read_text() + "The\nParis\n")
    export(source, tmp_path / "1")
    assert not made.pop().tokenizer.settings.do_lower_case


@pytest.mark.slow
def test_vocabularies_are_written_as_they_were_read(tmp_path):
    """With Windows' ends of lines and a byte order mark: in every copy."""
    onnx = pytest.importorskip("onnx")
    source = write_model(tmp_path / "model", TaskModel(CONFIG).variables)
    wanted = (source / "vocab.txt").read_bytes()
    text = "\r\n".join(VOCAB[:-1]) + f"\r\n {VOCAB[-1]}"
    (source / "vocab.txt").write_text(text, "utf-8-sig", newline="")
    export(source, tmp_path / "1")
    found = [(tmp_path / "1" / "assets" / "vocab.txt").read_bytes()]
    export(source, tmp_path / "m.onnx", format="onnx")
    for one in onnx.load(tmp_path / "m.onnx").metadata_props:
        found += [one.value.encode()] * (one.key == "vocab.txt")
    export(source, tmp_path / "m.tflite", format="litert")
    with zipfile.ZipFile(tmp_path / "m.tflite") as files:
        found.append(files.read("vocab.txt"))
    convert = scripts.load("convert_checkpoint")
    for kind in ("original", "huggingface"):
        out = tmp_path / kind
        scripts.run(convert, input=source, output=out, output_format=kind)
        found.append((out / "vocab.txt").read_bytes())
    assert found == [wanted] * 5


def test_the_task_of_a_hugging_face_directory_is_its_architecture(tmp_path):
    """Its config.json has `architectures` and no `task`."""
    model = classifier_model.BertForSequenceClassification(CONFIG, None)
    huggingface.write_config(
        str(tmp_path), CONFIG, "BertForTokenClassification"
    )
    huggingface.write_weights(
        str(tmp_path), {v.path: v.numpy() for v in model.variables}
    )
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    assert "task" not in json.loads((tmp_path / "config.json").read_text())
    line = scripts.error_of(
        export_saved_model,
        init_checkpoint=str(tmp_path),
        export_dir=str(tmp_path / "1"),
        task="classifier",
    )
    assert "is token_classification, --task=cl" in line, line
    assert not (tmp_path / "1").exists()
