"""Convert lines of text to feature vectors in a file, in their order.

The input may be larger than memory. It is cut into windows of lines, whose
features fit in memory:

    lines -> windows -> batches of similar length -> vectors -> lines in order

Batches of similar length save padding, and the window restores the order. The
file, the original's JSON lines or npz, is written line by line, and appears
when it is complete.
"""

import contextlib
import functools
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from base import errors, file_system, logs, progress
from base.errors import UserError

import numpy as np
import orjson

from checkpoints.model import Checkpoint
from checkpoints.trained_for import WINDOWS
from tasks import predict
from tasks.rows import Row, Units, row_of_texts
from tasks.task import Model

# A window ends when its features have this many bytes, or at this many lines.
_WINDOW_BYTES = 1 << 28
_WINDOW_LINES = 10_000

FORMATS = ("jsonl", "npz")

# --- Reading -----------------------------------------------------------------


def split_pair(text: str) -> tuple[str, str]:
    """Return both texts of `first ||| second`; the second is "" without one.

    As in the original, a line with several ` ||| ` is cut at the last one.
    """
    first, bar, second = text.rpartition(" ||| ")
    return (first, second) if bar else (text, "")


class Line(NamedTuple):
    """The ids of one line of the input."""

    index: int  # from 0
    row: Row
    num_bytes: int  # of the input


class Reader:
    """Reads lines, converts them to ids and counts them.

    Args:
        path: local, remote, or "-" for standard input.
        checkpoint: the model that reads them.

    Attributes:
        row_length: tokens that are read of a longer line.
        num_lines: lines; all counts are of what was read so far.
        num_tokens: tokens after cutting, with [CLS] and [SEP].
        num_cut: lines that were cut.
        num_left_out: tokens that were cut off.
        num_blank: lines without text.
    """

    def __init__(self, path: str, checkpoint: Checkpoint):
        self.path, self.tokenizer = path, checkpoint.tokenizer
        self.row_length = checkpoint.row_length
        self.how = checkpoint.long_texts.how
        self.num_lines = self.num_tokens = 0
        self.num_cut = self.num_left_out = self.num_blank = 0

    def lines(self) -> Iterator[Line]:
        """Yield every line in order.

        Raises:
            UserError: the file is unreadable, not UTF-8, or empty.
        """
        try:
            opened = contextlib.nullcontext(sys.stdin.buffer)
            if self.path != "-":
                opened = file_system.open_for_reading(self.path)
            with opened as file:
                for index, data in enumerate(file):
                    self.num_lines += 1
                    row = self._encode(index, data)
                    yield Line(index, row, len(data))
        except file_system.file_errors() as error:
            raise UserError(
                f"{self.path}: cannot be read after {self.num_lines} lines: "
                f"{errors.reason(error)}"
            ) from error
        if not self.num_lines:
            raise UserError(f"--input_file={self.path} holds no line")

    def size(self) -> int | None:
        """Return the size of the input in bytes; None if it is unknown."""
        if self.path == "-":
            return None
        # A pipe has a name, but no size.
        return file_system.file_state(self.path)[0] or None

    def log_end(self, path: str) -> None:
        """Log what was written to `path`."""
        logs.say(
            "Wrote the features of %d lines, %d tokens, to %s: %d lines were "
            "cut to %d tokens and lost %d, %d were blank",
            self.num_lines,
            self.num_tokens,
            path,
            self.num_cut,
            self.row_length,
            self.num_left_out,
            self.num_blank,
        )

    def _encode(self, index: int, data: bytes) -> Row:
        """Return the row of a sentence, or of a pair `first ||| second`.

        As in the original, a pair is shortened from its longer side.
        """
        at = f"{self.path}, line {index + 1}"
        try:
            text = data.decode().strip()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{at}: not UTF-8 (byte 0x{data[error.start]:02x}); convert "
                "the file first"
            ) from error
        first, second = split_pair(text)
        if second and self.how == WINDOWS:
            raise UserError(
                f"{at}: a pair, and --long_texts={WINDOWS} is for single "
                "texts; leave it out"
            )
        row = row_of_texts(
            first, second, self.row_length, self.tokenizer, self.how
        )
        self.num_cut += row.left_out > 0
        self.num_left_out += row.left_out
        self.num_blank += not text
        self.num_tokens += len(row.input_ids)
        return row


# --- Windows -----------------------------------------------------------------


def windows(
    lines: Iterable[Line], bytes_per_token: int, bytes_per_line: int
) -> Iterator[list[Line]]:
    """Yield consecutive lines whose features fit in _WINDOW_BYTES.

    Lines are read one by one, no further than the window needs. Features have a
    size per token or, if they are pooled, per line; the other size is 0.
    """
    window: list[Line] = []
    size = 0
    for line in lines:
        window.append(line)
        size += len(line.row.input_ids) * bytes_per_token + bytes_per_line
        if size >= _WINDOW_BYTES or len(window) >= _WINDOW_LINES:
            yield window
            window, size = [], 0
    if window:
        yield window


# A line and its features, float32 [T, K, H] of T tokens, or pooled [K, H].
Features = tuple[Line, np.ndarray]


