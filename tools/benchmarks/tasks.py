"""Time three tasks on a data set: length buckets, SQuAD, feature extraction."""

import collections
import math
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import modeling
import tokenization
from checkpoints import weight_files
from records import in_memory, tfrecord
from tasks.classifier import data as classifier_data
from tasks.classifier import glue
from tasks.classifier import model as classifier_model
from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import decoding as squad_decoding
from tasks.squad import scores as squad_scores
from tasks.squad import windows as squad_windows
from tools.benchmarks import measuring
from tools.benchmarks.table import Row
from training import train_step
from training.compilation import Compilation
from training.settings import Settings

BATCH_SIZE, MAX_SEQ_LENGTH = 32, 128

_ROUNDS = 3

# Length of the first step of all, which is slow since TensorFlow traces it.
_LENGTH_OF_TRACING = 4

# --- Length buckets ----------------------------------------------------------


def measure_buckets(
    task_name: str, data_dir: str, vocab_file: str, size: str, dtype: str
) -> Iterator[Row]:
    """Time a training epoch in batches of similar length.

    The first row compares it with batches that are padded, the second with the
    same batches where XLA compiles the elementwise operations of each length.
    One step of every length that occurs is timed, and the time of the epoch is
    the sum over its batches. Lengths and ways take turns, so that the noise of
    a shared machine slows all of them alike.

    Args:
        task_name: a task of run_classifier.py.
        data_dir: the folder of the task's files.
        vocab_file: a lower-cased vocabulary.
        size: one of modeling.NAMED_SIZES; the weights are random.
        dtype: of the matrix products, one of modeling.DTYPES.
    """
    tokenizer = tokenization.FullTokenizer(vocab_file)
    config = modeling.BertConfig.from_size(
        size, vocab_size=len(tokenizer.vocab)
    )
    data = _training_data(task_name, data_dir, tokenizer)
    steps = data.num_records // BATCH_SIZE
    plan = data.training(BATCH_SIZE, seed=1, is_fine=True).plan
    counts = collections.Counter(map(plan.length, range(steps)))
    plain, fused = _time_lengths([*counts, MAX_SEQ_LENGTH], config, dtype)
    what = f"{task_name} training, {size}, {dtype}, batch {BATCH_SIZE}"
    padded = steps * plain.seconds[MAX_SEQ_LENGTH]
    bucketed = plain.total(counts)
    tokens = plan.lengths.mean()
    examples = steps * BATCH_SIZE
    yield Row(
        f"{what}, like lengths",
        f"{padded / bucketed:.2f} times padded",
        f"{examples / bucketed:.1f} against {examples / padded:.1f} "
        f"examples/s; {tokens:.0f} of {MAX_SEQ_LENGTH} tokens in the mean",
        {
            "ratio": padded / bucketed,
            "examples_per_second": examples / bucketed,
            "padded_examples_per_second": examples / padded,
            "mean_tokens": tokens,
        },
    )
    yield _compiled_row(what, plain, fused, counts)


class _Times(NamedTuple):
    """Seconds of a training step, by length.

    Attributes:
        first: of the first step of a length, in which XLA compiles.
        seconds: of the fastest step after it.
    """

    first: dict[int, float]
    seconds: dict[int, float]

    def total(self, counts: Mapping[int, int]) -> float:
        """Return the seconds of so many steps of each length."""
        return sum(count * self.seconds[n] for n, count in counts.items())

    def preparing(self, lengths: Iterable[int]) -> float:
        """Return the seconds of compiling: of first steps beyond others."""
        return sum(self.first[n] - self.seconds[n] for n in lengths)


def _compiled_row(
    what: str, plain: _Times, fused: _Times, counts: Mapping[int, int]
) -> Row:
    """Return the row that compares compiled elementwise operations with none.

    Args:
        what: task, model and batch.
        plain, fused: without and with them.
        counts: length -> steps of an epoch.
    """
    compiled, bucketed = fused.total(counts), plain.total(counts)
    compiling = fused.preparing(counts) - plain.preparing(counts)
    return Row(
        f"{what}, elementwise operations compiled",
        f"{compiled / bucketed:.2f} times the time",
        f"an epoch of {sum(counts.values())} steps in {compiled:.1f} against "
        f"{bucketed:.1f} s; compiling {len(counts)} lengths takes "
        f"{compiling:.1f} s",
        {
            "ratio": compiled / bucketed,
            "seconds": compiled,
            "plain_seconds": bucketed,
            "compiling_seconds": compiling,
            "lengths": len(counts),
        },
    )


