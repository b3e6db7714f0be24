"""The results of a sweep: order, means and spreads, TensorBoard's rows."""

import sys

import pytest

from extras import sweeps
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
        "  f1 PER_f1 LOC_f1",
        "a 0.8000 0.8000      -",
        "b 0.5000 0.6000 0.0000",
    ]


# --- TensorBoard's HParams page ----------------------------------------------

VALUES = {
    name: {"learning_rate": rate, "random_seed": 1.0, "num_train_epochs": 3.0}
    for name, rate in (("a", 3e-5), ("b", 5e-5), ("c", 2e-5))
}


def rows_of(folder):
    """Return {run: (hyperparameters, scores)} as TensorBoard reads."""
    from tensorboard import context
    from tensorboard.backend.event_processing import (
        data_provider,
        plugin_event_multiplexer,
    )
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import (
        api_pb2,
        backend_context,
        list_session_groups,
    )

    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(folder))
    handler = list_session_groups.Handler(
        context.RequestContext(),
        backend_context.Context(
            base_plugin.TBContext(
                data_provider=provider,
                logdir=str(folder),
                multiplexer=multiplexer,
            )
        ),
        "experiment",
        api_pb2.ListSessionGroupsRequest(
            start_index=0,
            slice_size=100,
            include_metrics=True,
            allowed_statuses=[api_pb2.STATUS_UNKNOWN],
        ),
    )
    return {
        group.name: (
            {k: v.number_value for k, v in group.hparams.items()},
            {m.name.tag: m.value for m in group.metric_values},
        )
        for group in handler.run().session_groups
        if len(group.sessions) == 1
    }


def test_tensorboard_reads_a_row_for_each_finished_run(tmp_path):
    results = {
        "a": {"loss": 0.75, "accuracy": 0.5, "global_step": 9.0},
        "b": {"loss": float("nan"), "accuracy": 0.875, "degenerate": 1.0},
    }
    for _ in range(2):  # the same command again doubles nothing
        for name, scores in results.items():
            row = str(tmp_path / "hparams" / name)
            sweeps.write_hparams(row, VALUES[name], scores)
    wanted = {
        "a": (
            VALUES["a"],
            {"accuracy": 0.5, "loss": 0.75, "degenerate": 0.0},
        ),
        "b": (
            VALUES["b"],
            {"accuracy": 0.875, "degenerate": 1.0},
        ),
    }
    assert rows_of(tmp_path / "hparams") == wanted == rows_of(tmp_path)


def test_without_tensorboard_one_line_names_the_remedy(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "tensorboard.plugins.hparams", None)
    sweeps.write_hparams(str(tmp_path), VALUES["a"], GOOD)
    (line,) = caplog.messages
    assert "pip install -r requirements.txt" in line
    assert not list(tmp_path.iterdir())
