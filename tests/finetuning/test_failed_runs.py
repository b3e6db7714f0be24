"""What a failed run advises: nothing that it did already."""

from finetuning import failed_runs
from tasks.bilstm import BiLstmSize
from tasks.settings import RunSettings
from training.settings import Settings


def settings(
    do_train: bool = True, is_restart: bool = False, **training
) -> RunSettings:
    """Return settings of a run; the fields that advice reads matter."""
    values = dict.fromkeys(RunSettings._fields)
    values |= {
        "do_train": do_train,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "is_restart": is_restart,
        "training": Settings("out", 0, 32, **training),
    }
    return RunSettings(**values)


def test_advice_leaves_out_what_was_used():
    text = failed_runs.warning(["first", "second"], settings(), 1e-5)
    assert text.startswith("This run failed: first; second. ")
    assert "--bias_correction" in text
    assert "--num_restarts=5 with another --output_dir, which keeps" in text
    assert "a lower --learning_rate (it was 5e-05)" in text
    text = failed_runs.warning(
        ["first"],
        settings(is_restart=True, bias_correction=True, learning_rate=1e-6),
        1e-5,
    )
    assert "--bias_correction" not in text and "--num_restarts" not in text
    assert "a higher --learning_rate (it was 1e-06)" in text
    with_bilstm = settings()._replace(bilstm=BiLstmSize(1, 6))
    text = failed_runs.warning(["first"], with_bilstm, 1e-5)
    assert "another --learning_rate (it was 5e-05)" in text


def test_a_model_that_is_only_scored_gets_no_values_of_other_flags():
    text = failed_runs.warning(["first"], settings(do_train=False), 1e-5)
    assert text.startswith("The run that fine-tuned this model failed: first. ")
    assert "it was 5e-05" not in text
    assert text.endswith("(--num_restarts), with another --output_dir")


def test_a_rate_of_zero_is_the_only_advice():
    found = failed_runs.advice(settings(learning_rate=0.0), 1e-5)
    assert found == ["a --learning_rate above 0, which trains nothing"]
