"""What a run of fine-tuning minimizes is what its flags ask for."""

import classifier_runs
import pytest
import scripts
import tiny
from prediction_runs import write_lines

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
