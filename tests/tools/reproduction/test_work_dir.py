"""The work directory: what is removed and what may change."""

import json
import os

from base.errors import UserError

import pytest

from tools.reproduction import scales, work_dir
from tools.reproduction.plan import FINETUNING, Step
from tools.reproduction.tasks import Data

STEP = Step("finetuning/a", "a", FINETUNING, "run.py", (), output="one")


def write(path, text="x"):
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_weights_and_activations_are_removed(tmp_path):
    # A run of a sweep without weights is not finished.
    kept = [
        "runs/a/eval_results.txt",
        "eval_results.txt",
        "records/dev.tf_record",
    ]
    gone = [
        "bert_model.ckpt.index",
        "checkpoint",
        "runs/a/bert_model.ckpt.index",
        "runs/a/finished.json",
        "records/dev_1_2.npy",
        "records/dev_1_2.npy.json",
    ]
    for name in kept + gone:
        write(tmp_path / "one" / name)
    assert work_dir.remove_weights(str(tmp_path), STEP) == len(gone)
    left = [p for p in (tmp_path / "one").rglob("*") if p.is_file()]
    assert sorted(left) == sorted(tmp_path / "one" / name for name in kept)


# --- What may change ---------------------------------------------------------


def fingerprint(*settings, tasks=()):
    """Return the fingerprint of a scale without files."""
    scale = scales.read("small", settings)
    return work_dir.fingerprint(scale, [], [], None, Data(), tasks)


def test_a_work_dir_from_before_a_key_goes_on(tmp_path):
    old = fingerprint()
    assert not any("finetuning.bias_correction" in key for key in old)
    changed = fingerprint("finetuning.bias_correction=false")
    assert changed.keys() - old.keys() == {
        "finetuning.bias_correction of the scale"
    }


SIZES = (
    "table6.sizes=[{num_hidden_layers = 2, hidden_size = 128, "
    "num_attention_heads = 2}]"
)


@pytest.mark.parametrize(
    "setting", [SIZES, "tasks.RTE.num_train_epochs=5", "table5.restarts=3"]
)
def test_what_no_finished_step_depends_on_may_change(setting, tmp_path):
    path = str(tmp_path)
    work_dir.claim(path, "small", fingerprint(tasks=["MNLI"]))
    work_dir.claim(path, "small", fingerprint(setting, tasks=["MNLI"]))


def test_values_of_a_task_are_fixed_from_its_first_run_on(tmp_path):
    path, setting = str(tmp_path), "tasks.RTE.num_train_epochs=5"
    work_dir.claim(path, "small", fingerprint(tasks=["MNLI"]))
    work_dir.claim(path, "small", fingerprint(setting, tasks=["RTE"]))
    # Another task's runs neither need nor replace the value.
    work_dir.claim(path, "small", fingerprint(tasks=["MNLI"]))
    with pytest.raises(UserError, match="tasks.RTE.num_train_epochs of the"):
        work_dir.claim(path, "small", fingerprint(tasks=["RTE", "MNLI"]))
    work_dir.claim(path, "small", fingerprint(setting, tasks=["RTE", "MNLI"]))


def test_work_dirs_from_before_go_on(tmp_path):
    """Their experiment.json has all sizes and the values of all tasks."""
    values = fingerprint(tasks=["MNLI"]) | {
        "table6.sizes of the scale": [[1, 2, 3, 0.0]],
        "tasks.RTE.num_train_epochs of the scale": 7,
    }
    text = json.dumps({"scale": "small", "fingerprint": values})
    (tmp_path / "experiment.json").write_text(text)
    work_dir.claim(str(tmp_path), "small", fingerprint(tasks=["MNLI", "RTE"]))
    again = fingerprint("tasks.MNLI.num_train_epochs=9", tasks=["MNLI"])
    with pytest.raises(UserError, match="tasks.MNLI.num_train_epochs"):
        work_dir.claim(str(tmp_path), "small", again)


def test_files_that_were_copied_again_are_the_same(tmp_path):
    """Data that are restored elsewhere have another time of change."""
    path, text = str(tmp_path / "work"), tmp_path / "text.txt"
    os.makedirs(path)
    scale = scales.read("small", ())

    def claim(content, seconds):
        text.write_text(content)
        os.utime(text, (seconds, seconds))
        values = work_dir.fingerprint(scale, [str(text)], [], None, Data(), ())
        work_dir.claim(path, "small", values)

    claim("One.", 100)
    claim("One.", 200)
    claim("One.", 300)  # the second time was kept
    with pytest.raises(UserError, match=r"same size, another time of change"):
        claim("Two.", 300.5)
    with pytest.raises(UserError, match=r"text.txt \(4 bytes, now 6\)"):
        claim("Three.", 300)
    claim("One.", 300)
