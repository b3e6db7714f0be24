"""run_pretraining.py follows the original's trajectory, step by step.

tests/golden/model holds a model, one batch and the weights that the
original's optimizer made of it in 30 steps.
"""

from pathlib import Path

import numpy as np
import pytest
import scripts
from marks import nightly
from paths import GOLDEN
from pretraining_runs import weights_of

from records import tfrecord

run_pretraining = scripts.load("run_pretraining")
MODEL = GOLDEN / "model"
FEATURES = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(MODEL / "golden.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.fixture(scope="module")
def records(golden, tmp_path_factory) -> Path:
    """The golden batch as a record file: its four rows are one batch."""
    features = {name: golden[name] for name in FEATURES}
    features["next_sentence_labels"] = features["next_sentence_labels"][:, None]
    path = tmp_path_factory.mktemp("golden") / "batch.tfrecord"
    with open(path, "wb") as file:
        with tfrecord.RecordWriter(file) as writer:
            writer.write_examples(features)
    return path


def train(golden, records: Path, out: Path, **more) -> None:
    """Run the script as the golden run was made: no dropout, one batch."""
    batch, length = golden["input_ids"].shape
    values = {
        "do_train": True,
        "init_checkpoint": MODEL / "bert_model.ckpt",
        "input_file": records,
        "output_dir": out,
        "max_seq_length": length,
        "max_predictions_per_seq": golden["masked_lm_ids"].shape[1],
        "train_batch_size": batch,
        "learning_rate": golden["learning_rate"],
        "num_train_steps": golden["num_train_steps"],
        "num_warmup_steps": golden["num_warmup_steps"],
        "stop_after_steps": golden["steps"],
    }
    scripts.run(run_pretraining, **values | more)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{}, nightly({"gradient_accumulation_steps": 2, "jit_compile": False})],
)
def test_thirty_steps_end_at_the_originals_weights(
    golden, records, tmp_path, more
):
    """Weights and both moments of every variable, to 2e-4.

    Update number n has the rate of step n + 1; with the rate of step n the
    first of the 6 warm-up updates would change nothing.
    """
    train(golden, records, tmp_path, **more)
    found = weights_of(tmp_path / "model.ckpt-30")
    wanted = weights_of(MODEL / "trained" / "model.ckpt-30")
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(
            found[name], wanted[name], rtol=0, atol=2e-4, err_msg=name
        )
