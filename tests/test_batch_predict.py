"""batch_predict.py as a user runs it: every task gives its script's numbers."""

import gzip
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import classifier_runs
import fitted_models
import mask_models
import ner_runs
import numpy as np
import pytest
import scripts
import squad_runs
import swag_runs
from paths import ROOT

from checkpoints import lookup
from pretraining import filling
from records import tfrecord
from serving import saved_model

pytest.importorskip("tensorflow_text")
batch_predict = scripts.load("batch_predict")
run_classifier = scripts.load("run_classifier")
run_squad = scripts.load("run_squad")
run_ner = scripts.load("run_ner")
run_swag = scripts.load("run_swag")
extract_features = scripts.load("extract_features")
export_saved_model = scripts.load("export_saved_model")

ONLY_PREDICT = {"do_train": False, "do_eval": False, "do_predict": True}


def write_lines(path: Path, values) -> Path:
    """Write objects as JSON lines."""
    lines = [json.dumps(value) for value in values]
    path.write_text("\n".join(lines) + "\n")
    return path


def predict(model: Path, inputs: Path | str, out: Path, **flags) -> list[dict]:
    """Run the script and return the objects of all shards, in order."""
    flags = {
        "model": str(model),
        "input_file": str(inputs),
        "output_dir": str(out),
        **flags,
    }
    assert scripts.run(batch_predict, **flags) == 0
    return predictions(out)


