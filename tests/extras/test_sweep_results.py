"""The results of a sweep: order, means and spreads."""

import pytest

from extras.sweeps import ranked, table

GOOD = {"accuracy": 0.6, "loss": 0.7, "global_step": 9.0}
BETTER = GOOD | {"accuracy": 0.8}
FAILED = GOOD | {"accuracy": 0.9, "degenerate": 1.0}


def test_the_table_marks_and_counts_failed_runs():
    results = {"a": BETTER, "b": GOOD, "c": FAILED}
    assert table(results, "accuracy") == [
        "  accuracy",
        "a   0.8000",
        "b   0.6000",
        "c   0.9000 failed",
        "1 of 3 runs failed: c",
        "accuracy: best 0.8000, mean 0.7000, standard deviation 0.1414 over 2 "
        "other runs",
    ]
    lines = table({"a": GOOD, "c": FAILED}, "accuracy")
    assert lines[-1] == "accuracy: best 0.6000, mean 0.6000 over 1 other run"
    lines = table({"c": FAILED}, "accuracy")
    assert lines[-1] == "accuracy: best 0.9000, mean 0.9000 over 1 runs"


def test_a_failed_run_is_never_the_best_unless_all_are():
    results = {"b": GOOD, "c": FAILED, "a": BETTER}
    assert ranked(results, "accuracy") == ["a", "b", "c"]
    both = {"d": FAILED | {"accuracy": 0.1}, "c": FAILED}
    assert ranked(both, "accuracy") == ["c", "d"]


def test_a_grid_with_restarts_has_a_line_for_each_setting():
    scores = {"lr5e-5_seed1": 0.70, "lr5e-5_seed2": 0.74, "lr1e-4_seed1": 0.80}
    results = {name: GOOD | {"accuracy": s} for name, s in scores.items()}
    results["lr1e-4_seed2"] = FAILED | {"accuracy": 0.5}
    results["lr9e-5_seed1"] = FAILED
    assert ranked(results, "accuracy")[0] == "lr1e-4_seed1"
    assert table(results, "accuracy")[-4:] == [
        "         mean deviation runs failed",
        "lr1e-4 0.8000         -    2      1",
        "lr5e-5 0.7200    0.0283    2      0",
        "lr9e-5      -         -    1      1",
    ]


@pytest.mark.parametrize("names", ["lr5e-5_seed1 lr1e-4_seed1", "seed1 seed2"])
def test_without_a_grid_and_restarts_there_are_no_settings(names):
    results = dict(zip(names.split(), (GOOD, BETTER), strict=True))
    assert len(table(results, "accuracy")) == 4


def test_runs_may_have_other_scores():
    """Types of entities that only some runs predict."""
    results = {
        "a": {"f1": 0.8, "PER_f1": 0.8},
        "b": {"f1": 0.5, "LOC_f1": 0.0, "PER_f1": 0.6},
    }
    assert table(results, "f1")[:3] == [
        "      f1 PER_f1 LOC_f1",
        "a 0.8000 0.8000      -",
        "b 0.5000 0.6000 0.0000",
    ]
