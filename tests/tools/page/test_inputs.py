"""Predictions are those of batch_predict.py; word pieces are what is read."""

from base.errors import UserError

import litert_files
import page_models
import prediction_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.page import inputs
from tools.page.inputs import predict

WORDS = st.lists(st.sampled_from("good bad film nofilm the. <x>".split()))


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
    found = [{"id": n} | predict(model, **t) for n, t in enumerate(texts)]
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
        predict(model_of(kind), **texts)
    assert "\n" not in str(found.value)


@given(WORDS.map(" ".join), WORDS.map(" ".join))
def test_a_row_is_that_of_the_scripts(model_of, text_a, text_b):
    """Also where texts are cut: the row of tasks/rows.py."""
    model = model_of("pairs")
    if not text_a:
        return
    pieces = inputs.pieces_of(model, text_a, text_b)
    wanted, left_out = model.task.row(text_a, text_b)
    features = inputs.features_of(pieces)
    assert features["input_ids"].tolist() == [wanted.input_ids.tolist()]
    assert features["segment_ids"].tolist() == [wanted.segment_ids.tolist()]
    kinds = [piece.kind for piece in pieces]
    assert (inputs.NOT_READ in kinds) == (left_out > 0)


def test_pieces_by_hand(model_of):
    pieces = inputs.pieces_of(model_of("pairs"), "good x", "bad")
    assert [piece.token for piece in pieces] == [
        *("[CLS]", "good", "[UNK]", "[SEP]", "bad", "[SEP]")
    ]
    first, second, _ = inputs.KINDS
    assert [piece.kind for piece in pieces] == [first] * 4 + [second] * 2


def test_what_a_row_of_24_has_no_place_for(model_of):
    """21 places for two texts of 20 and 4 pieces: 17 and 4."""
    pieces = inputs.pieces_of(model_of("pairs"), "good " * 20, "bad " * 4)
    kinds = [piece.kind for piece in pieces]
    places = [at for at, kind in enumerate(kinds) if kind == inputs.NOT_READ]
    assert places == [18, 19, 20]
    assert inputs.features_of(pieces)["input_ids"].shape == (1, 24)


def test_a_mask_is_one_token_of_a_masked_lm(model_of):
    found = [
        [piece.token for piece in inputs.pieces_of(model_of(kind), "a [MASK]")]
        for kind in ("masked_lm", "classifier")
    ]
    assert found[0] == ["[CLS]", "a", "[MASK]", "[SEP]"]
    assert found[1] == ["[CLS]", "a", *["[UNK]"] * 3, "[SEP]"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_text(model_of, text):
    with pytest.raises(UserError, match="empty"):
        inputs.pieces_of(model_of("classifier"), text)
