"""Requests to the page, and what they have to answer."""

import concurrent.futures
import json
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from tools.page import markup, views
from tools.page.models import PageModel

# The components of a model, in the order of site.py.
RESULT, FIGURE = range(2)


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
            wanted = markup.result(views.classes(pairs, text, "a"))
            assert found[RESULT]["value"] == wanted
    # An error of a user is a result; the server goes on.
    assert classes("")[RESULT]["value"] == "<p>text_a is empty</p>"
    text = "ann in rome <b>"
    wanted = markup.result(views.entities(tagger, text))
    assert ask(address, "Entities", text)[RESULT]["value"] == wanted
    near = ask(address, "Neighbors", "bad film")[RESULT]["value"]
    assert 0 < near.index("bad film") < near.index("good film")
    values = ("bad film", "", "1", views.MEAN)
    found = ask(address, "Attention", *values)
    assert found[FIGURE]["visible"] and not found[RESULT]["visible"]
