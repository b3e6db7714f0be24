"""The page of tiny models in this process, and the addresses it uses."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from tools.page import neighbors, site, tabs
from tools.page.models import PageModel

# Events of Python's sockets that name an address of another machine.
_EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")

_recorders: list[list[str]] = []


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if _recorders and event in _EVENTS:
        host = arguments[0]
        if event == "socket.connect":
            # Of a Unix socket it is a path.
            address = arguments[1]
            host = address[0] if isinstance(address, tuple) else "localhost"
        for recorder in _recorders:
            recorder.append(str(host))


sys.addaudithook(_record)  # it cannot be removed


@contextlib.contextmanager
def recorded_hosts() -> Iterator[list[str]]:
    """Yield a list that gets every host which a socket is to reach."""
    found: list[str] = []
    _recorders.append(found)
    try:
        yield found
    finally:
        _recorders.remove(found)


@contextlib.contextmanager
def served(
    models: Sequence[PageModel], sentences: str | None = None
) -> Iterator[str]:
    """Serve the page of models; yield its address.

    Args:
        models: of the page.
        sentences: to search, one in each line.
    """
    if sentences:
        for model in models:
            model.searched = neighbors.Pasted(model, sentences)
    with mock.patch.dict(os.environ):  # other tests use the hub
        gradio = site.load_gradio()
        page = site.make_page(gradio, models, tabs.make_tabs(models))
        port = site.free_port("127.0.0.1", 0)
        try:
            yield site.start(gradio, page, "127.0.0.1", port)
        finally:
            page.close(verbose=False)
