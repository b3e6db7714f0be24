"""Predictions are those of batch_predict.py; rows are what is read."""

from base.errors import UserError

import fine_tuned_models
import litert_files
import numpy as np
import page_models
import prediction_runs
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import weight_files
from tools.page import models

WORDS = st.lists(st.sampled_from("good bad film nofilm the. <x>".split()))


def test_the_encoder_of_a_classifier_is_that_of_its_head(tmp_path):
    """A weight that changes changes both."""
    model = page_models.made_once(tmp_path)("classifier")
    row = model.row("good film")
    batch = models.features_of(row)
    before = model.run(batch)["probabilities"]
    vectors = model.run_vectors(batch)["mean_output"]
    table = model.model.bert.embeddings.word_embeddings
    table.assign(table + np.random.default_rng(1).normal(size=table.shape))
    assert np.abs(model.run(batch)["probabilities"] - before).max() > 1e-3
    change = model.run_vectors(batch)["mean_output"] - vectors
    assert np.abs(change).max() > 1e-3


@pytest.mark.parametrize("reason", ["objective", "weights"])
def test_a_head_that_was_not_trained_has_no_tab(tmp_path, reason):
    """After --objective=mlm, and in checkpoints of a masked LM alone."""
    path = litert_files.write_model(tmp_path / "lm", "masked_lm")
    assert page_models.load(str(path)).heads == ("masked_lm", "next_sentence")
    if reason == "objective":
        fine_tuned_models.change(path, objective="mlm")
    else:
        prefix = str(path / "bert_model.ckpt")
        kept = {
            name: value
            for name, value in tiny.weights_of(prefix).items()
            if "seq_relationship" not in name and "pooler" not in name
        }
        weight_files.write(prefix, kept)
    assert page_models.load(str(path)).heads == ("masked_lm",)


def test_the_summary_names_sizes(model_of):
    summary = model_of("encoder").summary()
    assert "encoder, 1 layer of 16 units, 2 heads, 14 word" in summary


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pairs", "question_answering"])
def test_a_prediction_is_the_line_of_batch_predict(kind, model_of, tmp_path):
    model, texts = model_of(kind), litert_files.TEXTS[kind]
    lines = prediction_runs.predict(
        model.settings.checkpoint.prefix,
        litert_files.write_texts(tmp_path / "in.jsonl", kind),
        tmp_path / "out",
        num_answers=5 if kind == "question_answering" else None,
        batch_size=1,
        **page_models.OPTIONS.get(kind, {}),
    )
    found = [{"id": n} | model.predict(**t) for n, t in enumerate(texts)]
    prediction_runs.check_same(found, lines)
    assert any("truncated" in line for line in lines) == (kind == "pairs")


@pytest.mark.parametrize(
    ("kind", "texts", "message"),
    [
        ("classifier", {"text": " "}, "text is empty"),
        ("classifier", {"text": "\ud800"}, "lone surrogate"),
        ("masked_lm", {"text": "no mask"}, r"no \[MASK\]"),
        ("masked_lm", {"text": "[MASK] " * 11}, "13 tokens, more than"),
        ("question_answering", {"question": "", "context": "a"}, "question"),
        ("question_answering", {"question": "a", "context": "\x07"}, "token"),
        ("multiple_choice", {"context": "a", "choices": ["b"]}, "1 choices"),
        ("token_classification", {"text": "\x07"}, "no word"),
    ],
)
def test_an_input_without_prediction_has_a_reason(
    model_of, kind, texts, message
):
    with pytest.raises(UserError, match=message) as found:
        model_of(kind).predict(**texts)
    assert "\n" not in str(found.value)


@given(WORDS.map(" ".join), WORDS.map(" ".join))
def test_a_row_is_that_of_the_scripts(model_of, text_a, text_b):
    """Also where texts are cut: the row of tasks/rows.py."""
    model = model_of("pairs")
    if not text_a:
        return
    row, wanted = model.row(text_a, text_b), model.task.row(text_a, text_b)
    assert row.input_ids.tolist() == wanted.input_ids.tolist()
    assert row.segment_ids.tolist() == wanted.segment_ids.tolist()
    assert row.left_out == wanted.left_out


def test_a_mask_is_one_token_of_a_masked_lm(model_of):
    found = []
    for kind in ("masked_lm", "classifier"):
        model = model_of(kind)
        row = model.row("a [MASK]")
        found.append(model.tokens(row))
    assert found[0] == ["[CLS]", "a", "[MASK]", "[SEP]"]
    assert found[1] == ["[CLS]", "a", *["[UNK]"] * 3, "[SEP]"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_text(model_of, text):
    with pytest.raises(UserError, match="empty"):
        model_of("classifier").row(text)
