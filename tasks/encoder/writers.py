"""Write extracted features as the original's JSON lines or npz.

Both formats are written line by line, so that memory does not grow with
the input, and the file appears when it is complete.

Numbers in the original's JSON lines are what Python prints for
`round(float(x), 6)`. Python takes ten times as long to print them as a small
model takes to compute them, so `format_rows` looks the digits up in two
tables. Example: -0.0625 * 10**6 = -62500 millionths, which is sign and whole
part "-0" in the one table and fraction ".0625" in the other.
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

FORMATS = ("jsonl", "npz")

# Rows with larger values are formatted by Python. BERT's vectors do not have
# them: its layers end in a layer norm.
_LARGEST = 1000

_MILLION = 10**6


class LineFeatures(NamedTuple):
    """The features of one line of the input."""

    index: int  # from 0
    input_ids: Sequence[int]  # [T], with [CLS] and [SEP]
    values: np.ndarray  # float32 [T, K, H]; pooled: [K, H]


# --- Numbers as text ---------------------------------------------------------


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
    # A float32 has 24 significant bits, so its product with 10**6 is exact in
    # float64. Rounding it, half to even, gives the decimal that Python finds.
    micros = np.rint(rows * np.float64(_MILLION))
    micros = np.abs(micros).astype(np.int32)
    whole = micros // _MILLION
    rest = micros - whole * _MILLION
    # Python prints 0.00005 as 5e-05: the whole text is in the second table,
    # and the first one has an entry without digits.
    is_tiny = (micros > 0) & (micros < 100)
    np.copyto(whole, _LARGEST, where=is_tiny)
    np.add(rest, _MILLION, out=rest, where=is_tiny)
    whole += np.signbit(rows) * np.int32(_LARGEST + 1)
    text = np.empty([*rows.shape, 2], np.uint64)
    text[..., 0], text[..., 1] = _heads()[whole], _tails()[rest]
    characters = text.view(np.uint8).reshape(len(rows), -1)  # [R, H * 16]
    # Begin each row with a line break instead of ", ", to split the text at.
    characters[:, :2] = np.frombuffer(b"\n\0", np.uint8)
    lines = characters.tobytes().translate(None, delete=b"\0")
    return lines.split(b"\n")[1:]


@functools.cache
def _heads() -> np.ndarray:
    """Return separator, sign and whole part of every number, as 8 bytes each.

    Row n is ", n", filled up with zero bytes; row _LARGEST has no digits. The
    negative numbers come after it, in the same order.
    """
    wholes = [*map(str, range(_LARGEST)), ""]
    texts = [f", {sign}{whole}" for sign in ("", "-") for whole in wholes]
    return np.array([text.encode() for text in texts], "S8").view(np.uint64)


@functools.cache
def _tails() -> np.ndarray:
    """Return the point and the digits after it, as 8 bytes each.

    Row k below a million is the fraction of k millionths, without zeros at
    its end, but with at least one digit. The hundred rows after that are
    numbers below 1e-4 as Python prints them.
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


# --- Writers -----------------------------------------------------------------


class JsonWriter:
    """Writes the original's JSON lines.

    {"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index": -1,
    "values": [...]}, ...]}, ...]}; pooled features are {"linex_index": 0,
    "layers": [...]}. Indices of layers are as the user gave them.
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
        """Do nothing: every line is written already."""


class NpzWriter:
    """Writes an archive for np.load: features, offsets, input_ids, layers.

    Line i is features[offsets[i] : offsets[i + 1]], [T, K, H]; its tokens are
    the same rows of input_ids. Pooled: features [lines, K, H] and layers alone.

    An array's header holds its size, which is known only at the end. Until then
    the numbers are in temporary files of `folder` without a name, which the
    system deletes when the process ends, however it ends.
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
        """Write the archive from the temporary files."""
        stream = _Stream(self._file)
        with self._stack, zipfile.ZipFile(stream, "w") as archive:
            for name, column in self._columns.items():
                with _entry(archive, name) as entry:
                    column.copy_to(entry)
            with _entry(archive, "layers") as entry:
                np.lib.format.write_array(entry, np.array(self._layers))


class _Stream:
    """A file without `seek`, so that zipfile writes it front to back.

    Remote files cannot be written in another order.
    """

    def __init__(self, file: IO[bytes]):
        self._file, self.flush = file, file.flush

    def write(self, data: bytes) -> int:
        self._file.write(data)  # TensorFlow's files return no count
        return len(data)


class _Column:
    """An array that grows row by row in a file."""

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
    # ZipInfo has a constant date: the same input gives the same bytes.
    entry = zipfile.ZipInfo(f"{name}.npy")
    return archive.open(entry, "w", force_zip64=True)


# --- The output file ---------------------------------------------------------

_FAILURES = (OSError, tf.errors.OpError)  # of local and of remote files


class Writer:
    """Writes lines in one of the formats; errors name the output file."""

    def __init__(self, path: str, writer: JsonWriter | NpzWriter):
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
    """Open a file of features, which appears when the block ends normally.

    Raises:
        UserError: the file cannot be written.
    """
    folder = os.path.dirname(path) or "."
    of_block: BaseException | None = None
    try:
        with file_system.atomic_file(path) as file:
            if output_format == "jsonl":
                writer = JsonWriter(file, layers, inv_vocab)
            else:
                # Beside the output if possible: /tmp may be small.
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
        # Reading the input and computing raise such errors in the block,
        # which are no failures of the output.
        if error is of_block:
            raise
        raise _not_written(path, error) from error
