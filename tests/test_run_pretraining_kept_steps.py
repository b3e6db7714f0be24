"""run_pretraining.py --keep_steps: models of single steps of a run."""

import pytest
import scripts
from pretraining_runs import assert_same, flags_for, weights_of, write_data
from tiny import results_of

from checkpoints import training_state
from pretraining import run as pretraining_run
from training.settings import Settings

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("kept_steps"))


@pytest.mark.slow
def test_kept_weights_are_those_of_the_step(data, tmp_path):
    """Also those of the last step."""
    values = flags_for(data, tmp_path, keep_steps="12,5")
    scripts.run(run_pretraining, **values)
    for step in (5, 12):
        kept = weights_of(tmp_path / f"step-{step}" / "bert_model.ckpt")
        assert kept["global_step"] == step
        saved = weights_of(tmp_path / f"model.ckpt-{step}")
        slots = ("/adam_m", "/adam_v")
        assert_same(
            kept, {n: v for n, v in saved.items() if not n.endswith(slots)}
        )
    config = (tmp_path / "step-5" / "bert_config.json").read_text()
    assert config == (tmp_path / "bert_config.json").read_text()
    evaluated = {
        "do_train": False,
        "do_eval": True,
        "eval_input_file": data / "dev",
        "init_checkpoint": tmp_path / "step-5",
        "output_dir": tmp_path / "scores",
    }
    scripts.run(run_pretraining, **values | evaluated)
    assert results_of(tmp_path / "scores")["global_step"] == 5


@pytest.mark.slow
def test_a_run_killed_after_keeping_keeps_again(data, tmp_path, monkeypatch):
    """The weights of step 7 are kept, but the last checkpoint is of step 5."""
    save = training_state.TrainingState.save

    def save_or_die(state, step):
        if step == 10:
            raise KeyboardInterrupt
        return save(state, step)

    values = flags_for(data, tmp_path, keep_steps="7,10", num_train_steps=10)
    monkeypatch.setattr(training_state.TrainingState, "save", save_or_die)
    with pytest.raises(KeyboardInterrupt):
        scripts.run(run_pretraining, **values)
    first = weights_of(tmp_path / "step-10" / "bert_model.ckpt")
    monkeypatch.undo()
    (tmp_path / "step-10" / "bert_model.ckpt.index").unlink()
    scripts.run(run_pretraining, **values)
    assert_same(first, weights_of(tmp_path / "step-10" / "bert_model.ckpt"))


@pytest.mark.slow
def test_steps_that_are_over_are_named(data, tmp_path, caplog):
    first = flags_for(
        data, tmp_path / "first", stop_after_steps=8, keep_steps="3,10"
    )
    scripts.run(run_pretraining, **first)
    assert not (tmp_path / "first" / "step-10").exists()
    second = flags_for(
        data,
        tmp_path / "second",
        resume_from=tmp_path / "first",
        keep_steps="3,5,10",
    )
    scripts.run(run_pretraining, **second)
    # Step 3 is in the first phase's folder.
    assert "8 steps are done, so the weights of 5 cannot be kept" in caplog.text
    assert (tmp_path / "second" / "step-10" / "bert_model.ckpt.index").exists()
    # The same, given as a prefix.
    settings = Settings(
        str(tmp_path / "third"),
        12,
        4,
        resume_from=str(tmp_path / "first" / "model.ckpt-8"),
        keep_steps=(3,),
    )
    caplog.clear()
    pretraining_run.warn_of_missed_steps(settings)
    assert not caplog.text
    pretraining_run.warn_of_missed_steps(settings._replace(keep_steps=(3, 5)))
    assert "so the weights of 5 cannot be kept" in caplog.text


@pytest.mark.parametrize(
    "text", ["0", "13", "x", "3,-1", "1.5", pytest.param("9" * 5000, id="9...")]
)
def test_bad_steps(data, tmp_path, text):
    line = scripts.error_of(
        run_pretraining, **flags_for(data, tmp_path, keep_steps=text)
    )
    assert "is not a step of this run; give numbers from 1 to 12" in line
