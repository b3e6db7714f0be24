"""The flags of a fine-tuning command as plain values."""

from typing import NamedTuple

from checkpoints.trained_for import LongTexts
from tasks.bilstm import BiLstmSize
from training.devices import DeviceChoice
from training.settings import Settings


class RunSettings(NamedTuple):
    """The flags that all fine-tuning scripts share, and values made of them.

    Attributes:
        records_dir: directory of the record files.
        export_dir: directory of the SavedModel, without a slash at the end.
        bilstm: size of the BiLSTM, None if no flag of it was given.
        reinit_top_layers: layers of the encoder to begin with new weights.
        max_seq_length: the flag's value.
        is_length_given: whether the flag was given; if not, a fine-tuned model
            keeps the length it was fine-tuned with.
        long_texts: what its flags say; None if none was given.
        num_errors: mistakes to list in errors.tsv; 0: no file.
        training: how to train; its numbers of steps are 0 until the training
            data have been read.
        devices: what to run on.
    """

    do_train: bool
    do_eval: bool
    do_predict: bool
    do_export: bool
    output_dir: str
    records_dir: str
    export_dir: str
    init_checkpoint: str | None
    bert_config_file: str | None
    vocab_file: str | None
    do_lower_case: bool | None
    bilstm: BiLstmSize | None
    reinit_top_layers: int
    max_seq_length: int
    is_length_given: bool
    long_texts: LongTexts | None
    pad_to_max_length: bool
    num_train_epochs: float
    warmup_proportion: float
    early_stopping_patience: int
    predict_batch_size: int
    num_errors: int
    training: Settings
    devices: DeviceChoice
