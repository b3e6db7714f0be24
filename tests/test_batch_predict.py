"""batch_predict.py as a user runs it; tests/test_tasks_contract.py too."""

import gzip
from pathlib import Path

import classifier_runs
import fine_tuned_models
import mask_models
import ner_runs
import numpy as np
import pytest
import scripts
import squad_runs
import swag_runs
from prediction_runs import (
    check_same,
    export,
    predict,
    problems,
    write_classifier,
    write_lines,
)

from checkpoints import weight_files
from checkpoints.checkpoint import open_checkpoint
from pretraining.model import BertForPreTraining
from tasks import saved_model

pytest.importorskip("tensorflow_text")
run_classifier = scripts.load("run_classifier")
run_squad = scripts.load("run_squad")
run_ner = scripts.load("run_ner")
run_swag = scripts.load("run_swag")
extract_features = scripts.load("extract_features")

ONLY_PREDICT = {"do_train": False, "do_eval": False, "do_predict": True}


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
    return write_classifier(tmp_path_factory.mktemp("classifier"))


def sentences_of(folder: Path) -> list[str]:
    return (folder / "test.tsv").read_text().splitlines()[1:]


def test_lines_of_text_are_those_of_json(classifier, tmp_path):
    """In shards; the field of the text is named; cut texts say so."""
    texts = sentences_of(classifier)
    lines = [{"id": n, "sentence": text} for n, text in enumerate(texts)]
    file = write_lines(tmp_path / "in.jsonl", lines)
    model = classifier / "model"
    found = predict(model, file, tmp_path / "1", text_columns="sentence")
    assert [row.pop("id") for row in found] == list(range(21))
    is_long = [len(text.split()) + 2 > 24 for text in texts]
    assert [row.get("truncated", False) for row in found] == is_long
    assert 0 < sum(is_long) < 21
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(texts))
    again = predict(model, path, tmp_path / "2", num_shards=3)
    assert [row.pop("id") for row in again] == [
        f"{path}:{number}" for number in range(1, 22)
    ]
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


def test_products_in_16_bits(classifier, tmp_path, caplog):
    """Of a model and its scores: near those of float32, and not the same."""
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(sentences_of(classifier)))
    exact = predict(classifier / "model", path, tmp_path / "1")
    for dtype in ("bfloat16", "float16"):
        out = tmp_path / dtype
        found = predict(classifier / "model", path, out, dtype=dtype)
        assert f"Matrix products = {dtype}" in caplog.text
        scores = [[row["score"] for row in rows] for rows in (found, exact)]
        np.testing.assert_allclose(*scores, atol=0.02)
        assert scores[0] != scores[1]
    # auto is one of the types, and logs the reason.
    predict(classifier / "model", path, tmp_path / "2", dtype="auto")
    assert "--dtype=auto: " in caplog.text


def test_tabs_separate_the_texts_of_a_pair(tmp_path):
    model = fine_tuned_models.write_classifier(
        tmp_path / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        None,
        is_pair=True,
    )
    (tmp_path / "in.tsv").write_text("good film\ta book\na\tthe\n")
    lines = [
        {"text_a": "good film", "text_b": "a book"},
        {"text_a": "a", "text_b": "the"},
    ]
    wanted = predict(
        model, write_lines(tmp_path / "in.jsonl", lines), tmp_path / "1"
    )
    found = predict(model, tmp_path / "in.tsv", tmp_path / "2")
    assert [row["value"] for row in found] == [row["value"] for row in wanted]
    assert found[0]["value"] != pytest.approx(found[1]["value"], abs=1e-3)


# --- Several rows to an input ------------------------------------------------


