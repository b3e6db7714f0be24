"""What scripts write to standard error of the libraries they use."""

import subprocess
import sys

from paths import ROOT

PROGRAM = """
import logging
from absl import flags
from absl import logging as absl_logging
from base import logs
flags.FLAGS(["x"])
logs.set_up()
logging.getLogger("matplotlib.font_manager").info("generated new fontManager")
logging.getLogger("matplotlib.font_manager").warning("no font")
logging.getLogger("another").info("seen")
with logs.warnings_alone():
    absl_logging.info("a step of a library")
    absl_logging.warning("a problem")
absl_logging.info("after it")
"""


def test_libraries_write_warnings_alone():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        check=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = [line.split(" ", 1)[1] for line in result.stderr.splitlines()]
    assert lines == [
        "WARNING: no font",
        "seen",
        "WARNING: a problem",
        "after it",
    ]
