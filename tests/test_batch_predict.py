"""batch_predict.py as a user runs it: every task gives its script's numbers."""

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
from tasks.bilstm import NO_BILSTM, BiLstmSize

pytest.importorskip("tensorflow_text")
run_classifier = scripts.load("run_classifier")
run_squad = scripts.load("run_squad")
run_ner = scripts.load("run_ner")
run_swag = scripts.load("run_swag")
extract_features = scripts.load("extract_features")

# Of some of the models; the others have none.
BILSTM = BiLstmSize(bilstm_layers=2, bilstm_units=6)

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


@pytest.mark.slow
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


def test_pairs_and_regression(tmp_path):
    """Tabs separate pairs; a pair differs from its two texts as one."""
    model = fine_tuned_models.write_classifier(
        tmp_path / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        None,
        is_pair=True,
        bilstm_size=BILSTM,
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
    model = fine_tuned_models.write_reader(
        tmp_path / "reader",
        squad_runs.CONFIG,
        squad_runs.VOCAB,
        is_version_2=version == "2",
        bilstm_size=BILSTM if version == "2" else NO_BILSTM,
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
    check_nbest(found, lines, nbest)
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


def check_nbest(found: list[dict], lines: list[dict], nbest: dict) -> None:
    """Check n-best lists, and that their characters are in the context."""
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


# --- Entities ----------------------------------------------------------------


@pytest.mark.slow
def test_tags_are_those_of_run_ner(tmp_path):
    model = fine_tuned_models.write_tagger(
        tmp_path / "model",
        ner_runs.CONFIG,
        ner_runs.VOCAB,
        ner_runs.LABELS,
        BILSTM,
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


@pytest.mark.slow
def test_choices_are_those_of_run_swag(ids_only, tmp_path):
    """Questions with other numbers of choices are answered beside them."""
    model = fine_tuned_models.write_chooser(
        tmp_path / "model", swag_runs.CONFIG, swag_runs.VOCAB, BILSTM
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
