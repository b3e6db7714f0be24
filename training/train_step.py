"""One training step on one or many devices."""

import functools
from collections.abc import Callable

import tensorflow as tf

import optimization
from base.errors import UserError
from ops import elementwise
from records.streaming import Batch
from training import devices
from training.objective import Objective, Sums
from training.settings import Settings

# --- One step -------------------------------------------------------------


def compiled(function: Callable) -> Callable:
    """Return the function as one XLA program."""
    return tf.function(function, jit_compile=True, autograph=False)


class Step:
    """The compiled training step of one model, task and optimizer.

    Args:
        strategy: where model and optimizer variables were created.
        model: has `trainable_variables` (keras.Variable) and is callable by
            `task.forward`.
        task: the three functions.
        optimizer: see optimization.py; its slots exist already.
        schedule: step -> learning rate.
        settings: batch, seed, accumulation, compilation.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model,
        task: Objective,
        optimizer,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        settings: Settings,
    ):
        self.strategy = strategy
        self.model = model
        self.task = task
        self.optimizer = optimizer
        self.schedule = schedule
        self.settings = settings
        self.replicas = strategy.num_replicas_in_sync
        self.replica_batch_size = check_batch_size(settings, self.replicas)
        one_device = self.replicas == 1
        compiles = devices.what_compiles(strategy, settings.jit_compile)
        self._fuses = compiles == "pieces"
        self._gradients, self._apply = self._gradients_eager, self._apply_eager
        self.replica_step = self._replica_step
        updates = settings.jit_compile_update
        updates = settings.jit_compile if updates is None else updates
        if one_device and devices.what_compiles(strategy, updates) == "pieces":
            self._apply = compiled(self._apply_eager)
        elif compiles == "step" and one_device:
            self.replica_step = compiled(self._replica_step)
        elif compiles == "step":  # collectives stay outside XLA
            self._gradients = compiled(self._gradients_eager)

    def _gradients_eager(
        self, batch: Batch, weights: dict, seed: tf.Tensor
    ) -> tuple[list[tf.Tensor], Sums]:
        """Gradients and sums of this replica's part of the batch."""
        micro_batches = self.settings.gradient_accumulation_steps
        if micro_batches == 1:
            return self._micro_gradients(batch, weights, seed)
        size = self.replica_batch_size // micro_batches

        def split(value: tf.Tensor) -> tf.Tensor:
            # Uncompiled, a batch's length is not known beforehand.
            inner = [-1 if n is None else n for n in value.shape[1:]]
            return tf.reshape(value, [micro_batches, size, *inner])

        parts = {name: split(value) for name, value in batch.items()}
        zero = tf.zeros([])
        start = (
            tf.constant(0),
            [tf.zeros(v.shape) for v in self.model.trainable_variables],
            {name: (zero, zero) for name in self.task.names},
        )

        def add_one(index, gradients, sums):
            part = {name: value[index] for name, value in parts.items()}
            more = self._micro_gradients(
                part, weights, elementwise.fold_seed(seed, index)
            )
            total = tf.nest.map_structure(tf.add, (gradients, sums), more)
            return index + 1, *total

        _, gradients, sums = tf.while_loop(
            lambda index, *_: index < micro_batches, add_one, start
        )
        return gradients, sums

    def _micro_gradients(
        self, batch: Batch, weights: dict, seed: tf.Tensor
    ) -> tuple[list[tf.Tensor], Sums]:
        values = [v.value for v in self.model.trainable_variables]
        with tf.GradientTape() as tape, elementwise.fusing(self._fuses):
            sums = self.task.forward(
                self.model, batch, training=True, dropout_seed=seed
            )
            loss = self.task.total_loss(
                {name: sums[name][0] for name in weights}, weights
            )
        gradients = tape.gradient(loss, values)
        for variable, gradient in zip(
            self.model.trainable_variables, gradients, strict=True
        ):
            if gradient is None:
                raise AssertionError(f"{variable.path} has no gradient")
        # Dense gradients: sparse ones neither all-reduce nor compile well.
        return [tf.convert_to_tensor(g) for g in gradients], sums

    def _replica_step(
        self, batch: Batch, step: tf.Tensor, length: int | None = None
    ) -> Sums:
        """Train on this replica's part of the batch of `step`."""
        context = tf.distribute.get_replica_context()
        batch = {
            name: tf.ensure_shape(value, self._shape_of(value, length))
            for name, value in batch.items()
        }
        weights = self._all_reduce(context, self.task.loss_weights(batch))
        seed = elementwise.fold_seed(
            self.settings.random_seed, step, context.replica_id_in_sync_group
        )
        gradients, sums = self._gradients(batch, weights, seed)
        gradients, sums = self._all_reduce(context, (gradients, sums))
        norm = optimization.global_norm(gradients)
        self._apply(gradients, norm, step)
        loss = self.task.total_loss(
            {name: sums[name][0] for name in weights}, weights
        )
        one = tf.ones([])
        return {**sums, "loss": (loss, one), "gradient_norm": (norm, one)}

    def _shape_of(self, value: tf.Tensor, length: int | None) -> list:
        """Shapes have to be static; distributed iterators forget some."""
        inner = [length if n is None else n for n in value.shape[1:]]
        return [self.replica_batch_size, *inner]

    def _apply_eager(
        self, gradients: list[tf.Tensor], norm: tf.Tensor, step: tf.Tensor
    ) -> None:
        """Clip the gradients, whose joint norm is `norm`, and update."""
        gradients, _ = optimization.clip_by_global_norm(
            gradients, self.settings.clip_norm, norm
        )
        self.optimizer.apply_gradients(
            self.model.trainable_variables,
            gradients,
            self.schedule(step),
            step,
        )

    def _all_reduce(self, context, values):
        if self.replicas == 1:
            return values
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    # Nothing here needs autograph, which would double the time of tracing.
    @functools.partial(tf.function, autograph=False)
    def run(
        self,
        iterator,
        start: tf.Tensor,
        count: tf.Tensor,
        length: int | None = None,
    ):
        """Run up to `count` steps; stop at the first non-finite one.

        Args:
            iterator: of the batches from step `start` on.
            start: int64, steps done.
            count: int64.
            length: of the sequences in these batches, where the iterator
                does not know; traced and compiled anew for each.

        Returns:
            (steps done, Sums in float64 over them).
        """
        names = (*self.task.names, "loss", "gradient_norm")
        zero = tf.zeros([], tf.float64)
        totals = {name: (zero, zero) for name in names}

        def go_on(done, is_finite, totals):
            del totals
            return tf.logical_and(done < count, is_finite)

        def run_one(done, is_finite, totals):
            del is_finite
            sums = self.strategy.run(
                self.replica_step, args=(next(iterator), start + done, length)
            )
            sums = tf.nest.map_structure(self._on_host, sums)
            watched = sums["loss"][0] + sums["gradient_norm"][0]
            totals = tf.nest.map_structure(tf.add, totals, sums)
            return done + 1, tf.math.is_finite(watched), totals

        done, _, totals = tf.while_loop(
            go_on,
            run_one,
            (tf.zeros([], tf.int64), tf.constant(True), totals),
        )
        return done, totals

    def _on_host(self, value: tf.Tensor) -> tf.Tensor:
        """Return what all replicas have alike, in float64 for long sums."""
        value = self.strategy.experimental_local_results(value)[0]
        return tf.cast(value, tf.float64)


def check_batch_size(settings: Settings, replicas: int) -> int:
    """Return the examples of a step that each of `replicas` devices gets.

    Raises:
        UserError: the batch does not divide.
    """
    size = settings.train_batch_size
    parts = replicas * settings.gradient_accumulation_steps
    if size % parts:
        raise UserError(
            f"--train_batch_size={size} does not divide by {replicas} devices "
            f"times --gradient_accumulation_steps="
            f"{settings.gradient_accumulation_steps}; the batch size is "
            f"global: use a multiple of {parts}"
        )
    return size // replicas
