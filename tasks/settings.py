"""The flags that all fine-tuning scripts share, and values made of them."""

import dataclasses
from typing import NamedTuple

from base.errors import UserError, counted
from base.flags import flag

from absl import logging

from checkpoints.model import Checkpoint
from checkpoints.run_folder import RunFolder
from checkpoints.trained_for import LongTexts, TrainedFor
from training.flags import ModelFlags
from training.settings import (
    FROZEN,
    MAX_BATCH_SIZE,
    DeviceChoice,
    TrainingFlags,
)


class BiLstmSize(NamedTuple):
    """The size of a BiLSTM; fields are flags and keys of bert_config.json.

    Attributes:
        bilstm_layers: 0: there is no BiLSTM.
        bilstm_units: width of each direction; the output has twice as many.
    """

    bilstm_layers: int = 0
    bilstm_units: int = 0

    def __str__(self) -> str:
        """Return the size of a BiLSTM in words, for messages."""
        layers = counted(self.bilstm_layers, "layer")
        return f"a BiLSTM of {layers} of {self.bilstm_units} units"


NO_BILSTM = BiLstmSize()
MAX_LAYERS = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(ModelFlags, TrainingFlags, DeviceChoice):
    """A fine-tuning command, with the original's defaults."""

    do_train: bool = flag(False)
    """Fine-tune on {train_on}."""

    do_eval: bool = flag(False)
    """Score the model on {score_on}."""

    do_predict: bool = flag(False)
    """Write predictions for {predict_on}."""

    do_export: bool = flag(False)
    """Write a SavedModel that tokenizes by itself, for TF Serving."""

    folder: RunFolder  # what output_dir holds when the command begins

    export_dir: str = flag(is_output=True)
    """Directory of the SavedModel; default: saved_model/1 in output_dir."""

    restart: bool = flag(False)
    """Train anew: a run in output_dir is moved aside, to output_dir.1 or the
    next number that is free. Leave it out to resume a run, also one that was
    begun with it."""

    records_dir: str = flag(is_output=True)
    """Directory for the record files; default: output_dir."""

    reinit_top_layers: int = flag(0, low=0, needs=FROZEN, resumed="fixed")
    """Begin with new weights in this many of the encoder's last layers and in
    the pooler, which makes training on small data steadier (Zhang et al.,
    arXiv:2006.05987); 0: all layers begin with the weights of
    init_checkpoint."""

    max_seq_length: int = flag(128, low=5)
    """{what_is_cut}"""

    pad_to_max_length: bool = flag(False, resumed="fixed")
    """Pad every batch to max_seq_length, as the original does, instead of
    batching examples of similar length."""

    num_train_epochs: float | None = flag(low=0, resumed="results")
    """How often to go through the training data; a fraction such as 0.1 for a
    quick try. Default: 3; if these are fewer than {few_steps} steps, as many as
    make {enough_steps}."""

    warmup_proportion: float = flag(0.1, 0, 1, resumed="results")
    """Share of the steps in which the learning rate rises from 0."""

    eval_batch_size: int = flag(8, 1, MAX_BATCH_SIZE)
    """{rows} in a batch of --do_eval; on a CPU, a batch of short ones holds
    more."""

    predict_batch_size: int = flag(8, 1, MAX_BATCH_SIZE)
    """{rows} in a batch of --do_predict{and_of}; on a CPU, a batch of short
    ones holds more."""

    early_stopping_patience: int = flag(0, low=0, needs={"eval_steps": ""})
    """End the training after this many scores in a row that are not better than
    the best; 0: train to the end."""

    num_errors: int = flag(200, low=0)
    """With --do_eval: list this many of the worst mistakes in errors.tsv, with
    text, truth and confidence; 0: no file."""

    # Whether --max_seq_length is given; if not, a fine-tuned model keeps the
    # length it was fine-tuned with.
    is_length_given: bool
    # Whether --learning_rate is given; if not, it is the `usual_rate`.
    is_rate_given: bool
    bilstm: BiLstmSize | None  # None: no flag of it is given
    long_texts: LongTexts | None  # None: no flag of them is given


@dataclasses.dataclass(frozen=True)
class DistillationFlags:
    """The answers of teachers, and what is learned from them."""

    teacher_answers: tuple[str, ...] = flag(
        (), needs={"do_train": "answers are for training"}
    )
    """Learn from these answers of a model that was fine-tuned on the same
    labels, the teacher, which may be larger: output_dir of batch_predict.py
    --as_teacher, or its files; several are separated by commas. Training texts
    without an answer are written to unanswered.jsonl in output_dir. From
    several teachers, the mean is learned (docs/distillation.md)."""

    distillation_temperature: float = flag(
        1.0, low=1e-6, needs={"teacher_answers": ""}
    )
    """Divide the logits of teacher and student by this in the soft loss; above
    1 the less likely classes count for more. The loss is multiplied by the
    square."""

    distillation_alpha: float = flag(1.0, 0, 1, needs={"teacher_answers": ""})
    """Weight of the soft loss, from 0 to 1; the loss of the labels has the
    weight 1 - distillation_alpha."""

    learn_all_answers: bool = flag(False, needs={"teacher_answers": ""})
    """Learn all answers of teachers, also those to texts that are not in the
    training set and need no labels. An epoch is the training set and these
    texts."""


def usual_rate(source: Checkpoint) -> tuple[float, str] | None:
    """Return a learning rate without the flag, and for what; None: its default.

    They were measured: docs/records/fine_tuning.md, docs/measurements.md.
    """
    if source.trained_for.feature_layers:
        return 1e-3, "a BiLSTM on frozen features"
    if source.config.hidden_size <= 256:
        return 5e-4, "models of at most 256 units"
    return None


def bilstm_in(trained_for: TrainedFor) -> BiLstmSize:
    """Return the size in the configuration of a fine-tuned model.

    Raises:
        UserError: it has layers without units, or units without layers, or too
            many layers.
    """
    layers, units = trained_for.bilstm_layers, trained_for.bilstm_units
    if bool(layers) != bool(units) or (layers or 0) > MAX_LAYERS:
        raise UserError(
            "bert config: bilstm_layers and bilstm_units must be whole "
            f"numbers of at least 1, and at most {MAX_LAYERS} layers, found "
            f"{layers!r} and {units!r}"
        )
    return BiLstmSize(layers or 0, units or 0)


def choose_bilstm(
    given: BiLstmSize | None, checkpoint: Checkpoint, is_training: bool
) -> BiLstmSize:
    """Return the size of the BiLSTM of a command.

    A model that is used as it is keeps the BiLSTM it was fine-tuned with. A
    model that is trained has the one that flags give, or none without flags.

    Raises:
        UserError: the flags contradict the model.
    """
    found, prefix = bilstm_in(checkpoint.trained_for), checkpoint.prefix
    if given is None and not is_training:
        return found
    given = given or NO_BILSTM
    # If training was interrupted, output_dir has no configuration, and that of
    # init_checkpoint has no BiLSTM. Then the flags describe the model.
    if not found.bilstm_layers:
        return given
    if is_training and not given.bilstm_layers:
        logging.warning(
            "%s has %s, which is left out: give --bilstm_layers=%d "
            "--bilstm_units=%d to train it further",
            prefix,
            found,
            *found,
        )
        return given
    if given != found:
        raise UserError(
            f"--bilstm_layers={given.bilstm_layers} "
            f"--bilstm_units={given.bilstm_units}, but {prefix} was fine-tuned "
            f"with {found}: "
            + ("give these numbers" if is_training else "leave the flags out")
        )
    if is_training:
        logging.info("Training continues with %s, from %s", found, prefix)
    return given
