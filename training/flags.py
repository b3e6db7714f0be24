"""The flags that all training scripts share, with the original's defaults."""

from absl import flags

flags.disclaim_key_flags()  # --help of a script shows what is defined here


def define_training_flags() -> None:
    """Define batch, optimizer, checkpoint and compilation flags."""
    define_optimizer_flags()
    define_loop_flags()


def define_optimizer_flags() -> None:
    """Define what a step computes and how it changes the weights."""
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Examples in a step, over all devices and micro-batches together.",
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


def define_loop_flags() -> None:
    """Define when to save and report, and how steps are compiled."""
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
    flags.DEFINE_bool("use_tpu", False, "Run on a TPU.")
    flags.DEFINE_string("tpu_name", None, "Name or grpc:// address of the TPU.")
    flags.DEFINE_string("tpu_zone", None, "GCE zone of the TPU, if not ours.")
    flags.DEFINE_string("gcp_project", None, "Project of the TPU, if not ours.")
    flags.DEFINE_string("master", None, "The TPU's address, if it has no name.")
    flags.DEFINE_integer(
        "num_tpu_cores", 8, "Cores the TPU is expected to have.", lower_bound=1
    )


def define_model_flags() -> None:
    """Define which weights, and what belongs to them."""
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "The weights to start from: a prefix (.../bert_model.ckpt), a "
        "directory that holds one, or a Hugging Face directory.",
    )
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "JSON file that says how large the model is; default: the one beside "
        "the checkpoint.",
    )
    flags.DEFINE_string(
        "vocab_file", None, "The vocabulary; default: the one beside it."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Lower-case the text; default: as the checkpoint was trained, where "
        "it says so, else true.",
    )
