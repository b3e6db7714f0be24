"""What a run of fine-tuning minimizes, and how long, is what flags ask for."""

import classifier_runs
import pytest
import scripts
import tiny
from prediction_runs import write_lines

from checkpoints.run_folder import RunFolder
from finetuning import runner

run_classifier = scripts.load("run_classifier")


@pytest.mark.slow
def test_weights_of_classes_and_answers_reach_the_training(
    encoder_dir, tmp_path
):
    """Without them the same command would end with the same bits."""
    rows = classifier_runs.sentences(16, 1)
    lines = ["sentence\tlabel", *map("\t".join, rows)]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "weights.json").write_text('{"bad": 1, "good": 20}')
    shares = {"bad": 0.75, "good": 0.25}
    answers = [{"text": text, "probabilities": shares} for text, _ in rows]
    write_lines(tmp_path / "answers.jsonl", answers)
    found = {}
    for name, more in {
        "plain": {},
        "weighted": {"class_weights": tmp_path / "weights.json"},
        "taught": {"teacher_answers": tmp_path / "answers.jsonl"},
    }.items():
        flags = classifier_runs.flags_for(
            encoder_dir, tmp_path, tmp_path / name, do_eval=False, **more
        )
        # The first step of Adam is as long, whatever the gradient is.
        flags["num_train_epochs"] = 3
        assert scripts.run(run_classifier, **flags) == 0
        weights = tiny.weights_of(tmp_path / name / "bert_model.ckpt")
        found[name] = weights["output_weights"]
    for name in ("weighted", "taught"):
        assert abs(found[name] - found["plain"]).max() > 1e-4, name


@pytest.mark.slow
def test_a_plan_is_whole_before_the_run_begins(
    encoder_dir, tmp_path, monkeypatch
):
    """Steps and rate are known while output_dir holds records at most."""
    classifier_runs.write_data(tmp_path)
    flags = classifier_runs.flags_for(encoder_dir, tmp_path, tmp_path / "out")
    del flags["learning_rate"]
    flags |= {"do_eval": False, "num_train_epochs": 2, "train_batch_size": 16}

    def look(run: runner.FineTuningRun) -> int:
        settings = run.plan.settings
        assert (settings.num_train_steps, settings.num_warmup_steps) == (25, 2)
        assert settings.learning_rate == 5e-4  # of a narrow model
        return 0

    monkeypatch.setattr(runner, "carry_out", look)
    assert scripts.run(run_classifier, **flags) == 0
    line = scripts.error_of(run_classifier, **flags | {"num_train_epochs": 0})
    assert "for 0.0 epochs make no step" in line
    assert RunFolder.read(str(tmp_path / "out")).names == {
        "train.tf_record",
        "train.tf_record.json",
    }
