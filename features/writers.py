"""Files of extracted features: JSON lines as the original's, TFRecords, npz.

Apart from extract_features.py, which knows the model and nothing of formats.
All three are written line by line, so that memory does not grow with the
input, and appear when they are whole.

The original's JSON lines hold numbers as `round(float(x), 6)` prints them,
which takes Python ten times as long as a small model takes to compute them.
Here they are two table lookups each: a float32 times 10**6 is exact in
float64, so its rounded integer is the very decimal Python would find.
"""

import contextlib
import functools
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from base import errors, file_system
from base.errors import UserError

import numpy as np
import tensorflow as tf

from records import tfrecord

FORMATS = ("jsonl", "tfrecord", "npz")

# Values from here on are left to Python: no BERT has them.
_LARGEST = 1000

_MILLION = 10**6


class LineFeatures(NamedTuple):
    """What is known of one line of the input."""

    index: int  # from 0
    input_ids: Sequence[int]  # T
    values: np.ndarray  # float32 [T, K, H]; pooled: [K, H]


# --- Numbers as text --------------------------------------------------------


def format_rows(rows: np.ndarray) -> list[bytes]:
    """Return `", ".join(repr(round(float(x), 6)))` of each row.

    Args:
        rows: finite float32 [R, H].
    """
    if rows.size == 0 or np.abs(rows).max() >= _LARGEST - 1:
        return [
            ", ".join(repr(round(x, 6)) for x in row).encode()
            for row in rows.tolist()
        ]
    micros = np.rint(rows * np.float64(_MILLION))  # exact, half to even
    micros = np.abs(micros).astype(np.int32)
    whole = micros // _MILLION
    rest = micros - whole * _MILLION
    # Below 1e-4 Python writes an exponent: no digits before, all in the tail.
    is_tiny = (micros > 0) & (micros < 100)
    np.copyto(whole, _LARGEST, where=is_tiny)
    np.add(rest, _MILLION, out=rest, where=is_tiny)
    whole += np.signbit(rows) * np.int32(_LARGEST + 1)
    text = np.empty([*rows.shape, 2], np.uint64)
    text[..., 0], text[..., 1] = _heads()[whole], _tails()[rest]
    characters = text.view(np.uint8).reshape(len(rows), -1)  # [R, H * 16]
    # The first number of a row has a mark in place of the separator.
    characters[:, :2] = np.frombuffer(b"\n\0", np.uint8)
    lines = characters.tobytes().translate(None, delete=b"\0")
    return lines.split(b"\n")[1:]


@functools.cache
def _heads() -> np.ndarray:
    """Separator, sign and whole part, 8 bytes a row, ended with zeros.

    The row of _LARGEST has no digits; the negative ones come after it.
    """
    wholes = [*map(str, range(_LARGEST)), ""]
    texts = [f", {sign}{whole}" for sign in ("", "-") for whole in wholes]
    return np.array([text.encode() for text in texts], "S8").view(np.uint64)


@functools.cache
def _tails() -> np.ndarray:
    """Point and fraction without its last zeros, 8 bytes a row.

    Row k below a million is k millionths; the hundred rows after that are
    whole numbers below 1e-4, in Python's notation.
    """
    rest = np.arange(_MILLION)
    text = np.zeros([_MILLION + 100, 8], np.uint8)
    text[:_MILLION, 0] = ord(".")
    is_kept = np.zeros([_MILLION], bool)
    for place in range(6, 0, -1):
        rest, digit = np.divmod(rest, 10)
        is_kept |= (digit > 0) | (place == 1)
        text[:_MILLION, place] = np.where(is_kept, digit + ord("0"), 0)
    tiny = [repr(k / _MILLION).encode() for k in range(100)]
    text[_MILLION:] = np.array(tiny, "S8").view(np.uint8).reshape(100, 8)
    return text.view(np.uint64)[:, 0]


# --- Writers ----------------------------------------------------------------


class JsonWriter:
    """The original's lines; pooled ones have `layers` without a token.

    Args:
        file: open for writing bytes.
        layers: K indices, as the user wrote them.
        inv_vocab: id -> token.
    """

    def __init__(
        self,
        file: IO[bytes],
        layers: Sequence[int],
        inv_vocab: Mapping[int, str],
    ):
        self._file = file
        self._layers = [
            f'{{"index": {index}, "values": ['.encode() for index in layers
        ]
        self._inv_vocab = inv_vocab
        self._tokens: dict[int, bytes] = {}

    def write(self, line: LineFeatures) -> None:
        """Write one line."""
        rows = format_rows(line.values.reshape(-1, line.values.shape[-1]))
        count = len(self._layers)
        groups = [
            b", ".join(
                start + row + b"]}"
                for start, row in zip(
                    self._layers, rows[at : at + count], strict=True
                )
            )
            for at in range(0, len(rows), count)
        ]
        if line.values.ndim == 2:
            (group,) = groups
            body = b'"layers": [' + group + b"]}\n"
        else:
            tokens = map(self._token, line.input_ids)
            body = b'"features": [' + b", ".join(
                b'{"token": ' + token + b', "layers": [' + group + b"]}"
                for token, group in zip(tokens, groups, strict=True)
            )
            body += b"]}\n"
        self._file.write(b'{"linex_index": %d, ' % line.index + body)

    def _token(self, token_id: int) -> bytes:
        if token_id not in self._tokens:
            text = json.dumps(self._inv_vocab[token_id])
            self._tokens[token_id] = text.encode()
        return self._tokens[token_id]

    def close(self) -> None:
        """Nothing is left to write."""


