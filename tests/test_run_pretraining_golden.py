"""run_pretraining.py follows the original's trajectory, step by step.

tests/golden/model holds a model, one batch and the weights that the
original's optimizer made of it in 30 steps.
"""

from pathlib import Path

import numpy as np
import packed_batches
import pytest
import scripts
import small_models
import tiny
from marks import nightly
from small_models import FEATURES, GOLDEN_MODEL

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return small_models.golden_arrays()


@pytest.fixture(scope="module")
def records(golden, tmp_path_factory) -> Path:
    """The golden batch as a record file: its four rows are one batch."""
    features = {name: golden[name] for name in FEATURES}
    features["next_sentence_labels"] = features["next_sentence_labels"][:, None]
    path = tmp_path_factory.mktemp("golden") / "batch.tfrecord"
    packed_batches.write(path, features)
    return path


def train(golden, records: Path, out: Path, **more) -> None:
    """Run the script as the golden run was made: no dropout, one batch."""
    batch, length = golden["input_ids"].shape
    values = {
        "do_train": True,
        "init_checkpoint": GOLDEN_MODEL / "bert_model.ckpt",
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
    found = tiny.weights_of(tmp_path / "model.ckpt-30")
    wanted = tiny.weights_of(GOLDEN_MODEL / "trained" / "model.ckpt-30")
    tiny.assert_same(found, wanted, 2e-4)
