r"""Write what BERT's layers hold for every token of a text, or every line.

    python extract_features.py --input_file=input.txt \
        --output_file=features.jsonl --init_checkpoint=uncased_L-12_H-768_A-12

reads a sentence per line, or a pair `first ||| second`, and writes a JSON
object per line, in the input's order: its number as `linex_index` (the
original's spelling), and for every token the chosen layers, six decimals.

--pooling=cls or mean writes a vector per line and layer instead of one per
token; --output_format=npz or tfrecord writes float32 instead of text. The
input may be larger than memory; --input_file=- reads standard input,
--output_file=- writes standard output.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from base import errors, file_system, progress
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import flags, logging

import modeling
import tokenization
from checkpoints import lookup, model_files, weight_files
from features import writers as features_writers
from features.layers import layer_features, parse_layers
from records import in_memory
from training import devices
from training import flags as training_flags
from training.prediction import Batch, Numbered, Predictor

FLAGS = flags.FLAGS

# Files
flags.DEFINE_string(
    "input_file",
    None,
    "Text, a sentence or `first ||| second` per line; -: standard input.",
)
flags.DEFINE_string(
    "output_file", None, "Where the features go; -: standard output."
)
flags.DEFINE_enum(
    "output_format",
    "jsonl",
    features_writers.FORMATS,
    "jsonl: the original's; tfrecord: a tf.train.Example per line; npz: "
    "arrays for numpy.load.",
)

# What of which model
training_flags.define_model_flags()
flags.DEFINE_string(
    "layers",
    "-1,-2,-3,-4",
    "Layers to write, separated by commas: -1 is the last, 0 the first.",
)
flags.DEFINE_enum(
    "pooling",
    "none",
    ["none", "cls", "mean"],
    "none: a vector per token; cls: that of [CLS] alone; mean: the mean over "
    "all tokens of a line, [CLS] and [SEP] included.",
)

# How
flags.DEFINE_integer(
    "max_seq_length", 128, "Longer lines are cut to so many tokens.", 3
)
flags.DEFINE_integer(
    "batch_size",
    32,
    "Lines of max_seq_length in a batch; of shorter ones more.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "pad_to_max_length",
    False,
    "Pad every batch to max_seq_length, as the original, instead of batching "
    "what is of like length.",
)
flags.DEFINE_enum(
    "dtype",
    "float32",
    ["float32", "bfloat16"],
    "What matrix products are computed in.",
)
training_flags.define_tpu_flags()
flags.DEFINE_bool(
    "use_one_hot_embeddings",
    False,
    "Ignored: the original's way around slow lookups on the first TPUs.",
)

# A window of lines is sorted by length and held until it is written in order.
_WINDOW_BYTES = 1 << 28
_WINDOW_LINES = 10_000
_SECONDS_BETWEEN_REPORTS = 10.0
_SHOWN = 5  # examples in the log
_MORE_LINES = 8  # times batch_size, where lines are short


class Line(NamedTuple):
    """One line of the input as the model takes it."""

    index: int  # from 0
    input_ids: list[int]  # with [CLS] and [SEP]
    second_start: int  # where segment 1 begins; len(input_ids) without a pair


# --- Lines in ---------------------------------------------------------------


class Reader:
    """Reads lines and makes them ids; counts what happens to them.

    Args:
        path: local, remote, or "-" for standard input.
        tokenizer: text to ids.
        max_seq_length: longer lines are cut.
    """

    def __init__(
        self,
        path: str,
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
    ):
        self.path, self.tokenizer = path, tokenizer
        self.max_seq_length = max_seq_length
        self.num_bytes = self.num_lines = self.num_tokens = 0
        self.num_cut = self.num_blank = 0

    def lines(self) -> Iterator[Line]:
        """Yield every line in order.

        Raises:
            UserError: unreadable, not UTF-8, or without a line.
        """
        try:
            with self._open() as file:
                for index, data in enumerate(file):
                    self.num_lines += 1
                    self.num_bytes += len(data)
                    yield self._encode(index, self._decode(index, data))
        except (OSError, tf.errors.OpError) as error:
            raise UserError(
                f"{self.path}: cannot be read after {self.num_lines} lines: "
                f"{errors.reason(error)}"
            ) from error
        if not self.num_lines:
            raise UserError(f"--input_file={self.path} holds no line")

    def size(self) -> float:
        """Return how many bytes there are to read, NaN if nobody knows."""
        if self.path == "-":
            return float("nan")
        # A pipe has a name, but no size.
        return float(tf.io.gfile.stat(self.path).length or "nan")

    def _open(self) -> contextlib.AbstractContextManager[IO[bytes]]:
        if self.path == "-":
            return contextlib.nullcontext(sys.stdin.buffer)
        return file_system.open_for_reading(self.path)

    def _decode(self, index: int, data: bytes) -> str:
        try:
            return data.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.path}, line {index + 1}: not UTF-8 (byte "
                f"0x{data[error.start]:02x}); convert the file first"
            ) from error

    def _encode(self, index: int, text: str) -> Line:
        """Cut and join as the original: at the last ` ||| ` of a line."""
        first, bar, second = text.rpartition(" ||| ")
        if not bar:
            first, second = text, ""
        a, b = map(self.tokenizer.text_to_ids, (first, second))
        limit = self.max_seq_length - (3 if b else 2)
        kept = tokenization.truncated_lengths(len(a), len(b), limit)
        vocab = self.tokenizer.vocab
        ids = [vocab["[CLS]"], *a[: kept[0]], vocab["[SEP]"]]
        second_start = len(ids)
        if kept[1]:  # cut to nothing, a pair is none, as in the original
            ids += [*b[: kept[1]], vocab["[SEP]"]]
        self.num_cut += kept != (len(a), len(b))
        self.num_blank += not text
        self.num_tokens += len(ids)
        return Line(index, ids, second_start)


def windows(
    lines: Iterable[Line], bytes_per_token: int, bytes_per_line: int
) -> Iterator[list[Line]]:
    """Cut a stream into parts whose outputs fit in _WINDOW_BYTES."""
    window: list[Line] = []
    size = 0
    for line in lines:
        window.append(line)
        size += len(line.input_ids) * bytes_per_token + bytes_per_line
        if size >= _WINDOW_BYTES or len(window) >= _WINDOW_LINES:
            yield window
            window, size = [], 0
    if window:
        yield window


class WindowRecords:
    """A window as Predictor takes it: like lengths together.

    Args:
        window: lines.
        max_seq_length: the longest length.
        is_padding: the only one.
    """

    def __init__(
        self, window: list[Line], max_seq_length: int, is_padding: bool
    ):
        self.window, self.num_records = window, len(window)
        self.max_seq_length, self.is_padding = max_seq_length, is_padding

    def prediction(self, batch_size: int, is_fine: bool) -> Iterator[Numbered]:
        """Yield (places in the window, batch), the longest first.

        Who compiles for few shapes gets full batches; the others no filling.
        """
        lengths = np.array([len(line.input_ids) for line in self.window])
        buckets = np.array(
            in_memory.bucket_lengths(
                self.max_seq_length, self.is_padding, is_fine
            )
        )
        order = np.argsort(-lengths, kind="stable")
        at = 0
        while at < len(order):
            length = int(buckets[np.searchsorted(buckets, lengths[order[at]])])
            # Short lines in larger batches: as many tokens, at most.
            count = batch_size
            if is_fine:
                count *= min(_MORE_LINES, max(1, self.max_seq_length // length))
            rows = order[at : at + count]
            yield (
                rows,
                self._gather(
                    rows, len(rows) if is_fine else batch_size, length
                ),
            )
            at += count

    def _gather(self, rows: np.ndarray, count: int, length: int) -> Batch:
        """Return `count` rows, those beyond `rows` of [PAD] alone."""
        ids = np.zeros([count, length], np.int32)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        for place, row in enumerate(rows):
            line = self.window[row]
            used = len(line.input_ids)
            ids[place, :used] = line.input_ids
            mask[place, :used] = 1
            segments[place, line.second_start : used] = 1
        return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


# --- Features out -----------------------------------------------------------


def forward(
    model: modeling.TaskModel,
    features: dict[str, tf.Tensor],
    layers: list[int],
    pooling: str,
) -> dict[str, tf.Tensor]:
    """Return the chosen layers: float32 [B, S, K, H], pooled [B, K, H]."""
    output = model.encode(features)
    values = layer_features(
        output.embedding_output, output.encoder_layers, layers
    )  # [B, S, K, H]
    if pooling == "cls":
        values = values[:, 0]  # [B, K, H]
    elif pooling == "mean":
        mask = tf.cast(features["input_mask"], tf.float32)
        share = tf.math.divide_no_nan(
            mask, tf.reduce_sum(mask, axis=1, keepdims=True)
        )  # [B, S]
        values = tf.einsum("bskh,bs->bkh", values, share)
    return {"features": values}


def window_features(
    predictor: Predictor,
    data: WindowRecords,
    batch_size: int,
    progress: "Progress",
) -> Iterator[features_writers.LineFeatures]:
    """Yield the features of a window's lines, in order.

    Args:
        predictor: of `forward`.
        data: the window.
        batch_size: lines of max_seq_length in a batch.
        progress: told of every batch: the first line comes after the last one.

    Raises:
        UserError: some are no numbers.
    """
    found: list[np.ndarray | None] = [None] * data.num_records
    for rows, outputs in predictor.batches(data, batch_size):
        for row, values in zip(rows, outputs["features"], strict=True):
            if values.ndim == 3:  # [S, K, H]
                # A view would keep the padding of the whole batch alive.
                values = values[: len(data.window[row].input_ids)].copy()
            found[row] = values
        progress.add(
            len(rows), sum(len(data.window[row].input_ids) for row in rows)
        )
    for place, line in enumerate(data.window):
        values, found[place] = found[place], None
        if not np.isfinite(values).all():
            raise UserError(
                f"line {line.index + 1}: the model's outputs are no finite "
                "numbers: the checkpoint is damaged, or --dtype too narrow"
            )
        yield features_writers.LineFeatures(line.index, line.input_ids, values)


class Progress:
    """Says how far a run is, every few seconds and at its end."""

    def __init__(self, reader: Reader):
        self.reader, self.size = reader, reader.size()
        self.began = self.told = time.monotonic()
        self.num_lines = self.num_tokens = 0

    def add(self, num_lines: int, num_tokens: int) -> None:
        """Note lines that are computed, and how many tokens they have."""
        self.num_lines += num_lines
        self.num_tokens += num_tokens
        now = time.monotonic()
        if now - self.told < _SECONDS_BETWEEN_REPORTS:
            return
        self.told, seconds = now, now - self.began
        reader = self.reader  # has read the window to its end
        done = self.num_tokens / reader.num_tokens
        done *= reader.num_bytes / self.size
        logging.info(
            "%d lines | %.1f sequences/s | ETA %s",
            self.num_lines,
            self.num_lines / seconds,
            progress.format_seconds(seconds / done - seconds),
        )

    def end(self, path: str) -> None:
        """Say what was done."""
        reader, seconds = self.reader, time.monotonic() - self.began
        logging.info(
            "Wrote the features of %d lines, %d tokens, to %s: %d lines were "
            "cut to %d tokens, %d were blank",
            self.num_lines,
            reader.num_tokens,
            path,
            reader.num_cut,
            reader.max_seq_length,
            reader.num_blank,
        )
        logging.info(
            "%s, %.1f sequences/s, %.1f tokens/s",
            progress.format_seconds(seconds),
            self.num_lines / seconds,
            reader.num_tokens / seconds,
        )


def log_example(line: Line, tokenizer: tokenization.FullTokenizer) -> None:
    """Show a line as the model gets it, so that bad input is seen."""
    logging.info("*** Example ***")
    logging.info("unique_id: %d", line.index)
    tokens = tokenizer.convert_ids_to_tokens(line.input_ids)
    logging.info("tokens: %s", " ".join(tokens))


# --- The whole --------------------------------------------------------------


def validate_flags() -> None:
    """Check what can be checked before anything is read."""
    for name in ("input_file", "output_file", "init_checkpoint"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")
    path = FLAGS.output_file
    if tf.io.gfile.isdir(path):
        raise UserError(f"--output_file={path} is a directory: name a file")
    if FLAGS.input_file != "-":
        file_system.open_for_reading(FLAGS.input_file).close()
    if is_same_file(path, FLAGS.input_file):
        raise UserError(f"--output_file={path} is the input file too")
    if FLAGS.use_one_hot_embeddings:
        logging.warning(
            "--use_one_hot_embeddings is ignored: lookups give the same numbers"
        )


def is_same_file(path: str, other: str) -> bool:
    """Whether two paths lead to the same file, perhaps through links."""
    if "-" in (path, other) or file_system.is_stream(path):
        return False
    if file_system.is_remote(path) or file_system.is_remote(other):
        return path == other
    return os.path.exists(path) and os.path.samefile(path, other)


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Make SIGTERM end the block like Ctrl-C, so that it cleans up."""

    def end(*_) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def extract(
    predictor: Predictor,
    reader: Reader,
    layers: list[int],
    hidden_size: int,
) -> None:
    """Read, compute and write window by window."""
    file_system.remove_leftovers(FLAGS.output_file)
    vector = len(layers) * hidden_size * 4
    sizes = (vector, 0) if FLAGS.pooling == "none" else (0, vector)
    progress = Progress(reader)
    with features_writers.open_writer(
        FLAGS.output_file,
        FLAGS.output_format,
        layers,
        reader.tokenizer.inv_vocab,
    ) as writer:
        for window in windows(reader.lines(), *sizes):
            for line in window[: max(0, _SHOWN - window[0].index)]:
                log_example(line, reader.tokenizer)
            data = WindowRecords(
                window, FLAGS.max_seq_length, FLAGS.pad_to_max_length
            )
            for line in window_features(
                predictor, data, FLAGS.batch_size, progress
            ):
                writer.write(line)
    progress.end(FLAGS.output_file)


def main(_: list[str]) -> int:
    """Load the model, then extract."""
    validate_flags()
    strategy = devices.create_strategy(training_flags.read_devices(FLAGS))
    prefix = lookup.find_checkpoint(FLAGS.init_checkpoint)
    config = model_files.read_config(prefix, FLAGS.bert_config_file)
    model_files.check_length(FLAGS.max_seq_length, config)
    layers = parse_layers(FLAGS.layers, config.num_hidden_layers)
    tokenizer = model_files.load_tokenizer(
        prefix, config, FLAGS.vocab_file, FLAGS.do_lower_case
    )
    with strategy.scope():
        model = modeling.TaskModel(config, FLAGS.dtype)
    weight_files.restore_weights(model.variables, prefix)
    predictor = Predictor(
        strategy, lambda batch: forward(model, batch, layers, FLAGS.pooling)
    )
    reader = Reader(FLAGS.input_file, tokenizer, FLAGS.max_seq_length)
    if "/" in FLAGS.output_file:
        folder = FLAGS.output_file.rpartition("/")[0]
        file_system.make_directory(folder, "output_file")
    with ending_on_sigterm():
        extract(predictor, reader, layers, config.hidden_size)
    return 0


if __name__ == "__main__":
    errors.run(main)
