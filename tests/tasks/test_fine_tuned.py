"""The step of fine-tuned weights is that of these weights, in any folder."""

import classifier_runs
import pytest
import scripts
import tiny

from checkpoints import training_state

run_classifier = scripts.load("run_classifier")


def kill_at(step: int, monkeypatch) -> None:
    """End a run before it saves a step."""
    save = training_state.TrainingState.save

    def save_or_end(state, done: int, stays: bool = True) -> str:
        if done == step:
            raise KeyboardInterrupt
        return save(state, done, stays)

    monkeypatch.setattr(training_state.TrainingState, "save", save_or_end)


@pytest.mark.nightly
def test_a_run_that_is_trained_on_is_scored_with_its_last_fine_tuned_weights(
    tmp_path, caplog, monkeypatch
):
    """Finished at 50, failed; trained on, killed after it saved step 60."""
    data = classifier_runs.write_data(tmp_path)
    model = tiny.write_model(
        tmp_path / "model", classifier_runs.CONFIG, classifier_runs.VOCAB
    )
    out = tmp_path / "out"
    flags = classifier_runs.flags_for(model, data, out, num_train_epochs=2)
    flags |= {"learning_rate": 0.0, "jit_compile": False}
    flags |= {"pad_to_max_length": True}
    assert scripts.run(run_classifier, **flags) == 0
    wanted = tiny.results_of(out)
    assert wanted["global_step"] == 50 and wanted["degenerate"] == 1
    more = {"num_train_epochs": 4, "save_checkpoints_steps": 10}
    with monkeypatch.context() as patch:
        kill_at(70, patch)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_classifier, **flags | more)
    newest = (out / "checkpoint").read_text().splitlines()[0]
    assert newest.endswith('"model.ckpt-60"')
    (out / "eval_results.txt").unlink()
    flags["do_train"] = False
    for place in (out, tmp_path / "other"):
        flags |= {"output_dir": str(place), "init_checkpoint": str(out)}
        assert scripts.run(run_classifier, **flags) == 0
        assert tiny.results_of(place) == wanted
        last = caplog.records[-1].getMessage()
        assert "50 predictions are class" in last
