"""Another version of TensorFlow reads what this one writes.

`make test-versions` runs it with the lowest and with the newest of
requirements.txt, and the other one in OTHER_PYTHON.
"""

import json
import os
import shutil
import subprocess

import prediction_runs
import pytest
import tiny
import version_main
from interruptions import interrupted_at
from paths import HELPERS, ROOT, TESTS

OTHER = os.environ.get("OTHER_PYTHON")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not OTHER, reason="OTHER_PYTHON: make test-versions"),
]


def test_another_version_reads_exports_and_resumes_runs(
    tmp_path, encoder_dir, sentences_dir
):
    """Its answers and its weights are ours but for rounding."""
    folder = shutil.copytree(sentences_dir, tmp_path / "folder")
    shutil.copytree(encoder_dir, folder / "model")
    version_main.write(folder)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with interrupted_at(r"Saved .*model\.ckpt-100$"):
        version_main.train(folder, ours)
    shutil.copytree(ours, theirs)
    version_main.train(folder, ours)
    wanted = version_main.answers(folder, ours / "answers")
    other = subprocess.run(
        [OTHER, HELPERS / "version_main.py", folder, theirs],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{TESTS}:{HELPERS}"},
        capture_output=True,
        text=True,
    )
    assert other.returncode == 0, other.stderr[-2000:]
    found = json.loads(other.stdout.splitlines()[-1])
    assert found.keys() == wanted.keys()
    for name in wanted:
        prediction_runs.check_same(found[name], wanted[name])
    runs = (theirs, ours)
    weights = [tiny.weights_of(run / "model.ckpt-150") for run in runs]
    tiny.assert_same(*weights, tolerance=1e-4)
    for run in runs:
        assert tiny.results_of(run)["eval_accuracy"] == 1.0
