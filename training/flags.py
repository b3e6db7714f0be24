"""The flags that all training scripts share, with the original's defaults."""

from base.errors import UserError

from absl import flags

import modeling
from checkpoints import run_settings
from checkpoints.checkpoint import open_checkpoint
from checkpoints.model import Checkpoint
from ops import recompute
from training import dtypes
from training.devices import DeviceChoice
from training.settings import Settings

flags.disclaim_key_flags()  # --help of a script shows what is defined here


def define_training_flags(
    bias_correction: bool, why_bias_correction: str
) -> None:
    """Define batch, optimizer, checkpoint and compilation flags.

    `why_bias_correction` is the end of that flag's help.
    """
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Examples in a step, summed over all devices and micro-batches.",
        lower_bound=1,
        upper_bound=2**17,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Split each step into this many micro-batches. It needs the memory of "
        "one of them and gives the numbers of the whole batch, except that "
        "each micro-batch draws its own dropout.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "learning_rate", 5e-5, "Peak learning rate.", lower_bound=0.0
    )
    flags.DEFINE_enum(
        "optimizer",
        "adamw",
        ["adamw", "lamb"],
        "Optimizer. adamw: the original's Adam with decoupled weight decay; "
        "lamb: the same with a trust ratio per variable, for very large "
        "batches.",
    )
    flags.DEFINE_bool(
        "continuous_schedule",
        False,
        "Let the learning rate fall from its peak at the end of the warm-up. "
        "In the original it falls from step 0, so it drops where the warm-up "
        "ends.",
    )
    flags.DEFINE_float(
        "weight_decay_rate",
        0.01,
        "Rate of the decoupled weight decay.",
        lower_bound=0.0,
    )
    flags.DEFINE_integer(
        "random_seed",
        12345,
        "Seed of the initial weights, of dropout and of the data's order.",
        lower_bound=0,
        upper_bound=2**32 - 1,  # the limit of Keras
    )
    flags.DEFINE_bool(
        "bias_correction",
        bias_correction,
        f"Correct Adam's moments for starting at zero. {why_bias_correction}",
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "Save a training checkpoint every this many steps.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "save_checkpoints_minutes",
        10.0,
        "Save one also when the last is so many minutes old, so that a run "
        "that is killed loses no more; the next one replaces it. 0: only by "
        "steps.",
        lower_bound=0.0,
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "Number of training checkpoints to keep; 0 keeps all.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Largest number of steps that run without a return to Python.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "log_steps",
        100,
        "Write a report line every this many steps.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "ledger",
        0,
        "Write digests of the records read, of their order, of weights and "
        "moments to ledger.jsonl every this many steps and with every "
        "checkpoint, for verify_run.py; 0: none.",
        lower_bound=0,
    )
    flags.DEFINE_bool(
        "pictures",
        True,
        "Draw the curves of the training (curves.png) when it ends, and "
        "pictures that explain the scores. Needs matplotlib.",
    )
    define_dtype_flag()
    flags.DEFINE_float(
        "initial_loss_scale",
        65536.0,
        "With float16: factor of the loss at the first step, so that gradients "
        "do not underflow.",
    )
    flags.DEFINE_integer(
        "loss_scale_growth_steps",
        2000,
        "With float16: the loss scale is doubled after this many steps in a "
        "row without overflow.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "loss_scale_backoff",
        0.5,
        "With float16: a step whose gradients overflow is skipped, and the "
        "loss scale multiplied by this.",
    )
    flags.DEFINE_bool(
        "jit_compile",
        True,
        "Compile with XLA: the whole step on GPUs, its elementwise operations "
        "and the update on CPUs.",
    )
    flags.DEFINE_enum(
        "recompute",
        recompute.NONE,
        list(recompute.CHOICES),
        "Activations of the encoder that the backward pass computes again "
        "instead of keeping them. layers: all within a layer, which needs a "
        "fraction of the memory and 14% to 20% more time on a CPU; attention: "
        "the scores and probabilities alone, most of the memory of long "
        "sequences. The numbers stay the same.",
    )


