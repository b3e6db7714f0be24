"""The features of a pre-training record: names, types and lengths.

A record is one sequence [CLS] A [SEP] B [SEP] with masked tokens, as
pretraining/masking.py makes it and pretraining/model.py reads it.
"""

from records import tfrecord


def schema(
    max_seq_length: int, max_predictions_per_seq: int
) -> dict[str, tfrecord.Feature]:
    """Return name -> Feature of the pre-training records.

    Names, types and lengths are the original's, so its files and ours are
    interchangeable.

        input_ids             token ids, some of them replaced; padded with 0
        input_mask            1 for tokens, 0 for padding
        segment_ids           0 for [CLS] A [SEP], 1 for B [SEP]
        masked_lm_positions   places of the tokens to predict, ascending
        masked_lm_ids         the tokens that were there
        masked_lm_weights     1 for predictions, 0 for unused places
        next_sentence_labels  0: B follows A in the text, 1: B is random
    """
    sequence = tfrecord.Feature("int64", max_seq_length)
    predictions = tfrecord.Feature("int64", max_predictions_per_seq)
    weights = tfrecord.Feature("float32", max_predictions_per_seq)
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": weights,
        "next_sentence_labels": tfrecord.Feature("int64", 1),
    }
