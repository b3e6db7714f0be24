"""Write extracted features as the original's JSON lines or npz.

Both formats are written line by line, so that memory does not grow with
the input, and the file appears when it is complete.
"""

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from base import file_system

import numpy as np
import orjson

FORMATS = ("jsonl", "npz")


class LineFeatures(NamedTuple):
    """The features of one line of the input."""

    index: int  # from 0
    input_ids: Sequence[int]  # [T], with [CLS] and [SEP]
    values: np.ndarray  # float32 [T, K, H]; pooled: [K, H]


def format_rows(rows: np.ndarray) -> list[bytes]:
    """Return `", ".join(repr(round(float(x), 6)))` of each row.

    The original's JSON lines have such numbers. Python takes ten times as long
    to print them as a small model takes to compute them.

    Args:
        rows: finite float32 [R, H].
    """
    # A float32 has 24 significant bits, so its product with 10**6 is exact in
    # float64. Rounding it, half to even, gives the decimal that Python finds.
    rounded = np.rint(rows * np.float64(10**6)) / 10**6
    text = orjson.dumps(rounded, option=orjson.OPT_SERIALIZE_NUMPY)
    lines = [line.replace(b",", b", ") for line in text[2:-2].split(b"],[")]
    # Where Python writes an exponent, orjson may write none, or another one.
    size = np.abs(rounded)
    has_exponent = ((size > 0) & (size < 1e-4)) | (size >= 1e16)
    for row in np.flatnonzero(has_exponent.any(axis=1)).tolist():
        lines[row] = ", ".join(map(repr, rounded[row].tolist())).encode()
    return lines


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
        self._file, self._layers, self._inv_vocab = file, layers, inv_vocab
        self._tokens: dict[int, bytes] = {}

    def write(self, line: LineFeatures) -> None:
        """Write one line."""
        values = line.values.reshape(-1, line.values.shape[-1])
        rows = iter(format_rows(values))
        groups = [
            b", ".join(
                b'{"index": %d, "values": [%b]}' % (index, next(rows))
                for index in self._layers
            )
            for _ in range(len(values) // len(self._layers))
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
        """Write nothing."""


class NpzWriter:
    """Writes an archive for np.load: features, offsets, input_ids, layers.

    Line i is features[offsets[i] : offsets[i + 1]], [T, K, H]; its tokens are
    the same rows of input_ids. Pooled: features [lines, K, H] and layers alone.

    An array's header holds its size, which is known only at the end. Until then
    the features are in a temporary file of `folder` without a name, which the
    system deletes when the process ends, however it ends.
    """

    def __init__(self, file: IO[bytes], layers: Sequence[int], folder: str):
        self._file, self._layers = file, layers
        self._spool = tempfile.TemporaryFile(dir=folder)
        self._shape: tuple[int, ...] = (0,)  # of what it has
        self._ids: list[np.ndarray] = []
        self._offsets = [0]

    def write(self, line: LineFeatures) -> None:
        """Write one line."""
        values = line.values
        if values.ndim == 2:
            values = values[None]  # [1, K, H]
        else:
            self._ids.append(np.asarray(line.input_ids, np.int32))
            self._offsets.append(self._offsets[-1] + len(values))
        self._spool.write(np.ascontiguousarray(values).data)
        self._shape = (self._shape[0] + len(values), *values.shape[1:])

    def close(self) -> None:
        """Write the archive."""
        with self._spool, zipfile.ZipFile(_Stream(self._file), "w") as archive:

            def add(name: str, values: np.ndarray) -> None:
                with _entry(archive, name) as entry:
                    np.lib.format.write_array(entry, values)

            if self._ids:
                add("offsets", np.array(self._offsets, np.int64))
            with _entry(archive, "features") as entry:
                header = {"descr": "<f4", "fortran_order": False}
                header["shape"] = self._shape
                np.lib.format.write_array_header_1_0(entry, header)
                self._spool.seek(0)
                shutil.copyfileobj(self._spool, entry, 1 << 20)
            if self._ids:
                add("input_ids", np.concatenate(self._ids))
            add("layers", np.array(self._layers))


class _Stream:
    """A file without `seek`, so that zipfile writes it front to back.

    Remote files cannot be written in another order.
    """

    def __init__(self, file: IO[bytes]):
        self._file, self.flush = file, file.flush

    def write(self, data: bytes) -> int:
        self._file.write(data)  # TensorFlow's files return no count
        return len(data)


def _entry(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # ZipInfo has a constant date: the same input gives the same bytes.
    entry = zipfile.ZipInfo(f"{name}.npy")
    return archive.open(entry, "w", force_zip64=True)


# --- The output file ---------------------------------------------------------


@contextlib.contextmanager
def open_writer(
    path: str,
    output_format: str,
    layers: Sequence[int],
    inv_vocab: Mapping[int, str],
) -> Iterator[JsonWriter | NpzWriter]:
    """Open a file of features, which appears when the block ends normally."""
    with file_system.atomic_file(path) as file:
        if output_format == "jsonl":
            writer = JsonWriter(file, layers, inv_vocab)
        else:
            # Beside the output if possible: /tmp may be small.
            folder = os.path.dirname(path) or "."
            if file_system.is_remote(path) or file_system.is_stream(path):
                folder = tempfile.gettempdir()
            writer = NpzWriter(file, layers, folder)
        yield writer
        writer.close()
