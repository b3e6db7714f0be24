"""The flags all runners share, defined once, with the original's defaults.

A runner calls these functions at its top and reads the flags in its `main`.
"""

from absl import flags


def define_training_flags() -> None:
    """Define batch, optimizer, checkpoint and compilation flags."""
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Sequences in a step, over all devices and micro-batches together.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Micro-batches a step is computed in: the memory of "
        "train_batch_size / this, the numbers of train_batch_size.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "learning_rate", 5e-5, "Peak learning rate.", lower_bound=0.0
    )
    flags.DEFINE_enum(
        "optimizer",
        "adamw",
        ["adamw", "lamb"],
        "adamw: the original's Adam with decoupled weight decay; lamb: the "
        "same with a trust ratio per variable, for very large batches.",
    )
    flags.DEFINE_bool(
        "bias_correction",
        False,
        "Correct Adam's moments for their start at zero; the original does "
        "not.",
    )
    flags.DEFINE_bool(
        "continuous_schedule",
        False,
        "Decay from the peak after warm-up; the original drops to the line "
        "that would have decayed from step 0.",
    )
    flags.DEFINE_float("weight_decay_rate", 0.01, "Decoupled weight decay.")
    flags.DEFINE_integer(
        "random_seed",
        12345,
        "Draws initial weights, dropout and the order of the data.",
    )

    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "Save every so many steps.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "Training checkpoints to keep; 0 keeps all.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Steps at most between two looks of the host at the devices.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "log_steps", 100, "Report every so many steps.", lower_bound=1
    )
    flags.DEFINE_enum(
        "dtype",
        "float32",
        ["float32", "bfloat16"],
        "What matrix products are computed in; weights, norms, softmax and "
        "losses stay float32. bfloat16 is fast on TPUs and recent GPUs only.",
    )
    flags.DEFINE_bool("jit_compile", True, "Compile the step with XLA.")


def define_tpu_flags() -> None:
    """Define the original's TPU flags."""
    flags.DEFINE_bool("use_tpu", False, "Train on a TPU.")
    flags.DEFINE_string("tpu_name", None, "Name or grpc:// address of the TPU.")
    flags.DEFINE_string("tpu_zone", None, "GCE zone of the TPU, if not ours.")
    flags.DEFINE_string("gcp_project", None, "Project of the TPU, if not ours.")
    flags.DEFINE_string("master", None, "The TPU's address, if it has no name.")
    flags.DEFINE_integer(
        "num_tpu_cores", 8, "Cores the TPU is expected to have.", lower_bound=1
    )
