"""The work directory: what is removed and what may change."""

from reproduction import work_dir
from reproduction.plan import FINETUNING, Step

STEP = Step("finetuning/a", "a", FINETUNING, "run.py", (), output="one")


def write(path, text="x"):
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_weights_and_activations_are_removed(tmp_path):
    kept = ["eval_results.txt", "records/dev.tf_record"]
    gone = [
        "bert_model.ckpt.index",
        "checkpoint",
        "records/dev_1_2.npy",
        "records/dev_1_2.npy.json",
    ]
    for name in kept + gone:
        write(tmp_path / "one" / name)
    assert work_dir.remove_weights(str(tmp_path), STEP) == len(gone)
    left = [p for p in (tmp_path / "one").rglob("*") if p.is_file()]
    assert sorted(left) == sorted(tmp_path / "one" / name for name in kept)
