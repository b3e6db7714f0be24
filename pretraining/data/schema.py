"""The features of a pre-training record: names, types and lengths.

A record is one sequence [CLS] A [SEP] B [SEP] with masked tokens, as
pretraining/data/masking.py makes it and pretraining/model.py reads it. A packed
record is a row of several sequences, of pretraining/data/packing.py.
"""

from collections.abc import Mapping

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


# The feature that only packed records have, and one that unmasked ones lack.
PACKED_FEATURE = "next_sentence_positions"
MASKED_FEATURE = "masked_lm_ids"


def packed_schema(
    max_seq_length: int, predictions_per_row: int, max_sequences_per_pack: int
) -> dict[str, tfrecord.Feature]:
    """Return name -> Feature of packed records.

    The token and masked_lm features are those of `schema` for the row as a
    whole: positions count from the start of the row, and a row has as many
    places of predictions as its sequences need together. These are added, or
    in the case of next_sentence_labels changed:

        sequence_ids             1, 2, ...: the token's sequence; 0: padding
        position_ids             the token's place in its sequence, from 0
        next_sentence_positions  places of the [CLS] of the sequences
        next_sentence_labels     as in `schema`, one for each sequence
        next_sentence_weights    1 for sequences, 0 for unused places

    Example: a row of two sequences and one token of padding, with 2 places of
    sequences and 3 of predictions (7 and 8 are masked, 4 is [MASK]):

        input_ids     [CLS] 4 [SEP] 6 [SEP] [CLS] 5 [SEP] 4 [SEP] 0
        input_mask      1   1   1   1   1     1   1   1   1   1   0
        segment_ids     0   0   0   1   1     0   0   0   1   1   0
        sequence_ids    1   1   1   1   1     2   2   2   2   2   0
        position_ids    0   1   2   3   4     0   1   2   3   4   0
        masked_lm_positions 1 8 0    next_sentence_positions 0 5
        masked_lm_ids       7 8 0    next_sentence_labels    0 1
        masked_lm_weights   1 1 0    next_sentence_weights   1 1
    """
    sequence = tfrecord.Feature("int64", max_seq_length)
    packs = tfrecord.Feature("int64", max_sequences_per_pack)
    return {
        **schema(max_seq_length, predictions_per_row),
        "sequence_ids": sequence,
        "position_ids": sequence,
        PACKED_FEATURE: packs,
        "next_sentence_labels": packs,
        "next_sentence_weights": tfrecord.Feature(
            "float32", max_sequences_per_pack
        ),
    }


def unmasked(schema: Mapping[str, tfrecord.Feature]) -> dict:
    """Return the features of records whose masks training draws.

    They lack the masked_lm features, and input_ids are the tokens of the text.
    """
    return {n: f for n, f in schema.items() if not n.startswith("masked_lm_")}
