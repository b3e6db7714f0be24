"""The flags all fine-tuning scripts share: define, read and check them."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from base import flags
from base.errors import UserError
from base.flags import flag

from absl import flags as absl_flags
from absl import logging
from absl.flags import FlagValues

from checkpoints.run_folder import RunFolder
from checkpoints.trained_for import LongTexts
from tasks import long_texts
from tasks.settings import MAX_LAYERS, NO_BILSTM, BiLstmSize, RunSettings

if TYPE_CHECKING:
    from tasks.job import FineTuningJob, LoadedModel, Scored, Wrapper

absl_flags.disclaim_key_flags()  # --help of a script shows what it defines

# Flag -> the part of the data that it needs.
PARTS = {
    "do_train": "train",
    "do_eval": "dev",
    "eval_steps": "dev",
    "do_predict": "test",
}

# If 3 epochs are fewer steps than the first number, small data have as many
# epochs as make the second one: docs/records/fine_tuning.md. All sets of GLUE
# but WNLI have more steps than the first.
FEW_STEPS, ENOUGH_STEPS = 225, 300

# The end of its help text.
_WHY_BIAS_CORRECTION = (
    "Without it, which is the original's way (--nobias_correction), the first "
    "updates are several times as large, and fine-tuning on small data fails "
    "more often (Zhang et al. 2020, Mosbach et al. 2020)."
)


@dataclasses.dataclass(frozen=True)
class BiLstmFlags:
    """The size of a BiLSTM that is trained together with the encoder."""

    bilstm_layers: int = flag(0, 0, MAX_LAYERS)
    """Layers of a new BiLSTM between the encoder and the output layer, trained
    together with them (paper, table 5); 0: none."""

    bilstm_units: int = flag(
        768, low=1, needs={"bilstm_layers": "without layers there is no BiLSTM"}
    )
    """Width of each direction of a layer of bilstm_layers. The BiLSTM of
    run_ner.py --feature_based has --lstm_units instead."""


@dataclasses.dataclass(frozen=True)
class SweepFlags:
    """Restarts and grids."""

    num_restarts: int = flag(1, 1, 1000)
    """Train this many times, with the seeds random_seed, random_seed + 1, ...;
    keep the run that is best on the development set."""

    sweep_learning_rates: tuple[str, ...] = flag(())
    """Train with each of these values of learning_rate; several such lists make
    a grid."""

    sweep_batch_sizes: tuple[str, ...] = flag(())
    """Train with each of these values of train_batch_size; several such lists
    make a grid."""

    sweep_epochs: tuple[str, ...] = flag(())
    """Train with each of these values of num_train_epochs; several such lists
    make a grid."""


def define(
    files: Sequence[str] = (),
    defaults: Mapping[str, object] | None = None,
    without: tuple[str, ...] = (),
    **words: str,
) -> None:
    """Define the flags of a fine-tuning script.

    Args:
        files: flags of the data to train on, to score on and to predict; none
            if other flags say where these are.
        defaults: {flag: default} that differ in this script.
        without: flags that this script does not have.
        words: for the help: the names of the data (train_on, score_on,
            predict_on) where these are not `files`, what happens to longer
            texts (what_is_cut), what batches hold (rows), and what else has
            batches like those of --do_predict (and_of).
    """
    of_part = dict(zip(("train", "dev", "test"), files, strict=False))
    needs = {name: of_part[part] for name, part in PARTS.items() if of_part}
    names = ("train_on", "score_on", "predict_on")
    words = {
        **dict(zip(names, files, strict=False)),
        "records": "records, ",
        "usual_rate": " Without the flag, models of at most 256 units have "
        "5e-4, and run_ner.py --feature_based 1e-3.",
        "then": ", and keep the best weights; 0: keep the last weights",
        "why_bias_correction": _WHY_BIAS_CORRECTION,
        "few_steps": str(FEW_STEPS),
        "enough_steps": str(ENOUGH_STEPS),
        "and_of": "",
        **words,
    }
    own = {"bias_correction": True, **(defaults or {})}
    for cls in (RunSettings, BiLstmFlags, SweepFlags):
        flags.define(
            cls, without=without, defaults=own, needs=needs, words=words
        )


def read_settings(f: FlagValues, folder: RunFolder) -> RunSettings:
    """Return the flags as plain values.

    A repeated command finds the export of its first run. That is no error:
    runner.write_saved_model keeps it if it is of the same weights. A sweep that
    was killed while it copied the best run has no model.

    Raises:
        UserError: a SavedModel of something else is where --do_export writes.
    """
    export_dir = f.export_dir or os.path.join(f.output_dir, "saved_model/1")
    export_dir = export_dir.rstrip("/")
    has_model = folder.weights or folder.is_sweep
    if f.do_export and not (f.do_train and has_model):
        from tasks import saved_model  # where one is written

        saved_model.check_new(export_dir)
    bilstm = None  # no flag of it was given
    if any(name in f and f[name].present for name in BiLstmSize._fields):
        size = BiLstmSize(f.bilstm_layers, f.bilstm_units)
        bilstm = size if f.bilstm_layers else NO_BILSTM
    return flags.read(
        RunSettings,
        f,
        records_dir=f.records_dir or f.output_dir,
        export_dir=export_dir,
        init_checkpoint=folder.pinned(f.init_checkpoint),
        folder=folder,
        # run_squad.py scores what it predicts.
        eval_batch_size=(
            f.eval_batch_size
            if "eval_batch_size" in f
            else f.predict_batch_size
        ),
        bilstm=bilstm,
        is_length_given=f["max_seq_length"].present > 0,
        is_rate_given=not f["learning_rate"].using_default_value,
        long_texts=long_texts.read(f) if "long_texts" in f else LongTexts(),
    )


def check_flags(f: FlagValues) -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flags.
    """
    jobs = ("do_train", "do_eval", "do_predict", "do_export")
    if not any(f[name].value for name in jobs):
        raise UserError(f"give --{', --'.join(jobs)} or several")
    if not f.output_dir:
        raise UserError("--output_dir is required")
    if f["export_dir"].present and not f.do_export:
        logging.warning("--export_dir is ignored without --do_export")
    name = "sweep_batch_sizes" if f.sweep_batch_sizes else "train_batch_size"
    runs: Iterable[Mapping[str, str]] = [{}]
    if asks_for_sweep(f):
        from extras import sweeps

        runs = sweeps.grid(f).values()
        if not f.do_train:
            raise UserError(
                "restarts and sweeps need --do_train: --num_restarts, "
                "--num_folds and --sweep_* make training runs"
            )
    for run in runs:
        size = int(run.get("train_batch_size", f.train_batch_size))
        if size % f.gradient_accumulation_steps:
            raise UserError(
                f"--{name}={size} does not divide by "
                f"--gradient_accumulation_steps={f.gradient_accumulation_steps}"
            )


class Work(NamedTuple):
    """What the flags of a script ask for.

    Attributes:
        job: what the task reads, scores and writes.
        wrapper: what else is learned from, such as answers; None: nothing.
        calibrate: changes the weights that are kept, which have been scored,
            and returns the scores that they have then; None: nothing does.
    """

    job: "FineTuningJob"
    wrapper: "Wrapper | None" = None
    calibrate: "Callable[[LoadedModel, Scored], Scored] | None" = None


def asks_for_sweep(f: FlagValues) -> bool:
    """Return whether the flags ask for several training runs."""
    has_folds = "num_folds" in f and f.num_folds > 0 and not f.fold
    grid = f.sweep_learning_rates or f.sweep_batch_sizes or f.sweep_epochs
    return f.num_restarts > 1 or has_folds or bool(grid)
