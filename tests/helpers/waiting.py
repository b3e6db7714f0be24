"""Wait in tests for what other processes do."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a function returns something true, minutes at most."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")
