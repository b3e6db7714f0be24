"""The work directory: what is removed and what may change."""

from reproduction import scales, work_dir
from reproduction.plan import FINETUNING, Step
from reproduction.tasks import Data

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
