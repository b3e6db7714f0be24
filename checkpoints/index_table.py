"""Check the index of a TensorFlow checkpoint before TensorFlow reads it.

The index is a table in LevelDB's format, from names to BundleEntryProtos:

    block, type, checksum; block, type, checksum; ...; footer

TensorFlow checks the checksums. But where the checksum is right and the entry
is damaged, or has no type or no shape, TensorFlow ends the process.
"""

import math
from collections.abc import Iterator

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import tensor_bundle_pb2

_FOOTER = 48  # bytes
_MAX_BYTES = 1 << 62  # of a tensor


def check(path: str) -> None:
    """Raise a ValueError for an entry at which TensorFlow ends the process."""
    with tf.io.gfile.GFile(path, "rb") as file:
        data = file.read()
    try:
        for name, value in _entries(data):
            if name and not _is_sound(
                tensor_bundle_pb2.BundleEntryProto.FromString(value)
            ):
                raise ValueError(f"the entry of {name!r} has no type or shape")
    except (DecodeError, IndexError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _is_sound(entry: tensor_bundle_pb2.BundleEntryProto) -> bool:
    """Whether an entry has a type, a shape, and the bytes these two need."""
    dtype, sizes = tf.as_dtype(entry.dtype), [d.size for d in entry.shape.dim]
    if entry.shape.unknown_rank or min(sizes, default=0) < 0:
        return False
    if dtype == tf.variant:  # the state of an iterator, which nobody reads
        return True
    num_bytes = math.prod(sizes) * (dtype.size or 1)
    is_whole = dtype == tf.string or entry.slices or entry.size == num_bytes
    return dtype.is_numpy_compatible and is_whole and num_bytes < _MAX_BYTES


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (name, value) of all blocks; the footer names their list."""
    at = len(data) - _FOOTER
    for _ in range(2):  # of a block without meaning here
        _, at = _varint(data, at)
    for _, place in _block(data, data[at : at + 20]):
        yield from _block(data, place)


def _block(data: bytes, place: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of the block at `place`, which is two varints.

    A key is stored as the length of the beginning that it shares with the key
    before, and the rest. After the entries come 4-byte numbers and their count.
    """
    start, at = _varint(place, 0)
    size, _ = _varint(place, at)
    block = data[start : start + size]
    if data[start + size] != 0:
        return  # compressed, as TensorFlow does not write it
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    key, at = b"", 0
    while at < end:
        shared, at = _varint(block, at)
        rest, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + rest]
        at += rest + length
        yield key, block[at - length : at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, 7 bits in each byte; the place behind."""
    value = shift = 0
    while data[at] > 127 and shift < 63:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1
