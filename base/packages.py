"""Import packages that few commands need, with a clear error without them."""

import importlib
from typing import Any

from base import errors
from base.errors import UserError


def load(
    module: str, what: str, package: str, requirements: str = "requirements.txt"
) -> Any:
    """Return a module of a package that may not be installed.

    Args:
        module: its name, such as "pyarrow.parquet".
        what: what needs the package: the beginning of the error.
        package: its name in words.
        requirements: the file that installs it.

    Raises:
        UserError: it cannot be imported; tells how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"{what} needs {package} ({errors.reason(error)}): pip install -r "
            f"{requirements}"
        ) from error
