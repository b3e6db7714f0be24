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
@pytest.mark.parametrize("why", ["cancelled", "stopped after 0 seconds"])
def test_work_ends(model_of, monkeypatch, kind, view, texts, why):
    monkeypatch.setattr(limits, "MAX_SECONDS", 0)
    cancelled = threading.Event()
    if why == "cancelled":
        cancelled.set()
    with pytest.raises(UserError, match=why), limits.limited(cancelled):
        view(model_of(kind), *texts)
    assert view(model_of(kind), *texts)  # the next request is another one
