"""Runs a script in a process that has two logical devices."""

import subprocess
import sys

from paths import ROOT

_PROGRAM = """
from base import script
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
{first}
import {script}
script.run({script}.main)
"""


def run(script: str, first: str = "", **flags) -> None:
    """Run a script with these flags; `first` is code that runs before."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(script=script, first=first)]
        + [f"--{name}={value}" for name, value in flags.items()],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
