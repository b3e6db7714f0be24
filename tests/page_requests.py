"""Requests to the page, and what they have to answer."""

import concurrent.futures
import json
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from tools.page import results, tabs, views
from tools.page.models import PageModel


def ask(address: str, number: int, *values: Any) -> list[dict[str, Any]]:
    """Return the components that a tab shows, by the protocol of the browser.

    Args:
        address: of the page.
        number: of the tab, from 0.
        *values: of its fields.
    """
    with urllib.request.urlopen(f"{address}config") as answer:
        functions = json.load(answer)["dependencies"]
    shows = [f["id"] for f in functions if f["api_name"].startswith("apply")]
    session = uuid.uuid4().hex
    data = {"data": values, "fn_index": shows[number], "session_hash": session}
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
    return [
        component["props"] | {"type": component["type"]}
        for component in output["render_config"]["components"]
        if "value" in component["props"]
    ]


def check(address: str, models: Sequence[PageModel]) -> None:
    """Ask every tab of the page, from several threads at once."""
    pairs, tagger = models
    names = [tab.title for tab in tabs.make_tabs(models, {}, {})]

    def shares(text: str) -> dict[str, float]:
        (label,) = ask(address, names.index("Classes"), text, "a")
        found = label["value"]["confidences"]
        return {f["label"]: f["confidence"] for f in found}

    def wanted(text: str) -> dict[str, float]:
        (bars,) = views.classes(pairs, text, "a")
        return {f"{n} {results.share(s)}": s for n, s in bars.shares.items()}

    texts = [f"good {'film ' * count}" for count in range(1, 7)]
    with concurrent.futures.ThreadPoolExecutor() as users:
        for text, found in zip(texts, users.map(shares, texts), strict=True):
            assert found == wanted(text)
    # An error of a user is a result; the server goes on.
    (error,) = ask(address, names.index("Classes"), "", "a")
    assert "text_a is empty" in error["value"]
    text, _ = ask(address, names.index("Entities"), "ann in rome <b>\x07")
    shown = "".join(part["token"] for part in text["value"])
    assert shown == "ann in rome <b>\u2407"
    near = ask(address, names.index("Neighbors"), "bad film", "mean")
    tables = [part for part in near if part["type"] == "dataframe"]
    assert tables[0]["value"]["data"][0][2] == "bad film"
    for picture in views.ATTENTION_KINDS:
        values = ("bad film", "", picture, 1, views.MEAN)
        # Of each model its name, a note and the picture.
        assert len(ask(address, names.index("Attention"), *values)) == 6
