"""The readers of files that are fuzzed, each with a sample that it can read."""

import bz2
import functools
import gzip
import io
import json
import lzma
import os
import shutil
import tempfile
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from base import text_files
from base.errors import UserError
from base.jobs import run as jobs_run

import classifier_runs
import corpora
import corpus_runs
import fine_tuned_models
import hub_models
import litert_files
import numpy as np
import pretraining_runs
import pyarrow
import safetensors
import squad_files
import swag_runs
import tensorflow as tf
import tiny
from huggingface_hub import constants
from paths import GOLDEN
from pyarrow import parquet
from task_settings import settings_of

import tokenization
from checkpoints import (
    casing,
    checkpoint,
    hub,
    model_garden,
    published,
)
from checkpoints.run_folder import Identity, RunFolder
from modeling import BertConfig
from pretraining import records as pretraining_records
from pretraining.data import documents as pretraining_documents
from records import tfrecord
from serving.litert.model import LiteRtModel
from tasks import loading, reading, registry, rows
from tasks.classifier import data as classifier_data
from tasks.classifier import task_files
from tasks.encoder import lines as encoder_lines
from tasks.ner import data as ner_data
from tasks.ner import scores as ner_scores
from tasks.ner import windows as ner_windows
from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import triviaqa
from tasks.squad import windows as squad_windows
from tasks.swag import task as swag_task
from tasks.task import Task
from training import curves, scalars


class Reader(NamedTuple):
    """A reader of files, and a sample of them.

    Attributes:
        sample: writes the files into an empty folder.
        read: reads the folder.
        cases: in `make test-all`.
        writes: whether it may change the files of the folder.
        failed: (file, content) that ended in a stack trace once.
    """

    sample: Callable[[Path], Any]
    read: Callable[[Path], Any]
    cases: int
    writes: bool
    failed: tuple[tuple[str, bytes], ...]


READERS: dict[str, Reader] = {}


def _reader(
    sample: Callable[[Path], Any] | Mapping[str, Any],
    cases: int = 100,
    writes: bool = False,
    failed: tuple[tuple[str, bytes], ...] = (),
) -> Callable[[Callable], Callable]:
    """Add a function to READERS; `sample` as in Reader, or {name: content}."""

    def add(read: Callable) -> Callable:
        make = sample if callable(sample) else lambda at: _write(at, sample)
        READERS[read.__name__] = Reader(make, read, cases, writes, failed)
        return read

    return add


def _write(folder: Path, files: Mapping[str, Any]) -> None:
    """Write {name: bytes, text, or a value as JSON}."""
    for name, value in files.items():
        if not isinstance(value, (str, bytes)):
            value = json.dumps(value)
        data = value if isinstance(value, bytes) else value.encode()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)


def _lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def _each(read: Callable, *arguments: Any) -> None:
    """Call one of several functions that read a folder."""
    try:
        read(*arguments)
    except UserError:
        pass


# --- Records -----------------------------------------------------------------


def _sample_records(folder: Path) -> None:
    pretraining_runs.write_records(folder / "a.tfrecord", 5, 1)
    pretraining_runs.write_records(folder / "b.tfrecord.gz", 5, 1, "GZIP")


@_reader(_sample_records, cases=15)
def pretraining(folder):
    files = pretraining_records.find_data(
        sorted(map(str, folder.iterdir())),
        BertConfig.from_dict(pretraining_runs.CONFIG),
        pretraining_runs.INSTANCES,
    )
    context = tf.distribute.InputContext(1, 0, 1)
    with files.naming_bad_files():
        for _ in files.evaluation(4, files.num_records, context):
            pass


def _classifier(folder: Path) -> Path:
    config, vocab = classifier_runs.CONFIG, classifier_runs.VOCAB
    return fine_tuned_models.write_classifier(
        folder, config, vocab, ["bad", "good"], length=24
    )