def predictions(out: Path) -> list[dict]:
    """Return the objects in the shards of a directory."""
    return [
        json.loads(line)
        for path in sorted(out.glob("predictions-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def problems(out: Path) -> list[dict]:
    """Return the objects in errors.jsonl."""
    text = (out / "errors.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def export(model: Path, target: Path, **flags) -> Path:
    """Write the SavedModel of a checkpoint."""
    scripts.run(
        export_saved_model,
        init_checkpoint=str(model),
        export_dir=str(target),
        **flags,
    )
    return target


def check_same(found: list[dict], wanted: list[dict]) -> None:
    """Check that predictions differ by rounding at most."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert list(one) == list(other)
        for key, value in one.items():
            if isinstance(value, (dict, list, float)):
                ours, theirs = json.dumps(value), json.dumps(other[key])
                assert numbers(ours) == pytest.approx(numbers(theirs), abs=2e-5)
            else:
                assert value == other[key]


def numbers(text: str) -> list[float]:
    """Return all numbers of a JSON value, in order."""
    found: list[float] = []

    def keep(value: str) -> float:
        found.append(float(value))
        return found[-1]

    json.loads(text, parse_float=keep, parse_int=keep)
    return found


@pytest.fixture
def ids_only(monkeypatch) -> None:
    """Export without the signature for strings, which takes long to trace."""
    monkeypatch.setattr(
        saved_model.Export,
        "signatures",
        lambda self: {"ids": self.ids_signature()},
    )


# --- Classifier --------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    """A folder with a classifier and the task's test file."""
    folder = tmp_path_factory.mktemp("classifier")
    fitted_models.write_classifier(
        folder / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        ["bad", "good"],
        length=24,  # some sentences are longer
    )
    classifier_runs.write_data(folder)
    return folder


def sentences_of(folder: Path) -> list[str]:
    return (folder / "test.tsv").read_text().splitlines()[1:]


def test_labels_are_those_of_run_classifier(ids_only, classifier, tmp_path):
    """From JSON lines, from text, and by the exported model."""
    texts = sentences_of(classifier)
    flags = classifier_runs.flags_for(
        classifier / "model", classifier, classifier / "model", **ONLY_PREDICT
    )
    scripts.run(run_classifier, **flags | {"max_seq_length": 24})
    rows = (classifier / "model" / "test_results.tsv").read_text().splitlines()
    wanted = [list(map(float, row.split("\t"))) for row in rows]
    lines = [{"id": n, "sentence": text} for n, text in enumerate(texts)]
    file = write_lines(tmp_path / "in.jsonl", lines)
    found = predict(
        classifier / "model", file, tmp_path / "1", text_columns="sentence"
    )
    assert [row["id"] for row in found] == list(range(21))
    shares = [list(row["probabilities"].values()) for row in found]
    assert list(found[0]["probabilities"]) == ["bad", "good"]
    np.testing.assert_allclose(shares, wanted, atol=1e-5)
    for row, share in zip(found, wanted, strict=True):
        assert row["label"] == ("bad", "good")[int(np.argmax(share))]
        assert row["score"] == pytest.approx(max(share), abs=1e-5)
    is_long = [len(text.split()) + 2 > 24 for text in texts]
    assert [row.get("truncated", False) for row in found] == is_long
    assert 0 < sum(is_long) < 21
    # The same sentences as lines of text, by the exported model.
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(texts))
    saved = export(classifier / "model", tmp_path / "saved", max_seq_length=24)
    again = predict(saved, path, tmp_path / "2", num_shards=3)
    assert [row.pop("id") for row in again] == [
        f"{path}:{number}" for number in range(1, 22)
    ]
    for row in found:
        del row["id"]
    check_same(again, found)


def test_records_of_run_classifier_give_the_same(classifier, tmp_path):
    texts = sentences_of(classifier)
    flags = classifier_runs.flags_for(
        classifier / "model", classifier, classifier / "model", **ONLY_PREDICT
    )
    records = tmp_path / "records"
    flags |= {"max_seq_length": 24, "records_dir": str(records)}
    scripts.run(run_classifier, **flags)
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(texts))
    wanted = predict(classifier / "model", path, tmp_path / "1")
    file = records / "predict.tf_record"
    found = predict(classifier / "model", file, tmp_path / "2")
    assert [row.pop("id") for row in found] == [
        f"{file}:{number}" for number in range(1, 22)
    ]
    for row in wanted:
        del row["id"]
        row.pop("truncated", None)  # records hold cut texts
    check_same(found, wanted)


def test_pairs_and_regression(tmp_path):
    """Tabs separate pairs; a pair differs from its two texts as one."""
    model = fitted_models.write_classifier(
        tmp_path / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        None,
        is_pair=True,
    )
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    pairs = [("good film", "a book"), ("bad", "not the film"), ("a", "the")]
    rows = ["\t".join(pair) for pair in pairs]
    (data_dir / "test.tsv").write_text("\n".join(["a\tb", *rows]) + "\n")
    flags = classifier_runs.flags_for(model, data_dir, model, **ONLY_PREDICT)
    flags |= {"text_a_column": "a", "text_b_column": "b", "regression": True}
    scripts.run(run_classifier, **flags)
    results = (model / "test_results.tsv").read_text().split()
    (tmp_path / "in.tsv").write_text("\n".join(rows) + "\n")
    found = predict(model, tmp_path / "in.tsv", tmp_path / "1")
    values = [row["value"] for row in found]
    np.testing.assert_allclose(values, list(map(float, results)), atol=2e-5)
    assert len({round(value, 3) for value in values}) == 3


# --- Questions ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2"])
def test_answers_are_those_of_run_squad(version, tmp_path):
    """Their characters are in the context, also those of the n-best list."""
    model = fitted_models.write_reader(
        tmp_path / "reader",
        squad_runs.CONFIG,
        squad_runs.VOCAB,
        is_version_2=version == "2",
    )
    squad_runs.write_data(tmp_path)
    flags = squad_runs.flags_for(tmp_path, model, version, **ONLY_PREDICT)
    flags |= {"init_checkpoint": None}
    scripts.run(run_squad, **flags)
    options = {"doc_stride": 12, "max_query_length": 8, "max_answer_length": 4}
    if version == "2":
        odds = squad_runs.read(model / "null_odds.json")
        threshold = round(float(np.median(list(odds.values()))), 3)
        options["null_score_diff_threshold"] = threshold
        flags |= {"null_score_diff_threshold": threshold, "do_export": True}
        scripts.run(run_squad, **flags)
    answers = squad_runs.read(model / "predictions.json")
    nbest = squad_runs.read(model / "nbest_predictions.json")
    (article,) = squad_runs.read(tmp_path / f"dev{version}.json")["data"]
    lines = [
        {"id": qa["id"], "question": qa["question"], "context": p["context"]}
        for p in article["paragraphs"]
        for qa in p["qas"]
    ]
    file = write_lines(tmp_path / "in.jsonl", lines)
    found = predict(model, file, tmp_path / "1", num_answers=20, **options)
    assert {row["id"]: row["answer"] for row in found} == answers
    assert len(set(answers.values())) > 5
    for row, line in zip(found, lines, strict=True):
        listed = nbest[row["id"]][:20]
        assert [c["text"] for c in row["nbest"]] == [c["text"] for c in listed]
        np.testing.assert_allclose(
            [c["probability"] for c in row["nbest"]],
            [c["probability"] for c in listed],
            atol=1e-5,
        )
        for entry in row["nbest"]:
            if entry["text"]:
                part = line["context"][entry["start"] : entry["end"]]
                assert " ".join(part.split()) == entry["text"]
            else:
                assert entry["start"] is entry["end"] is None
    if version == "2":
        for row in found:
            assert row["null_odds"] == pytest.approx(odds[row["id"]], abs=2e-5)
        assert 15 < list(answers.values()).count("") < 25
        saved = model / "saved_model" / "1"
        check_same(predict(saved, file, tmp_path / "2", num_answers=20), found)
    # Records have the windows of the questions, with unique_ids.
    records = model / "eval.tf_record"
    spans = predict(model, records, tmp_path / "3", **options)
    assert [row["id"] for row in spans[:2]] == [10**9, 10**9 + 1]
    assert len(spans) > len(lines)
    assert set(spans[0]) == {
        *("id", "pieces", "start_position", "end_position"),
        *("score", "null_score"),
    }


# --- Entities ----------------------------------------------------------------


@pytest.mark.slow
def test_tags_are_those_of_run_ner(tmp_path):
    model = fitted_models.write_tagger(
        tmp_path / "model", ner_runs.CONFIG, ner_runs.VOCAB, ner_runs.LABELS
    )
    ner_runs.write_data(tmp_path)
    flags = ner_runs.flags_for(model, tmp_path, model, **ONLY_PREDICT)
    scripts.run(run_ner, **flags | {"do_export": True})
    wanted = [
        [line.split() for line in part.splitlines()]
        for part in (model / "predictions.txt").read_text().split("\n\n")
        if part.strip() and "DOCSTART" not in part
    ]
    lines = [{"tokens": [row[0] for row in rows]} for rows in wanted]
    file = write_lines(tmp_path / "in.jsonl", lines)
    found = predict(model, file, tmp_path / "1")
    assert [r["tags"] for r in found] == [[w[-1] for w in ws] for ws in wanted]
    assert any(len(line["tokens"]) > 32 for line in lines)  # several windows
    # The same words as texts: entities with characters.
    texts = [{"id": "x", "text": " ".join(x["tokens"])} for x in lines]
    file_2 = write_lines(tmp_path / "texts.jsonl", texts)
    as_text = predict(model, file_2, tmp_path / "2")
    for row, other, text in zip(as_text, found, texts, strict=True):
        assert [e["text"] for e in row["entities"]] == [
            e["text"] for e in other["entities"]
        ]
        for entity in row["entities"]:
            part = text["text"][entity["start"] : entity["end"]]
            assert part == entity["text"]
    assert sum(len(row["entities"]) for row in found) > 20
    saved = model / "saved_model" / "1"
    check_same(predict(saved, file, tmp_path / "3"), found)
    records = predict(model, model / "predict.tf_record", tmp_path / "4")
    by_record = [tag for row in records for tag in row["tags"]]
    by_word = [tag for row in found for tag in row["tags"]]
    # A record may begin inside of a sentence, where I- becomes B-.
    assert [t[2:] for t in by_record] == [t[2:] for t in by_word]


# --- Choices -----------------------------------------------------------------


def test_choices_are_those_of_run_swag(ids_only, tmp_path):
    """Questions with other numbers of choices are answered beside them."""
    model = fitted_models.write_chooser(
        tmp_path / "model", swag_runs.CONFIG, swag_runs.VOCAB
    )
    swag_runs.write_data(tmp_path)
    flags = swag_runs.flags_for(model, tmp_path, model, **ONLY_PREDICT)
    scripts.run(run_swag, **flags)
    rows = (model / "test_results.tsv").read_text().splitlines()
    lines = [
        {"context": context, "start": "he", "choices": endings}
        for context, endings, _ in swag_runs.questions(21, 3)
    ]
    two = {**lines[0], "choices": lines[0]["choices"][:2]}
    file = write_lines(tmp_path / "in.jsonl", [*lines[:5], two, *lines[5:]])
    found = predict(model, file, tmp_path / "1")
    assert len(found.pop(5)["probabilities"]) == 2
    shares = [row["probabilities"] for row in found]
    wanted = [list(map(float, row.split("\t"))) for row in rows]
    np.testing.assert_allclose(shares, wanted, atol=1e-5)
    assert [row["answer"] for row in found] == np.argmax(wanted, -1).tolist()
    saved = export(model, tmp_path / "saved", max_seq_length=32)
    found_2 = predict(saved, file, tmp_path / "2")
    assert len(found_2.pop(5)["probabilities"]) == 2
    check_same(found_2, found)


# --- Vectors and masks -------------------------------------------------------


def test_vectors_are_those_of_extract_features(classifier, tmp_path):
    """Those of a fine-tuned model too, with --task=encoder."""
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(sentences_of(classifier)))
    features = tmp_path / "features.npz"
    scripts.run(
        extract_features,
        input_file=str(path),
        output_file=str(features),
        output_format="npz",
        init_checkpoint=str(classifier / "model"),
        layers="-1",
        pooling="mean",
        max_seq_length=24,
    )
    found = predict(
        classifier / "model",
        path,
        tmp_path / "1",
        task="encoder",
        vectors="mean_output",
    )
    np.testing.assert_allclose(
        [row["mean_output"] for row in found],
        np.load(features)["features"][:, 0],
        atol=1e-5,
    )


def test_masks_are_filled_as_by_fill_mask(ids_only, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    mask_models.write_model(folder)
    texts = ["the [MASK] sat .", "[MASK] cats on [MASK] mat", "a [MASK]"]
    path = tmp_path / "lines.txt"
    path.write_text("\n".join([texts[0], "no mask here", *texts[1:]]))
    found = predict(folder, path, tmp_path / "1", top_k=3)
    model, tokenizer = filling.load_model(lookup.find_checkpoint(str(folder)))
    encoded = filling.encode_sentences(texts, tokenizer, 12)
    wanted = filling.fill_masks(model, tokenizer, encoded, 3)
    for row, masks in zip(found, wanted, strict=True):
        assert row["tokens"] == [[f.token for f in mask] for mask in masks]
        scores = [[f.probability for f in mask] for mask in masks]
        np.testing.assert_allclose(row["scores"], scores, atol=1e-5)
    (problem,) = problems(tmp_path / "1")
    assert problem["line"] == 2 and "no [MASK]" in problem["reason"]
    saved = export(folder, tmp_path / "saved", top_k=3)
    check_same(predict(saved, path, tmp_path / "2"), found)


# --- Files -------------------------------------------------------------------


def test_compressed_files_and_several_files_keep_their_order(
    classifier, tmp_path
):
    texts = sentences_of(classifier)
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("\n".join(texts[:10]) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(texts[10:]) + "\n")
    (tmp_path / "all.txt").write_text("\n".join(texts) + "\n")
    model = classifier / "model"
    inputs = f"{tmp_path}/a.txt.gz,{tmp_path}/b.txt"
    found = predict(model, inputs, tmp_path / "1", num_shards=4)
    wanted = predict(model, tmp_path / "all.txt", tmp_path / "2")
    assert [row.pop("id") for row in found] == [
        *(f"{tmp_path}/a.txt.gz:{n}" for n in range(1, 11)),
        *(f"{tmp_path}/b.txt:{n}" for n in range(1, 12)),
    ]
    for row in wanted:
        del row["id"]
    check_same(found, wanted)


# --- Inputs that cannot be predicted -----------------------------------------

BAD = [
    '{"id": 1, "text": "good film"}',
    '{"id": 2, "text": "good film"',  # not JSON
    '{"id": 3, "texts": "good film"}',  # another field
    '{"id": 4, "text": 7}',
    '{"id": 5, "text": " "}',
    "[1, 2]",
    '{"id": true, "text": "good"}',
    '{"id": 7, "text": "\\ud800"}',  # half a character
    '{"id": 1, "text": "a book"}',  # the id of the first line
    "",
    '{"text": "the film"}',
]


def write_bad(path: Path) -> Path:
    """Write BAD and a line that is not UTF-8."""
    path.write_bytes("\n".join(BAD).encode() + b'\n{"text": "\xff"}\n')
    return path


def test_bad_lines_are_named_and_the_others_predicted(
    classifier, tmp_path, caplog
):
    file = write_bad(tmp_path / "in.jsonl")
    found = predict(classifier / "model", file, tmp_path / "1", num_shards=2)
    assert [row["id"] for row in found] == [1, 1, f"{file}:11"]
    reasons = {
        2: "not JSON: Expecting ',' delimiter",
        3: "no field 'text'; it has 'id', 'texts' (--text_columns)",
        4: "field 'text' is int, wanted a string",
        5: "text is empty",
        6: "JSON list, wanted an object",
        7: "field 'id' is bool, wanted a string",
        8: "field 'text' has a lone surrogate",
        12: "not UTF-8 (byte 0xff)",
    }
    rows = problems(tmp_path / "1")
    assert {row["line"]: row["reason"] for row in rows} == reasons
    assert {row["file"] for row in rows} == {str(file)}
    assert [row["text"] for row in rows[:2]] == BAD[1:3]
    assert "8 of 11 inputs have no prediction" in caplog.text
    assert "1 inputs have an id that an earlier input has too" in caplog.text
    assert "Blank lines = 1" in caplog.text


def test_records_with_other_features_are_named(classifier, tmp_path):
    """Every kind of damage in a file whose first record is right."""
    good = {
        "input_ids": [2, 5, 3, 0],
        "input_mask": [1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0],
        "unique_ids": [77],
    }
    wrong = [
        ({"input_mask": [1, 0, 1, 0]}, "input_mask is not ones followed by"),
        ({"input_ids": [2, 99, 3, 0]}, "input_ids has 99; there are 14 tokens"),
        ({"segment_ids": [0, 2, 0, 0]}, "segment_ids has 2; there are 2"),
        ({"segment_ids": [0, 0]}, "4 input_ids, 4 input_mask, 2 segment_ids"),
        ({"segment_ids": None}, "no feature 'segment_ids'; it has input_ids"),
    ]
    path = tmp_path / "in.tf_record"
    with path.open("wb") as file, tfrecord.RecordWriter(file) as writer:
        for change in ({}, *(change for change, _ in wrong)):
            features = {k: v for k, v in (good | change).items() if v}
            writer.write_examples(
                {k: np.array([v]) for k, v in features.items()}
            )
    (found,) = predict(classifier / "model", path, tmp_path / "1")
    assert found["id"] == 77
    rows = problems(tmp_path / "1")
    assert [row["record"] for row in rows] == [2, 3, 4, 5, 6]
    for row, (_, words) in zip(rows, wrong, strict=True):
        assert words in row["reason"]


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"model": None}, "--model is required"),
        ({"input_file": None}, "--input_file is required"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"model": "/proc/nowhere"}, "--model=/proc/nowhere: no such checkp"),
        ({"output_dir": "/proc/nowhere/x"}, "--output_dir=/proc/nowhere/x can"),
        ({"input_file": "/proc/nowhere"}, "no file matches '/proc/nowhere'"),
        ({"task": "question_answering"}, "has no head for it: it can do class"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"text_columns": "a,b"}, "--text_columns=a,b: the model reads 1 (te"),
        ({"text_columns": "sentence"}, "line 1 cannot be predicted: no field"),
        ({"id_column": "key"}, "no field 'key' (--id_column)"),
        ({"beam_options": "--x"}, "--beam_options needs --runner=beam"),
        ({"vocab_file": "/proc/nowhere"}, "/proc/nowhere"),
        ({"input_format": "tfrecord"}, "begins like jsonl"),
    ],
    ids=str,
)
def test_errors_name_the_flag_or_the_file(classifier, tmp_path, flags, words):
    file = write_lines(tmp_path / "in.jsonl", [{"text": "good film"}] * 3)
    given = {
        "model": str(classifier / "model"),
        "input_file": str(file),
        "output_dir": str(tmp_path / "out"),
    }
    line = scripts.error_of(batch_predict, **(given | flags))
    assert words in line, line
    assert not (tmp_path / "out").exists() or not any(
        (tmp_path / "out").iterdir()
    )


