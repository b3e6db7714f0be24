"""The runs of a sweep, read by TensorBoard's own HParams page."""

import sys
from pathlib import Path

from base.errors import UserError

import pytest

from finetuning import hparams, sweeps

VALUES = {
    name: {"learning_rate": rate, "random_seed": 1.0, "num_train_epochs": 3.0}
    for name, rate in (("a", 3e-5), ("b", 5e-5), ("c", 2e-5))
}
RESULTS = {
    "a": {"loss": 0.75, "accuracy": 0.5, "global_step": 9.0},
    "b": {"loss": 0.25, "accuracy": 0.875, "degenerate": 1.0, "global_step": 7},
}


def rows_of(folder):
    """Return {run: (hyperparameters, scores, status)} as TensorBoard reads."""
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
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0,
        slice_size=100,
        include_metrics=True,
        allowed_statuses=[
            api_pb2.STATUS_SUCCESS,
            api_pb2.STATUS_FAILURE,
        ],
    )
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
        request,
    )
    return {
        group.name: (
            {k: v.number_value for k, v in group.hparams.items()},
            {m.name.tag: m.value for m in group.metric_values},
            api_pb2.Status.Name(group.sessions[0].status),
        )
        for group in handler.run().session_groups
        if len(group.sessions) == 1
    }


def test_tensorboard_reads_a_row_for_each_finished_run(tmp_path):
    for _ in range(2):  # the same command again doubles nothing
        hparams.write(str(tmp_path), VALUES, RESULTS, "accuracy", True)
    assert rows_of(tmp_path / "hparams") == {
        "a": (
            VALUES["a"],
            {"accuracy": 0.5, "loss": 0.75, "degenerate": 0.0},
            "STATUS_SUCCESS",
        ),
        "b": (
            VALUES["b"],
            {"accuracy": 0.875, "loss": 0.25, "degenerate": 1.0},
            "STATUS_FAILURE",
        ),
    }
    more = RESULTS | {"c": {"loss": 1.5, "accuracy": 0.25, "global_step": 9}}
    hparams.write(str(tmp_path), VALUES, more, "accuracy", True)
    found = rows_of(tmp_path / "hparams")
    assert list(found) == ["a", "b", "c"] and found["c"][1]["loss"] == 1.5
    # From the sweep's own folder too.
    assert len(rows_of(tmp_path)) == 3


def test_without_tensorboard_one_line_names_the_remedy(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "tensorboard.plugins.hparams", None)
    hparams.write(str(tmp_path), VALUES, RESULTS, "accuracy", True)
    (line,) = caplog.messages
    assert "pip install -r requirements.txt" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_left_out(tmp_path, value):
    results = {"a": RESULTS["a"] | {"loss": value}}
    hparams.write(str(tmp_path), VALUES, results, "accuracy", True)
    _, scores, _ = rows_of(tmp_path / "hparams")["a"]
    assert "loss" not in scores and scores["accuracy"] == 0.5


def test_rows_are_there_before_the_sweep_ends(tmp_path, monkeypatch):
    """A sweep takes hours; its third run cannot even begin."""

    def run_command(command):
        folder = Path(command[-1].removeprefix("--output_dir="))
        if folder.name == "c":
            return 1
        folder.mkdir(parents=True)
        (folder / "eval_results.txt").write_text("accuracy = 0.5\n")
        return 0

    monkeypatch.setattr(sweeps, "run_command", run_command)
    runs = [sweeps.SweepRun(n, {"random_seed": "7"}) for n in ("a", "b", "c")]
    sweep = sweeps.Sweep("script.py", runs, {})
    with pytest.raises(UserError, match="run c ended with status 1"):
        sweeps.run_all(sweep, str(tmp_path), "accuracy")
    found = rows_of(tmp_path / "hparams")
    assert sorted(found) == ["a", "b"]
    assert found["b"] == (
        {"random_seed": 7.0},
        {"accuracy": 0.5, "degenerate": 0.0},
        "STATUS_SUCCESS",
    )
