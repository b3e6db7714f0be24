"""The work directory: what is removed, and what another command may change."""

from base.errors import UserError

import pytest

from tools.reproduction import work_dir
from tools.reproduction.plan import FINETUNING, Plan, Step

STEP = Step(
    "finetuning/a",
    "a",
    FINETUNING,
    "run.py",
    (("rate", "1"),),
    output="one",
    task="RTE",
)


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
    work_dir.remove_weights(str(tmp_path), STEP)
    left = [p for p in (tmp_path / "one").rglob("*") if p.is_file()]
    assert sorted(left) == sorted(tmp_path / "one" / name for name in kept)


def test_another_command_or_file_is_refused_and_a_moved_file_is_not(tmp_path):
    path, plan = str(tmp_path / "work"), Plan()
    plan.add(STEP, "table5")

    def check(folder, text="One."):
        for name in ("train.tsv", "dev.tsv"):
            write(tmp_path / folder / name, text)
        files = [tmp_path / folder / n for n in ("train.tsv", "dev.tsv")]
        inputs = {"RTE": work_dir.checksums(files)}
        work_dir.check_steps(path, plan, inputs)
        return inputs

    work_dir.begin(path, STEP, check("a"))
    check("b")  # the same files elsewhere
    with pytest.raises(UserError, match="one: train.tsv was [0-9a-f]+, is"):
        check("a", "Two.")
    plan.steps[STEP.name] = STEP._replace(flags=(("rate", "2"),))
    with pytest.raises(UserError, match="one: --rate was 1, is 2"):
        check("a")


def test_files_of_one_name_are_told_apart(tmp_path):
    for folder in "ab":
        write(tmp_path / folder / "text.txt", folder)
    found = work_dir.checksums(tmp_path.rglob("*.txt"))
    assert sorted(found) == ["a/text.txt", "b/text.txt"]
    assert len(set(found.values())) == 2
    assert work_dir.checksums([]) == {}