def test_files_of_two_kinds_and_empty_ones_are_refused(classifier, tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "good"}])
    (tmp_path / "b.txt").write_text("good\n")
    (tmp_path / "c.txt").write_text("")
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"\n"))
    given = {
        "model": str(classifier / "model"),
        "output_dir": str(tmp_path / "out"),
    }
    for names, words in (
        ("a.jsonl,b.txt", "a.jsonl looks like jsonl"),
        ("c.txt", "all 1 files are empty"),
        ("d.txt.gz", "the inputs hold no text and no record"),
    ):
        files = ",".join(f"{tmp_path}/{name}" for name in names.split(","))
        line = scripts.error_of(batch_predict, input_file=files, **given)
        assert words in line, line


def test_models_without_what_prediction_needs_are_refused(
    classifier, ids_only, tmp_path
):
    path = tmp_path / "in.txt"
    path.write_text("good film\n")
    given = {"input_file": str(path), "output_dir": str(tmp_path / "out")}

    def error_of(model: Path, **flags) -> str:
        return scripts.error_of(
            batch_predict, model=str(model), **given, **flags
        )

    model = tmp_path / "model"
    shutil.copytree(classifier / "model", model)
    (model / "vocab.txt").unlink()
    assert "no vocab.txt beside" in error_of(model)
    saved = export(classifier / "model", tmp_path / "saved")
    assert "the SavedModel" in error_of(saved, max_seq_length=8)
    assert "was exported with --task=classifier" in error_of(
        saved, task="encoder"
    )
    place = saved / saved_model.DESCRIPTION
    place.write_text('{"task": "poetry"}')
    assert "task is 'poetry', wanted one of classifier" in error_of(saved)
    place.unlink()
    assert "export it again" in error_of(saved)


