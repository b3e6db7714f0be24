#!/usr/bin/env bash
# Asking OpenVINO for the name of the processor replaces the stack on which the
# thread handles signals.
#
# One would guess that a library for inference leaves the signals of the program
# alone, and that it takes no state of a thread when a property is read.
# What happens: the first property of the device "CPU" loads a plugin, which
# calls sigaltstack for the thread. A program that has set a stack of its own,
# as Python's faulthandler does for the report of a crash, has another one from
# then on. Handlers of Python, that of Ctrl-C among them, run on it. The stack
# belongs to the plugin: where several cores of OpenVINO came and went in one
# process, the process ended in a segmentation fault at the next signal. One
# core that lasts as long as the process is safe.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  numpy==2.4.6 openvino==2026.4.1
"$folder/venv/bin/python" - <<'PYTHON'
import ctypes
import faulthandler
import sys

import openvino


class Stack(ctypes.Structure):  # stack_t of Linux
    _fields_ = [
        ("start", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("size", ctypes.c_size_t),
    ]


def stack():
    found = Stack()
    ctypes.CDLL(None).sigaltstack(None, ctypes.byref(found))
    return found


faulthandler.enable()
print("openvino", openvino.__version__)
core = openvino.Core()
before = stack()
print(f"faulthandler's stack for signals: {before.size:,} bytes")
core.get_property("CPU", "FULL_DEVICE_NAME")
after = stack()
print(f"after a property was read: {after.size:,} bytes")
if after.start == before.start:
    sys.exit("CHANGED: the stack is the same")
PYTHON
