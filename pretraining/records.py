"""Open the record files of a pre-training run and check them."""

import modeling
from pretraining import instances as pretraining_instances
from records import streaming

# The flag that sets a feature's length, for messages.
_LENGTH_FLAGS = {
    "input_ids": "max_seq_length",
    "input_mask": "max_seq_length",
    "segment_ids": "max_seq_length",
    "masked_lm_positions": "max_predictions_per_seq",
    "masked_lm_ids": "max_predictions_per_seq",
    "masked_lm_weights": "max_predictions_per_seq",
}

# --- Data -----------------------------------------------------------------


def find_data(
    files: list[str],
    config: modeling.BertConfig,
    max_seq_length: int,
    max_predictions_per_seq: int,
) -> streaming.RecordFiles:
    """Check record files against lengths and configuration."""
    vocabulary = streaming.Bound(
        config.vocab_size, "vocab_size of the configuration"
    )
    return streaming.RecordFiles(
        files,
        pretraining_instances.schema(max_seq_length, max_predictions_per_seq),
        {
            "input_ids": vocabulary,
            "masked_lm_ids": vocabulary,
            "masked_lm_positions": streaming.Bound(
                max_seq_length, "max_seq_length"
            ),
            "segment_ids": streaming.Bound(
                config.type_vocab_size, "type_vocab_size of the configuration"
            ),
        },
        _LENGTH_FLAGS,
    )
