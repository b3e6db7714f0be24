"""Tiny models of every kind, as tools.playground shows them."""

import functools
from collections.abc import Callable
from pathlib import Path

import litert_files

from checkpoints.checkpoint import open_checkpoint
from tasks import loading
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


def load(path: str, task: str | None = None, **options) -> PageModel:
    """Return the model of a checkpoint."""
    settings = loading.describe(open_checkpoint(path), task, options)
    return PageModel(Path(path).name, settings)