def define_dtype_flag() -> None:
    """Define --dtype; `dtypes.resolve` turns it into a type."""
    flags.DEFINE_enum(
        "dtype",
        "float32",
        [*modeling.DTYPES, dtypes.AUTO],
        "Type of the matrix products; weights, norms, softmax and losses stay "
        "float32. bfloat16 is for TPUs, GPUs of compute capability 8 and more, "
        "and CPUs with avx512_bf16 or AMX; float16 for GPUs of compute "
        "capability 7. auto: the type that is fast on this machine; on a CPU a "
        "product of each type is timed.",
    )


def define_tpu_flags() -> None:
    """Define the original's TPU flags."""
    flags.DEFINE_bool("use_tpu", False, "Run on a TPU.")
    flags.DEFINE_string("tpu_name", None, "Name or grpc:// address of the TPU.")
    flags.DEFINE_string(
        "tpu_zone", None, "Zone of the TPU, if not this machine's."
    )
    flags.DEFINE_string(
        "gcp_project", None, "Project of the TPU, if not this machine's."
    )
    flags.DEFINE_string(
        "master", None, "Address of the TPU, if it has no name."
    )
    flags.DEFINE_integer(
        "num_tpu_cores",
        8,
        "Expected number of cores of the TPU.",
        lower_bound=1,
    )


def define_model_flags() -> None:
    """Define the flags of a checkpoint and the files that belong to it."""
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Weights to start from: a prefix (.../bert_model.ckpt), a "
        "directory that holds one, a Hugging Face directory, or a model on the "
        "Hugging Face hub, hf://owner/name or hf://owner/name@revision.",
    )
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "JSON file with the sizes of the model; default: bert_config.json "
        "beside the checkpoint.",
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "The vocabulary, a vocab.txt or a tokenizer.json; default: the one "
        "beside the checkpoint.",
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Lower-case the text; default: as the checkpoint was trained, if its "
        "files, its name or the capitals in its vocabulary tell, else true.",
    )


# --- Flags as plain values ---------------------------------------------------


def open_init_checkpoint(f: flags.FlagValues) -> Checkpoint:
    """Return the checkpoint that the flags of `define_model_flags` describe."""
    return open_checkpoint(
        f.init_checkpoint, f.bert_config_file, f.vocab_file, f.do_lower_case
    )


def read_init_checkpoint(f: flags.FlagValues) -> str | None:
    """Return --init_checkpoint, at the commit that output_dir's run read."""
    return run_settings.pinned(f.init_checkpoint, f.output_dir)


def read_settings(
    f: flags.FlagValues, num_train_steps: int, num_warmup_steps: int
) -> Settings:
    """Return the training settings that the flags give.

    Raises:
        UserError: a flag of the loss scale has no effect or a bad value.
    """
    names = (
        "initial_loss_scale",
        "loss_scale_growth_steps",
        "loss_scale_backoff",
    )
    for name in names if f.dtype in ("float32", "bfloat16") else ():
        if f[name].present:
            raise UserError(
                f"--{name} is for --dtype=float16, found --dtype={f.dtype}"
            )
    if not 1 <= f.initial_loss_scale < 2.0**127:
        raise UserError(
            f"--initial_loss_scale={f.initial_loss_scale:g}: wanted a number "
            "from 1 to 1e38"
        )
    if not 0 < f.loss_scale_backoff < 1:
        raise UserError(
            f"--loss_scale_backoff={f.loss_scale_backoff:g}: wanted a number "
            "between 0 and 1, such as 0.5"
        )
    # The fields have the names of the flags, but for those that not every
    # script has.
    values = {name: f[name].value for name in Settings._fields if name in f}
    return Settings(
        **values
        | {
            "num_train_steps": num_train_steps,
            "num_warmup_steps": num_warmup_steps,
            "init_checkpoint": read_init_checkpoint(f),
        }
    )


def read_devices(f: flags.FlagValues) -> DeviceChoice:
    """Return the devices that the flags ask for."""
    return DeviceChoice(*(f[name].value for name in DeviceChoice._fields))


def require(f: flags.FlagValues, *names: str) -> None:
    """Raise a UserError that names the first of these flags without a value.

    absl's own check would name the module that defines the flag and list its
    help; this message is one line like every other.
    """
    for name in names:
        if not f[name].value:
            raise UserError(f"--{name} is required")
