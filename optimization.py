"""Learning rate schedules, gradient clipping, and AdamW, LAMB and Muon.

The recipe of the paper's appendix A.2 in the arithmetic of the original code.
One update, numbered n from 0, of a weight w with gradient g:

    g = g * min(1, clip_norm / |all gradients|)     clip_by_global_norm
    m = 0.9 m + 0.1 g                               first moment
    v = 0.999 v + 0.001 g^2                         second moment
    u = m / (sqrt(v) + 1e-6) + 0.01 w               no 0.01 w for norms, biases
    w = w - schedule(n + 1) * u

This is written in plain TensorFlow, since the optimizers of Keras differ: Adam
corrects the bias of m and v, and LAMB decays weights outside its trust ratio.

The update of one variable is a pure function of the variable, its gradient and
its two slots m and v. So the same code runs eagerly, compiled by XLA, and in
`strategy.extended.update` on every device's copy.
"""

import dataclasses
import functools
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from base import lazy
from base.errors import check_choice

import keras
import tensorflow as tf

from ops import elementwise

# Regular expressions searched for in variable paths. What they match has no
# weight decay: norms and biases. Embeddings, kernels and output_weights decay.
# The last name of a path decides, since the others are names of layers, which a
# Keras model may call anything. Of BERT's variables these are the ones that the
# original excludes, by LayerNorm, layer_norm and bias anywhere in the path.
EXCLUDE_FROM_WEIGHT_DECAY = (r"(^|[/_])bias$", r"(^|/)(gamma|beta|scale)$")

__getattr__ = lazy.attributes_of("compat.optimization")

# --- Learning rate -----------------------------------------------------------


