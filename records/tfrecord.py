"""TFRecord files of tf.train.Example, read and written without TensorFlow.

Each schema on disk is stated once, here. Importing TensorFlow costs 670 MB of
memory and seconds of time, which the worker processes of the data generators
should not pay, so the two small formats involved are written out in numpy:

    TFRecord    uint64 length, crc32c(length), bytes, crc32c(bytes)
    Example     protobuf: a map from a name to an int64, float or bytes list

A whole batch is encoded at once. Every record gets the widest layout any
record of the batch needs (so many bytes for each varint), the bytes a record
does not need are marked, and one boolean selection removes them all.

    with file_system.atomic_file(path) as file:
        with RecordWriter(file, "GZIP") as writer:
            writer.write_examples({"input_ids": ids, "label_ids": labels})
    for record in read_records(path):
        features = decode_example(record)
"""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from base import file_system
from base.errors import UserError

import google_crc32c
import numpy as np

COMPRESSIONS = ("", "GZIP")

# Rows encoded together, to spread the cost of many small array operations.
_CHUNK_ROWS = 2048


class Feature(NamedTuple):
    """One feature of a schema: `dtype` is "int64" or "float32" on disk."""

    dtype: str
    length: int


def check_compression(compression: str) -> None:
    """Refuse anything but the known names, before any work is done."""
    if compression not in COMPRESSIONS:
        raise UserError(
            f"--compression={compression}: unknown; use GZIP, or leave it "
            "empty for none"
        )


# ---------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------


class RecordWriter:
    """Writes records to an open binary file.

    With compression, what one writer writes is one gzip member. Members, like
    plain records, can be concatenated: readers take them as one file.

    Attributes:
        num_records: how many have been written.
    """

    def __init__(self, file: IO[bytes], compression: str = ""):
        check_compression(compression)
        self.num_records = 0
        self._file = file
        self._gzip = None
        if compression == "GZIP":
            # No name and no time in the header: same records, same bytes.
            # Level 6 is the default of zlib and of TensorFlow.
            self._gzip = gzip.GzipFile("", "wb", 6, file, mtime=0)
            self._file = self._gzip

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def close(self) -> None:
        """End the gzip member; the file itself stays open."""
        if self._gzip:
            self._gzip.close()

    def write(self, record: bytes) -> None:
        """Write one serialized record."""
        length = len(record).to_bytes(8, "little")
        self._file.write(length + _masked_crc_bytes(length))
        self._file.write(record + _masked_crc_bytes(record))
        self.num_records += 1

    def write_examples(self, features: Mapping[str, np.ndarray]) -> None:
        """Write a batch; `features` as for `encode_examples`."""
        for chunk in _chunks(features):
            data, bounds = _encode_chunk(chunk, framed=True)
            self._file.write(data)
            self.num_records += len(bounds) - 1


