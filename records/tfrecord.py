"""Read and write TFRecord files of tf.train.Example without TensorFlow.

Importing TensorFlow costs 600 MB of memory and seconds of time, too much for
each of the worker processes that write records. So the two formats are written
in numpy here:

    TFRecord  uint64 length, crc32c(length), bytes, crc32c(bytes)
    Example   protobuf: a map from a name to a list of int64, float or bytes

A batch of examples is encoded at once. A number takes one byte or more
(varint), so examples differ in size. All get the layout of the widest: so many
bytes for each number. The bytes that an example does not need are marked, and
one selection removes all of them. For example 5 and 300 in two rows:

    bytes [[05, --], [AC, 02]]  kept [[1, 0], [1, 1]]  ->  05 AC 02

Use:

    with file_system.atomic_file(path) as file:
        with RecordWriter(file, "GZIP") as writer:
            writer.write_examples({"input_ids": ids, "label_ids": labels})
    for record in read_records(path):
        features = decode_example(record)
"""

import contextlib
import gzip
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import IO, NamedTuple

from base import file_system
from base.errors import UserError

import google_crc32c
import numpy as np

# The numbers of protobuf fields in a tf.train.Example:
#
#     Example  { features = 1 }
#     Features { feature = 1, once for each entry of the map }
#     entry    { key = 1, value = 2 }
#     Feature  { bytes_list = 1, float_list = 2 or int64_list = 3 }
#     list     { value = 1 }
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3

# Protobuf's wire types: how a field's value is encoded.
_VARINT, _DELIMITED, _FOUR_BYTES = 0, 2, 5

# The wire types of the values of each list. Numbers may be packed into one
# field.
_WIRE_TYPES = {
    _BYTES_LIST: (_DELIMITED,),
    _FLOAT_LIST: (_DELIMITED, _FOUR_BYTES),
    _INT64_LIST: (_DELIMITED, _VARINT),
}

_LONGEST_VARINT = 10  # bytes, of 64 bits

# A record of token ids has some kilobytes. A longer one than this is damage, or
# was made to fill the memory: gzip packs a gigabyte of zeros into a megabyte.
_LONGEST_RECORD = 64 << 20  # bytes

# Examples encoded at once: enough to spread the cost of many small array
# operations, few enough for the caches of the processor.
_CHUNK_ROWS = 2048


class Feature(NamedTuple):
    """Type and length of a feature.

    Attributes:
        dtype: "int64" or "float32".
        length: values in a record.
        per_token: whether a feature as long as input_ids has a value for each
            token, so that it is cut and padded with them.
    """

    dtype: str
    length: int
    per_token: bool = True


# --- Writing -----------------------------------------------------------------


