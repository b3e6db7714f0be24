"""Compute the next items of an iterator while the last ones are in use."""

import collections
from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import Any

_AHEAD = 3  # items


def read_ahead(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items; a thread computes the next ones meanwhile.

    This saves time if the items come from C code that releases the
    interpreter's lock, such as decompression. An error of `items` is raised in
    its place.
    """
    iterator, end = iter(items), object()
    thread = futures.ThreadPoolExecutor(1)
    try:
        waiting = collections.deque(
            thread.submit(next, iterator, end) for _ in range(_AHEAD)
        )
        while (item := waiting.popleft().result()) is not end:
            waiting.append(thread.submit(next, iterator, end))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
