"""A model of four weights, whose float16 gradients overflow where one says.

Row x of a batch has the loss w * x. Its gradient in float16 is x times the
loss scale divided by the number of rows, so that one large x makes it overflow.
`main` trains on several logical CPU devices and prints each one's weights.
"""

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
import tiny

from checkpoints.run_folder import Identity, RunFolder
from modeling import BertConfig
from training import loop, loss_scale, train_step
from training.compilation import Compilation
from training.objective import Objective
from training.settings import TrainingSettings

ROWS, WIDTH = 4, 4
RATE = 5e-4  # small, so that the forward pass never overflows


class Toy:
    """The model: one variable, and float16 products with it."""

    def __init__(self):
        self.kernel = keras.Variable(
            np.float32([[0.01], [-0.01], [0.005], [0.02]]), name="toy_kernel"
        )
        self.variables = self.trainable_variables = [self.kernel]
        # Of an encoder, for the estimate of the memory; this model has none.
        self.config = BertConfig(vocab_size=1)

    def computing(self, _) -> "Toy":
        """Return itself, which computes in one way alone."""
        return self


def forward(model, batch, seed):
    """Return the sum of w * x, computed in float16."""
    del seed
    kernel = tf.cast(tf.convert_to_tensor(model.kernel), tf.float16)
    y = tf.matmul(tf.cast(batch["x"], tf.float16), kernel)  # [B, 1]
    total = tf.reduce_sum(tf.cast(y, tf.float32))
    rows = tf.cast(tf.shape(batch["x"])[0], tf.float32)
    return {"toy_loss": (total, rows), "tokens": (rows, rows)}


OBJECTIVE = Objective(
    loss_weights=lambda batch: {
        "toy_loss": tf.cast(tf.shape(batch["x"])[0], tf.float32)
    },
    forward=forward,
    total_loss=lambda sums, weights: sums["toy_loss"] / weights["toy_loss"],
    names=("toy_loss", "tokens"),
)


def rows_of(large: dict[int, int], steps: int = 12) -> np.ndarray:
    """Return x of `steps` batches, [steps, B, 4].

    Args:
        large: step -> row whose numbers are 30,000 in it.
        steps: how many batches.
    """
    x = np.random.default_rng(3).uniform(0.5, 1, [steps, ROWS, WIDTH])
    for step, row in large.items():
        x[step, row] = 30_000
    return x.astype(np.float32)


def settings_of(output_dir, **changes) -> TrainingSettings:
    values = {
        "num_train_steps": 12,
        "train_batch_size": ROWS,
        "learning_rate": RATE,
        "dtype": "float16",
        "save_checkpoints_steps": 1,
        "keep_checkpoint_max": 0,
        "log_steps": 4,
    }
    return TrainingSettings(str(output_dir), **values | changes)


def create_step(
    settings: TrainingSettings, compilation: Compilation | None = None
) -> train_step.Step:
    """Return a step of a new model; by default XLA compiles nothing."""
    return train_step.Step(
        tf.distribute.get_strategy(),
        Toy(),
        OBJECTIVE,
        settings,
        compilation or Compilation(),
    )


def run_one(step: train_step.Step, x: np.ndarray, number: int) -> dict:
    """Run step `number`; return its sums."""
    iterator = iter(tf.data.Dataset.from_tensors({"x": x[number]}))
    one = tf.constant(1, tf.int64)
    _, sums = step.repeat(iterator, tf.constant(number, tf.int64), one)
    return sums


def state_of(step: train_step.Step) -> list[np.ndarray]:
    """Return the weights, m and v."""
    path = step.model.kernel.path
    slots = step.optimizer.slots[path]
    return [v.numpy() for v in (step.model.kernel, *slots.values())]


def train(settings: TrainingSettings, x: np.ndarray, **more) -> Toy:
    """Train as the scripts do, checkpoints and all; return the model.

    `more` are fields of the training.
    """
    strategy = tf.distribute.get_strategy()
    if len(tf.config.list_logical_devices("CPU")) > 1:
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def make(first, context):
        size = context.get_per_replica_batch_size(ROWS)
        data = tf.data.Dataset.from_tensor_slices(
            {"x": x.reshape([-1, WIDTH])[first:]}
        )
        return data.batch(size, drop_remainder=True)

    os.makedirs(settings.output_dir, exist_ok=True)
    with strategy.scope():
        model = Toy()
    loop.train(
        loop.Training(
            train_step.Step(
                strategy, model, OBJECTIVE, settings, Compilation()
            ),
            make,
            lambda step: 1,
            RunFolder.read(settings.output_dir),
            Identity({}, {}, {}),
            **more,
        )
    )
    return model


def values_of(output_dir, step: int) -> dict[str, np.ndarray]:
    """Return the tensors of a training checkpoint."""
    return tiny.weights_of(f"{output_dir}/model.ckpt-{step}")


def main() -> None:
    """Train with LOGICAL_CPUS devices; arguments: folder, rows_of's `large`."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    count = int(os.environ["LOGICAL_CPUS"])
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )
    loss_scale.INITIAL, loss_scale.GROWTH_STEPS = 16.0, 3
    folder, large = Path(sys.argv[-2]), json.loads(sys.argv[-1])
    x = rows_of({int(step): row for step, row in large.items()})
    model = train(settings_of(folder), x)
    copies = getattr(model.kernel.value, "values", [model.kernel.value])
    print(json.dumps([copy.numpy().tolist() for copy in copies]))