def window_features(
    run: Model,
    window: list[Line],
    data: Units,
    batch_size: int,
    bar: progress.Bar,
) -> Iterator[Features]:
    """Compute the features of a window, then yield each line with its own.

    `data` are the rows of its lines. The output `features` of the model is [B,
    S, K, H], or pooled [B, K, H].

    Raises:
        UserError: a feature is infinite or not a number.
    """
    found: list[np.ndarray | None] = [None] * len(window)
    for rows, features in predict.batches(run, data, batch_size):
        outputs = run(features)["features"][: len(rows)]
        for row, values in zip(rows, outputs, strict=True):
            if values.ndim == 3:  # [S, K, H]
                # A view would keep the whole batch in memory, with its
                # padding, until the last of its lines is written.
                values = values[: data.lengths[row]].copy()
            found[row] = values
        bar.update(sum(window[row].num_bytes for row in rows))
    for place, line in enumerate(window):
        values, found[place] = found[place], None  # frees it once written
        if not np.isfinite(values).all():
            raise UserError(
                f"line {line.index + 1}: the model's outputs are not finite "
                "numbers: the checkpoint is damaged, or --dtype too narrow"
            )
        yield line, values


# --- Writing -----------------------------------------------------------------


def format_rows(rows: np.ndarray) -> list[bytes]:
    """Return `", ".join(repr(round(float(x), 6)))` of each row.

    The original's JSON lines have such numbers. Python takes ten times as long
    to print them as a small model takes to compute them.

    Args:
        rows: finite float32 [R, H].
    """
    # A float32 has 24 significant bits, so its product with 10**6 is exact in
    # float64. Rounding it, half to even, gives the decimal that Python finds.
    rounded = np.rint(rows.astype(np.float64) * 10**6) / 10**6
    text = orjson.dumps(rounded, option=orjson.OPT_SERIALIZE_NUMPY)
    lines = [line.replace(b",", b", ") for line in text[2:-2].split(b"],[")]
    # Where Python writes an exponent, orjson may write none, or another one.
    size = np.abs(rounded)
    has_exponent = ((size > 0) & (size < 1e-4)) | (size >= 1e16)
    for row in np.flatnonzero(has_exponent.any(axis=1)).tolist():
        lines[row] = ", ".join(map(repr, rounded[row].tolist())).encode()
    return lines


def write(
    path: str,
    output_format: str,
    lines: Iterable[Features],
    layers: Sequence[int],
    inv_vocab: Mapping[int, str],
) -> None:
    """Write lines to a file of features, which appears behind the last one.

    The original's JSON lines are {"linex_index": 0, "features": [{"token":
    "[CLS]", "layers": [{"index": -1, "values": [...]}, ...]}, ...]}; of pooled
    features {"linex_index": 0, "layers": [...]}. `layers` are the indices of
    the K layers as the user gave them.
    """

    @functools.cache
    def token(token_id: int) -> bytes:
        return json.dumps(inv_vocab[token_id]).encode()

    with file_system.atomic_file(path) as file:
        if output_format == "npz":
            # Beside the output if possible: /tmp may be small.
            folder = os.path.dirname(path) or "."
            if file_system.is_remote(path) or file_system.is_stream(path):
                folder = tempfile.gettempdir()
            _write_npz(file, lines, layers, folder)
            return
        for line, values in lines:
            rows = iter(format_rows(values.reshape(-1, values.shape[-1])))
            groups = [
                b", ".join(
                    b'{"index": %d, "values": [%b]}' % (index, next(rows))
                    for index in layers
                )
                for _ in range(1 if values.ndim == 2 else len(values))
            ]
            if values.ndim == 2:
                (group,) = groups
                body = b'"layers": [' + group
            else:
                tokens = map(token, line.row.input_ids.tolist())
                body = b'"features": [' + b", ".join(
                    b'{"token": %b, "layers": [%b]}' % pair
                    for pair in zip(tokens, groups, strict=True)
                )
            file.write(b'{"linex_index": %d, %b]}\n' % (line.index, body))


def _write_npz(
    file: IO[bytes],
    lines: Iterable[Features],
    layers: Sequence[int],
    folder: str,
) -> None:
    """Write an archive for np.load: features, offsets, input_ids, layers.

    Line i is features[offsets[i] : offsets[i + 1]], [T, K, H]; its tokens are
    the same rows of input_ids. Pooled: features [lines, K, H] and layers alone.

    An array's header holds its size, which is known only at the end. Until then
    the features are in a temporary file of `folder` without a name, which the
    system deletes when the process ends, however it ends.
    """
    ids, offsets = [], [0]
    shape: tuple[int, ...] = (0,)  # of all features
    with tempfile.TemporaryFile(dir=folder) as spool:
        for line, values in lines:
            if values.ndim == 2:
                values = values[None]  # [1, K, H]
            else:
                ids.append(line.row.input_ids)
                offsets.append(offsets[-1] + len(values))
            spool.write(np.ascontiguousarray(values).data)
            shape = (shape[0] + len(values), *values.shape[1:])
        spool.flush()
        arrays = {"features": np.memmap(spool, "<f4", "r", shape=shape)}
        if ids:
            arrays = {"offsets": np.array(offsets, np.int64)} | arrays
            arrays["input_ids"] = np.concatenate(ids)
        np.savez(_Stream(file), **arrays, layers=np.array(layers))


class _Stream:
    """A file without `seek`, so that zipfile writes it front to back.

    Remote files cannot be written in another order.
    """

    read = None  # numpy asks whether it has one

    def __init__(self, file: IO[bytes]):
        self._file, self.flush = file, file.flush

    def write(self, data: bytes) -> int:
        self._file.write(data)  # TensorFlow's files return no count
        return len(data)