def _time_lengths(
    lengths: Iterable[int], config: modeling.BertConfig, dtype: str
) -> tuple[_Times, _Times]:
    """Time steps without and with compiled elementwise operations.

    On a CPU a run of fine-tuning does one or the other, by the rule of
    training/compilation.py.
    """
    lengths = sorted({*lengths})
    found = []
    for is_elementwise in (False, True):
        compilation = Compilation(elementwise=is_elementwise, update=True)
        run = _step_of(config, compilation, dtype)
        run(_LENGTH_OF_TRACING)
        first = {length: run(length) for length in lengths}
        found.append((run, _Times(first, dict.fromkeys(lengths, math.inf))))
    for _ in range(_ROUNDS):
        for length in lengths:
            for run, times in found:
                times.seconds[length] = min(times.seconds[length], run(length))
    (_, plain), (_, fused) = found
    return plain, fused


def _training_data(
    task_name: str, data_dir: str, tokenizer: tokenization.FullTokenizer
) -> in_memory.ShortRecords:
    """Return the task's training records, as run_classifier.py reads them."""
    files = glue.find(task_name)
    examples = classifier_data.read_examples(data_dir, files.train, files)
    features, _ = classifier_data.convert_examples(
        examples, files.label_id, MAX_SEQ_LENGTH, tokenizer
    )
    return in_memory.ShortRecords(features)


def _step_of(
    config: modeling.BertConfig, compilation: Compilation, dtype: str
) -> Callable[[int], float]:
    """Return a function: length -> seconds of one training step.

    The batch of a step has BATCH_SIZE rows of that many tokens.

    Args:
        config: of the model; its weights are random.
        compilation: what XLA compiles of the step.
        dtype: of the matrix products.
    """
    model = classifier_model.BertForSequenceClassification(
        config, 2, dtype=dtype
    )
    step = train_step.Step(
        tf.distribute.get_strategy(),
        model,
        classifier_model.CLASSIFICATION,
        Settings("", 1000, BATCH_SIZE, dtype=dtype),
        compilation,
    )
    one = tf.constant(1, tf.int64)
    length_of_next = [0]
    iterator = iter(_batches(config.vocab_size, length_of_next))

    def run(length: int) -> float:
        length_of_next[0] = length
        began = time.perf_counter()
        done, _ = step.run(iterator, tf.constant(1, tf.int64), one)
        int(done)  # waits for the device
        return time.perf_counter() - began

    return run


