"""Requests to the page, and what they have to answer."""

import concurrent.futures
import json
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from tools.page import views
from tools.page.models import PageModel


def ask(address: str, title: str, *values: str) -> list[Any]:
    """Return what a tab shows, by the protocol of the browser.

    Args:
        address: of the page.
        title: of the tab.
        *values: of its fields.

    Returns:
        The HTML of each model; in the tab of attention a figure behind each.
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

    def classes(text: str) -> str:
        return ask(address, "Classes", text, "a")[0]

    with concurrent.futures.ThreadPoolExecutor() as users:
        for text, found in zip(texts, users.map(classes, texts), strict=True):
            assert found == views.classes(pairs, text, "a")
    # An error of a user is a result; the server goes on.
    assert "Write something into “Text”" in classes("")
    (html,) = ask(address, "Entities", "ann in rome <b>\x07")
    assert html == views.entities(tagger, "ann in rome <b>\x07")
    assert "&lt;U+0007&gt;" in html and "<b>" not in html
    near = ask(address, "Neighbors", "bad film")
    assert near[0].index("bad film") < near[0].index("good film")
    values = ("bad film", "", "1", views.MEAN)
    html, figure, *_ = ask(address, "Attention", *values)
    assert not html and figure["visible"]
