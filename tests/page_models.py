"""Tiny models of every kind, as playground.py shows them."""

import functools
from collections.abc import Callable
from pathlib import Path

import litert_files

from tools.page import models as page_models
from tools.page import predictions, views
from tools.page.models import PageModel

# Kind of litert_files.TEXTS -> the fields of Settings that it needs.
OPTIONS = {
    "question_answering": {"doc_stride": 8, "max_query_length": 6},
    "masked_lm": {"top_k": 3},
    "embeddings": {"max_seq_length": 9},
    "sentence_score": {"task": "sentence_score", "score_whole_words": True},
}


def made_once(folder: Path) -> Callable[[str], PageModel]:
    """Return a function of a kind -> its model, made when first asked for."""

    @functools.cache
    def get(kind: str) -> PageModel:
        path = litert_files.write_model(folder / kind, kind)
        return load(str(path), **OPTIONS.get(kind, {}))

    return get


def load(path: str, **options) -> PageModel:
    """Return the model of a checkpoint."""
    options |= {"num_answers": views.NUM_ANSWERS, "token_scores": True}
    task = options.pop("task", None)
    return page_models.load_models([path], task, None, None, None, options)[0]


def predict(model: PageModel, **texts) -> dict:
    """Return the prediction that a tab shows."""
    return predictions.predict(model, **texts)
