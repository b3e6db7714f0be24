"""The flags all fine-tuning scripts share, with the original's defaults."""

import os

from base.errors import UserError

from absl import flags, logging

from checkpoints import run_settings
from checkpoints.trained_for import LongTexts
from finetuning import fine_tuned, sweeps
from tasks import long_texts, saved_model
from tasks.bilstm import MAX_LAYERS, NO_BILSTM, BiLstmSize
from tasks.settings import RunSettings
from training import flags as training_flags

flags.disclaim_key_flags()  # --help of a script shows what is defined here


# The end of its help text.
_WHY_BIAS_CORRECTION = (
    "Without it, which is the original's way (--nobias_correction), the first "
    "updates are several times as large, and fine-tuning on small data fails "
    "more often (Zhang et al. 2020, Mosbach et al. 2020). A resumed run "
    "keeps the value that it began with."
)


def define_finetuning_flags(
    max_seq_length: int,
    what_is_cut: str,
    train_on: str,
    score_on: str,
    predict_on: str,
    predict_batch: str,
) -> None:
    """Define the flags of a fine-tuning script.

    The arguments are the default of --max_seq_length, the names of the data,
    and help texts: what happens to longer texts, and what predict_batch_size
    counts.
    """
    flags.DEFINE_bool("do_train", False, f"Fine-tune on {train_on}.")
    flags.DEFINE_bool("do_eval", False, f"Score the model on {score_on}.")
    flags.DEFINE_bool(
        "do_predict", False, f"Write predictions for {predict_on}."
    )
    flags.DEFINE_bool(
        "do_export",
        False,
        "Write a SavedModel that tokenizes by itself, for TF Serving.",
    )
    flags.DEFINE_string(
        "export_dir",
        None,
        "Directory of the SavedModel; default: saved_model/1 in output_dir.",
    )
    training_flags.define_model_flags()
    flags.DEFINE_integer(
        "bilstm_layers",
        0,
        "Layers of a new BiLSTM between the encoder and the output layer, "
        "trained together with them (paper, table 5); 0: none.",
        lower_bound=0,
        upper_bound=MAX_LAYERS,
    )
    flags.DEFINE_integer(
        "bilstm_units",
        768,
        "Width of each direction of a layer of bilstm_layers. The BiLSTM of "
        "run_ner.py --feature_based has --lstm_units instead.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "reinit_top_layers",
        0,
        "Begin with new weights in this many of the encoder's last layers and "
        "in the pooler, which makes training on small data steadier (Zhang et "
        "al., arXiv:2006.05987); 0: all layers begin with the weights of "
        "init_checkpoint.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "freeze_layers",
        0,
        "Leave the embeddings and this many of the encoder's first layers as "
        "they are in init_checkpoint: steps are faster and need less memory; "
        "0: train all.",
        lower_bound=0,
    )
    flags.DEFINE_float(
        "layer_decay",
        1.0,
        "Train lower layers at lower rates: each layer has the learning rate "
        "of the layer above it times this, such as 0.9; the last layer, pooler "
        "and head have learning_rate (Sun et al., arXiv:1905.05583).",
        lower_bound=1e-6,
        upper_bound=1.0,
    )
    flags.DEFINE_float(
        "ema_decay",
        0.0,
        "Score and keep an exponential moving average of the weights with this "
        "decay per step, such as 0.99, in place of the last weights; 0: none.",
        lower_bound=0.0,
        upper_bound=0.999999,
    )
    flags.DEFINE_string(
        "output_dir",
        None,
        "Directory for records, checkpoints, curves and results.",
    )
    flags.DEFINE_alias("output", "output_dir")
    flags.DEFINE_string(
        "records_dir",
        None,
        "Directory for the record files; default: output_dir.",
    )
    flags.DEFINE_integer(
        "max_seq_length", max_seq_length, what_is_cut, lower_bound=5
    )
    flags.DEFINE_bool(
        "pad_to_max_length",
        False,
        "Pad every batch to max_seq_length, as the original does, instead of "
        "batching examples of similar length.",
    )
    flags.DEFINE_float(
        "num_train_epochs",
        3.0,
        "How often to go through the training data; a fraction such as 0.1 for "
        "a quick try.",
        lower_bound=0.0,
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the steps in which the learning rate rises from 0.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "predict_batch_size",
        8,
        f"{predict_batch}; on a CPU, a batch of short ones holds more.",
        lower_bound=1,
        upper_bound=2**17,
    )
    training_flags.define_training_flags(True, _WHY_BIAS_CORRECTION)
    training_flags.define_tpu_flags()
    sweeps.define_flags()
    flags.DEFINE_integer(
        "eval_steps",
        0,
        f"While training, score the model on {score_on} every this many steps, "
        "and keep the best weights; 0: keep the last weights.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "End the training after this many scores in a row that are not "
        "better than the best; 0: train to the end.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "num_errors",
        200,
        "With --do_eval: list this many of the worst mistakes in errors.tsv, "
        "with text, truth and confidence; 0: no file.",
        lower_bound=0,
    )


