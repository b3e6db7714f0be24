"""The flags that all fine-tuning scripts share, and values made of them."""

import dataclasses

from base.flags import flag

from checkpoints.model import Checkpoint
from checkpoints.run_folder import RunFolder
from checkpoints.trained_for import LongTexts
from tasks.bilstm import BiLstmSize
from training.devices import DeviceChoice
from training.flags import ModelFlags
from training.settings import FROZEN, MAX_BATCH_SIZE, TrainingFlags


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


def usual_rate(source: Checkpoint) -> tuple[float, str] | None:
    """Return a learning rate without the flag, and for what; None: its default.

    They were measured: docs/records/fine_tuning.md, docs/measurements.md.
    """
    if source.trained_for.feature_layers:
        return 1e-3, "a BiLSTM on frozen features"
    if source.config.hidden_size <= 256:
        return 5e-4, "models of at most 256 units"
    return None
