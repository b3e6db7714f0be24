"""run_ner.py as a user runs it, on sentences a tiny model can learn."""

import json
from pathlib import Path

import fine_tuned_models
import pytest
import scripts
import tensorflow as tf
import tiny
from ner_runs import CONFIG, VOCAB, flags_for, only, write_data

run_ner = scripts.load("run_ner")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    """An encoder with weights, vocabulary and configuration beside them."""
    return tiny.write_model(tmp_path_factory.mktemp("model"), CONFIG, VOCAB)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(model_dir, data_dir, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    flags = flags_for(model_dir, data_dir, out, do_predict=True)
    flags["gradient_accumulation_steps"] = 2  # of batches of any length
    assert scripts.run(run_ner, **flags) == 0
    return out


@pytest.mark.nightly
def test_words_without_tags_get_the_same_tags(finished, data_dir, tmp_path):
    """A fine-tuned model needs neither training nor dev file."""
    assert tiny.results_of(finished, "test_results.txt")["f1"] > 0.9
    flags = flags_for(finished, data_dir, tmp_path, train_file=None)
    flags |= {"dev_file": None, "test_file": str(data_dir / "words.txt")}
    scripts.run(run_ner, **only(flags, do_predict=True))
    found = (tmp_path / "predictions.txt").read_text().splitlines()
    wanted = (finished / "predictions.txt").read_text().splitlines()[2:]
    assert [line.split() for line in found] == [
        line.split()[::2] for line in wanted
    ]
    assert not (tmp_path / "test_results.txt").exists()


@pytest.mark.nightly
def test_unknown_tags_are_reported_not_scored(
    finished, data_dir, tmp_path, caplog
):
    test = tmp_path / "test.txt"
    test.write_text("ann B-PER\n\nrome B-GPE\n")
    flags = flags_for(finished, data_dir, tmp_path, test_file=str(test))
    scripts.run(run_ner, **only(flags, do_predict=True))
    assert "test.txt, line 3: tag 'B-GPE': the training file" in caplog.text
    lines = (tmp_path / "predictions.txt").read_text().splitlines()
    assert lines == ["ann B-PER B-PER", "", "rome B-GPE B-LOC"]
    assert not (tmp_path / "test_results.txt").exists()
    flags = only(flags | {"dev_file": str(test)}, do_eval=True)
    line = scripts.error_of(run_ner, **flags)
    assert "line 3: tag 'B-GPE'" in line and "only LOC, PER" in line


@pytest.mark.nightly
def test_a_fine_tuned_models_context_and_length_hold(
    finished, data_dir, tmp_path, caplog
):
    """Another context is an error, another length a warning."""
    flags = only(flags_for(finished, data_dir, tmp_path), do_predict=True)
    line = scripts.error_of(run_ner, **flags, document_context=True)
    assert "--document_context=True" in line
    assert "max_seq_length" not in caplog.text
    flags |= {"max_seq_length": 16, "document_context": False}
    scripts.run(run_ner, **flags)
    assert "--max_seq_length=16" in caplog.text


@pytest.mark.nightly
def test_json_lines_with_documents(finished, data_dir, tmp_path, caplog):
    """The neighbours are in the window; the answer is the sentence's own."""
    test = tmp_path / "test.jsonl"
    rows = [
        {"tokens": ["ann", "saw", "rome"], "document": 1},
        {"tokens": ["oslo"] * 70, "document": 1},
        {"tokens": ["bob"], "document": 2},
    ]
    test.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = fine_tuned_models.changed(
        finished, tmp_path / "model", document_context=True
    )
    flags = flags_for(model, data_dir, tmp_path, test_file=str(test))
    del flags["max_seq_length"]
    scripts.run(run_ner, **only(flags, do_predict=True))
    text = (tmp_path / "predictions.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert [len(x["predicted_tags"]) for x in found] == [3, 70, 1]
    assert found[0]["predicted_tags"] == ["B-PER", "O", "B-LOC"]
    assert found[2]["predicted_tags"] == ["B-PER"]
    assert set(found[1]["predicted_tags"]) <= {"B-LOC", "I-LOC"}
    path = str(tmp_path / "predict.tf_record")
    lengths = [
        sum(
            tf.train.Example.FromString(x.numpy())
            .features.feature["input_mask"]
            .int64_list.value
        )
        for x in tf.data.TFRecordDataset(path)
    ]
    assert set(lengths[:-1]) == {32} and lengths[-1] == 3
