"""Tests run on the files of the checkout, whatever the working directory."""

import os

import hypothesis

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# training/devices.py, avoid_broken_amx, would cost each process its probe.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# A slow machine is no failure.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
