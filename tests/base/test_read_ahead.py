"""base/read_ahead.py: order, bounds, errors and the end of the thread."""

import threading

from base.read_ahead import read_ahead

import pytest


def test_items_come_in_order():
    assert list(read_ahead(range(1000))) == list(range(1000))
    assert list(read_ahead([])) == []
    assert list(read_ahead([None, None])) == [None, None]


def test_few_items_are_computed_ahead():
    """Before the first item is used, and while it is."""
    computed = threading.Semaphore(0)
    begun = []

    def items():
        for number in range(100):
            begun.append(number)
            computed.release()
            yield number

    ahead = read_ahead(items(), size=3)
    assert begun == []
    assert next(ahead) == 0
    # One is handed out, three wait, and one waits for its place.
    for _ in range(5):
        assert computed.acquire(timeout=10)
    assert not computed.acquire(timeout=0.3)
    assert begun == [0, 1, 2, 3, 4]
    ahead.close()


def test_errors_come_at_their_place():
    def items():
        yield 1
        raise KeyError("here")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="here"):
        next(ahead)


def test_the_thread_ends_with_the_generator():
    before = threading.active_count()
    ahead = read_ahead(iter(range(10**9)))
    assert next(ahead) == 0
    assert threading.active_count() == before + 1
    ahead.close()
    assert threading.active_count() == before
