"""Compute the next items of an iterator while the last ones are in use."""

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any


def read_ahead(items: Iterable[Any], size: int = 2) -> Iterator[Any]:
    """Yield the items; a thread computes the next `size` meanwhile.

    It gains time where the items come from C code that releases the
    interpreter's lock, such as decompression. What `items` raises is raised at
    its place.
    """
    waiting: queue.Queue = queue.Queue(size)
    stop = threading.Event()
    ended = object()

    def put(value: tuple[Any, Any]) -> bool:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                waiting.put(value, timeout=0.1)
                return True
        return False

    def fill() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put((ended, None))
        except BaseException as error:
            put((ended, error))

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is ended:
                return
            yield item
    finally:
        stop.set()
        thread.join()
