"""Runs run_pretraining.py in a process with LOGICAL_CPUS CPU devices."""

import os
import sys

from base import errors

import tensorflow as tf

import run_pretraining

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu,
    [tf.config.LogicalDeviceConfiguration()]
    * int(os.environ.get("LOGICAL_CPUS", "1")),
)
del sys.argv[1:3]  # the two folders of sys.path
errors.run(run_pretraining.main)
