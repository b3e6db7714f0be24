"""The settings of a training run, which are its flags, and its devices."""

import dataclasses
import os
from typing import Any

from base import flags
from base.flags import flag

from checkpoints import published
from ops.choices import DTYPES, OPTIMIZERS

AUTO = "auto"  # --dtype: the type that is fast on this machine

MAX_BATCH_SIZE = 2**17

# Flags of TrainingFlags that fine-tuning alone has.
OF_FINE_TUNING = ("layer_decay", "freeze_layers", "ema_decay")

# The points of the curves of a short run.
_MIN_POINTS = 50

_FLOAT16 = {"dtype=float16 or dtype=auto": ""}
FROZEN = {
    "do_train": "it changes how the model is trained",
    "init_checkpoint": "without it all weights are new",
}


def scalar_steps(log_steps: int, last_step: int) -> int:
    """Return the steps from one point of the curves to the next.

    A long run has a point for each report line, a short one about 50 points:
    3 epochs of MRPC have 343 steps, and 3 lines.
    """
    return min(log_steps, max(1, last_step // _MIN_POINTS))


@dataclasses.dataclass(frozen=True)
class DeviceChoice:
    """The devices a command asks for: the original's TPU flags."""

    use_tpu: bool = flag(False)
    """Run on a TPU."""

    tpu_name: str | None = flag()
    """Name or grpc:// address of the TPU."""

    tpu_zone: str | None = flag()
    """Zone of the TPU, if not this machine's."""

    gcp_project: str | None = flag()
    """Project of the TPU, if not this machine's."""

    master: str | None = flag()
    """Address of the TPU, if it has no name."""

    num_tpu_cores: int = flag(8, low=1)
    """Expected number of cores of the TPU."""

    # Types other than float32 need a check of the processor.
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class TrainingFlags:
    """How a model is trained, but for how long; the original's defaults."""

    output_dir: str = flag(is_output=True, alias="output")
    """Directory for {records}checkpoints, curves and results."""

    train_batch_size: int = flag(32, 1, MAX_BATCH_SIZE, resumed="fixed")
    """Examples in a step, summed over all devices and micro-batches."""

    # Weights to start from, None for new ones: a flag of the model.
    init_checkpoint: str | None = None

    learning_rate: float = flag(5e-5, low=0, resumed="results")
    """Peak learning rate.{usual_rate}"""

    optimizer: str = flag("adamw", choices=OPTIMIZERS, resumed="fixed")
    """Optimizer. adamw: the original's Adam with decoupled weight decay; lamb:
    the same with a trust ratio per variable, for very large batches; muon: the
    kernels of the encoder's layers by Muon, everything else by adamw, which
    wants about twice the rate of adamw alone."""

    beta_1: float = flag(0.9, 0, 0.999999, resumed="results")
    """Decay of the first moment of adamw and lamb."""

    beta_2: float = flag(0.999, 0, 0.999999, resumed="results")
    """Decay of the second moment of adamw and lamb."""

    epsilon: float = flag(1e-6, low=0, resumed="results")
    """What adamw and lamb add to the root of the second moment."""

    muon_momentum: float = flag(
        0.95, 0, 0.999999, needs={"optimizer=muon": ""}, resumed="results"
    )
    """Decay of Muon's moment."""

    muon_factor: float = flag(
        1.0, low=0, needs={"optimizer=muon": ""}, resumed="results"
    )
    """The learning rate of Muon's kernels, and so their weight decay, is
    learning_rate times this."""

    weight_decay_rate: float = flag(0.01, low=0, resumed="results")
    """Rate of the decoupled weight decay."""

    bias_correction: bool = flag(False, resumed="results")
    """Correct Adam's moments for starting at zero. {why_bias_correction}"""

    schedule: str = flag(
        "linear", choices=("linear", "cosine", "wsd"), resumed="results"
    )
    """How the learning rate falls after the warm-up. linear: to 0 at the last
    step, as in the original; cosine: to 0 in half a wave; wsd: it stays at its
    peak until the last part of the run, cooldown_proportion."""

    cooldown_proportion: float = flag(
        0.2, 0, 0.99, needs={"schedule=wsd": ""}, resumed="results"
    )
    """The share of all steps in which the rate of schedule=wsd falls to 0."""

    continuous_schedule: bool = flag(
        False,
        excludes={"schedule=cosine": "", "schedule=wsd": ""},
        resumed="results",
    )
    """Let the linear schedule fall from its peak at the end of the warm-up. In
    the original it falls from step 0, so it drops where the warm-up ends."""

    layer_decay: float = flag(1.0, 1e-6, 1.0)
    """Train lower layers at lower rates: each layer has the learning rate of
    the layer above it times this, such as 0.9; the last layer, pooler and head
    have learning_rate (Sun et al., arXiv:1905.05583)."""

    # What a training checkpoint holds depends on this and ema_decay.
    freeze_layers: int = flag(0, low=0, needs=FROZEN, resumed="fixed")
    """Leave the embeddings and this many of the encoder's first layers as they
    are in init_checkpoint: steps are faster and need less memory; 0: train
    all."""

    ema_decay: float = flag(0.0, 0, 0.999999, resumed="fixed")
    """Score and keep an exponential moving average of the weights with this
    decay per step, such as 0.99, in place of the last weights; 0: none."""

    # Keras takes no larger seed.
    random_seed: int = flag(12345, 0, 2**32 - 1, resumed="fixed")
    """Seed of the initial weights, of dropout and of the data's order."""

    gradient_accumulation_steps: int = flag(1, low=1, resumed="execution")
    """Split each step into this many micro-batches. It needs the memory of one
    of them and gives the numbers of the whole batch, except that each
    micro-batch draws its own dropout."""

    dtype: str = flag("float32", choices=(*DTYPES, AUTO), resumed="execution")
    """Type of the matrix products; weights, norms, softmax and losses stay
    float32. bfloat16 is for TPUs, GPUs of compute capability 8 and more, and
    CPUs with avx512_bf16 or AMX; float16 for GPUs of compute capability 7.
    auto: the type that is fast on this machine; on a CPU a product of each type
    is timed."""

    initial_loss_scale: float = flag(65536.0, 1, 1e38, needs=_FLOAT16)
    """With float16: factor of the loss at the first step, so that gradients do
    not underflow."""

    loss_scale_growth_steps: int = flag(2000, low=1, needs=_FLOAT16)
    """With float16: the loss scale is doubled after this many steps in a row
    without overflow."""

    loss_scale_backoff: float = flag(0.5, 1e-6, 1 - 1e-6, needs=_FLOAT16)
    """With float16: a step whose gradients overflow is skipped, and the loss
    scale multiplied by this."""

    jit_compile: bool = flag(True, resumed="execution")
    """Compile with XLA: the whole step on GPUs, its elementwise operations and
    the update on CPUs."""

    recompute: str = flag("none", choices=("none", "layers", "attention"))
    """Activations of the encoder that the backward pass computes again instead
    of keeping them. layers: all within a layer, which needs a fraction of the
    memory and 14% to 20% more time on a CPU; attention: the scores and
    probabilities alone, most of the memory of long sequences. The numbers stay
    the same."""

    save_checkpoints_steps: int = flag(1000, low=1)
    """Save a training checkpoint every this many steps."""

    save_checkpoints_minutes: float = flag(10.0, low=0)
    """Save one also when the last is so many minutes old, so that a run that is
    killed loses no more; the next one replaces it. 0: only by steps."""

    keep_checkpoint_max: int = flag(5, low=0)
    """Number of training checkpoints to keep; 0 keeps all."""

    iterations_per_loop: int = flag(1000, low=1)
    """Largest number of steps that run without a return to Python."""

    log_steps: int = flag(100, low=1)
    """Write a report line every this many steps."""

    eval_steps: int = flag(0, low=0)
    """While training, score the model on {score_on} every this many
    steps{then}."""

    ledger: int = flag(0, low=0)
    """Write digests of the records read, of their order, of weights and moments
    to ledger.jsonl every this many steps and with every checkpoint, for
    tools.verify_run; 0: none."""

    pictures: bool = flag(True)
    """Draw the curves of the training (curves.png) when it ends, and pictures
    that explain the scores. Needs matplotlib."""

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings that may not change when a run is resumed."""
        return flags.recorded(self, "fixed")

    def adjustable(self) -> dict[str, Any]:
        """Return those that may change, and change what the model learns."""
        values = flags.recorded(self, "results")
        is_on = self.layer_decay != 1
        values["layer_decay"] = self.layer_decay if is_on else None
        if published.is_of_hub(self.init_checkpoint):
            from checkpoints import hub  # where a model is of the hub

            values["init_checkpoint"] = hub.with_commit(self.init_checkpoint)
        return values

    def execution(self) -> dict[str, Any]:
        """Return those that may change, and change how fast steps are."""
        values = flags.recorded(self, "execution")
        name = self.init_checkpoint
        if name and not published.is_of_hub(name):
            from checkpoints import lookup  # TensorFlow

            # For the model card.
            folder = os.path.abspath(lookup.folder_of(name))
            values["init_checkpoint"] = os.path.basename(folder)
        if self.recompute != "none":
            values["recompute"] = self.recompute
        if self.dtype == "float16":
            values |= {
                "loss_scale_growth_steps": self.loss_scale_growth_steps,
                "loss_scale_backoff": self.loss_scale_backoff,
            }
        return values


@dataclasses.dataclass(frozen=True)
class TrainingSettings(TrainingFlags):
    """How a model is trained, and how long: flags of pre-training.

    In fine-tuning the steps follow from the training data.
    """

    num_train_steps: int = flag(100000, low=1)
    """Number of steps."""

    num_warmup_steps: int = flag(0, low=0)
    """Steps in which the learning rate rises from 0."""

    stop_after_steps: int = flag(0, low=0)
    """End after this many steps, while the learning rate is scheduled for
    num_train_steps: the first phase of two. 0: at num_train_steps."""

    resume_from: str | None = flag(
        excludes={
            "init_checkpoint": "that has weights alone, and steps from 0; this "
            "has weights, moments and step"
        }
    )
    """Another run (its output_dir or a model.ckpt-<step> in it) whose weights,
    optimizer moments and step this run continues, on other records: the second
    phase of two. Its steps and warm-up stay, if no flag gives others. Read only
    when output_dir holds no run yet."""

    keep_steps: tuple[int, ...] = flag((), low=1)
    """Keep the weights alone after each of these steps, such as 1000,2000:
    output_dir/step-1000 is a model that every script takes as
    --init_checkpoint. They have a third of a checkpoint's size, and
    --keep_checkpoint_max does not delete them."""

    @property
    def last_step(self) -> int:
        """The step this run ends at; the schedule may end later."""
        stop = self.stop_after_steps or self.num_train_steps
        return min(stop, self.num_train_steps)

    @property
    def cooldown_start(self) -> int | None:
        """The step from which the rate of schedule=wsd falls; None: linear."""
        if self.schedule != "wsd":
            return None
        import optimization  # TensorFlow

        return optimization.cooldown_start(
            self.num_train_steps, self.cooldown_proportion
        )

    def adjustable(self) -> dict[str, Any]:
        """Return those that may change, and change what the model learns."""
        return {
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            **super().adjustable(),
        }
