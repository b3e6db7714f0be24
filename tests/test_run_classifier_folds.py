"""run_classifier.py --num_folds: every example is scored once."""

import classifier_runs
import pytest
import scripts
import tiny

from extras import sweeps

run_classifier = scripts.load("run_classifier")


@pytest.mark.nightly
def test_each_fold_is_scored_by_a_model_that_has_not_seen_it(tmp_path):
    """The runs of a sweep, one after the other in this process."""
    classifier_runs.write_data(tmp_path)
    (tmp_path / "dev.tsv").unlink()
    model = tiny.write_model(
        tmp_path / "model", classifier_runs.CONFIG, classifier_runs.VOCAB
    )
    flags = classifier_runs.flags_for(
        model, tmp_path, tmp_path / "out", num_train_epochs=0.1, num_folds=3
    )
    flags["num_errors"] = 1000
    parsed = scripts.parse(run_classifier, **flags)
    sweep = sweeps.read(parsed, "s.py")
    names = list(sweep.runs)
    assert names == [f"fold{n}_seed12345" for n in (1, 2, 3)]
    wrong, counts = set(), []
    for run, values in sweep.runs.items():
        out = tmp_path / run
        assert "--num_folds=3" in sweep.command(run, str(out))
        assert f"--fold={values['fold']}" in sweep.command(run, str(out))
        own = {"output_dir": str(out), "records_dir": flags["output_dir"]}
        assert scripts.run(run_classifier, **flags | values | own) == 0
        lines = (out / "errors.tsv").read_text().splitlines()[1:]
        counts.append(len(lines))
        wrong |= set(lines)
        accuracy = tiny.results_of(out)["accuracy"]
        size = round(len(lines) / (1 - accuracy))
        assert size in (66, 67)
    assert len(wrong) == sum(counts)  # no example is in two parts
    results = {name: {"accuracy": 0.5} for name in names}
    assert "over 3 runs" in sweeps.table(results, "accuracy")[-1]
