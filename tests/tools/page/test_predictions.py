"""The page predicts what batch_predict.py writes."""

from base.errors import UserError

import litert_files
import page_models
import prediction_runs
import pytest

from tools.page.predictions import predict


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pairs", "question_answering"])
def test_a_prediction_is_the_line_of_batch_predict(kind, model_of, tmp_path):
    model, texts = model_of(kind), litert_files.TEXTS[kind]
    lines = prediction_runs.predict(
        model.settings.path,
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
