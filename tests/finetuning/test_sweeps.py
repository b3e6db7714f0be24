"""The table of a sweep: order, failed runs, mean and spread."""

from finetuning import sweeps

GOOD = {"accuracy": 0.6, "loss": 0.7, "global_step": 9.0}
BETTER = GOOD | {"accuracy": 0.8}
FAILED = GOOD | {"accuracy": 0.9, "degenerate": 1.0}


def test_the_table_marks_and_counts_failed_runs():
    results = {"a": BETTER, "b": GOOD, "c": FAILED}
    assert sweeps.table(["a", "b", "c"], results, "accuracy") == [
        "  accuracy",
        "a   0.8000",
        "b   0.6000",
        "c   0.9000 failed",
        "accuracy: best 0.8000, mean 0.7667, standard deviation 0.1247 over 3 "
        "runs",
        "1 of 3 runs failed: c",
        "accuracy: best 0.8000, mean 0.7000, standard deviation 0.1000 over 2 "
        "other runs",
    ]


def test_without_failed_runs_the_table_is_as_before():
    lines = sweeps.table(["a", "b"], {"a": BETTER, "b": GOOD}, "accuracy")
    assert len(lines) == 4 and lines[-1].endswith("over 2 runs")


def test_a_failed_run_is_never_the_best_unless_all_are(caplog):
    results = {"b": GOOD, "c": FAILED, "a": BETTER}
    assert sweeps.ranked(results, "accuracy") == ["a", "b", "c"]
    both = {"d": FAILED | {"accuracy": 0.1}, "c": FAILED}
    assert sweeps.ranked(both, "accuracy") == ["c", "d"]
    with caplog.at_level("WARNING", logger="absl"):
        sweeps.warn_of_failed(["a", "b"], results)
        assert not caplog.text
        sweeps.warn_of_failed(["a", "b", "c"], results)
        assert "1 of 3 runs failed: c; a is the best of" in caplog.text
        sweeps.warn_of_failed(["c", "d"], both)
        assert "All 2 runs failed, so the one that is kept, c" in caplog.text