def _sample_inputs(folder: Path) -> None:
    texts = {task: _lines(*litert_files.TEXTS[task]) for task in _TASKS}
    _write(folder, {f"{task}.jsonl": text for task, text in texts.items()})
    zipped = gzip.compress(texts["classifier"].encode())
    table = 'no;text\r\n1;"a ""film"";\n"\r\n2;bad\r\n'
    _write(folder, {"a.txt": "a good film\nbad\n", "b.jsonl.gz": zipped})
    _write(folder, {"d.csv": table, "e.csv": table.encode("utf-16")})
    names = ("input_ids", "input_mask", "segment_ids")
    ids = {name: np.ones((3, 24), np.int64) for name in names}
    with open(folder / "c.tfrecord", "wb") as file:
        with tfrecord.RecordWriter(file) as writer:
            writer.write_examples(ids | {"unique_ids": np.arange(3)[:, None]})


_TASKS = (
    "classifier",
    "question_answering",
    "token_classification",
    "multiple_choice",
)


@functools.cache
def _tokenizer() -> tokenization.FullTokenizer:
    return tokenization.FullTokenizer(corpora.VOCAB_FILE)


@functools.cache
def _task(name: str) -> Task:
    labels = ("O", "B-A")
    return registry.create_task(
        settings_of(name, corpora.VOCAB_FILE, labels, max_seq_length=100)
    )


@_reader(_sample_inputs)
def predictions(folder):
    for path in sorted(folder.iterdir()):
        task = _task(path.stem if path.stem in _TASKS else "classifier")
        file = reading.inspect(str(path))
        for window in reading.read_windows(file, task.parse):
            task.encode(window.inputs)


# --- Models ------------------------------------------------------------------


def _sample_model(folder: Path) -> None:
    _classifier(folder / "model")
    name = '"bert_model.ckpt"\n'
    text = f"model_checkpoint_path: {name}all_model_checkpoint_paths: {name}"
    (folder / "model" / "checkpoint").write_text(text)


@_reader(_sample_model)
def model(folder):
    _open_model(folder / "model")


def _open_model(folder: Path) -> None:
    found = checkpoint.open_checkpoint(str(folder))
    found.tokenizer.tokenize("a good film")
    loading.find(str(folder))
    checkpoint.read_weights(found)


