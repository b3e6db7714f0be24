"""Requests to the page, and what they have to answer."""

import concurrent.futures
import json
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from tools.page import views
from tools.page.models import PageModel

# The components of a model, in the order of site.py.
NOTES, SHARES, MARKED, TABLE, FIGURE = range(5)


def ask(address: str, title: str, *values: str) -> list[Any]:
    """Return what a tab shows, by the protocol of the browser.

    Args:
        address: of the page.
        title: of the tab.
        *values: of its fields.

    Returns:
        The updates of the components of each model.
    """
    with urllib.request.urlopen(f"{address}config") as answer:
        functions = json.load(answer)["dependencies"]
    (number,) = (f["id"] for f in functions if title in str(f["js"]))
    session = uuid.uuid4().hex
    data = {"data": values, "fn_index": number, "session_hash": session}
    request = urllib.request.Request(
        f"{address}gradio_api/queue/join",
        json.dumps(data).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).close()
    events = f"{address}gradio_api/queue/data?session_hash={session}"
    with urllib.request.urlopen(events) as lines:
        for line in lines:
            if b'"process_completed"' in line:
                output = json.loads(line.removeprefix(b"data: "))["output"]
                break
    return output["data"]


def check(address: str, models: Sequence[PageModel]) -> None:
    """Ask every tab of the page, from several threads at once."""
    pairs, tagger = models
    texts = [f"good {'film ' * count}" for count in range(1, 7)]

    def classes(text: str) -> list[Any]:
        return ask(address, "Classes", text, "a")

    with concurrent.futures.ThreadPoolExecutor() as users:
        for text, found in zip(texts, users.map(classes, texts), strict=True):
            shown = views.classes(pairs, text, "a")
            rows = found[TABLE]["value"]["data"]
            assert rows == [list(row) for row in shown.rows]
    # An error of a user is a result; the server goes on.
    assert classes("")[NOTES]["value"] == "text_a is empty"
    text = "ann in rome <b>"
    shown = views.entities(tagger, text)
    marked = ask(address, "Entities", text)[MARKED]["value"]
    assert "".join(part["token"] for part in marked) == text
    marks = [p["class_or_confidence"] for p in marked]
    assert [m for m in marks if m] == [kind for _, kind, _ in shown.rows]
    near = ask(address, "Neighbors", "bad film")[TABLE]["value"]["data"]
    assert [row[0] for row in near] == ["bad film", "good film"]
    values = ("bad film", "", "1", views.MEAN)
    found = ask(address, "Attention", *values)
    assert found[FIGURE]["visible"] and not found[NOTES]["visible"]
