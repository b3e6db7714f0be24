"""Compare training on packed rows with one sequence in each row.

Both kinds of records are made of the same text. Training steps on them are
timed in turns in one run, since a shared machine changes its speed from minute
to minute, and the ratio of neighbouring times changes less than the times do.
What counts are real tokens per second: padding is not work done. Where other
programs use the same cores, the processor time of this process tells more than
the time that passes, so both are given.

The steps include the reading and decoding of the records, as in training.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from base import file_system

import numpy as np
import tensorflow as tf

import tokenization
from pretraining import records as pretraining_records
from pretraining.records import PretrainingFiles
from tools.benchmarks import measuring, steps
from tools.benchmarks.table import Row

# Sequence length -> places of predictions, 15% of it, and rows of a batch.
LENGTHS = {128: (20, 32), 512: (77, 8)}

_STEPS_AT_ONCE = 5


class Kind(NamedTuple):
    """Records of one kind, and a model that trains on them.

    Attributes:
        data: the records.
        step: the compiled step.
        batches: iterator over endless batches.
    """

    data: PretrainingFiles
    step: steps.train_step.Step
    batches: Iterator

    def rates(self, number: int) -> np.ndarray:
        """Train some steps from step `number` on.

        Returns:
            Real tokens per second, and per second of processor time, [2].
        """
        clocks = time.perf_counter, time.process_time
        began = np.array([clock() for clock in clocks])
        done, sums = self.step.run(
            self.batches,
            tf.constant(number, tf.int64),
            tf.constant(_STEPS_AT_ONCE, tf.int64),
        )
        int(done)  # waits for the device
        ended = np.array([clock() for clock in clocks])
        return float(sums["tokens"][0]) / (ended - began)


def measure(
    name: str,
    files: Sequence[str],
    vocab_file: str,
    folder: Path,
    sizes: Sequence[str],
    repeats: int,
    dtype: str,
    jit_compile: bool,
) -> Iterator[Row]:
    """Pack a text at each of LENGTHS and train on it; yield the rows.

    Args:
        name: of the text, for the table.
        files: one sentence per line.
        vocab_file: its vocabulary.
        folder: for the records.
        sizes: names in modeling.NAMED_SIZES.
        repeats: how often each kind is timed.
        dtype: of the matrix products, one of modeling.DTYPES.
        jit_compile: compile with XLA.
    """
    for length, (predictions, batch_size) in LENGTHS.items():
        paths = {
            packed: _make_records(
                files, vocab_file, folder, length, predictions, packed
            )
            for packed in (False, True)
        }
        for size in sizes:
            kinds = [
                _open(
                    path,
                    steps.create_step(
                        size,
                        batch_size,
                        dtype,
                        jit_compile,
                        len(tokenization.load_vocab(vocab_file)),
                    ),
                    length,
                    predictions,
                )
                for path in paths.values()
            ]
            if size == sizes[0]:
                yield _fill_row(name, length, *kinds)
            yield _speed_row(name, length, size, *kinds, repeats)


def _make_records(
    files: Sequence[str],
    vocab_file: str,
    folder: Path,
    length: int,
    predictions: int,
    packed: bool,
) -> str:
    """Run create_pretraining_data.py; return the path of its output file."""
    path = f"{folder}/{'packed' if packed else 'single'}-{length}"
    measuring.run_script(
        "create_pretraining_data.py",
        input_file=",".join(files),
        output_file=path,
        vocab_file=vocab_file,
        max_seq_length=length,
        max_predictions_per_seq=predictions,
        dupe_factor=1,
        pack_sequences=packed,
    )
    return path


def _open(
    path: str, step: steps.train_step.Step, length: int, predictions: int
) -> Kind:
    """Return a record file and the batches of a training run on it."""
    data = pretraining_records.find_data(
        [path], step.model.config, length, predictions
    )
    context = tf.distribute.InputContext(1, 0, 1)
    batches = data.training(step.settings.train_batch_size, 1, 0, context)
    return Kind(data, step, iter(batches))


def _fill(data: PretrainingFiles, length: int, tokens: int) -> float:
    """Return the share of real tokens in the rows."""
    return tokens / data.num_records / length


def _fill_row(name: str, length: int, single: Kind, packed: Kind) -> Row:
    """Return the row of the fills. Both kinds have the same sequences."""
    tokens = packed.data.num_tokens
    before = _fill(single.data, length, tokens)
    after = _fill(packed.data, length, tokens)
    rows = packed.data.num_records
    return Row(
        f"packing, {name}, {length}",
        f"fill {before:.2%} to {after:.2%}, {after / before:.3f} times",
        f"{packed.data.num_sequences:,} sequences in {rows:,} rows, "
        f"{packed.data.num_sequences / rows:.3f} in each",
        {"single_fill": before, "packed_fill": after},
    )


def _speed_row(
    name: str, length: int, size: str, single: Kind, packed: Kind, repeats: int
) -> Row:
    """Time both kinds in turns; return the row of their ratio."""
    kinds = (single, packed)
    for kind in kinds:
        kind.rates(0)  # compiles
    rates = np.empty([2, repeats, 2])  # kinds, turns, clocks
    for turn in range(repeats):
        # Which comes first alternates, should the machine change its speed.
        for index in (0, 1) if turn % 2 else (1, 0):
            rates[index, turn] = kinds[index].rates((turn + 1) * _STEPS_AT_ONCE)
    ratios = rates[1] / rates[0]  # turns, clocks
    ratio, cpu_ratio = np.median(ratios, axis=0)
    before, after = np.median(rates[:, :, 0], axis=1)
    return Row(
        f"packing, {name}, {length}",
        f"{size}: {ratio:.3f} times the real tokens/s",
        f"{cpu_ratio:.3f} times per second of processor time; medians of "
        f"{repeats} pairs of {_STEPS_AT_ONCE} steps, {before:,.0f} and "
        f"{after:,.0f} tokens/s, ratios {ratios[:, 0].min():.2f} to "
        f"{ratios[:, 0].max():.2f}",
        {
            f"{size}_ratio": ratio,
            f"{size}_processor_ratio": cpu_ratio,
            f"{size}_single_tokens_per_second": before,
            f"{size}_packed_tokens_per_second": after,
        },
    )


def find_texts(patterns: str) -> dict[str, list[str]]:
    """Return {pattern: its files} of patterns separated by commas."""
    return {
        pattern: file_system.find_files(pattern, "packing_files")
        for pattern in patterns.split(",")
    }
