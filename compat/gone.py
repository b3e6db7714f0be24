"""What tf.estimator took with it."""

from collections.abc import Callable
from typing import NoReturn

from base.errors import UserError


def function(name: str, instead: str) -> Callable[..., NoReturn]:
    """Return a function that says what takes the place of one of Estimator."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise UserError(
            f"{name} made functions for tf.estimator, which TensorFlow no "
            f"longer has; here {instead} does that (docs/migration.md)"
        )

    fail.__name__ = name
    return fail
