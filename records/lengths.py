"""The lengths that batches are padded to. This module imports no TensorFlow."""

# Lengths below max_seq_length where each is compiled separately, so they are
# few. Gaps grow with the length, since what counts is the share of padding in a
# batch.
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448)


def bucket_lengths(
    max_seq_length: int, pad_to_max_length: bool = False, is_fine: bool = False
) -> list[int]:
    """Return the lengths that batches are padded to, in ascending order.

    With `is_fine` they are the multiples of 8, for programs that are not
    compiled for each length.
    """
    if pad_to_max_length:
        return [max_seq_length]
    lengths = range(8, max_seq_length, 8) if is_fine else _LENGTHS
    return [n for n in lengths if n < max_seq_length] + [max_seq_length]