class ExampleWriter:
    """tf.train.Example per line: linex_index, input_ids, features.

    `features` are float32 [T, K, H] flattened, pooled [K, H]; parse them with
    FixedLenSequenceFeature([K, H], tf.float32, allow_missing=True).
    """

    def __init__(self, file: IO[bytes]):
        self._writer = tfrecord.RecordWriter(file)

    def write(self, line: LineFeatures) -> None:
        """Write one record."""
        self._writer.write_examples(
            {
                "linex_index": np.array([[line.index]], np.int64),
                "input_ids": np.array([line.input_ids], np.int64),
                "features": line.values.reshape(1, -1),
            }
        )

    def close(self) -> None:
        """End the last record."""
        self._writer.close()


class NpzWriter:
    """What np.load reads: features, offsets, input_ids, layers.

    Line i is features[offsets[i] : offsets[i + 1]], [T, K, H], its tokens the
    same rows of input_ids. Pooled: features [lines, K, H] and layers alone.

    An array's header holds its size, which is known at the end: until then
    the numbers are in unnamed files beside the output, which vanish with the
    process.
    """

    def __init__(self, file: IO[bytes], layers: Sequence[int], folder: str):
        self._file, self._layers = file, layers
        self._stack = contextlib.ExitStack()
        self._columns: dict[str, _Column] = {}
        self._folder = folder
        self._rows = 0

    def write(self, line: LineFeatures) -> None:
        """Append one line to the columns."""
        if line.values.ndim == 2:
            self._append("features", line.values[None])
            return
        if not self._columns:
            self._append("offsets", np.zeros([1], np.int64))
        self._rows += len(line.values)
        self._append("features", line.values)
        self._append("input_ids", np.asarray(line.input_ids, np.int32))
        self._append("offsets", np.array([self._rows], np.int64))

    def _append(self, name: str, values: np.ndarray) -> None:
        if name not in self._columns:
            spool = tempfile.TemporaryFile(dir=self._folder)
            self._stack.enter_context(spool)
            self._columns[name] = _Column(spool, values.dtype, values.shape[1:])
        self._columns[name].append(values)

    def close(self) -> None:
        """Put the archive together."""
        stream = _Stream(self._file)
        with self._stack, zipfile.ZipFile(stream, "w") as archive:
            for name, column in self._columns.items():
                with _entry(archive, name) as entry:
                    column.copy_to(entry)
            with _entry(archive, "layers") as entry:
                np.lib.format.write_array(entry, np.array(self._layers))


class _Stream:
    """A file zipfile has to write front to back, as remote ones want it."""

    def __init__(self, file: IO[bytes]):
        self._file, self.flush = file, file.flush

    def write(self, data: bytes) -> int:
        self._file.write(data)  # TensorFlow's files do not say how much
        return len(data)


class _Column:
    """An array that grows row by row, on disk."""

    def __init__(
        self, spool: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]
    ):
        self.spool, self.dtype, self.shape = spool, dtype, shape
        self.rows = 0

    def append(self, values: np.ndarray) -> None:
        self.spool.write(np.ascontiguousarray(values).data)
        self.rows += len(values)

    def copy_to(self, entry: IO[bytes]) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.rows, *self.shape),
        }
        np.lib.format.write_array_header_1_0(entry, header)
        self.spool.seek(0)
        shutil.copyfileobj(self.spool, entry, 1 << 20)


def _entry(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # The same input is to give the same bytes: no time of day.
    entry = zipfile.ZipInfo(f"{name}.npy")
    return archive.open(entry, "w", force_zip64=True)


_FAILURES = (OSError, tf.errors.OpError)  # of local and of remote files


class Writer:
    """One of the three, whose failures name the output file."""

    def __init__(
        self, path: str, writer: JsonWriter | ExampleWriter | NpzWriter
    ):
        self.path, self._writer = path, writer

    def write(self, line: LineFeatures) -> None:
        """Write one line.

        Raises:
            UserError: the file cannot be written.
        """
        try:
            self._writer.write(line)
        except _FAILURES as error:
            raise _not_written(self.path, error) from error


def _not_written(path: str, error: Exception) -> UserError:
    return UserError(
        f"--output_file={path} cannot be written: {errors.reason(error)}"
    )


@contextlib.contextmanager
def open_writer(
    path: str,
    output_format: str,
    layers: Sequence[int],
    inv_vocab: Mapping[int, str],
) -> Iterator[Writer]:
    """Open a file of features; it appears when the block ends well.

    Args:
        path: local or remote; "-" is standard output.
        output_format: one of FORMATS.
        layers: K indices.
        inv_vocab: id -> token.

    Raises:
        UserError: the file cannot be written.
    """
    folder = os.path.dirname(path) or "."
    of_block: BaseException | None = None
    try:
        with file_system.atomic_file(path) as file:
            if output_format == "jsonl":
                writer = JsonWriter(file, layers, inv_vocab)
            elif output_format == "tfrecord":
                writer = ExampleWriter(file)
            else:
                spools = tempfile.gettempdir()
                if not (
                    file_system.is_remote(path) or file_system.is_stream(path)
                ):
                    spools = folder
                writer = NpzWriter(file, layers, spools)
            try:
                yield Writer(path, writer)
            except BaseException as error:
                of_block = error
                raise
            writer.close()
    except _FAILURES as error:
        if error is of_block:  # reading and computing fail there too
            raise
        raise _not_written(path, error) from error
