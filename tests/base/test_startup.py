"""Scripts start without TensorFlow's messages and libraries of no use to them.

The package `tensorflow` imported here is a stand-in that writes what the real
one writes; test_terminal.py has the real one.
"""

import os
import subprocess
import sys

import pytest
from paths import ROOT

NOISE = """\
WARNING: All log messages before absl::InitializeLog() is called are written
I0000 00:00:1795303204.883527   20708 port.cc:153] oneDNN custom operations
E0000 00:00:1795303224.439637   20797 cuda_platform.cc:52] failed call
2025-09-17 14:44:05.157831: I external/cuda/cudart_stub.cc:32] Could not find
2025-09-17 14:44:05.237511: I tensorflow/core/cpu_feature_guard.cc:210] This
To enable the following instructions: AVX2 AVX512F, rebuild TensorFlow.
"""
KEPT = """\
F0000 00:00:1795303204.883527   20708 cpu.cc:15] built for AVX instructions
2025-09-17 14:44:05.157831: F external/cpu.cc:32] built for AVX instructions
a line of Python
"""
# The name makes Python's program look like a script of the main folder.
SCRIPT = f"""
import sys
sys.modules["__main__"].__file__ = {str(ROOT / "run_ner.py")!r}
from base import errors, startup
"""


@pytest.fixture
def stand_in(tmp_path):
    """Return a function that imports the stand-in and returns stderr."""

    def run(ending: str = "", **variables: str) -> str:
        folder = tmp_path / "tensorflow"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(
            "import os, sys\n"
            f"os.write(2, {NOISE!r}.encode())\n"
            f"print({KEPT!r}, end='', file=sys.stderr)\n" + ending
        )
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("TF_CPP_MIN_LOG_LEVEL", "TF_CONFIG")
        }
        program = SCRIPT + (
            "import os\n"
            "with startup.importing():\n"
            "    import tensorflow\n"
            "os.write(2, b'level ' + "
            "os.environ['TF_CPP_MIN_LOG_LEVEL'].encode())\n"
        )
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=environment | {"PYTHONPATH": str(tmp_path)} | variables,
            stderr=subprocess.PIPE,
            text=True,
        )
        return result.stderr

    return run


def test_messages_of_the_import_are_hidden_and_other_lines_kept(stand_in):
    has_driver = os.path.exists("/proc/driver/nvidia")
    assert stand_in() == f"{KEPT}level {2 if has_driver else 3}"


def test_the_level_that_a_user_sets_holds(stand_in):
    assert stand_in(TF_CPP_MIN_LOG_LEVEL="1") == f"{KEPT}level 1"
    shown = stand_in(TF_CPP_MIN_LOG_LEVEL="0")
    assert shown == f"{NOISE}{KEPT}level 0"


def test_a_failed_import_keeps_its_stack_trace(stand_in):
    shown = stand_in(ending="raise ImportError('no libtensorflow')\n")
    assert shown.startswith(f"{KEPT}Traceback")
    assert shown.endswith("ImportError: no libtensorflow\n")


def test_standard_error_may_be_closed():
    program = f"import os; os.close(2)\n{SCRIPT}with startup.importing(): pass"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_files_and_output_are_utf_8_in_every_locale(tmp_path):
    """Without a UTF-8 locale Python would read, print and name in ASCII."""
    folder = tmp_path / "é"
    folder.mkdir()
    (folder / "text").write_text("déjà vu\n" * 20, "utf-8")
    flags = {"input_file": folder / "text", "output_file": folder / "vocab"}
    result = subprocess.run(
        [sys.executable, str(ROOT / "build_vocab.py"), "--nodo_lower_case"]
        + [f"--{name}={value}" for name, value in flags.items()],
        env=os.environ
        | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        stderr=subprocess.PIPE,
    )
    assert f"{folder}/vocab" in result.stderr.decode()
    tokens = (folder / "vocab").read_text("utf-8").split("\n")
    assert "déjà" in tokens, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["text", "vocab"]


@pytest.mark.nightly
def test_a_script_starts_without_what_keras_could_use():
    """A library has it, and a script again once it has started."""
    import_all = "import PIL, matplotlib, scipy, sklearn.base\n"
    found = "all(map(sys.modules.get, startup._OPTIONAL))"
    as_script = (
        f"{SCRIPT}with startup.importing():\n    import keras\n    assert "
        f"not any(map(sys.modules.get, startup._OPTIONAL))\n{import_all}"
    )
    library = f"import sys\nfrom base import startup\n{import_all}"
    for program in (as_script, library):
        program += f"assert {found}"
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
