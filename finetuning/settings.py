"""What a fine-tuning command asks for, as plain values."""

from typing import NamedTuple

from training.devices import DeviceChoice
from training.settings import Settings


class RunSettings(NamedTuple):
    """What all fine-tuning scripts are asked for; fields are named as flags.

    Attributes:
        records_dir: where record files go.
        export_dir: where the SavedModel goes, without a slash at the end.
        max_seq_length: the flag's value.
        is_length_given: whether the flag was given; a fitted model's own
            length holds where it was not.
        training: how to train; its steps are not known before the data.
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
    max_seq_length: int
    is_length_given: bool
    pad_to_max_length: bool
    num_train_epochs: float
    warmup_proportion: float
    early_stopping_patience: int
    predict_batch_size: int
    training: Settings
    devices: DeviceChoice