def _sample_shards(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        source = hub_models.write_model(Path(work))
        shutil.copytree(source, folder, dirs_exist_ok=True)
    name = "model-00001-of-00001.safetensors"
    os.rename(folder / published.WEIGHTS_NAME, folder / name)
    with safetensors.safe_open(folder / name, "numpy") as file:
        places = dict.fromkeys(file.keys(), name)
    _write(folder, {published.INDEX_NAME: {"weight_map": places}})


@_reader(_sample_shards)
def huggingface_model(folder):
    _open_model(folder)


def _sample_garden(folder: Path) -> None:
    reader = tf.train.load_checkpoint(
        str(GOLDEN / "model_garden/bert_model.ckpt")
    )
    graph = reader.get_tensor(model_garden.OBJECT_GRAPH)
    (folder / "graph").write_bytes(graph)


@_reader(_sample_garden)
def model_of_the_model_garden(folder):
    """Only what its objects are: the rest has checksums."""
    reader = tf.train.load_checkpoint(
        str(GOLDEN / "model_garden/bert_model.ckpt")
    )
    tensors = {model_garden.OBJECT_GRAPH: (folder / "graph").read_bytes()}
    found = model_garden.Reader(
        types.SimpleNamespace(
            get_variable_to_shape_map=reader.get_variable_to_shape_map,
            get_tensor=lambda n: tensors.get(n) or reader.get_tensor(n),
        )
    )
    for name in found.get_variable_to_shape_map():
        found.get_tensor(name)


_HUB = "models--a--b"
_COMMIT = "0" * 40


def _sample_hub(folder: Path) -> None:
    """Write a model as the client of the hub keeps it."""
    (folder / _HUB / "refs").mkdir(parents=True)
    (folder / _HUB / "refs" / "main").write_text(_COMMIT)
    place = folder / _HUB / "snapshots" / _COMMIT
    place.mkdir(parents=True)
    _sample_shards(place)


@_reader(_sample_hub, cases=20)
def hub_model(folder):
    constants.HF_HUB_CACHE = str(folder)
    hub.fetch.cache_clear()
    checkpoint.read_weights(checkpoint.open_checkpoint("hf://a/b"))


@_reader(
    {
        "saved_model.pb": "",
        "assets.extra/export.json": {"task": "classifier", "labels": ["a", "b"]}
        | {"max_seq_length": 8, "do_lower_case": True, "strip_accents": True}
        | {"tokenize_chinese_chars": True, "sentence_pairs": False},
        "assets/vocab.txt": "\n".join(tiny.SPECIAL),
    }
)
def saved_model(folder):
    registry.create_task(loading.find(str(folder)))


def _sample_litert(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        source = _classifier(Path(work, "model"))
        litert_files.export(source, folder / "a.tflite")


@_reader(_sample_litert, cases=50)
def litert(folder):
    found = LiteRtModel(str(folder / "a.tflite"), num_threads=1)
    found.predict(["a good film", "bad"])


# --- Tasks -------------------------------------------------------------------


@_reader(
    {
        "a/train.tsv": "sentence\tlabel\nA\tgood\nIt was\tbad\n\nNo\tgood\n",
        "b/train.csv": 'label,sentence\ngood,"A ""film"",\nit was"\nbad,no\n',
        "c/train.jsonl": _lines(
            {"sentence": "a", "label": 1}, {"sentence": "b", "label": "x, y"}
        ),
    }
)
def own_tables(folder):
    for path in sorted(folder.iterdir()):
        for kind in ((False, False), (True, False), (False, True)):
            _each(_own_table, str(path), *kind)


def _own_table(folder: str, is_regression: bool, multi_label: bool) -> None:
    columns = task_files.Columns("sentence", None, "label")
    files = classifier_data.own_files(
        folder, columns, is_regression, None, multi_label
    )
    found = classifier_data.read_examples(files.train, files)
    for example in found:
        rows.row_of_texts(example.text_a, example.text_b, 16, _tokenizer())


@_reader({"a.tsv": "language\ta\tb\n" + "en\tx y\tz\t1\n" * 3})
def glue_files(folder):
    for files in map(task_files.find, ("cola", "sts-b", "mnli", "xnli")):
        data_files = (files.train, *files.dev.values(), *files.test.values())
        for split in data_files:
            split = split._replace(path=str(folder / "a.tsv"))
            _each(classifier_data.read_examples, split, files)


_CHOICES = {"context": "a", "choices": ["b", "c"], "label": 1}


@_reader(
    {
        "a.csv": swag_runs.csv_lines(swag_runs.questions(3, 1)),
        "b.jsonl": _lines(_CHOICES, _CHOICES | {"start": "s", "id": "i"}),
    }
)
def swag(folder):
    for path in folder.iterdir():
        _each(swag_task.read_questions, str(path))


@_reader(
    {
        "a.txt": "-DOCSTART- O\n\nAnn I-PER\nsaw O\nOslo I-LOC\n\nShe O\n",
        "b.jsonl": _lines(
            {"tokens": ["Ann", "."], "tags": ["B-PER", "O"]},
            {"tokens": ["a"], "tags": ["O"], "document": 1},
        ),
    }
)
def named_entities(folder):
    for path in folder.iterdir():
        _each(_named_entities, str(path))


def _named_entities(path: str) -> None:
    file = ner_data.read_file(path, ner_data.Columns())
    tags = [["O"] * len(sentence.words) for sentence in file.sentences]
    ner_scores.prediction_lines(file, tags)
    file = ner_data.with_iob2_tags(file)
    labels = ner_data.iob2_labels(file)
    list(ner_windows.Converter(_tokenizer(), labels, 16, True)(file.sentences))


_ANN = squad_files.question("1", "Who?", ("Ann", 0))
_SQUAD = squad_files.content(
    ("Ann lives in Oslo.", [_ANN]),
    ("It is a city.", [squad_files.question("2", "What?", ("a city", 6))]),
)
_NO_ANSWER = squad_files.question("2", is_impossible=True)
_SQUAD_2 = squad_files.content(("Oslo.", [_NO_ANSWER]), ("Ann.", [_ANN]))


@_reader({"1.json": _SQUAD, "2.json": _SQUAD_2})
def squad(folder):
    for is_training in (True, False):
        for name, is_2 in (("1.json", False), ("2.json", True)):
            _each(_squad, str(folder / name), is_training, is_2)


def _squad(path: str, is_training: bool, is_version_2: bool) -> None:
    data = squad_data.read_squad([path], is_training, is_version_2)
    squad_windows.convert(data, _tokenizer(), squad_windows.Lengths(32, 8, 6))


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


_LOGITS = np.ones((3, 8), np.float32)


@_reader(
    {
        squad_answers.THRESHOLD: {"threshold": 0.5, "weights": []},
        "logits.npz": _npz(start_logits=_LOGITS, end_logits=_LOGITS),
    },
    failed=((squad_answers.THRESHOLD, b'{"threshold": 1%s}' % (b"0" * 400)),),
)
def squad_answers_of_runs(folder):
    squad_answers.null_threshold(None, [], str(folder))
    squad_answers.read_logits(str(folder / "logits.npz"), len(_LOGITS))


_TRIVIA = {
    "Question": "Who?",
    "QuestionId": "q1",
    "Answer": {"Value": "Puzo", "Aliases": ["Mario Puzo"]},
    "EntityPages": [{"Filename": "Doc.txt"}, {"Filename": "Gone.txt"}],
    "SearchResults": [{"Filename": "a/Doc.txt"}],
}


@_reader({"a.json": {"Data": [_TRIVIA]}, "wikipedia/Doc.txt": "Mario Puzo."})
def trivia(folder):
    data = triviaqa.read_triviaqa([str(folder / "a.json")], str(folder))
    squad_windows.convert(data, _tokenizer(), squad_windows.Lengths(32, 8, 6))


# --- Corpora -----------------------------------------------------------------

_WIKITEXT = """'''A''' [[b|c]] {{x|y={{z}}}} &lt;ref&gt;r&lt;/ref&gt; is here.
== H ==
* one
{|
|-
| a || b
|}
[[File:a.png|b [[c]]]] &lt;nowiki&gt;[[&lt;/nowiki&gt; {{lang|de|Berg}} end."""
_DUMP = corpus_runs.dump(
    corpus_runs.page(f"River {number}", text)
    for number, text in enumerate((corpus_runs.article(1), _WIKITEXT))
)


@_reader(
    {
        "a.txt.bz2": bz2.compress(_DUMP.encode()),
        "b.txt.gz": gzip.compress(_DUMP.encode()),
        "c.txt.xz": lzma.compress(_DUMP.encode()),
        "d.txt": _DUMP,
        "e.txt": "One. Two.\n\nThree? Four.\n",
        "f.jsonl": _lines({"text": "One. Two."}, {"text": None}),
        "wiki_00": '<doc id="1" url="a" title="T">\nT\n\nOne.\n</doc>\n' * 2,
    }
)
def corpus(folder):
    for path in sorted(folder.iterdir()):
        corpus_runs.outcomes_of(path, max_document_mb=1)


def _sample_parquet(folder: Path) -> None:
    columns = {"id": [1, 2, 3], "text": ["One. Two.", None, "Three." * 99]}
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")


@_reader(_sample_parquet)
def parquet_files(folder):
    corpus(folder)


@_reader(
    {
        "a.txt": "One. Two.\n\nThree ||| four.\n",
        "vocab.txt": "\n".join([*tiny.SPECIAL, "one", "two"]),
    }
)
def texts(folder):
    path, vocab = (str(folder / name) for name in ("a.txt", "vocab.txt"))
    whole = pretraining_documents.Range(path)
    list(pretraining_documents.read_parts(whole, 100, 1 << 20))
    tokenizer = tokenization.FullTokenizer(vocab)
    tokenization.validate_special_tokens(tokenizer.vocab, tiny.SPECIAL, vocab)
    files = casing.TokenizerFiles(vocabulary=tokenization.Vocabulary(vocab))
    trained_for = checkpoint.TrainedFor(max_seq_length=16)
    model = checkpoint.Checkpoint("", None, trained_for, files)
    list(encoder_lines.Reader(path, model).lines())


# --- State of runs -----------------------------------------------------------

_POINTS = [
    {"step": 10 * n, "steps": 10, "loss": 1 / n, "learning_rate": 0.1}
    for n in range(1, 25)
]


@_reader(
    {
        "training_config.json": {
            "fixed": {"seed": 1, "data": {"a": 1}},
            "adjustable": {"init_checkpoint": "hf://a/b@c", "steps": 1},
        },
        "checkpoint": 'model_checkpoint_path: "model.ckpt-1"\n',
        "model.ckpt-1.index": "",
        "scalars.jsonl": _lines(*_POINTS),
        "eval/scalars.jsonl": _lines(*_POINTS[:2]),
        "scores.json": {"10": 0.5},
        "eval_results.txt": "eval_accuracy = 0.5\nloss = 1.5\n",
    },
    writes=True,
    failed=(
        ("eval_results.txt", b"a = b\n"),
        ("eval_results.txt", b"\xff\n"),
        ("scores.json", b"[1]"),
        ("scores.json", b'{"a": 1}'),
        ("scalars.jsonl", b"5\n"),
        ("scalars.jsonl", b"\xff\n"),
        ("scalars.jsonl", b'{"step": []}\n'),
        ("scalars.jsonl", b'{"step": 1, "steps": 1, "loss": 1}\n'),
        ("scalars.jsonl", b'{"step": 1}\n'),
        ("scalars.jsonl", b'{"loss": 1}\n'),
        (
            "training_config.json",
            b'{"fixed": {}, "adjustable": {"init_checkpoint": 5}}',
        ),
    ),
)
def runs(folder):
    out = str(folder)
    run = RunFolder.read(out)
    identity = Identity({"seed": 1, "data": {"a": 1}}, {"steps": 1}, {})
    _each(lambda: run.resumed)
    _each(run.check_same, identity)
    _each(run.claim, identity)
    _each(run.pinned, "hf://a/b")
    _each(lambda: run.scores)
    _each(text_files.read_numbers, f"{out}/eval_results.txt")
    _each(curves.read, out, 10, ["loss"])
    scalars.forget_after(out, 100)


def _job(folder: Path) -> jobs_run.Job:
    outputs = [f"{folder}/out-{number}" for number in range(2)]
    fingerprint = {"a": 1, "files": [["x", 1]]}
    return jobs_run.Job(outputs, str(folder), "out", "output_dir", fingerprint)


def _sample_job(folder: Path) -> None:
    """Write a job that was killed; the manifest has one of its two files."""
    job = _job(folder)
    with jobs_run.open_run(job):
        for index in range(2):
            with jobs_run.publish(job.target(index)) as (file, _):
                file.write(b"text")
    files = {job.outputs[1]: {"bytes": 4}}
    jobs_run._write_manifest(job, files=files, total={})
    Path(job.target(1).entry).unlink()


@_reader(
    _sample_job,
    writes=True,
    failed=(
        (".out.manifest.json", b"5"),
        (".out.manifest.json", b"{}"),
        (".out.manifest.json", b'{"fingerprint": [], "files": {}}'),
        (".out.scratch/file-00000.json", b"5"),
        (".out.scratch/file-00000.json", b'{"a": 1}'),
    ),
)
def jobs(folder):
    with jobs_run.open_run(_job(folder)):
        pass