def create_schedule(
    init_lr: float,
    num_train_steps: int,
    num_warmup_steps: int | None,
    continuous: bool = False,
    name: str = "linear",
    cooldown_proportion: float = 0.2,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function from a step to its learning rate, a float32 scalar.

    The rate rises linearly from 0 at step 0 to init_lr over the warm-up, and
    falls linearly to 0 at num_train_steps. As in the original, the fall is
    measured from step 0, so the rate drops where the warm-up ends. For init_lr
    1.0, 10 steps and a warm-up of 4:

        step        0     1     2     3     4     5     6     7     8     9  10
        linear      0  0.25   0.5  0.75   0.6   0.5   0.4   0.3   0.2   0.1   0
        continuous  0  0.25   0.5  0.75     1  0.83  0.67   0.5  0.33  0.17   0
        cosine      0  0.25   0.5  0.75     1  0.93  0.75   0.5  0.25  0.07   0
        wsd         0  0.25   0.5  0.75     1     1     1     1     1   0.5   0

    Update number n, from 0, has the rate of step n + 1: the first one's rate
    is not 0, the last one's is. In the original nothing orders the reading of
    the step and its increment. With TensorFlow 1's default (reference)
    variables the increment came first, and the reference trajectory in the
    tests was made so. With resource variables it came second.

    Args:
        init_lr: the peak learning rate.
        num_train_steps: the step where the rate reaches 0.
        num_warmup_steps: 0 or None for no warm-up.
        continuous: measure the linear fall from the end of the warm-up, so
            that the rate does not drop there. The original cannot do this.
        name: linear; cosine, which falls as half a wave from the end of the
            warm-up; or wsd (warm-up, stable, decay), which stays at init_lr and
            falls linearly from `cooldown_start` on.
        cooldown_proportion: the share of the steps in which wsd falls.
    """
    warmup = num_warmup_steps or 0
    # The original computes both lines from step 0 and selects one by the step:
    # at the end of the warm-up the rate drops from init_lr to
    # init_lr * (1 - warmup / num_train_steps). With the paper's 10,000 of
    # 1,000,000 steps that is 1%; with the 10% of fine-tuning, 10%.
    start = warmup if continuous or name == "cosine" else 0
    if name == "wsd":
        start = cooldown_start(num_train_steps, cooldown_proportion)
    # At least 1, for runs that are all warm-up.
    length = max(1, num_train_steps - start)

    def schedule(step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        # Clipped: past num_train_steps the rate stays 0.
        past = tf.clip_by_value(step - start, 0.0, length)
        rate = init_lr * (1.0 - past / length)
        if name == "cosine":
            rate = init_lr * (0.5 + 0.5 * tf.cos(math.pi * past / length))
        if warmup:
            rate = tf.where(step < warmup, init_lr * (step / warmup), rate)
        return tf.cast(rate, tf.float32)

    return schedule


def cooldown_start(num_train_steps: int, cooldown_proportion: float) -> int:
    """Return the step from which the rate of the schedule wsd falls."""
    return num_train_steps - int(cooldown_proportion * num_train_steps)


# --- Gradient clipping -------------------------------------------------------


def global_norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the Euclidean norm of all gradients as one vector, float32."""
    return tf.sqrt(tf.add_n([_squared_sum(g) for g in gradients]))


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor],
    clip_norm: float = 1.0,
    norm: tf.Tensor | None = None,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Scale gradients so that their global norm is at most clip_norm.

    All are scaled by one factor, which keeps the direction of the update. A
    norm that is not finite makes every gradient NaN: otherwise one infinite
    gradient would give a factor of 0, and training would silently stand still.

    Args:
        gradients: dense tensors.
        clip_norm: the largest norm allowed.
        norm: their `global_norm`, if it is known. On a CPU the norm is four
            times faster to compute outside of what XLA compiles, and the
            scaling is faster inside.

    Returns:
        The scaled gradients and the norm before scaling, as
        tf.clip_by_global_norm does.
    """
    norm = global_norm(gradients) if norm is None else norm
    factor = clip_factor(norm, clip_norm)
    return [g * tf.cast(factor, g.dtype) for g in gradients], norm


def clip_factor(norm: tf.Tensor, clip_norm: float = 1.0) -> tf.Tensor:
    """Return what `clip_by_global_norm` multiplies gradients by."""
    # 1 for norms up to clip_norm, clip_norm / norm above: with clip_norm 1,
    # gradients (3, 4) of norm 5 become (0.6, 0.8), and (0.3, 0.4) stay.
    factor = clip_norm / tf.maximum(norm, clip_norm)
    return tf.where(tf.math.is_finite(norm), factor, float("nan"))


def _squared_sum(x: tf.Tensor) -> tf.Tensor:
    """Return the sum of squares in float32."""
    # l2_loss is half the sum of squares, in one operation.
    return 2.0 * tf.nn.l2_loss(tf.cast(x, tf.float32))


# --- Optimizers --------------------------------------------------------------


@dataclasses.dataclass(eq=False)
class AdamWeightDecay:
    """Adam with decoupled weight decay, as BERT was trained with.

    Three differences from Adam as published (Kingma and Ba, arXiv:1412.6980):

    - No bias correction, unless asked for. The moments start at zero and are
      too small at first, v more than m: update 0 has m = 0.1 g, v = 0.001 g^2
      and m / sqrt(v) = 3.2 instead of 1. The warm-up makes up for it.
    - epsilon is 1e-6 instead of 1e-8. It is added to sqrt(v), as published;
      inside the root it would have the effect of 1e-3.
    - Weight decay is decoupled (Loshchilov and Hutter, arXiv:1711.05101): a
      share of the weight is added to the update after the division by
      sqrt(v). As part of the gradient it would be divided too, and weights
      with large gradients would hardly decay.

    Attributes:
        exclude_from_weight_decay: regular expressions searched for in paths.
        rate_factor: path of a variable -> factor of its learning rate.
        ema_decay: with it an exponential moving average of the weights is
            kept, see `averages`.
        slots: variable path -> slot name -> slot variable, with the names that
            `slots_of` returns; with an ema_decay also `average`.
    """

    slot_names = ("adam_m", "adam_v")  # no field

    # BERT was trained with these defaults.
    weight_decay_rate: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    exclude_from_weight_decay: Sequence[str] = EXCLUDE_FROM_WEIGHT_DECAY
    bias_correction: bool = False
    rate_factor: Callable[[str], float] = lambda path: 1.0
    ema_decay: float = 0.0

    def __post_init__(self):
        """Begin without slots."""
        self.slots: dict[str, dict[str, tf.Variable]] = {}

    def slots_of(self, path: str) -> tuple[str, ...]:
        """Return the names of the slots of the variable of that path."""
        return self.slot_names

    def create_slots(self, variables: Sequence[keras.Variable]) -> None:
        """Create `slots` of zeros, named <path>/adam_m and so on.

        Call it in the strategy scope in which the variables were created.
        """
        # float32 whatever the --dtype: a moment changes by so little in
        # a step that bfloat16 would often round the change away.
        for variable in variables:
            self.slots[variable.path] = {
                name: tf.Variable(
                    tf.zeros(variable.shape, tf.float32),
                    trainable=False,
                    name=f"{variable.path}/{name}",
                )
                for name in (
                    *self.slots_of(variable.path),
                    *(("average",) if self.ema_decay else ()),
                )
            }

    def uses_weight_decay(self, path: str) -> bool:
        """Whether weight decay applies to the variable of that path."""
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
        is_applied: tf.Tensor | None = None,
        directions: Mapping[str, tf.Tensor] = types.MappingProxyType({}),
    ) -> None:
        """Update every variable and its slots.

        Call it in a replica context, which code without a strategy is too.

        Args:
            variables: the ones that `create_slots` got.
            gradients: one for each, clipped, summed over all replicas.
            learning_rate: a float32 scalar.
            step: number of the update, from 0, for the bias correction.
            is_applied: a bool scalar; False leaves variables and slots as
                they are, to the bit, whatever the gradients. None: True.
            directions: what `self.directions` returns for the gradients.
        """

        def update_all(strategy, gradients, directions, **options):
            for variable, gradient in zip(variables, gradients, strict=True):
                path = variable.path
                strategy.extended.update(
                    variable.value,
                    functools.partial(self.update_variable, path),
                    args=(gradient, self.slots[path]),
                    kwargs=options | {"direction": directions.get(path)},
                    group=False,
                )

        # Variables of a strategy may be assigned to in cross-replica context
        # only; `update` then runs the function on the device of each copy.
        tf.distribute.get_replica_context().merge_call(
            update_all,
            args=(list(gradients), dict(directions)),
            kwargs={
                "learning_rate": learning_rate,
                "step": step,
                "is_applied": is_applied,
            },
        )

    def directions(
        self,
        variables: Sequence[keras.Variable],
        gradients: Sequence[tf.Tensor],
        norm: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Return what matrix products compute of an update: nothing for Adam.

        They are apart from the rest of the update, because on a CPU XLA
        compiles that, and its products are slow there.

        Args:
            variables, gradients: as for `apply_gradients`, but not clipped.
            norm: the `global_norm` of the gradients.

        Returns:
            Path of a variable -> a tensor of its shape.
        """
        return {}

    def update_variable(
        self,
        path: str,
        variable: tf.Variable,
        gradient: tf.Tensor,
        slots: Mapping[str, tf.Variable],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
        is_applied: tf.Tensor | None = None,
        direction: tf.Tensor | None = None,
    ) -> None:
        """Update one variable (or one device's copy of it) and its slots."""
        moments = [slots[name] for name in self.slots_of(path)]
        # Assigned when everything is computed from the old values.
        targets = [*moments, variable]
        values = self.next_values(
            path, variable, gradient, moments, learning_rate, step, direction
        )
        # A selection and not tf.cond: it can be part of a program of XLA and of
        # a strategy's update, and needs no transfer from a GPU.
        if is_applied is not None:
            values = [
                tf.where(is_applied, value, target)
                for target, value in zip(targets, values, strict=True)
            ]
        if self.ema_decay:
            targets.append(slots["average"])
            # The average takes in the weights after a skipped step too, since
            # `averages` counts all steps.
            average = self.ema_decay * slots["average"]
            values = [*values, average + (1.0 - self.ema_decay) * values[-1]]
        for target, value in zip(targets, values, strict=True):
            target.assign(value)

    def averages(
        self, variables: Sequence[keras.Variable], step: int
    ) -> list[tf.Tensor]:
        """Return the average of each variable's weights after `step` updates.

        After update n, from 1, with weights w_n, it is a_n / (1 - d^n), where
        a_n = d a_(n-1) + (1 - d) w_n and a_0 = 0. In a_n the factors of w_1 to
        w_n sum to 1 - d^n, and to 1 after the division, as in Adam's bias
        correction. With d = 0.5, w_1 = 4 and w_2 = 1, a_2 is 1.5, and the
        average 1.5 / 0.75 = 2.
        """
        total = 1.0 - self.ema_decay**step
        return [self.slots[v.path]["average"] / total for v in variables]

    def next_values(
        self,
        path: str,
        variable: tf.Variable,
        gradient: tf.Tensor,
        moments: Sequence[tf.Tensor],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
        direction: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, ...]:
        """Return the values of the moments and of variable after an update.

        The moments are in the order of `slots_of`.
        """
        # bfloat16 has 8 significant bits: there 0.999 v + 0.001 g^2 would
        # often round to v.
        gradient = tf.cast(gradient, tf.float32)
        *next_moments, update = self._next_update(
            path, gradient, moments, step, direction
        )
        # Added before the learning rate: the decay follows the schedule too.
        # At rate 1e-4, a weight of gradient 0 shrinks by 1e-6 of itself.
        if self.uses_weight_decay(path):
            update += self.weight_decay_rate * variable
        learning_rate *= self.rate_factor(path)
        update *= learning_rate * self.trust_ratio(path, variable, update)
        return *next_moments, variable - update

    def _next_update(
        self,
        path: str,
        gradient: tf.Tensor,
        moments: Sequence[tf.Tensor],
        step: tf.Tensor,
        direction: tf.Tensor | None,
    ) -> tuple[tf.Tensor, ...]:
        """Return the next moments, and the update without decay and rate."""
        adam_m, adam_v = moments
        next_m = self.beta_1 * adam_m + (1.0 - self.beta_1) * gradient
        next_v = self.beta_2 * adam_v + (1.0 - self.beta_2) * gradient**2
        mean, square = next_m, next_v
        if self.bias_correction:
            # m is an average with weights that sum to 1 - beta^(n + 1). At
            # update 0 this divides m by 0.1 and v by 0.001, so that m is g and
            # sqrt(v) is |g|.
            count = tf.cast(step, tf.float32) + 1.0
            mean = mean / (1.0 - tf.pow(self.beta_1, count))
            square = square / (1.0 - tf.pow(self.beta_2, count))
        return next_m, next_v, mean / (tf.sqrt(square) + self.epsilon)

    def trust_ratio(
        self, path: str, variable: tf.Variable, update: tf.Tensor
    ) -> tf.Tensor | float:
        """Return the factor of a variable's learning rate: 1 for Adam."""
        return 1.0


