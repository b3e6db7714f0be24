"""Scripts start without the libraries that Keras could use and they do not."""

import subprocess
import sys

from base import tensorflow_import

import pytest
from paths import ROOT

SHOW = (
    "import sys; print([name for name in ('PIL', 'matplotlib', 'scipy', "
    "'sklearn') if name in sys.modules])"
)


def output_of(*arguments: str) -> str:
    """Return what a Python process prints."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def test_libraries_are_missing_inside_the_block_alone():
    modules = dict(sys.modules)
    try:
        for name in list(sys.modules):
            if name.partition(".")[0] == "PIL":
                del sys.modules[name]
        with tensorflow_import.without_optional_libraries():
            with pytest.raises(ModuleNotFoundError, match="'PIL'"):
                import PIL
            import json  # noqa: F401
        import PIL  # noqa: F401
    finally:
        sys.modules.update(modules)


@pytest.mark.slow
def test_a_script_starts_without_them(tmp_path):
    """A file of the main folder is a script; any other program is not."""
    program = f"import base, keras; {SHOW}"
    # run_path makes the program look like a file of that name.
    as_script = (
        "import sys, types; main = sys.modules['__main__']; "
        f"main.__file__ = {str(ROOT / 'run_ner.py')!r}; {program}; "
        "from sklearn import metrics; from matplotlib import pyplot; "
        "from scipy import stats"
    )
    assert output_of("-c", as_script) == "[]\n"
    assert "sklearn" in output_of("-c", program)