def encode_examples(features: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serialize a batch of tf.train.Example.

    Args:
        features: name -> array [n, length] or [n]; integers become an
            Int64List, floats a FloatList. Rows are examples.

    Returns:
        n strings, byte for byte what protobuf writes in deterministic mode.
    """
    records = []
    for chunk in _chunks(features):
        data, bounds = _encode_chunk(chunk, framed=False)
        records += [
            data[start:end]
            for start, end in zip(bounds[:-1], bounds[1:], strict=True)
        ]
    return records


def _chunks(
    features: Mapping[str, np.ndarray],
) -> Iterator[dict[str, np.ndarray]]:
    arrays = {name: np.asarray(array) for name, array in features.items()}
    num_rows = {array.shape[0] for array in arrays.values()}
    if len(num_rows) != 1:
        raise ValueError(f"features differ in their number of rows: {num_rows}")
    for start in range(0, num_rows.pop(), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        yield {name: array[rows] for name, array in arrays.items()}


class _Columns(NamedTuple):
    """The same part of n messages: byte columns, some left out per row.

    blocks: pairs of (bytes, kept); the bytes are uint8 [n, width] or
        [1, width], `kept` is bool [n, width], or None when all are kept.
    lengths: int64 [n] or [1], the number of bytes each row keeps.
    """

    blocks: list[tuple[np.ndarray, np.ndarray | None]]
    lengths: np.ndarray


def _constant(text: bytes) -> _Columns:
    block = np.frombuffer(text, np.uint8)[None]
    return _Columns([(block, None)], np.array([len(text)]))


def _concatenate(parts: Sequence[_Columns]) -> _Columns:
    blocks = [block for part in parts for block in part.blocks]
    return _Columns(blocks, sum(part.lengths for part in parts))


def _varints(values: np.ndarray) -> _Columns:
    """Encode [n, L] integers, 7 bits a byte, least significant first."""
    rows, count = values.shape
    bits = values
    if values.dtype.kind == "i":  # Negative numbers take 10 bytes.
        bits = values.astype(np.int64, copy=False).view(np.uint64)
    width = max(1, -(-int(bits.max(initial=0)).bit_length() // 7))
    if width == 1:
        return _Columns(
            [(bits.astype(np.uint8, copy=False), None)], np.array([count])
        )
    if width <= 4:
        bits = bits.astype(np.uint32)  # Halves the work; every vocabulary.
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


def _delimited(tag: int, body: _Columns) -> _Columns:
    """A length-delimited field: tag, length, body."""
    lengths = body.lengths
    if lengths.min() == lengths.max():
        lengths = lengths[:1]
    return _concatenate(
        [_constant(bytes([tag << 3 | 2])), _varints(lengths[:, None]), body]
    )


def _feature(name: str, values: np.ndarray) -> _Columns:
    """One entry of the feature map, for n examples."""
    values = values.reshape(values.shape[0], -1)
    if np.issubdtype(values.dtype, np.floating):
        data = np.ascontiguousarray(values, "<f4").view(np.uint8)
        kind, numbers = 2, _Columns([(data, None)], np.array([data.shape[1]]))
    elif np.issubdtype(values.dtype, np.integer):
        kind, numbers = 3, _varints(values)
    else:
        raise ValueError(f"feature {name}: no record type for {values.dtype}")
    # An empty list has no packed field at all.
    values_field = _delimited(1, numbers) if values.shape[1] else numbers
    key = _delimited(1, _constant(name.encode()))
    value = _delimited(2, _delimited(kind, values_field))
    return _delimited(1, _concatenate([key, value]))


def _encode_chunk(
    features: Mapping[str, np.ndarray], framed: bool
) -> tuple[bytes, list[int]]:
    """Return all records in one string, and their n + 1 bounds."""
    rows = next(iter(features.values())).shape[0]
    entries = [_feature(name, features[name]) for name in sorted(features)]
    columns = _delimited(1, _concatenate(entries))
    lengths = np.broadcast_to(columns.lengths, rows)
    if framed:
        columns = _concatenate([_header(lengths), columns, _constant(bytes(4))])
        lengths = lengths + 16
    data, kept = _side_by_side(columns, rows)
    flat = data[kept]
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    if framed:
        _fill_checksums(flat, bounds)
    return flat.tobytes(), bounds.tolist()


def _side_by_side(
    columns: _Columns, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the blocks as one matrix of bytes and one of which are kept."""
    width = sum(block.shape[1] for block, _ in columns.blocks)
    data = np.empty((rows, width), np.uint8)
    all_kept = np.ones((rows, width), bool)
    end = 0
    for block, kept in columns.blocks:
        start, end = end, end + block.shape[1]
        data[:, start:end] = block
        if kept is not None:
            all_kept[:, start:end] = kept
    return data, all_kept


def _header(lengths: np.ndarray) -> _Columns:
    """Length and its checksum, [n, 12]; few lengths differ."""
    distinct, inverse = np.unique(lengths, return_inverse=True)
    texts = [int(length).to_bytes(8, "little") for length in distinct]
    table = b"".join(text + _masked_crc_bytes(text) for text in texts)
    block = np.frombuffer(table, np.uint8).reshape(-1, 12)[inverse]
    return _Columns([(block, None)], np.array([12]))


def _fill_checksums(flat: np.ndarray, bounds: np.ndarray) -> None:
    """Put each record's checksum into its last four bytes."""
    text, ends = flat.tobytes(), (bounds[1:] - 4).tolist()
    starts = (bounds[:-1] + 12).tolist()
    value = google_crc32c.value
    crcs = np.array(
        [value(text[s:e]) for s, e in zip(starts, ends, strict=True)], np.uint32
    )
    places = np.array(ends)[:, None] + np.arange(4)
    flat[places] = _mask_crc(crcs).astype("<u4").view(np.uint8).reshape(-1, 4)


def _mask_crc(crc: np.ndarray) -> np.ndarray:
    """TFRecord's rotation: a checksum of checksums would be degenerate."""
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(
        0xA282EAD8
    )


def _masked_crc_bytes(data: bytes) -> bytes:
    crc = np.array([google_crc32c.value(data)], np.uint32)
    return _mask_crc(crc).astype("<u4").tobytes()


# ---------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------


def is_gzip(path: str) -> bool:
    """Tell a compressed record file from a plain one by its first bytes."""
    with file_system.open_for_reading(path) as file:
        start = file.read(12)
    # A plain file could open with gzip's magic as a length, but not with a
    # matching checksum as well.
    is_plain = _masked_crc_bytes(start[:8]) == start[8:]
    return start[:2] == b"\x1f\x8b" and not is_plain


def read_records(path: str) -> Iterator[bytes]:
    """Yield the records of a plain or gzip TFRecord file, checksums checked.

    Raises:
        UserError: the file does not open, ends inside a record, or fails a
            checksum; says how many whole records came before.
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
                    raise zlib.error
                yield record
                num_records += 1
        except EOFError as error:
            raise _damaged(path, "is cut off", num_records) from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(path, "is corrupt", num_records) from error


def count_records(path: str) -> int:
    """Count the records, from their headers alone where not compressed.

    Raises:
        UserError: as `read_records`, but damage within a record of an
            uncompressed file goes unseen.
    """
    if is_gzip(path):
        return sum(1 for _ in read_records(path))
    num_records = position = 0
    with file_system.open_for_reading(path) as file:
        size = (
            file_system.gfile().stat(path).length
            if file_system.is_remote(path)
            else None
        )
        size = os.fstat(file.fileno()).st_size if size is None else size
        while position < size:
            file.seek(position)
            try:
                position += _checked_length(file.read(12)) + 16
            except EOFError as error:
                raise _damaged(path, "is cut off", num_records) from error
            except zlib.error as error:
                raise _damaged(path, "is corrupt", num_records) from error
            if position > size:
                raise _damaged(path, "is cut off", num_records)
            num_records += 1
    return num_records


def describe_first_record(path: str) -> dict[str, int]:
    """Return feature name -> number of values in the file's first record.

    Raises:
        UserError: there is no record, or it is no tf.train.Example.
    """
    with contextlib.closing(read_records(path)) as records:
        record = next(records, None)
    if record is None:
        raise UserError(f"{path}: holds no records; make it again")
    try:
        features = decode_example(record)
    except (IndexError, KeyError, UnicodeDecodeError, ValueError) as error:
        raise UserError(
            f"{path}: the first record is not a tf.train.Example; is this a "
            "file made by the data generators?"
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
            pair = dict(_fields(entry, {1, 2}))
            name, value = pair[1], pair.get(2, b"")
            values = np.zeros(0, np.int64)
            for kind, numbers in _fields(value, {1, 2, 3}):
                items = [item for _, item in _fields(numbers, {1})]
                values = items if kind == 1 else _numbers(kind, items)
            features[name.decode()] = values
    return features


def _numbers(kind: int, items: list[bytes]) -> np.ndarray:
    data = b"".join(items)
    if kind == 2:
        return np.frombuffer(data, "<f4").astype(np.float32)
    if not data:
        return np.zeros(0, np.int64)
    groups = np.frombuffer(data, np.uint8).astype(np.uint64)
    starts = np.concatenate([[0], np.flatnonzero(groups < 128)[:-1] + 1])
    sizes = np.diff(starts, append=len(groups))
    places = np.arange(len(groups)) - np.repeat(starts, sizes)
    parts = (groups & np.uint64(127)) << (7 * places).astype(np.uint64)
    return np.add.reduceat(parts, starts).view(np.int64)


def _fields(message: bytes, known: set[int]) -> Iterator[tuple[int, bytes]]:
    """Yield (number, bytes) of the fields of a protobuf message.

    Scalars are yielded as their bytes on the wire, so that packed and
    unpacked lists, both legal, look alike.
    """
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if number not in known or wire_type not in (0, 2, 5):
            raise ValueError(f"unexpected field {number}, type {wire_type}")
        if wire_type == 0:
            end = _read_varint(message, position)[1]
        elif wire_type == 5:
            end = position + 4
        else:
            size, position = _read_varint(message, position)
            end = position + size
        if end > len(message):
            raise ValueError("field runs past the end")
        yield number, message[position:end]
        position = end


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


def _checked_length(header: bytes) -> int:
    """Return the length a 12-byte header holds."""
    if len(header) < 12:
        raise EOFError
    if _masked_crc_bytes(header[:8]) != header[8:]:
        raise zlib.error
    return int.from_bytes(header[:8], "little")


def _damaged(path: str, how: str, num_records: int) -> UserError:
    return UserError(
        f"{path}: {how} after {num_records} whole records; make it again"
    )