class Lamb(AdamWeightDecay):
    """LAMB (You et al., arXiv:1904.00962, algorithm 2), for large batches.

    The update of a variable, weight decay included, is scaled to the norm of
    the variable: with rate 0.01 every variable moves by 1% of its norm, however
    large its gradients are. What exclude_from_weight_decay names is not scaled.
    """

    def trust_ratio(
        self, path: str, variable: tf.Variable, update: tf.Tensor
    ) -> tf.Tensor | float:
        """Return |variable| / |update|, or 1 if either is zero."""
        # Not in algorithm 2, but in its authors' code: norms and biases are
        # left out. A bias starts at 0, and scaled to that it would hardly move.
        if self._is_excluded(path):
            return 1.0
        weight_norm = tf.sqrt(_squared_sum(tf.convert_to_tensor(variable)))
        update_norm = tf.sqrt(_squared_sum(update))
        usable = tf.logical_and(weight_norm > 0.0, update_norm > 0.0)
        # A division by zero must not happen even where it is not selected.
        safe = tf.where(usable, update_norm, 1.0)
        return tf.where(usable, weight_norm / safe, 1.0)


@dataclasses.dataclass(eq=False)
class Muon(AdamWeightDecay):
    """Muon (Jordan 2024; Liu et al., arXiv:2502.16982) for the encoder.

    The kernels of the encoder's layers have one moment, and all directions of
    the matrix of 64 units, such as a head, are trained alike:

        m = 0.95 m + 0.05 g                         momentum
        o = orthogonalized(0.95 m + 0.05 g)         Nesterov's look ahead
        u = 0.2 sqrt(H) o + 0.01 w
        w = w - schedule(n + 1) * u

    The numbers of u are about as large as in Adam's updates (Liu et al.), so
    that both want the same learning rate. Matrices of whole layers
    have more products, 4.5 times as many for H = 256 and 14 times for 768, and
    learned no better (docs/records/small_budgets.md). Per head it was done
    before (GLM-5, arXiv:2602.15763). Everything else, embeddings, norms, biases
    and output layers, has AdamWeightDecay's update.

    Attributes:
        momentum: the 0.95 above.
        muon_factor: of the learning rate of these kernels, and so of their
            decay too.
        dtype: of the matrix products.
        is_compiled: whether XLA compiles the elementwise operations before
            them.
    """

    momentum: float = 0.95
    muon_factor: float = 1.0
    dtype: str = "float32"
    is_compiled: bool = False

    def slots_of(self, path: str) -> tuple[str, ...]:
        """Return the names of the slots of the variable of that path."""
        return ("muon_m",) if _ENCODER_KERNEL.search(path) else self.slot_names

    def directions(
        self,
        variables: Sequence[keras.Variable],
        gradients: Sequence[tf.Tensor],
        norm: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Return o of each kernel of the encoder: path -> [rows, cols]."""
        kernels, given = [], []
        for variable, gradient in zip(variables, gradients, strict=True):
            if _ENCODER_KERNEL.search(variable.path):
                kernels.append(variable)
                given.append(gradient)
        if not kernels:
            return {}
        moments = [self.slots[v.path]["muon_m"] for v in kernels]
        moments = [tf.convert_to_tensor(m) for m in moments]
        look_ahead = _compiled_ahead if self.is_compiled else _ahead
        ahead = look_ahead(
            given, moments, clip_factor(norm), self.momentum, self.dtype
        )
        blocks = []
        for kernel, x in zip(kernels, ahead, strict=True):
            x = x if _units_are_rows(kernel.path) else tf.transpose(x)
            # [units, H], filled up with rows of zeros, which stay zeros.
            x = tf.pad(x, [[0, -x.shape[0] % _BLOCK], [0, 0]])
            blocks.append(tf.reshape(x, [-1, _BLOCK, x.shape[1]]))
        orthogonal = orthogonalized(tf.concat(blocks, 0))  # [blocks, 64, H]
        orthogonal = tf.split(orthogonal, [x.shape[0] for x in blocks])
        directions = {}
        for kernel, x in zip(kernels, orthogonal, strict=True):
            has_rows = _units_are_rows(kernel.path)
            units = kernel.shape[0 if has_rows else 1]
            x = tf.reshape(x, [-1, x.shape[-1]])[:units]
            directions[kernel.path] = x if has_rows else tf.transpose(x)
        return directions

    def _next_update(
        self,
        path: str,
        gradient: tf.Tensor,
        moments: Sequence[tf.Tensor],
        step: tf.Tensor,
        direction: tf.Tensor | None,
    ) -> tuple[tf.Tensor, ...]:
        """Return the next moments, and the update without decay and rate."""
        if direction is None:
            return super()._next_update(
                path, gradient, moments, step, direction
            )
        # The H numbers of an orthogonal row have a root mean square of
        # 1 / sqrt(H), also where the intermediate layer is smaller than H.
        hidden = direction.shape[1 if _units_are_rows(path) else 0]
        update = 0.2 * hidden**0.5 * tf.cast(direction, tf.float32)
        return _next_m(moments[0], gradient, self.momentum), update

    def trust_ratio(
        self, path: str, variable: tf.Variable, update: tf.Tensor
    ) -> tf.Tensor | float:
        """Return the factor of a variable's learning rate."""
        return self.muon_factor if _ENCODER_KERNEL.search(path) else 1.0


_ENCODER_KERNEL = re.compile(r"^bert/encoder/layer_\d+/.*/kernel$")

_BLOCK = 64  # units, as many as a head has in all published sizes


def _ahead(
    gradients: Sequence[tf.Tensor],
    moments: Sequence[tf.Tensor],
    factor: tf.Tensor,
    momentum: float,
    dtype: str,
) -> list[tf.Tensor]:
    """Return Nesterov's look ahead of each kernel in the dtype.

    The gradients are multiplied by `factor`, as clipping does.
    """
    ahead = []
    for m, gradient in zip(moments, gradients, strict=True):
        gradient = tf.cast(gradient, tf.float32) * factor
        x = _next_m(_next_m(m, gradient, momentum), gradient, momentum)
        ahead.append(tf.cast(x, dtype))
    return ahead


_compiled_ahead = elementwise.compiled(_ahead)


def _next_m(m: tf.Tensor, gradient: tf.Tensor, momentum: float) -> tf.Tensor:
    """Return the momentum after a gradient."""
    return momentum * m + (1.0 - momentum) * gradient


def _units_are_rows(path: str) -> bool:
    """Return whether a kernel's blocks are of rows, and not of columns.

    The two output kernels read heads and intermediate units, a row for each.
    query, key, value and intermediate write them, a column for each.
    """
    return path.endswith("/output/dense/kernel")


# a, b and c of each iteration of `orthogonalized`: Jordan's.
ORTHOGONALIZE = ((3.4445, -4.7750, 2.0315),) * 5


def orthogonalized(matrices: tf.Tensor) -> tf.Tensor:
    """Return matrices with the same singular vectors, but all values near 1.

    An iteration (Newton-Schulz) takes each singular value s to
    a s + b s^3 + c s^5, which after five lies between 0.68 and 1.14 for
    values from 0.01 to 1. The first one divides by the norm of a matrix.

    Args:
        matrices: [..., rows, cols], with few rows; not float16, whose smallest
            numbers are larger than the squares of gradients.
    """
    x, one = matrices, tf.eye(matrices.shape[-2])
    for number, (a, b, c) in enumerate(ORTHOGONALIZE):
        # What is elementwise is done to the small square matrices.
        gram = tf.cast(tf.matmul(x, x, transpose_b=True), tf.float32)
        norm = 1.0
        if number == 0:
            norm = tf.sqrt(tf.linalg.trace(gram) + 1e-20)[..., None, None]
        gram /= norm**2
        square = tf.cast(gram, x.dtype)
        square = tf.cast(tf.matmul(square, square), tf.float32)
        factor = (a * one + b * gram + c * square) / norm
        x = tf.matmul(tf.cast(factor, x.dtype), x)
    return x


OPTIMIZERS = {"adamw": AdamWeightDecay, "lamb": Lamb, "muon": Muon}


def named_optimizer(name: str = "adamw", **options: Any) -> AdamWeightDecay:
    """Return the optimizer of a name, adamw, lamb or muon, with its options.

    Raises:
        UserError: another name.
    """
    check_choice("--optimizer: unknown optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name](**options)
