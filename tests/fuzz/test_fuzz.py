"""Every reader of files ends damaged ones in a result or in one line."""

import subprocess
import sys

import pytest
from paths import ROOT


@pytest.mark.slow
def test_damaged_files_end_in_a_result_or_in_a_line(tmp_path):
    # A process of its own: a case may end it, and TensorFlow must not have
    # begun to compute before it forks.
    command = ["tests/fuzz/fuzz.py", f"--findings={tmp_path / 'findings'}"]
    found = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr[-2000:]
