"""Import TensorFlow without its messages and without what no script needs.

TensorFlow imports Keras. Keras imports scikit-learn, SciPy, matplotlib and
Pillow wherever they are installed, for wrappers and pictures of its own, which
takes a large part of the time that a script needs to start. A script of this
project imports them itself when it needs them. Programs that use this project
as a library get all of Keras.
"""

import contextlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator

from base import tensorflow_messages

Context = Callable[[], contextlib.AbstractContextManager]

# Keras does without each of them.
_OPTIONAL = ("PIL", "matplotlib", "scipy", "sklearn")

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def prepare() -> None:
    """Prepare the import of TensorFlow and Keras; does not import them.

    Does nothing for the one that has been imported already.
    """
    tensorflow_messages.hide()
    if tensorflow_messages.are_hidden():
        _import_inside("tensorflow", tensorflow_messages.without_noise)
    if is_script():
        # Either may be the first, and imports the other.
        _import_inside("tensorflow", without_optional_libraries)
        _import_inside("keras", without_optional_libraries)


def is_script() -> bool:
    """Return whether Python runs a script of this project's main folder."""
    path = getattr(sys.modules["__main__"], "__file__", None) or ""
    return bool(path) and os.path.dirname(os.path.abspath(path)) == _ROOT


@contextlib.contextmanager
def without_optional_libraries() -> Iterator[None]:
    """Make imports of libraries that Keras can do without fail in the block."""
    finder = _Missing()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Missing(importlib.abc.MetaPathFinder):
    """Reports the optional libraries as not installed."""

    def find_spec(self, name, path=None, target=None):
        if name in _OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _import_inside(name: str, context: Context) -> None:
    """Run the import of a library inside a context, whenever it takes place.

    Does nothing for a library that has been imported already.
    """
    if name not in sys.modules:
        sys.meta_path.insert(0, _Finder(name, context))


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of Python's import system that wraps one library's import.

    The library is found as ever; its import runs inside a context.
    """

    def __init__(self, name: str, context: Context):
        self.name, self.context = name, context

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_inside(module) -> None:
                with self.context():
                    execute(module)

            spec.loader.exec_module = execute_inside
        return spec
