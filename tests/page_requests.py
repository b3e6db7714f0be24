"""Requests to every function of the page, and what they have to answer."""

import threading
from collections.abc import Sequence

from tools.page import views
from tools.page.models import PageModel


def check(address: str, models: Sequence[PageModel]) -> None:
    """Ask every function of the page, from two threads at once."""
    from gradio_client import Client

    client = Client(address, verbose=False, analytics_enabled=False)
    pairs, tagger = models
    found = client.predict("good film", "bad", api_name="/classes")
    assert found == views.classes(pairs, "good film", "bad")
    found = client.predict("ann in rome", api_name="/entities")
    assert found == views.entities(tagger, "ann in rome")
    # An error of a user is a result; the server goes on.
    assert "text_a is empty" in client.predict("", "a", api_name="/classes")
    texts = [f"good {'film ' * count}" for count in range(1, 7)]
    results = {}

    def ask(text: str) -> None:
        results[text] = client.predict(text, "a", api_name="/classes")

    threads = [threading.Thread(target=ask, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for text in texts:
        assert results[text] == views.classes(pairs, text, "a")
    near = client.predict("bad film", "mean", api_name="/neighbors")
    assert "bad film" in near[0]
