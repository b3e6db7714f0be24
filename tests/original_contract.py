r"""Run the original's own tests against this project; print N of N per file.

    python tests/original_contract.py --original=DIR

DIR is a checkout of google-research/bert at commit eedf571, or a folder with
its tokenization_test.py, optimization_test.py and modeling_test.py. They run as
they are. They are written for TensorFlow 1, so `tensorflow` is
TensorFlow 2's own module of that time for them, `tf.compat.v1`, with the
behaviour of then: graphs, and variables that are references.
"""

import importlib.util
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from base import script  # noqa: E402
from base.errors import UserError  # noqa: E402

import tensorflow as tf  # noqa: E402
from absl import flags  # noqa: E402

# Imported here, with TensorFlow 2: `load` gives the tests alone TensorFlow 1.
import compat.modeling  # noqa: E402, F401
import compat.optimization  # noqa: E402, F401

FLAGS = flags.FLAGS

flags.DEFINE_string("original", None, "The folder with the original's tests.")

FILES = ("tokenization_test", "optimization_test", "modeling_test")


def load(path: Path) -> unittest.TestSuite:
    """Return the tests of a file of the original."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    tensorflow = sys.modules["tensorflow"]
    sys.modules["tensorflow"] = tf.compat.v1
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules["tensorflow"] = tensorflow
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def main(_: list[str]) -> int:
    """Run the files; return the exit status, 0 if all tests pass."""
    folder = Path(FLAGS.original or "")
    for name in FILES:
        if not FLAGS.original or not (folder / f"{name}.py").is_file():
            raise UserError(
                f"--original={FLAGS.original} has no {name}.py; wanted a "
                "checkout of google-research/bert"
            )
    tf.compat.v1.disable_v2_behavior()
    lines, failed = [], 0
    for name in FILES:
        tests = load(folder / f"{name}.py")
        result = unittest.TextTestRunner(verbosity=2).run(tests)
        bad = len(result.failures) + len(result.errors)
        # TensorFlow adds an empty test, test_session, to every class.
        count = result.testsRun - len(result.skipped)
        lines.append(f"{name}.py: {count - bad} of {count}")
        failed += bad
    print("\n".join(lines))
    return int(bool(failed))


if __name__ == "__main__":
    script.run(main)