class RecordWriter(contextlib.AbstractContextManager):
    """Writes records to an open binary file, and counts them; it stays open.

    With compression "GZIP", each writer writes one gzip member. Members can be
    concatenated, as plain records can: readers take them as one file.
    """

    def __init__(self, file: IO[bytes], compression: str = ""):
        self.num_records = 0
        self._file = file
        self._gzip = None
        if compression == "GZIP":
            # No name and no time in the header: the same records give the
            # same bytes. Level 6 is the default of zlib and of TensorFlow.
            self._gzip = gzip.GzipFile("", "wb", 6, file, mtime=0)
            self._file = self._gzip

    def __exit__(self, *unused) -> None:
        """End the gzip member; the file itself stays open."""
        if self._gzip:
            self._gzip.close()

    def write_examples(self, features: Mapping[str, np.ndarray]) -> None:
        """Write a record for each example of {name: [n, length] or [n]}.

        Integers become an Int64List, floats a FloatList.
        """
        arrays = {name: np.asarray(array) for name, array in features.items()}
        sizes = {array.shape[0] for array in arrays.values()}
        if len(sizes) != 1:
            raise ValueError(f"features differ in number of rows: {sizes}")
        (size,) = sizes
        for start in range(0, size, _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            chunk = {name: array[rows] for name, array in arrays.items()}
            self._file.write(_encode_chunk(chunk))
        self.num_records += size


class _Columns(NamedTuple):
    """The same part of n messages, as columns of bytes.

    Attributes:
        blocks: pairs (bytes, kept). The bytes are uint8 [n, width], or
            [1, width] if all rows are alike; kept is bool [n, width], or True
            if all bytes are kept.
        lengths: int64 [n] or [1], the number of bytes that each row keeps.
    """

    blocks: list[tuple[np.ndarray, np.ndarray | bool]]
    lengths: np.ndarray


def _whole(block: np.ndarray) -> _Columns:
    """Return bytes that are all kept, [n, width] or [1, width]."""
    return _Columns([(block, True)], np.array([block.shape[1]]))


def _constant(text: bytes) -> _Columns:
    """Return the same bytes for all rows."""
    return _whole(np.frombuffer(text, np.uint8)[None])


def _concatenate(*parts: _Columns) -> _Columns:
    """Return several parts of messages, one after the other."""
    blocks = [block for part in parts for block in part.blocks]
    return _Columns(blocks, sum(part.lengths for part in parts))


def _varints(values: np.ndarray) -> _Columns:
    """Return the varints of integers [n, L].

    A varint has 7 bits of the number in each byte, the lowest first; the top
    bit of a byte is set if more follow. 300 = 2 * 128 + 44 is AC 02.
    """
    rows, count = values.shape
    bits = values
    if values.dtype.kind == "i":
        # A negative number is encoded as 64 bits, which takes 10 bytes.
        bits = values.astype(np.int64, copy=False).view(np.uint64)
    # Bytes of the largest number: its bits / 7, rounded up.
    width = max(1, -(-int(bits.max(initial=0)).bit_length() // 7))
    if width == 1:
        return _whole(bits.astype(np.uint8, copy=False))
    if width <= 4:
        # Halves the work; enough for the ids of every vocabulary.
        bits = bits.astype(np.uint32)
    # Byte `place` of all numbers at once. It is kept if the byte before it has
    # its top bit set.
    data = np.empty((rows, count, width), np.uint8)
    kept = np.ones((rows, count, width), bool)
    for place in range(width):
        shifted = bits >> bits.dtype.type(7 * place)
        more = shifted >= 128
        data[:, :, place] = (shifted & 127) | (more.view(np.uint8) << 7)
        if place + 1 < width:
            kept[:, :, place + 1] = more
    shape = (rows, count * width)
    kept = kept.reshape(shape)
    lengths = np.count_nonzero(kept, axis=1)
    return _Columns([(data.reshape(shape), kept)], lengths)


def _delimited(number: int, body: _Columns) -> _Columns:
    """Return field `number` with a length: tag, length of the body, body."""
    lengths = body.lengths
    # Bodies of one length need one length field for all rows.
    if lengths.min() == lengths.max():
        lengths = lengths[:1]
    tag = _constant(bytes([number << 3 | _DELIMITED]))
    return _concatenate(tag, _varints(lengths[:, None]), body)


def _feature(name: str, values: np.ndarray) -> _Columns:
    """Return one entry of the feature map of n examples."""
    values = values.reshape(values.shape[0], -1)
    if np.issubdtype(values.dtype, np.floating):
        data = np.ascontiguousarray(values, "<f4").view(np.uint8)
        kind, numbers = _FLOAT_LIST, _whole(data)
    elif np.issubdtype(values.dtype, np.integer):
        kind, numbers = _INT64_LIST, _varints(values)
    else:
        raise ValueError(f"feature {name}: no record type for {values.dtype}")
    # protobuf leaves the packed field out if the list is empty.
    values_field = _delimited(1, numbers) if values.shape[1] else numbers
    key = _delimited(1, _constant(name.encode()))
    value = _delimited(2, _delimited(kind, values_field))
    return _delimited(1, _concatenate(key, value))


def _encode_chunk(features: Mapping[str, np.ndarray]) -> bytes:
    """Return the records of some examples as one string."""
    rows = next(iter(features.values())).shape[0]
    # The features of an example are sorted by name, as protobuf does it in
    # deterministic mode.
    entries = [_feature(name, features[name]) for name in sorted(features)]
    examples = _delimited(1, _concatenate(*entries))
    lengths = np.broadcast_to(examples.lengths, rows)
    # 12 bytes before each example and 4 after it; the last are filled in when
    # the bytes of the example lie side by side.
    columns = _concatenate(_header(lengths), examples, _constant(bytes(4)))
    data, kept = [], []
    for block, is_kept in columns.blocks:
        shape = rows, block.shape[1]
        data.append(np.broadcast_to(block, shape))
        kept.append(np.broadcast_to(is_kept, shape))
    flat = np.concatenate(data, axis=1)[np.concatenate(kept, axis=1)]
    # The checksum of each record goes into its last four bytes.
    bounds = np.concatenate([[0], np.cumsum(lengths + 16)])
    text, starts = flat.tobytes(), (bounds[:-1] + 12).tolist()
    ends = (bounds[1:] - 4).tolist()
    value = google_crc32c.value
    crcs = np.array(
        [value(text[s:e]) for s, e in zip(starts, ends, strict=True)], np.uint32
    )
    places = np.array(ends)[:, None] + np.arange(4)
    flat[places] = _mask_crc(crcs).astype("<u4").view(np.uint8).reshape(-1, 4)
    return flat.tobytes()


def _header(lengths: np.ndarray) -> _Columns:
    """Return the header of each record: its length and the checksum of it."""
    # Most records have one of a few lengths.
    distinct, inverse = np.unique(lengths, return_inverse=True)
    texts = [int(length).to_bytes(8, "little") for length in distinct]
    table = b"".join(text + _masked_crc_bytes(text) for text in texts)
    return _whole(np.frombuffer(table, np.uint8).reshape(-1, 12)[inverse])


def _mask_crc(crc: np.ndarray) -> np.ndarray:
    """Return checksums as TFRecord stores them: rotated, plus a constant.

    The checksum of data that ends with its own checksum is the same for all
    data; with this change it is not.
    """
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


def _masked_crc_bytes(data: bytes) -> bytes:
    """Return the checksum of some bytes as TFRecord stores it."""
    crc = np.array([google_crc32c.value(data)], np.uint32)
    return _mask_crc(crc).astype("<u4").tobytes()


# --- Reading -----------------------------------------------------------------


def is_gzip(path: str) -> bool:
    """Whether a record file is compressed, judged by its first 12 bytes."""
    with file_system.open_for_reading(path) as file:
        start = file.read(12)
    # The length at the start of a plain file may look like the two bytes of a
    # gzip file, but then its checksum fits.
    is_plain = _masked_crc_bytes(start[:8]) == start[8:]
    return start[:2] == b"\x1f\x8b" and not is_plain


def read_records(path: str) -> Iterator[bytes]:
    """Yield the records of a plain or gzip TFRecord file.

    Raises:
        UserError: the file cannot be read, ends inside a record, or has a
            wrong checksum; gives the number of whole records before.
    """
    compressed = is_gzip(path)
    num_records = 0
    with file_system.open_for_reading(path) as raw:
        file = gzip.GzipFile("", "rb", fileobj=raw) if compressed else raw
        try:
            while header := file.read(12):
                length = _checked_length(header)
                record = file.read(length)
                footer = file.read(4)
                if len(record) < length or len(footer) < 4:
                    raise EOFError
                if _masked_crc_bytes(record) != footer:
                    raise zlib.error("a record has another checksum")
                yield record
                num_records += 1
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(path, num_records, error) from error


def count_records(path: str) -> int:
    """Return the number of records in a file.

    In a plain file only the headers of the records are read, so damage within
    a record is not found.

    Raises:
        UserError: the file cannot be read, is cut off or damaged.
    """
    if is_gzip(path):
        return sum(1 for _ in read_records(path))
    num_records = position = 0
    with file_system.open_for_reading(path) as file:
        size, _ = file_system.file_state(path)
        while position < size:
            file.seek(position)
            try:
                position += _checked_length(file.read(12)) + 16
                if position > size:
                    raise EOFError
            except (EOFError, zlib.error) as error:
                raise _damaged(path, num_records, error) from error
            num_records += 1
    return num_records


def describe_first_record(path: str) -> dict[str, int]:
    """Return feature name -> number of values in the file's first record.

    Raises:
        UserError: there is no record, or it is not a tf.train.Example.
    """
    with contextlib.closing(read_records(path)) as records:
        record = next(records, None)
    if record is None:
        raise UserError(f"{path}: has no records; make it again")
    try:
        features = decode_example(record)
    except ValueError as error:
        raise UserError(
            f"{path}: the first record is not a tf.train.Example ({error}); is "
            "this a file made by the data generators?"
        ) from error
    return {name: len(values) for name, values in features.items()}


def decode_example(record: bytes) -> dict[str, np.ndarray | list[bytes]]:
    """Parse one tf.train.Example into name -> int64, float32 or bytes list.

    Raises:
        ValueError: these bytes are not an Example.
    """
    features = {}
    for _, example in _fields(record, {1}):
        for _, entry in _fields(example, {1}):
            pair = {1: b"", 2: b"", **dict(_fields(entry, {1, 2}))}
            values = np.zeros(0, np.int64)
            for kind, numbers in _fields(pair[2], {1, 2, 3}):
                fields = _fields(numbers, {1}, _WIRE_TYPES[kind])
                items = [item for _, item in fields]
                values = items if kind == _BYTES_LIST else _numbers(kind, items)
            features[pair[1].decode()] = values
    return features


def _numbers(kind: int, items: list[bytes]) -> np.ndarray:
    """Decode the values of a float list or an int64 list.

    Raises:
        ValueError: the last one is cut off, or one is too long.
    """
    data = b"".join(items)
    if kind == _FLOAT_LIST:
        return np.frombuffer(data, "<f4").astype(np.float32)
    # A byte below 128 ends a number.
    if any(item[-1:] > b"\x7f" for item in items):
        raise ValueError("a number is cut off")
    groups = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(groups < 128)
    sizes = np.diff(ends, prepend=-1)
    if sizes.max(initial=0) > _LONGEST_VARINT:
        raise ValueError(f"a number has more than {_LONGEST_VARINT} bytes")
    # The last byte of a number has its highest bits: shift those that are
    # there by 7 and add the byte before.
    values = groups[ends].astype(np.uint64)
    for place in range(1, sizes.max(initial=0)):
        more = sizes > place
        lower = groups[ends[more] - place] & 127
        values[more] = (values[more] << np.uint64(7)) | lower
    return values.view(np.int64)


def _fields(
    message: bytes, known: set[int], wire_types: Collection[int] = (_DELIMITED,)
) -> Iterator[tuple[int, bytes]]:
    """Yield (number, bytes) of the fields of a protobuf message.

    A number that is a field of its own is yielded as its encoded bytes. So
    packed lists (one field) and unpacked ones (a field for each number), both
    of which are valid, are read the same way.

    Raises:
        ValueError: a field that is not `known` or of another wire type, or
            damage.
    """
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if number not in known or wire_type not in wire_types:
            raise ValueError(f"unexpected field {number}, type {wire_type}")
        if wire_type == _VARINT:
            end = _read_varint(message, position)[1]
        elif wire_type == _FOUR_BYTES:
            end = position + 4
        else:
            size, position = _read_varint(message, position)
            end = position + size
        if end > len(message):
            raise ValueError("field runs past the end")
        yield number, message[position:end]
        position = end


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raises:
        ValueError: it is cut off or too long.
    """
    value = 0
    digits = message[position : position + _LONGEST_VARINT]
    for place, byte in enumerate(digits):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, position + place + 1
    raise ValueError("a number is cut off or too long")


def _checked_length(header: bytes) -> int:
    """Return the length of a record from its 12-byte header.

    Raises:
        EOFError: the header is cut off.
        zlib.error: its checksum is wrong, or the record is too long.
    """
    if len(header) < 12:
        raise EOFError
    if _masked_crc_bytes(header[:8]) != header[8:]:
        raise zlib.error("a length has another checksum")
    length = int.from_bytes(header[:8], "little")
    if length > _LONGEST_RECORD:
        raise zlib.error(
            f"a record of {length:,} bytes, more than {_LONGEST_RECORD:,}"
        )
    return length


def _damaged(path: str, num_records: int, error: Exception) -> UserError:
    how, why = "is corrupt", f" ({error})"
    if isinstance(error, EOFError):
        how, why = "is cut off", ""
    mend = "make it again"
    if not num_records:
        mend = (
            "it is damaged, or no TFRecord file, such as "
            "create_pretraining_data.py writes"
        )
    return UserError(
        f"{path}: {how} after {num_records} whole records{why}; {mend}"
    )