def test_a_job_without_any_prediction_is_an_error(classifier, tmp_path):
    """The first inputs are blank, so the mistake is found at the end only."""
    path = tmp_path / "in.txt"
    path.write_text("\n" * 3 + "two\tcolumns\n")
    line = scripts.error_of(
        batch_predict,
        model=str(classifier / "model"),
        input_file=str(path),
        output_dir=str(tmp_path / "out"),
    )
    assert "line 4 cannot be predicted: 2 columns, wanted 1 (text)" in line


# --- Interruptions, and Beam -------------------------------------------------


def long_input(folder: Path) -> Path:
    """Write bad and good lines for several shards and windows."""
    lines = [
        json.dumps({"id": n, "text": text})
        for n, (text, _) in enumerate(classifier_runs.sentences(400, 5))
    ]
    lines[100:100] = BAD
    path = folder / "in.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def bytes_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    classifier, tmp_path
):
    file = long_input(tmp_path)
    model, out = classifier / "model", tmp_path / "out"
    options = {"num_shards": 40, "batch_size": 1}
    predict(model, file, tmp_path / "whole", **options)
    command = [
        *(sys.executable, "batch_predict.py"),
        *(f"--model={model}", f"--input_file={file}", f"--output_dir={out}"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    while not list(out.glob(".predictions-0000[3-9]*counts.json")):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    done = {path.name: path.stat().st_mtime_ns for path in out.glob("pred*")}
    assert 3 < len(done) < 40
    predict(model, file, out, **options)
    assert bytes_of(out) == bytes_of(tmp_path / "whole")
    for name, changed in done.items():
        assert (out / name).stat().st_mtime_ns == changed, name


def test_beam_writes_the_same_lines(classifier, tmp_path):
    pytest.importorskip("apache_beam")
    write_bad(tmp_path / "bad.jsonl")
    files = f"{long_input(tmp_path)},{tmp_path}/bad.jsonl"
    model = classifier / "model"
    options = {"num_shards": 3}
    predict(model, files, tmp_path / "local", **options)
    wanted = bytes_of(tmp_path / "local")
    assert wanted["errors.jsonl"].count(b"\n") == 15
    options |= {
        "runner": "beam",
        "beam_options": "--runner=BundleBasedDirectRunner",
    }
    out = tmp_path / "beam"
    predict(model, files, out, **options)
    assert bytes_of(out) == wanted
    # Shards that are there are not made again.
    (out / "predictions-00001-of-00003.jsonl").unlink()
    before = (out / "predictions-00002-of-00003.jsonl").stat().st_mtime_ns
    predict(model, files, out, **options)
    assert bytes_of(out) == wanted
    after = (out / "predictions-00002-of-00003.jsonl").stat().st_mtime_ns
    assert after == before
