"""Time the tokenizers, the record generator and the record reader."""

import contextlib
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from base import file_system, text_files

import tensorflow as tf

import tokenization
from pretraining.data import schema as pretraining_schema
from records import streaming
from tools import demo_corpus
from tools.benchmarks import measuring
from tools.benchmarks.measuring import Row

VOCAB_SIZE = 8000  # of the vocabulary that is learned if none is given

_READER_BATCH, _READER_BATCHES = 32, 1000


class Text(NamedTuple):
    """The text that the measurements use, one sentence per line."""

    files: list[str]
    vocab_file: str
    folder: Path  # for temporary files

    def lines(self) -> list[str]:
        """Return the lines of all files."""
        return [
            line
            for path in self.files
            for line in text_files.read_text(path).splitlines()
        ]


@contextlib.contextmanager
def prepared_text(
    input_file: str | None, vocab_file: str | None
) -> Iterator[Text]:
    """Find the text and its vocabulary, or make them in a temporary folder.

    Without globs of files the text is the demo's, and a vocabulary is learned.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark") as name:
        folder = Path(name)
        if input_file:
            files = file_system.find_files(input_file)
        else:
            files = [str(folder / "corpus.txt")]
            demo_corpus.write(files[0], list(demo_corpus.documents().values()))
        if not vocab_file:
            vocab_file = str(folder / "vocab.txt")
            measuring.run_script(
                "build_vocab.py",
                input_file=",".join(files),
                output_file=vocab_file,
                vocab_size=VOCAB_SIZE,
            )
        yield Text(files, vocab_file, folder)


def measure_tokenizer(text: Text) -> Iterator[Row]:
    """Time the tokenizers on lines in memory, in processor time."""
    lines = text.lines()
    size = sum(len(line.encode()) + 1 for line in lines) / 1e6

    # The tokenizer caches words, so each timed call begins with a new one.
    def whole() -> None:
        tokenization.FullTokenizer(text.vocab_file).lines_to_ids(lines)

    def line_by_line() -> None:
        to_ids = tokenization.FullTokenizer(text.vocab_file).text_to_ids
        for line in lines:
            to_ids(line)

    for name, function in ("lines", whole), ("text", line_by_line):
        seconds = measuring.best_seconds(function, clock=time.process_time)
        yield Row(
            f"tokenizer, {name}_to_ids",
            {"megabytes_per_second": size / seconds},
            f"{size:.1f} MB, per core; vocabulary loaded and cache empty",
        )


def measure_generator(text: Text) -> Iterator[Row]:
    """Time create_pretraining_data.py with one and with two workers.

    The records stay in `text.folder`, for measure_reader.
    """
    for num_workers in (1, 2):
        log, megabytes = measuring.run_script(
            "create_pretraining_data.py",
            input_file=",".join(text.files),
            output_file=f"{text.folder}/records-{num_workers}@4",
            vocab_file=text.vocab_file,
            num_workers=num_workers,
            verbosity=0,
        )
        (count,) = re.findall(r"^instances: ([\d,]+)", log, re.MULTILINE)
        instances = int(count.replace(",", ""))
        inside = float(re.findall(r"Took ([\d.]+) s", log)[-1])
        yield Row(
            f"generator, {num_workers} worker" + "s" * (num_workers > 1),
            {
                "instances_per_second": instances / inside,
                "seconds": inside,
                "megabytes": megabytes,
            },
            f"first byte read to last written, {instances:,} instances",
        )


def measure_reader(text: Text) -> Iterator[Row]:
    """Time shuffle, decode, check and batch of measure_generator's records."""
    files = sorted(str(path) for path in text.folder.glob("records-1-*"))
    num_tokens = len(tokenization.load_vocab(text.vocab_file))
    bound = streaming.Bound(num_tokens, "vocabulary")
    data = streaming.RecordFiles(
        files,
        pretraining_schema.schema(128, 20),
        {"input_ids": bound},
        {},
    )
    context = tf.distribute.InputContext(1, 0, 1)
    iterator = iter(data.training(_READER_BATCH, 1, 0, context))
    next(iterator)  # fills the shuffle buffer

    def read() -> None:
        for _ in range(_READER_BATCHES):
            next(iterator)

    rate = _READER_BATCH * _READER_BATCHES / measuring.best_seconds(read)
    yield Row(
        "reader, shuffled and decoded",
        {"records_per_second": rate},
        f"batches of {_READER_BATCH}",
    )