def test_answers_have_their_characters_and_records_their_windows(tmp_path):
    model = fine_tuned_models.write_reader(
        tmp_path / "reader", squad_runs.CONFIG, squad_runs.VOCAB
    )
    squad_runs.write_data(tmp_path)
    flags = squad_runs.flags_for(tmp_path, model, **ONLY_PREDICT)
    scripts.run(run_squad, **flags | {"init_checkpoint": None})
    options = {"doc_stride": 12, "max_query_length": 8, "max_answer_length": 4}
    (article,) = squad_runs.read(tmp_path / "dev1.json")["data"]
    lines = [
        {"id": qa["id"], "question": qa["question"], "context": p["context"]}
        for p in article["paragraphs"]
        for qa in p["qas"]
    ]
    file = write_lines(tmp_path / "in.jsonl", lines)
    found = predict(model, file, tmp_path / "1", num_answers=20, **options)
    assert len({row["answer"] for row in found}) > 5
    for row, line in zip(found, lines, strict=True):
        for entry in row["nbest"]:
            if entry["text"]:
                part = line["context"][entry["start"] : entry["end"]]
                assert " ".join(part.split()) == entry["text"]
            else:
                assert entry["start"] is entry["end"] is None
    records = model / "eval.tf_record"
    spans = predict(model, records, tmp_path / "2", **options)
    assert [row["id"] for row in spans[:2]] == [10**9, 10**9 + 1]
    assert len(spans) > len(lines)
    assert set(spans[0]) == {
        *("id", "pieces", "start_position", "end_position"),
        *("score", "null_score"),
    }


def test_entities_have_their_characters_and_records_their_tags(tmp_path):
    model = fine_tuned_models.write_tagger(
        tmp_path / "model", ner_runs.CONFIG, ner_runs.VOCAB, ner_runs.LABELS
    )
    ner_runs.write_data(tmp_path)
    scripts.run(
        run_ner, **ner_runs.flags_for(model, tmp_path, model, **ONLY_PREDICT)
    )
    sentences = ner_runs.sentences(21, 3)
    lines = [{"tokens": [word for word, _ in words]} for words in sentences]
    file = write_lines(tmp_path / "in.jsonl", lines)
    found = predict(model, file, tmp_path / "1")
    assert any(len(line["tokens"]) > 32 for line in lines)  # several windows
    texts = [{"text": " ".join(x["tokens"])} for x in lines]
    file = write_lines(tmp_path / "texts.jsonl", texts)
    as_text = predict(model, file, tmp_path / "2")
    for row, other, text in zip(as_text, found, texts, strict=True):
        assert [e["text"] for e in row["entities"]] == [
            e["text"] for e in other["entities"]
        ]
        for entity in row["entities"]:
            part = text["text"][entity["start"] : entity["end"]]
            assert part == entity["text"]
    assert sum(len(row["entities"]) for row in found) > 20
    records = predict(model, model / "predict.tf_record", tmp_path / "4")
    by_record = [tag for row in records for tag in row["tags"]]
    by_word = [tag for row in found for tag in row["tags"]]
    # A record may begin inside of a sentence, where I- becomes B-.
    assert [t[2:] for t in by_record] == [t[2:] for t in by_word]


def test_questions_with_other_numbers_of_choices(tmp_path):
    """Each is answered beside the others; `start` begins every choice."""
    model = fine_tuned_models.write_chooser(
        tmp_path / "model", swag_runs.CONFIG, swag_runs.VOCAB
    )
    lines = [
        {"context": context, "start": "he", "choices": endings}
        for context, endings, _ in swag_runs.questions(9, 3)
    ]
    two = {**lines[0], "choices": lines[0]["choices"][:2]}
    file = write_lines(tmp_path / "in.jsonl", [*lines[:5], two, *lines[5:]])
    found = predict(model, file, tmp_path / "1")
    shares = found.pop(5)["probabilities"]
    first = found[0]["probabilities"]
    assert shares[0] / shares[1] == pytest.approx(first[0] / first[1], rel=1e-4)
    wanted = predict(
        model, write_lines(tmp_path / "same.jsonl", lines), tmp_path / "2"
    )
    for row in [*found, *wanted]:
        del row["id"]
    check_same(found, wanted)


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


@pytest.mark.slow
def test_masks_are_filled_with_the_likeliest_tokens(ids_only, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    mask_models.write_model(folder)
    texts = ["the [MASK] sat .", "[MASK] cats on [MASK] mat", "a [MASK]"]
    path = tmp_path / "lines.txt"
    path.write_text("\n".join([texts[0], "no mask here", *texts[1:]]))
    found = predict(folder, path, tmp_path / "1", top_k=3)
    checkpoint = open_checkpoint(str(folder))
    model = BertForPreTraining(checkpoint.config)
    weight_files.restore_weights(model.variables, checkpoint.prefix)
    for row, text in zip(found, texts, strict=True):
        masks = mask_models.fillings(model, checkpoint.tokenizer, text, 3)
        assert row["tokens"] == [tokens for tokens, _ in masks]
        scores = [scores for _, scores in masks]
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
