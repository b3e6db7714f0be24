"""BERT's optimizer and its schedule for `compile` and `fit` of Keras.

    schedule = Schedule(5e-5, num_train_steps=1000, num_warmup_steps=100)
    model.compile(AdamWeightDecay(schedule, bias_correction=True), loss)

They are optimization.py's: `fit` takes the steps that the scripts take. Both
are saved in Keras' files with the model, the optimizer with its moments.
"""

import re
from collections.abc import Sequence
from typing import Any

from base.errors import UserError

import keras
import tensorflow as tf

import optimization


@keras.saving.register_keras_serializable("bert")
class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """The rate of update n, from 0: step n + 1 of `create_schedule`."""

    def __init__(
        self,
        init_lr: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        continuous: bool = False,
    ):
        """Take the arguments of optimization.create_schedule."""
        self._config = {
            "init_lr": init_lr,
            "num_train_steps": num_train_steps,
            "num_warmup_steps": num_warmup_steps,
            "continuous": continuous,
        }
        self._rate = optimization.create_schedule(**self._config)

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate of update number `step`."""
        return self._rate(tf.convert_to_tensor(step) + 1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return self._config


@keras.saving.register_keras_serializable("bert")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """optimization.AdamWeightDecay as an optimizer of Keras.

    Args:
        learning_rate: a number, or a schedule.
        weight_decay: rate of the decoupled weight decay.
        bias_correction: as run_classifier.py does by default.
        exclude_from_weight_decay: regular expressions searched for in the
            paths of variables.
        global_clipnorm: the largest joint norm of all gradients, summed over
            replicas; None: they are not clipped.
        beta_1, beta_2, epsilon: as in optimization.AdamWeightDecay.
        name, options: as in other optimizers of Keras.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
        exclude_from_weight_decay: Sequence[
            str
        ] = optimization.EXCLUDE_FROM_WEIGHT_DECAY,
        global_clipnorm: float | None = 1.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        name: str = "adam_weight_decay",
        **options: Any,
    ):
        super().__init__(
            learning_rate, global_clipnorm=global_clipnorm, name=name, **options
        )
        self.adam = optimization.AdamWeightDecay(
            weight_decay,
            beta_1,
            beta_2,
            epsilon,
            tuple(exclude_from_weight_decay),
            bias_correction,
        )

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the moments of every variable."""
        if self.built:
            return
        for variable in variables:
            if variable.dtype != "float32":
                raise UserError(
                    f"{variable.path} is {variable.dtype}: AdamWeightDecay "
                    "trains float32 variables; use the policy mixed_bfloat16 "
                    "or mixed_float16"
                )
        super().build(variables)
        self.slots = self.add_optimizer_variables(
            variables, list(self.adam.slot_names)
        )

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[keras.Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Exclude more variables, by themselves or by parts of their paths.

        Those of two encoders in one model have equal paths: both are excluded.
        """
        paths = [f"^{re.escape(v.path)}$" for v in var_list or ()]
        self.adam.exclude_from_weight_decay += (*paths, *(var_names or ()))

    def update_step(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: Any
    ) -> None:
        """Update one variable, or one replica's copy of it, and its moments."""
        index = self._get_variable_index(variable)
        self.adam.update_variable(
            self._trainable_variables[index].path,
            variable,
            gradient,
            {
                name: moments[index].value
                for name, moments in zip(
                    self.adam.slot_names, self.slots, strict=True
                )
            },
            learning_rate=learning_rate,
            step=self.iterations,
        )

    def _clip_gradients(self, grads: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return dense gradients, not clipped yet by their global norm."""
        # Rows of an embedding that occur several times are added up here: the
        # norm of a sum is not that of its parts.
        grads = [tf.convert_to_tensor(gradient) for gradient in grads]
        return grads if self.global_clipnorm else super()._clip_gradients(grads)

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list[Any]:
        """Return gradients summed over replicas and clipped, and variables."""
        # In this order, as in training/train_step.py. Keras clips the
        # gradients of each replica, which depends on the number of replicas.
        reduced = super()._all_reduce_sum_gradients(grads_and_vars)
        if not self.global_clipnorm:
            return reduced
        gradients, variables = zip(*reduced, strict=True)
        gradients, _ = optimization.clip_by_global_norm(
            gradients, self.global_clipnorm
        )
        return list(zip(gradients, variables, strict=True))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        config = super().get_config()
        del config["weight_decay"]  # Keras' own, which is not used
        return config | {
            "weight_decay": self.adam.weight_decay_rate,
            "bias_correction": self.adam.bias_correction,
            "exclude_from_weight_decay": self.adam.exclude_from_weight_decay,
            "beta_1": self.adam.beta_1,
            "beta_2": self.adam.beta_2,
            "epsilon": self.adam.epsilon,
        }
