"""The settings of a training run: steps, batch, optimizer, checkpoints."""

from typing import Any, NamedTuple

from checkpoints import hub

# The points of the curves of a short run.
_MIN_POINTS = 50


def scalar_steps(log_steps: int, last_step: int) -> int:
    """Return the steps from one point of the curves to the next.

    A long run has a point for each report line, a short one about 50 points:
    3 epochs of MRPC have 343 steps, and 3 lines.
    """
    return min(log_steps, max(1, last_step // _MIN_POINTS))


class Settings(NamedTuple):
    """How a model is trained; fields have the names of the scripts' flags.

    Attributes:
        output_dir: where checkpoints, curves and results go.
        num_train_steps: steps the learning rate is scheduled for.
        train_batch_size: examples in a step, over all devices.
        num_warmup_steps: steps over which the learning rate rises from 0.
        stop_after_steps: end the run here; 0: at num_train_steps.
        init_checkpoint: weights to start from, None for new ones.
        resume_from: another run, whose weights, moments and step this run
            begins with.
        keep_steps: steps after which the weights alone are kept.
        save_checkpoints_minutes: save also when so much time has passed since
            the last checkpoint; 0: only after steps.
        jit_compile: whether XLA may compile; compilation.py decides what.
        recompute: activations to compute again, see ops/recompute.py.
        layer_decay: factor of the learning rate from a layer to the one below.
        freeze_layers: number of layers that are not trained, see layers.py.
        ema_decay: decay of the moving average of the weights, which is scored
            and kept; 0: there is none.
        clip_norm: the joint norm of the gradients is clipped to this.
        dtype: type of the matrix products, one of modeling.DTYPES.
        initial_loss_scale: with float16, see loss_scale.py; so are
            loss_scale_growth_steps and loss_scale_backoff.
        pictures: whether to draw curves.png and the pictures of scores.
    """

    output_dir: str
    num_train_steps: int
    train_batch_size: int
    num_warmup_steps: int = 0
    stop_after_steps: int = 0
    init_checkpoint: str | None = None
    resume_from: str | None = None
    learning_rate: float = 5e-5
    optimizer: str = "adamw"
    weight_decay_rate: float = 0.01
    bias_correction: bool = False
    continuous_schedule: bool = False
    layer_decay: float = 1.0
    freeze_layers: int = 0
    ema_decay: float = 0.0
    clip_norm: float = 1.0  # the original's
    random_seed: int = 12345
    gradient_accumulation_steps: int = 1
    dtype: str = "float32"
    initial_loss_scale: float = 65536.0
    loss_scale_growth_steps: int = 2000
    loss_scale_backoff: float = 0.5
    jit_compile: bool = True
    recompute: str = "none"
    save_checkpoints_steps: int = 1000
    save_checkpoints_minutes: float = 0.0
    keep_checkpoint_max: int = 5
    keep_steps: tuple[int, ...] = ()
    iterations_per_loop: int = 1000
    log_steps: int = 100
    eval_steps: int = 0
    ledger: int = 0
    pictures: bool = True

    @property
    def last_step(self) -> int:
        """The step this run ends at; the schedule may end later."""
        stop = self.stop_after_steps or self.num_train_steps
        return min(stop, self.num_train_steps)

    @property
    def scalar_steps(self) -> int:
        """The steps from one point of the curves to the next."""
        return scalar_steps(self.log_steps, self.last_step)

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings that may not change when a run is resumed."""
        return {
            "train_batch_size": self.train_batch_size,
            "random_seed": self.random_seed,
            "optimizer": self.optimizer,
            # What a training checkpoint holds depends on them.
            "freeze_layers": self.freeze_layers,
            "ema_decay": self.ema_decay,
        }

    def adjustable(self) -> dict[str, Any]:
        """Return the settings that may change when a run is resumed."""
        values = {
            "learning_rate": self.learning_rate,
            "weight_decay_rate": self.weight_decay_rate,
            "bias_correction": self.bias_correction,
            "continuous_schedule": self.continuous_schedule,
            "layer_decay": self.layer_decay if self.layer_decay != 1 else None,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "dtype": self.dtype,
            "jit_compile": self.jit_compile,
            "recompute": self.recompute if self.recompute != "none" else None,
        }
        if hub.is_name(self.init_checkpoint):
            values["init_checkpoint"] = hub.with_commit(self.init_checkpoint)
        if self.dtype == "float16":
            values |= {
                "loss_scale_growth_steps": self.loss_scale_growth_steps,
                "loss_scale_backoff": self.loss_scale_backoff,
            }
        return values
