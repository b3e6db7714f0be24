"""How to train: batch, steps, optimizer, checkpoints, compilation."""

from typing import Any, NamedTuple

from absl import flags


class Settings(NamedTuple):
    """How to train; fields have the names of flags."""

    output_dir: str
    num_train_steps: int
    train_batch_size: int
    stop_after_steps: int = 0  # 0: at num_train_steps
    random_seed: int = 12345
    gradient_accumulation_steps: int = 1
    jit_compile: bool = True
    # The update is of one shape whatever the lengths; None: as jit_compile.
    jit_compile_update: bool | None = None
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    iterations_per_loop: int = 1000
    log_steps: int = 100
    eval_steps: int = 0
    clip_norm: float = 1.0

    @property
    def last_step(self) -> int:
        """Where this run ends; the schedule may go on to num_train_steps."""
        stop = self.stop_after_steps or self.num_train_steps
        return min(stop, self.num_train_steps)


class Recipe(NamedTuple):
    """How weights begin and change; every field mirrors a flag."""

    num_warmup_steps: int
    learning_rate: float = 5e-5
    optimizer: str = "adamw"
    weight_decay_rate: float = 0.01
    bias_correction: bool = False
    continuous_schedule: bool = False
    keep_checkpoint_max: int = 5
    init_checkpoint: str | None = None
    resume_from: str | None = None
    dtype: str = "float32"


def from_flags(kind: type, flag_values: flags.FlagValues, **more: Any) -> Any:
    """Return a Settings or Recipe from the flags of the same names.

    Args:
        kind: a NamedTuple class.
        flag_values: FLAGS of a runner.
        **more: fields that have no flag there.
    """
    names = [n for n in kind._fields if n in flag_values and n not in more]
    return kind(**{name: flag_values[name].value for name in names}, **more)
