"""One training step on one or many devices: gradients, clipping, update.

A step is a pure function of weights, optimizer slots, batch and step number.
Every random number in it is derived from (seed, step, device, micro-batch), so
a run that was killed and started again ends with the same bits.

A loss is a pair of sums over examples, numerator and denominator. So the
gradients of a batch are the same on one device, on many, and in micro-batches.
Means would not do: the mean over a batch is not the mean of the means of its
parts when the parts have different numbers of masked words. For losses (1, 1)
in one part and (4) in another it is 6 / 3 = 2, not (1 + 4) / 2 = 2.5.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

import modeling
import optimization
from ops import elementwise
from records import streaming
from records.streaming import Batch
from training import devices, layers
from training.compilation import Compilation
from training.objective import Objective, Sums
from training.settings import TrainingSettings
from training.task_model import TaskModel


class Step:
    """The training step of one model and objective.

    Attributes:
        model: computes as `compilation` and `settings` say.
        optimizer: with its slots.
        loss_scale: with it a step whose gradient is not finite is skipped;
            None unless in float16.
        replica_step, gradients, update: the parts of a step, which are compiled
            programs where `compilation` says so.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: TaskModel,
        objective: Objective,
        settings: TrainingSettings,
        compilation: Compilation,
    ):
        self.strategy, self.objective = strategy, objective
        self.settings, self.compilation = settings, compilation
        self.model = model.computing(
            modeling.Compute(
                fuse=compilation.elementwise,
                recompute=settings.recompute,
                one_program=compilation.step or devices.is_tpu(strategy),
            )
        )
        self.schedule = optimization.create_schedule(
            settings.learning_rate,
            settings.num_train_steps,
            settings.num_warmup_steps,
            settings.continuous_schedule,
            settings.schedule,
            settings.cooldown_proportion,
        )
        compiles_update = compilation.update and not compilation.step
        of_muon = {}
        if settings.optimizer == "muon":
            dtype = "float32" if settings.dtype == "float16" else settings.dtype
            of_muon = {
                "momentum": settings.muon_momentum,
                "muon_factor": settings.muon_factor,
                "dtype": dtype,
                "is_compiled": compiles_update,
            }
        with strategy.scope():
            self.optimizer = optimization.named_optimizer(
                settings.optimizer,
                beta_1=settings.beta_1,
                beta_2=settings.beta_2,
                epsilon=settings.epsilon,
                weight_decay_rate=settings.weight_decay_rate,
                bias_correction=settings.bias_correction,
                rate_factor=functools.partial(
                    layers.rate_factor,
                    settings.layer_decay,
                    model.config.num_hidden_layers,
                ),
                ema_decay=settings.ema_decay,
                **of_muon,
            )
            self.optimizer.create_slots(model.trainable_variables)
        self.loss_scale = None
        if settings.dtype == "float16":
            from training.loss_scale import LossScale

            self.loss_scale = LossScale()
        self.replicas = strategy.num_replicas_in_sync
        self.replica_batch_size = check_batch_size(settings, self.replicas)

        def compiled_if(is_compiled: bool, function: Callable) -> Callable:
            return elementwise.compiled(function) if is_compiled else function

        # What XLA compiles contains neither an all-reduce nor the update of a
        # strategy's variables (see AdamWeightDecay.apply_gradients). With one
        # device there is neither, so the whole step or the update can be one
        # program.
        whole = compilation.step and self.replicas == 1
        parts = settings.gradient_accumulation_steps
        sum_gradients = self._sum_gradients if parts > 1 else self._gradients
        self.replica_step = compiled_if(whole, self._replica_step)
        self.gradients = compiled_if(
            compilation.step and not whole, sum_gradients
        )
        self.update = compiled_if(compiles_update, self._update)

    # Autograph would double the time of tracing, and nothing here needs it.
    @functools.partial(tf.function, autograph=False)
    def repeat(
        self,
        iterator: Any,
        start: tf.Tensor,
        count: tf.Tensor,
        length: int | None = None,
    ) -> tuple[tf.Tensor, Sums]:
        """Do the step up to `count` times; stop at one that ends the run.

        That is one whose loss or gradient is not finite. With a loss scale it
        is one whose loss is not finite, or after which the scale is too small.

        Args:
            iterator: yields the batches from step `start` on.
            start: int64, number of steps done before.
            count: int64, the largest number of steps to run.
            length: tokens of a sequence in these batches, if each length is
                traced separately.

        Returns:
            The number of steps done, and the Sums over them in float64.
        """
        # float64: the tokens of 1,000 steps of 100,000 exceed 2**24, from where
        # on float32 does not hold every integer.
        zero = tf.zeros([], tf.float64)
        names = (*self.objective.names, "loss", "gradient_norm")
        totals = dict.fromkeys(names, (zero, zero))
        scale = self.loss_scale.read() if self.loss_scale else ()

        def goes_on(done, is_good, *_):
            return tf.logical_and(done < count, is_good)

        def run_one(done, _, scale, totals):
            value = scale.value if self.loss_scale else None
            sums = self.strategy.run(
                self.replica_step,
                args=(next(iterator), start + done, length, value),
            )
            # Equal on all replicas.
            sums = tf.nest.map_structure(
                lambda value: tf.cast(
                    self.strategy.experimental_local_results(value)[0],
                    tf.float64,
                ),
                sums,
            )
            is_good, scale, sums = self._judge(sums, scale)
            totals = tf.nest.map_structure(tf.add, totals, sums)
            return done + 1, is_good, scale, totals

        state = (tf.zeros([], tf.int64), tf.constant(True), scale, totals)
        done, _, scale, totals = tf.while_loop(goes_on, run_one, state)
        if self.loss_scale:
            self.loss_scale.assign(scale)
        return done, totals

    def _judge(self, sums: Sums, scale: tuple) -> tuple[tf.Tensor, tuple, Sums]:
        """Return whether training continues, the next scale, and the sums.

        A scale is a loss_scale.Scale, or () without one.
        """
        loss, norm = sums["loss"][0], sums["gradient_norm"][0]
        if not self.loss_scale:
            # The sum of two numbers is finite only if both are. NaN weights
            # never become finite again, so more steps would be of no use.
            return tf.math.is_finite(loss + norm), scale, sums
        is_applied = tf.math.is_finite(norm)
        scale = self.loss_scale.next_scale(scale, is_applied)
        # A step that is skipped does not count in the mean norm.
        one = tf.cast(is_applied, norm.dtype)
        norm = tf.where(is_applied, norm, tf.zeros_like(norm))
        is_good = tf.math.is_finite(loss) & self.loss_scale.is_usable(scale)
        return is_good, scale, {**sums, "gradient_norm": (norm, one)}

    # --- Averages of the weights ---------------------------------------------

    def use_averages(self, done: int) -> None:
        """Set the weights to their averages, if --ema_decay keeps some.

        `done` steps of the run are done.
        """
        if self.settings.ema_decay:
            variables = self.model.trainable_variables
            averages = self.optimizer.averages(variables, done)
            for variable, average in zip(variables, averages, strict=True):
                variable.assign(average)

    @contextlib.contextmanager
    def averaged(self, done: int) -> Iterator[None]:
        """Have the averages in place of the weights inside the block."""
        variables = self.model.trainable_variables
        weights = [v.numpy() for v in variables if self.settings.ema_decay]
        self.use_averages(done)
        try:
            yield
        finally:
            for variable, value in zip(variables, weights, strict=False):
                variable.assign(value)

    # --- On one replica ------------------------------------------------------

    def _replica_step(
        self,
        batch: Batch,
        step: tf.Tensor,
        length: int | None = None,
        scale: tf.Tensor | None = None,
    ) -> Sums:
        """Train on this replica's part of the batch number `step`, from 0.

        `length` is as for `repeat`; `scale` is the loss scale, if there is one.
        """
        context = tf.distribute.get_replica_context()

        def with_shape(value: tf.Tensor) -> tf.Tensor:
            # XLA and the micro-batches need the dimensions that distributed
            # datasets drop.
            inner = [length if n is None else n for n in value.shape[1:]]
            return tf.ensure_shape(value, [self.replica_batch_size, *inner])

        batch = {name: with_shape(value) for name, value in batch.items()}
        # The denominators of the whole batch, before any gradient: each part's
        # loss is divided by them, so the gradients only have to be added up.
        denominators = self._all_reduce(
            context, self.objective.loss_weights(batch)
        )
        # Each device has its own dropout: with the same seed on all of them,
        # row r of every part would drop the same elements.
        seed = elementwise.fold_seed(
            self.settings.random_seed, step, context.replica_id_in_sync_group
        )
        gradients, sums = self.gradients(batch, denominators, seed, scale)
        gradients, sums = self._all_reduce(context, (gradients, sums))
        # The norm of the sum over the devices: clipped device by device, as by
        # the original on TPUs, the result depends on the number of devices. An
        # overflow on one device makes the norm infinite or NaN on all of them.
        norm = optimization.global_norm(gradients)
        self.update(
            gradients,
            norm,
            step,
            self.optimizer.directions(
                self.model.trainable_variables, gradients, norm
            ),
        )
        loss = self.objective.total_loss(
            {name: sums[name][0] for name in denominators}, denominators
        )
        # A pair with the count 1, so that the mean over steps is formed as for
        # the other Sums.
        one = tf.ones([])
        return {**sums, "loss": (loss, one), "gradient_norm": (norm, one)}

    def _all_reduce(self, context: Any, values: Any) -> Any:
        """Return the sums over all replicas."""
        if self.replicas == 1:
            return values
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _gradients(
        self,
        batch: Batch,
        denominators: dict,
        seed: tf.Tensor,
        scale: tf.Tensor | None,
    ) -> tuple[list[tf.Tensor], Sums]:
        """Return gradients and sums of one forward and backward pass.

        With the denominators of the whole batch, the gradients of its parts
        add up to the gradient of its mean loss. They come without the loss
        scale, and are not finite where they overflowed with it.
        """
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            sums = self.objective.forward(self.model, batch, seed)
            loss = self.objective.total_loss(
                {name: sums[name][0] for name in denominators}, denominators
            )
            if scale is not None:
                loss *= scale
        gradients = tape.gradient(loss, [v.value for v in variables])
        for variable, gradient in zip(variables, gradients, strict=True):
            if gradient is None:
                raise AssertionError(f"{variable.path} has no gradient")
        # Sparse gradients neither all-reduce nor compile well.
        gradients = [tf.convert_to_tensor(g) for g in gradients]
        if scale is not None:
            # A division: 1 / scale could be too small for a float32.
            gradients = [g / scale for g in gradients]
        return gradients, sums

    def _sum_gradients(
        self,
        batch: Batch,
        denominators: dict,
        seed: tf.Tensor,
        scale: tf.Tensor | None,
    ) -> tuple[list[tf.Tensor], Sums]:
        """Return `_gradients` of this replica, added up over micro-batches."""
        micro_batches = self.settings.gradient_accumulation_steps
        # A loop and not a list of passes, so that the graph does not grow with
        # the number of micro-batches.
        size = self.replica_batch_size // micro_batches

        def split(value: tf.Tensor) -> tf.Tensor:
            # The length is not known here unless it is compiled.
            inner = [-1 if n is None else n for n in value.shape[1:]]
            return tf.reshape(value, [micro_batches, size, *inner])

        parts = {name: split(value) for name, value in batch.items()}
        zero = tf.zeros([])
        start = (
            tf.constant(0),
            [tf.zeros(v.shape) for v in self.model.trainable_variables],
            {name: (zero, zero) for name in self.objective.names},
        )

        def add_one(index, gradients, sums):
            part = {name: value[index] for name, value in parts.items()}
            # Folded in, as the device is: each micro-batch has a dropout of
            # its own.
            more = self._gradients(
                part, denominators, elementwise.fold_seed(seed, index), scale
            )
            total = tf.nest.map_structure(tf.add, (gradients, sums), more)
            return index + 1, *total

        # One after the other: in parallel they would need the memory of the
        # whole batch.
        _, gradients, sums = tf.while_loop(
            lambda index, *_: index < micro_batches,
            add_one,
            start,
            parallel_iterations=1,
        )
        return gradients, sums

    def _update(
        self,
        gradients: list[tf.Tensor],
        norm: tf.Tensor,
        step: tf.Tensor,
        directions: dict[str, tf.Tensor],
    ) -> None:
        """Clip the gradients, whose joint norm is `norm`, and update.

        optimization.create_schedule says why the rate is schedule(step + 1).
        """
        gradients, _ = optimization.clip_by_global_norm(gradients, norm=norm)
        self.optimizer.apply_gradients(
            self.model.trainable_variables,
            gradients,
            learning_rate=self.schedule(step + 1),
            step=step,
            is_applied=tf.math.is_finite(norm) if self.loss_scale else None,
            directions=directions,
        )


def check_batch_size(settings: TrainingSettings, replicas: int) -> int:
    """Return the number of examples of a step for each of the devices.

    Raises:
        UserError: the batch size is not a multiple of devices times
            micro-batches.
    """
    size = settings.train_batch_size
    micro_batches = settings.gradient_accumulation_steps
    what = f"{replicas} devices times --gradient_accumulation_steps="
    streaming.check_divides(
        "train_batch_size",
        size,
        replicas * micro_batches,
        f"{what}{micro_batches}",
    )
    return size // replicas