def _batches(vocab_size: int, length: list[int]) -> tf.data.Dataset:
    """Return endless batches of random ids without padding.

    Args:
        vocab_size: bound of the ids.
        length: one number, the length of the next batch; the caller changes
            it.
    """
    rng = np.random.default_rng(0)
    spec = {
        name: tf.TensorSpec([BATCH_SIZE, None], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    } | {"label_ids": tf.TensorSpec([BATCH_SIZE], tf.int32)}

    def batches() -> Iterator[dict[str, np.ndarray]]:
        while True:
            shape = [BATCH_SIZE, length[0]]
            yield {
                "input_ids": rng.integers(0, vocab_size, shape),
                "input_mask": np.ones(shape),
                "segment_ids": np.zeros(shape),
                "label_ids": rng.integers(0, 2, BATCH_SIZE),
            }

    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    options = tf.data.Options()
    # A batch that is prefetched would have the length of the call before.
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    return dataset.with_options(options)


# --- SQuAD -------------------------------------------------------------------


def measure_squad(squad_file: str, vocab_file: str) -> Iterator[Row]:
    """Time windows, records and decoding of a SQuAD file.

    Flags have their defaults. The logits are random, the slowest case for
    decoding: every n-best list is full.

    Args:
        squad_file: SQuAD's JSON, version 1.1 or 2.0.
        vocab_file: a lower-cased vocabulary.
    """
    tokenizer = tokenization.FullTokenizer(vocab_file)
    is_version_2 = _is_version_2(squad_file)
    began = time.perf_counter()
    data = squad_data.read_squad([squad_file], False, is_version_2)
    reading = time.perf_counter() - began
    lengths = squad_windows.Lengths()
    for workers in (1, 2):
        began = time.perf_counter()
        windows = squad_windows.convert_all(data, tokenizer, lengths, workers)
        with (
            tempfile.TemporaryFile() as file,
            tfrecord.RecordWriter(file) as writer,
        ):
            for features in squad_windows.record_features(
                windows,
                data.examples,
                tokenizer.vocab,
                lengths.max_seq_length,
                is_training=False,
            ):
                writer.write_examples(features)
        seconds = time.perf_counter() - began
        yield Row(
            f"SQuAD windows and records, {workers} worker"
            + "s" * (workers > 1),
            f"{len(windows) / seconds:,.0f} windows/s",
            f"{len(windows):,} in {seconds:.1f} s; reading took "
            f"{reading:.1f} s",
            {
                "windows_per_second": len(windows) / seconds,
                "seconds": seconds,
                "reading_seconds": reading,
            },
        )
    yield _decoding_row(
        data, windows, lengths.max_seq_length, tokenizer.inv_vocab, is_version_2
    )


def _decoding_row(
    data: squad_data.SquadData,
    windows: squad_windows.Windows,
    max_seq_length: int,
    tokens: Mapping[int, str],
    is_version_2: bool,
) -> Row:
    """Time decoding, n-best file and scores with random logits."""
    rng = np.random.default_rng(0)
    shape = [2, len(windows), max_seq_length]
    logits = rng.normal(0, 3, shape).astype(np.float32)
    began = time.perf_counter()
    options = squad_decoding.DecodingOptions()
    decoded = squad_decoding.decode(data, windows, *logits, tokens, options)
    decoding = time.perf_counter() - began
    squad_answers.nbest_json(decoded.nbest)
    squad_scores.score(data, decoded.answers(), is_version_2)
    whole = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return Row(
        "SQuAD decoding",
        f"{decoding:.1f} s",
        f"{whole:.1f} s with n-best file and scores; at most {peak:,.0f} MB, "
        "TensorFlow's included",
        {
            "seconds": decoding,
            "seconds_with_scores": whole,
            "megabytes": peak,
        },
    )


def _is_version_2(squad_file: str) -> bool:
    """Return whether any question has SQuAD 2.0's "is_impossible"."""
    articles = squad_data.read_json(squad_file)["data"]
    questions = (
        qa
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    )
    return any("is_impossible" in qa for qa in questions)


# --- extract_features.py -----------------------------------------------------


def measure_features(
    input_file: str, vocab_file: str, size: str
) -> Iterator[Row]:
    """Time extract_features.py with and without --pad_to_max_length.

    Args:
        input_file: sentences, one per line.
        vocab_file: a lower-cased vocabulary.
        size: one of modeling.NAMED_SIZES; the weights are random.
    """
    rates = []
    with tempfile.TemporaryDirectory(prefix="benchmark") as folder:
        _write_model(Path(folder), vocab_file, size)
        for padded in ("false", "true"):
            run = measuring.run_script(
                "extract_features.py",
                layers=-1,
                input_file=input_file,
                output_file=f"{folder}/features.jsonl",
                init_checkpoint=folder,
                pad_to_max_length=padded,
            )
            # The last one is the mean over the whole run.
            rates.append(
                float(re.findall(r"([0-9.]+) sequences/s", run.log)[-1])
            )
    yield Row(
        f"extract_features.py, {size}, last layer as JSON lines",
        f"{rates[0] / rates[1]:.1f} times padded",
        f"{rates[0]:.1f} against {rates[1]:.1f} sequences/s",
        {
            "ratio": rates[0] / rates[1],
            "sequences_per_second": rates[0],
            "padded_sequences_per_second": rates[1],
        },
    )


def _write_model(folder: Path, vocab_file: str, size: str) -> None:
    """Write a model with random weights as a checkpoint directory."""
    count = len(tokenization.load_vocab(vocab_file))
    config = modeling.BertConfig.from_size(size, vocab_size=count)
    shutil.copy(vocab_file, folder / "vocab.txt")
    (folder / "bert_config.json").write_text(config.to_json_string())
    weight_files.write(
        str(folder / "bert_model.ckpt"),
        weight_files.as_tensors(modeling.BertModel(config).variables),
    )
