"""Requests that are cancelled, or too slow, end at their next batch."""

import threading

from base.errors import UserError

import pytest

from tools.page import limits, views


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "view", "texts"),
    [
        ("question_answering", views.answers, ["How?", "a film " * 100]),
        ("classifier", views.reasons, ["good film"]),
    ],
)
@pytest.mark.parametrize("is_cancelled", [True, False])
def test_work_ends(model_of, monkeypatch, kind, view, texts, is_cancelled):
    # Other tests have no request in this thread.
    monkeypatch.setattr(limits, "_thread", threading.local())
    assert any(view(model_of(kind), *texts))
    monkeypatch.setattr(limits, "MAX_SECONDS", 60 if is_cancelled else -1)
    limits.start("session")
    if is_cancelled:
        limits.cancel("session")
    with pytest.raises(UserError, match="stopped: it was cancelled, or took"):
        view(model_of(kind), *texts)
    monkeypatch.setattr(limits, "MAX_SECONDS", 60)
    limits.start("session")
    assert any(view(model_of(kind), *texts))  # the next request is another one
