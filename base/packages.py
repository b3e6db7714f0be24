"""Import packages that few commands need, with a clear error without them."""

import importlib
from typing import Any

from base import errors
from base.errors import UserError


def load(
    module: str, what: str, package: str, requirements: str = "requirements.txt"
) -> Any:
    """Return a module that may not be installed; `what` needs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"{what} needs {package} ({errors.reason(error)}): pip install -r "
            f"{requirements}"
        ) from error
