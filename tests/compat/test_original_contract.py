"""The original's own tests, if their folder is given."""

import os
import subprocess
import sys

import pytest
from paths import ROOT

FOLDER = os.environ.get("ORIGINAL_BERT")


def run(folder) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "tests/original_contract.py", f"--original={folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="ORIGINAL_BERT names no checkout")
def test_all_tests_of_the_original_pass():
    result = run(FOLDER)
    assert result.stdout.splitlines() == [
        "tokenization_test.py: 9 of 9",
        "optimization_test.py: 1 of 1",
        "modeling_test.py: 2 of 2",
    ], result.stderr
    assert not result.returncode


@pytest.mark.nightly
def test_another_folder_is_one_line(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 1
    assert "has no tokenization_test.py" in result.stderr.splitlines()[-1]
