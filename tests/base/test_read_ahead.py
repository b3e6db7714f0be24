"""Reading ahead: order, bounds, errors and the end of the thread."""

import itertools
import threading

from base.jobs.engine import read_ahead

import pytest


@pytest.mark.parametrize("items", [range(1000), [], [None, None]])
def test_items_come_in_order(items):
    assert list(read_ahead(items)) == list(items)


def test_few_items_are_computed_ahead_and_the_thread_ends():
    begun, threads = [], threading.active_count()

    def items():
        for number in itertools.count():
            begun.append(number)
            yield number

    ahead = read_ahead(items())
    assert begun == []
    assert next(ahead) == 0
    ahead.close()
    assert begun == list(range(len(begun))) and 1 <= len(begun) <= 4
    assert threading.active_count() == threads


def test_errors_come_at_their_place():
    def items():
        yield 1
        raise KeyError("here")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="here"):
        next(ahead)
