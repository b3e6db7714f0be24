"""The table of a sweep: order, failed runs, means and spreads."""

from finetuning import sweep_table

GOOD = {"accuracy": 0.6, "loss": 0.7, "global_step": 9.0}
BETTER = GOOD | {"accuracy": 0.8}
FAILED = GOOD | {"accuracy": 0.9, "degenerate": 1.0}


def test_the_table_marks_and_counts_failed_runs():
    results = {"a": BETTER, "b": GOOD, "c": FAILED}
    assert sweep_table.table(["a", "b", "c"], results, "accuracy") == [
        "  accuracy",
        "a   0.8000",
        "b   0.6000",
        "c   0.9000 failed",
        "accuracy: best 0.8000, mean 0.7667, standard deviation 0.1528 over 3 "
        "runs",
        "1 of 3 runs failed: c",
        "accuracy: best 0.8000, mean 0.7000, standard deviation 0.1414 over 2 "
        "other runs",
    ]


def test_without_failed_runs_the_table_is_as_before():
    lines = sweep_table.table(["a", "b"], {"a": BETTER, "b": GOOD}, "accuracy")
    assert len(lines) == 4 and lines[-1].endswith("over 2 runs")


def test_a_failed_run_is_never_the_best_unless_all_are(caplog):
    results = {"b": GOOD, "c": FAILED, "a": BETTER}
    assert sweep_table.ranked(results, "accuracy") == ["a", "b", "c"]
    both = {"d": FAILED | {"accuracy": 0.1}, "c": FAILED}
    assert sweep_table.ranked(both, "accuracy") == ["c", "d"]
    with caplog.at_level("WARNING", logger="absl"):
        sweep_table.warn_of_failed(["a", "b"], results)
        assert not caplog.text
        sweep_table.warn_of_failed(["a", "b", "c"], results)
        assert "1 of 3 runs failed: c; a is the best of" in caplog.text
        sweep_table.warn_of_failed(["c", "d"], both)
        assert "All 2 runs failed, so the one that is kept, c" in caplog.text


def test_a_grid_with_restarts_has_a_line_for_each_setting():
    scores = {
        "lr5e-5_seed1": 0.70,
        "lr5e-5_seed2": 0.74,
        "lr1e-4_seed1": 0.80,
        "lr1e-4_seed2": 0.50,
    }
    results = {name: GOOD | {"accuracy": s} for name, s in scores.items()}
    results["lr1e-4_seed2"]["degenerate"] = 1.0
    order = sweep_table.ranked(results, "accuracy")
    assert order[0] == "lr1e-4_seed1"  # the best run, of the worse setting
    lines = sweep_table.table(order, results, "accuracy")
    assert lines[-3:] == [
        "         mean deviation runs failed",
        "lr5e-5 0.7200    0.0283    2      0",
        "lr1e-4 0.6500    0.2121    2      1",
    ]


def test_one_run_has_no_spread():
    """A setting with one run, and one run that did not fail."""
    results = {"lr5e-5_seed1": GOOD, "lr5e-5_seed2": BETTER, "lr1e-4": FAILED}
    order = sweep_table.ranked(results, "accuracy")
    lines = sweep_table.table(order, results, "accuracy")
    assert lines[-2:] == [
        "lr1e-4 0.9000         -    1      1",
        "lr5e-5 0.7000    0.1414    2      0",
    ]
    lines = sweep_table.table(["a", "c"], {"a": GOOD, "c": FAILED}, "accuracy")
    assert lines[-1] == "accuracy: best 0.6000, mean 0.6000 over 1 other run"


def test_runs_may_have_other_scores():
    """Types of entities that only some runs predict."""
    results = {
        "a": {"f1": 0.8, "PER_f1": 0.8},
        "b": {"f1": 0.5, "LOC_f1": 0.0, "PER_f1": 0.6},
    }
    assert sweep_table.table(["a", "b"], results, "f1")[:3] == [
        "  f1 PER_f1 LOC_f1",
        "a 0.8000 0.8000      -",
        "b 0.5000 0.6000 0.0000",
    ]


def test_a_grid_without_restarts_has_no_lines_for_settings():
    results = {"lr5e-5_seed1": GOOD, "lr1e-4_seed1": BETTER}
    order = sweep_table.ranked(results, "accuracy")
    assert len(sweep_table.table(order, results, "accuracy")) == 4
    restarts = {"seed1": GOOD, "seed2": BETTER}
    order = sweep_table.ranked(restarts, "accuracy")
    assert len(sweep_table.table(order, restarts, "accuracy")) == 4