# --- Flags as plain values ---------------------------------------------------


def read(f: flags.FlagValues) -> RunSettings:
    """Return the flags as plain values.

    The numbers of steps are 0: they follow from the training data
    (runner.with_steps).
    """
    export_dir = f.export_dir or os.path.join(f.output_dir, "saved_model/1")
    training = training_flags.read_settings(
        f, num_train_steps=0, num_warmup_steps=0
    )
    values = {n: f[n].value for n in RunSettings._fields if n in f}
    bilstm = None  # no flag of it was given
    if f["bilstm_layers"].present or f["bilstm_units"].present:
        size = BiLstmSize(f.bilstm_layers, f.bilstm_units)
        bilstm = size if f.bilstm_layers else NO_BILSTM
    return RunSettings(
        **values
        | {
            "records_dir": f.records_dir or f.output_dir,
            "export_dir": export_dir.rstrip("/"),
            "init_checkpoint": training_flags.read_init_checkpoint(f),
            "bilstm": bilstm,
            "is_length_given": f["max_seq_length"].present > 0,
            "long_texts": (
                long_texts.read(f) if "long_texts" in f else LongTexts()
            ),
            "training": training._replace(
                bias_correction=_read_bias_correction(f)
            ),
            "devices": training_flags.read_devices(f),
        }
    )


def _read_bias_correction(f: flags.FlagValues) -> bool:
    """Return --bias_correction; by default that of the run in output_dir.

    The optimizer is not to change in the middle of a run.
    """
    if f["bias_correction"].present or not f.do_train:
        return f.bias_correction
    before = run_settings.read_adjustable(f.output_dir)
    found = bool(before.get("bias_correction", f.bias_correction))
    if found != f.bias_correction:
        logging.info(
            "bias_correction = %s, as the run in %s began", found, f.output_dir
        )
    return found


def check(f: flags.FlagValues) -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flags.
    """
    jobs = ("do_train", "do_eval", "do_predict", "do_export")
    if not any(f[name].value for name in jobs):
        raise UserError(f"give --{', --'.join(jobs)} or several")
    training_flags.require(f, "output_dir")
    # A repeated command finds the export of its first run. That is no error:
    # runner.write_saved_model keeps it if it is of the same weights. A sweep
    # that was killed while it copied the best run has no model.
    has_model = fine_tuned.find_weights(f.output_dir) or sweeps.has_results(
        f.output_dir
    )
    if f.do_export and not (f.do_train and has_model):
        saved_model.check_new(read(f).export_dir)
    if f["export_dir"].present and not f.do_export:
        logging.warning("--export_dir is ignored without --do_export")
    if f.early_stopping_patience and not f.eval_steps:
        raise UserError("--early_stopping_patience needs --eval_steps")
    if f["bilstm_units"].present and not f.bilstm_layers:
        raise UserError(
            f"--bilstm_units={f.bilstm_units} needs --bilstm_layers: without "
            "layers there is no BiLSTM"
        )
    for name in ("reinit_top_layers", "freeze_layers"):
        if f[name].value and not f.do_train:
            raise UserError(
                f"--{name}={f[name].value} needs --do_train: it changes how "
                "the model is trained"
            )
        if f[name].value and not f.init_checkpoint:
            raise UserError(
                f"--{name}={f[name].value} needs --init_checkpoint: without it "
                "all weights are new"
            )
    for flag, size in sweeps.batch_sizes(f):
        if size % f.gradient_accumulation_steps:
            raise UserError(
                f"--{flag}={size} does not divide by "
                f"--gradient_accumulation_steps={f.gradient_accumulation_steps}"
            )
