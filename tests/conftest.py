"""Tests run on the files of the checkout, whatever the working directory."""

import os
import sys
from pathlib import Path

import hypothesis

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# See devices.avoid_broken_amx, which would cost each process its probe.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# A slow machine is no failure.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
