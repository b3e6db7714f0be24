"""What determines a pre-training record: its flags and its features.

A record is one sequence [CLS] A [SEP] B [SEP] with masked tokens, as
pretraining/data/masking.py makes it and pretraining/model.py reads it. A packed
record is a row of several sequences, of pretraining/data/packing.py.
"""

import dataclasses
from collections.abc import Mapping

from base.errors import UserError
from base.flags import flag

from absl import logging

from records import tfrecord

# The flags of what is predicted, which the script that draws the masks has.
MASKING_FLAGS = (
    "masked_lm_prob",
    "mask_token_prob",
    "random_token_prob",
    "do_whole_word_mask",
    "max_predictions_per_seq",
)


@dataclasses.dataclass(frozen=True)
class InstanceConfig:
    """The flags that determine the instances."""

    max_seq_length: int = flag(128, 8, 10**5)
    """Tokens per sequence, the same for create_pretraining_data.py and
    run_pretraining.py."""

    max_predictions_per_seq: int = flag(20, 1, 10**5)
    """Largest number of tokens to predict in a sequence, the same for the two
    scripts; should be about max_seq_length * masked_lm_prob. Packed records
    with masks have a number of their own."""

    masked_lm_prob: float = flag(0.15, 1e-6, 1)
    """Share of tokens to predict. Those of unmasked records are drawn anew each
    time run_pretraining.py reads one."""

    mask_token_prob: float = flag(0.8, 0, 1)
    """Share of the tokens to predict that [MASK] replaces.{unmasked}"""

    random_token_prob: float = flag(0.1, 0, 1)
    """Share of the tokens to predict that a random token replaces; the rest
    stays as it is.{unmasked}"""

    do_whole_word_mask: bool = flag(False)
    """Predict all tokens of a word or none of them. In Chinese every character
    is a word, so this changes nothing there.{unmasked}"""

    short_seq_prob: float = flag(0.1, 0, 1)
    """Share of sequences made shorter than max_seq_length."""

    dupe_factor: int = flag(10, 1, 10**4)
    """Passes over the text, each with masks of its own."""

    unmasked: bool = flag(
        False,
        excludes=dict.fromkeys(
            MASKING_FLAGS,
            "give that to run_pretraining.py, which draws the masks",
        ),
    )
    """Leave the masking to run_pretraining.py, which draws new masks each time
    it reads a record. One pass is then enough: --dupe_factor is 1 by
    default."""

    pack_sequences: bool = flag(False)
    """Put several sequences into each row of max_seq_length tokens, so that the
    rows have hardly any padding. run_pretraining.py recognises such files."""

    max_sequences_per_pack: int = flag(8, needs={"pack_sequences": ""})
    """With pack_sequences: largest number of sequences in a row."""

    @property
    def max_tokens(self) -> int:
        """The most tokens of A and B together, without [CLS] and two [SEP]."""
        return self.max_seq_length - 3

    def check(self) -> None:
        """Raise a UserError for values of flags that do not fit together."""
        # A row of one sequence would be an unpacked record, and a sequence has
        # 5 tokens at least: [CLS] a [SEP] b [SEP].
        packs = self.max_sequences_per_pack
        most = max(8, self.max_seq_length // 5)
        if self.pack_sequences and not 2 <= packs <= most:
            raise UserError(
                f"--max_sequences_per_pack={packs}: must be from 2 to {most} "
                f"for --max_seq_length={self.max_seq_length}"
            )
        total = self.mask_token_prob + self.random_token_prob
        if total > 1 + 1e-9:
            raise UserError(
                f"--mask_token_prob={self.mask_token_prob} and "
                f"--random_token_prob={self.random_token_prob} add up to "
                f"{total:g}; together they can be 1 at most"
            )

    def warn_of_few_predictions(self) -> None:
        """Warn if records have too few places for the tokens to predict."""
        wanted = self.max_seq_length * self.masked_lm_prob
        if self.max_predictions_per_seq < 0.9 * wanted:
            logging.warning(
                "--max_predictions_per_seq=%d caps the %.0f predictions that "
                "--masked_lm_prob=%g gives a full sequence of %d",
                self.max_predictions_per_seq,
                wanted,
                self.masked_lm_prob,
                self.max_seq_length,
            )


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
