"""Learning rate schedule, gradient clipping, AdamW as BERT has it, and LAMB.

Plain TensorFlow rather than Keras optimizers, whose versions of all three
differ: they correct Adam's bias, put epsilon elsewhere and, for LAMB, apply
weight decay outside the trust ratio.

An update of one variable is a pure function of that variable, its gradient
and its two slots, so the same code runs eagerly, under XLA and, handed to
`strategy.extended.update`, on every device's copy.
"""

import re
from collections.abc import Callable, Sequence

from base.errors import UserError

import keras
import tensorflow as tf

# Word embeddings and all other kernels decay; norms and biases do not. The
# patterns are searched for in variable paths, which are checkpoint keys.
EXCLUDE_FROM_WEIGHT_DECAY = ("LayerNorm", "layer_norm", "bias")


def create_schedule(
    init_lr: float,
    num_train_steps: int,
    num_warmup_steps: int | None,
    continuous: bool = False,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function from the step (counted from 0) to the learning rate.

    The rate climbs from 0 to init_lr over the warm-up and falls linearly to
    0 at num_train_steps. As in the original the fall is measured from step 0,
    so the rate drops from init_lr to init_lr * (1 - warmup / total) where the
    warm-up ends.

    Which step an update sees was never settled in the original: nothing
    orders its read of the step and the increment. With TensorFlow 1's default
    (reference) variables the update number n, from 0, runs at schedule(n + 1)
    and no update has a rate of 0; with resource variables it runs at
    schedule(n), and the first one only fills the moments.

    Args:
        init_lr: peak learning rate.
        num_train_steps: where the rate reaches 0.
        num_warmup_steps: 0 or None for no warm-up.
        continuous: measure the fall from the end of the warm-up, so that
            nothing drops; a different recipe from the original's.
    """
    warmup = num_warmup_steps or 0
    start = warmup if continuous else 0
    length = max(1, num_train_steps - start)

    def schedule(step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        past = tf.clip_by_value(step - start, 0.0, length)
        rate = init_lr * (1.0 - past / length)
        if warmup:
            rate = tf.where(step < warmup, init_lr * (step / warmup), rate)
        return tf.cast(rate, tf.float32)

    return schedule


def global_norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the norm of all gradients together."""
    return tf.sqrt(tf.add_n([_squared_sum(g) for g in gradients]))


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor],
    clip_norm: float = 1.0,
    norm: tf.Tensor | None = None,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Scale gradients so that their joint norm is at most clip_norm.

    A norm that is not finite makes every gradient NaN: one bad value must not
    turn into a silent step of size zero.

    Args:
        gradients: dense tensors.
        clip_norm: the largest norm allowed.
        norm: their `global_norm` where it is known already. On a CPU it is
            four times faster outside a compiled function, the rest inside.

    Returns:
        The scaled gradients and the norm before scaling.
    """
    norm = global_norm(gradients) if norm is None else norm
    scale = clip_norm / tf.maximum(norm, clip_norm)
    scale = tf.where(tf.math.is_finite(norm), scale, float("nan"))
    return [g * tf.cast(scale, g.dtype) for g in gradients], norm


def _squared_sum(x: tf.Tensor) -> tf.Tensor:
    return 2.0 * tf.nn.l2_loss(tf.cast(x, tf.float32))


class AdamWeightDecay:
    """Adam with decoupled weight decay, as BERT was trained with.

    Against the textbook: no bias correction (unless asked for), epsilon added
    outside the square root, and the decay joins the update before the
    learning rate multiplies both.
    """

    slot_names = ("adam_m", "adam_v")

    def __init__(
        self,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] = EXCLUDE_FROM_WEIGHT_DECAY,
        bias_correction: bool = False,
    ):
        """Keep the constants; defaults are those BERT was trained with."""
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay)
        self.bias_correction = bias_correction
        self.slots: dict[str, dict[str, tf.Variable]] = {}

    def create_slots(
        self, variables: Sequence[keras.Variable]
    ) -> dict[str, dict[str, tf.Variable]]:
        """Create zeroed slots, named <path>/adam_m and <path>/adam_v.

        Call it under the strategy scope the variables were made in.

        Returns:
            path -> slot name -> variable; also kept as `slots`.
        """
        for variable in variables:
            self.slots[variable.path] = {
                name: tf.Variable(
                    tf.zeros(variable.shape, tf.float32),
                    trainable=False,
                    name=f"{variable.path}/{name}",
                )
                for name in self.slot_names
            }
        return self.slots

    def uses_weight_decay(self, path: str) -> bool:
        """Return whether the variable of that path decays."""
        return self.weight_decay_rate > 0 and not self._is_excluded(path)

    def _is_excluded(self, path: str) -> bool:
        patterns = self.exclude_from_weight_decay
        return any(re.search(pattern, path) for pattern in patterns)

    def apply_gradients(
        self,
        variables: Sequence[keras.Variable],
        gradients: Sequence[tf.Tensor],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> None:
        """Update every variable and its slots.

        Call it in a replica context, with gradients that are already summed
        over replicas; without a strategy that is any code.
        """

        def update_all(strategy, gradients, learning_rate, step):
            for variable, gradient in zip(variables, gradients, strict=True):
                slots = self.slots[variable.path]
                strategy.extended.update(
                    variable.value,
                    self._update_component(variable.path),
                    args=(
                        gradient,
                        *(slots[name] for name in self.slot_names),
                        learning_rate,
                        step,
                    ),
                    group=False,
                )

        tf.distribute.get_replica_context().merge_call(
            update_all, args=(list(gradients), learning_rate, step)
        )

    def _update_component(self, path: str) -> Callable[..., None]:
        def update(variable, gradient, adam_m, adam_v, learning_rate, step):
            self.update_variable(
                path, variable, gradient, adam_m, adam_v, learning_rate, step
            )

        return update

    def update_variable(
        self,
        path: str,
        variable: tf.Variable,
        gradient: tf.Tensor,
        adam_m: tf.Variable,
        adam_v: tf.Variable,
        learning_rate: tf.Tensor,
        step: tf.Tensor,
    ) -> None:
        """Make one step on one variable (or one device's copy of it)."""
        gradient = tf.cast(gradient, tf.float32)
        next_m = self.beta_1 * adam_m + (1.0 - self.beta_1) * gradient
        next_v = self.beta_2 * adam_v + (1.0 - self.beta_2) * gradient**2
        mean, square = next_m, next_v
        if self.bias_correction:
            time = tf.cast(step, tf.float32) + 1.0
            mean = mean / (1.0 - tf.pow(self.beta_1, time))
            square = square / (1.0 - tf.pow(self.beta_2, time))
        update = mean / (tf.sqrt(square) + self.epsilon)
        if self.uses_weight_decay(path):
            update += self.weight_decay_rate * variable
        update *= learning_rate * self.trust_ratio(path, variable, update)
        adam_m.assign(next_m)
        adam_v.assign(next_v)
        variable.assign(variable - update)

    def trust_ratio(
        self, path: str, variable: tf.Variable, update: tf.Tensor
    ) -> tf.Tensor | float:
        """Return the factor of the learning rate for one variable."""
        del path, variable, update
        return 1.0


class Lamb(AdamWeightDecay):
    """LAMB (You et al., arXiv:1904.00962, algorithm 2) for large batches.

    Each variable's update, weight decay included, is scaled to the norm of
    the variable itself. What does not decay (norms, biases) is not scaled.
    """

    def trust_ratio(
        self, path: str, variable: tf.Variable, update: tf.Tensor
    ) -> tf.Tensor | float:
        """Return |variable| / |update|, 1 where either is zero."""
        if self._is_excluded(path):
            return 1.0
        weight_norm = tf.sqrt(_squared_sum(tf.convert_to_tensor(variable)))
        update_norm = tf.sqrt(_squared_sum(update))
        usable = tf.logical_and(weight_norm > 0.0, update_norm > 0.0)
        safe = tf.where(usable, update_norm, 1.0)
        return tf.where(usable, weight_norm / safe, 1.0)


OPTIMIZERS = {"adamw": AdamWeightDecay, "lamb": Lamb}


def create_optimizer(
    name: str = "adamw",
    weight_decay_rate: float = 0.01,
    bias_correction: bool = False,
    **kwargs,
) -> AdamWeightDecay:
    """Return the optimizer of that name: adamw or lamb."""
    if name not in OPTIMIZERS:
        raise UserError(
            f"--optimizer: unknown optimizer {name!r}; choose from "
            f"{', '.join(OPTIMIZERS)}"
        )
    return OPTIMIZERS[name](
        weight_decay_rate=weight_decay_rate,
        bias_correction=bias_correction,
        **kwargs,
    )
