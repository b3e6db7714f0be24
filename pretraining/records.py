"""Open the record files of a pre-training run and check them."""

import modeling
from pretraining import schema as pretraining_schema
from records import streaming

# The flag that sets the length of a feature, for error messages.
_LENGTH_FLAGS = {
    "input_ids": "max_seq_length",
    "input_mask": "max_seq_length",
    "segment_ids": "max_seq_length",
    "masked_lm_positions": "max_predictions_per_seq",
    "masked_lm_ids": "max_predictions_per_seq",
    "masked_lm_weights": "max_predictions_per_seq",
}


def find_data(
    files: list[str],
    config: modeling.BertConfig,
    max_seq_length: int,
    max_predictions_per_seq: int,
) -> streaming.RecordFiles:
    """Return the record files, checked against lengths and configuration.

    Ids are checked when a batch is read: without a check, a GPU takes zeros
    for the embedding of an id beyond the vocabulary, without an error.

    Raises:
        UserError: a file has records of other features or lengths.
    """
    vocabulary = streaming.Bound(
        config.vocab_size, "vocab_size of the configuration"
    )
    segments = streaming.Bound(
        config.type_vocab_size, "type_vocab_size of the configuration"
    )
    return streaming.RecordFiles(
        files,
        pretraining_schema.schema(max_seq_length, max_predictions_per_seq),
        {
            "input_ids": vocabulary,
            "masked_lm_ids": vocabulary,
            "masked_lm_positions": streaming.Bound(
                max_seq_length, "max_seq_length"
            ),
            "segment_ids": segments,
        },
        _LENGTH_FLAGS,
    )
