"""Time three tasks on a data set: length buckets, SQuAD, feature extraction."""

import collections
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from base import text_files

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
from tools.benchmarks.measuring import Row
from training import train_step
from training.compilation import Compilation
from training.settings import Settings

BATCH_SIZE, MAX_SEQ_LENGTH = 32, 128

_ROUNDS = 3

# Length of the first step of all, which is slow since TensorFlow traces it.
_LENGTH_OF_TRACING = 4


def measure_buckets(
    task_name: str, data_dir: str, vocab_file: str, size: str, dtype: str
) -> Iterator[Row]:
    """Time a training epoch of a task in batches of similar length.

    The first row compares it with padded batches. The second compares it with
    the same batches when XLA compiles the elementwise operations of each
    length: a CPU does one or the other, by the rule of
    training/compilation.py. One step of every length that occurs is timed, and
    the time of the epoch is the sum over its batches. Lengths and ways take
    turns, so that the noise of a shared machine slows all of them alike.
    """
    tokenizer = tokenization.FullTokenizer(vocab_file)
    config = modeling.BertConfig.from_size(
        size, vocab_size=len(tokenizer.vocab)
    )
    files = glue.find(task_name)
    examples = classifier_data.read_examples(data_dir, files.train, files)
    features, _ = classifier_data.convert_examples(
        examples, files.label_id, MAX_SEQ_LENGTH, tokenizer
    )
    data = in_memory.ShortRecords(features)
    steps = data.num_records // BATCH_SIZE
    plan = data.training(BATCH_SIZE, seed=1, is_fine=True).plan
    found = collections.Counter(map(plan.length, range(steps)))
    lengths = sorted({*found, MAX_SEQ_LENGTH})
    counts = np.array([found[length] for length in lengths])  # steps of each
    order = [_LENGTH_OF_TRACING, *lengths * (1 + _ROUNDS)]
    times = zip(
        *(
            _step_seconds(config, is_compiled, dtype, order)
            for is_compiled in (False, True)
        ),
        strict=True,
    )
    # [round, length, 0: plain or 1: compiled]; in the first round XLA compiles.
    seconds = np.reshape([*times][1:], [1 + _ROUNDS, len(lengths), 2])
    best = seconds[1:].min(axis=0)
    padded = steps * best[-1, 0]
    bucketed, compiled = counts @ best
    preparing = (seconds[0] - best)[counts > 0].sum(axis=0)
    compiling = preparing[1] - preparing[0]
    what = f"{task_name} training, {size}, {dtype}, batch {BATCH_SIZE}"
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
    yield Row(
        f"{what}, elementwise operations compiled",
        f"{compiled / bucketed:.2f} times the time",
        f"an epoch of {steps} steps in {compiled:.1f} against {bucketed:.1f} "
        f"s; compiling {len(found)} lengths takes {compiling:.1f} s",
        {
            "ratio": compiled / bucketed,
            "seconds": compiled,
            "plain_seconds": bucketed,
            "compiling_seconds": compiling,
            "lengths": len(found),
        },
    )


def _step_seconds(
    config: modeling.BertConfig,
    is_compiled: bool,
    dtype: str,
    lengths: Sequence[int],
) -> Iterator[float]:
    """Make a training step for each length; yield its seconds.

    Weights and the ids of a batch are random; no row has padding.
    """
    rng = np.random.default_rng(0)

    def batches() -> Iterator[dict[str, np.ndarray]]:
        for length in lengths:
            shape = [BATCH_SIZE, length]
            yield {
                "input_ids": rng.integers(0, config.vocab_size, shape),
                "input_mask": np.ones(shape),
                "segment_ids": np.zeros(shape),
                "label_ids": rng.integers(0, 2, BATCH_SIZE),
            }

    spec = {
        name: tf.TensorSpec([BATCH_SIZE, None], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    } | {"label_ids": tf.TensorSpec([BATCH_SIZE], tf.int32)}
    iterator = iter(
        tf.data.Dataset.from_generator(batches, output_signature=spec)
    )
    step = train_step.Step(
        tf.distribute.get_strategy(),
        classifier_model.BertForSequenceClassification(config, 2, dtype=dtype),
        classifier_model.CLASSIFICATION,
        Settings("", 1000, BATCH_SIZE, dtype=dtype),
        Compilation(elementwise=is_compiled, update=True),
    )
    one = tf.constant(1, tf.int64)
    for _ in lengths:
        began = time.perf_counter()
        done, _ = step.run(iterator, one, one)
        int(done)  # waits for the device
        yield time.perf_counter() - began


def measure_squad(squad_file: str, vocab_file: str) -> Iterator[Row]:
    """Time windows, records and decoding of a SQuAD file of either version.

    Flags have their defaults. The logits are random, the slowest case for
    decoding: every n-best list is full.
    """
    tokenizer = tokenization.FullTokenizer(vocab_file)
    is_version_2 = any(
        "is_impossible" in qa
        for article in text_files.read_json(squad_file)["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    )
    began = time.perf_counter()
    data = squad_data.read_squad([squad_file], False, is_version_2)
    reading = time.perf_counter() - began
    lengths = squad_windows.Lengths()
    for workers in (1, 2):
        began = time.perf_counter()
        windows = squad_windows.convert(data, tokenizer, lengths, workers)
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
    shape = [2, len(windows), lengths.max_seq_length]
    logits = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    began = time.perf_counter()
    decoded = squad_decoding.decode(
        data,
        windows,
        *logits,
        tokenizer,
        squad_decoding.AnswerOptions(),
    )
    decoding = time.perf_counter() - began
    squad_answers.nbest_json(decoded.nbest)
    answers = {key: best.text for key, best in decoded.answers().items()}
    squad_scores.score(data, answers, is_version_2)
    whole = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    yield Row(
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


def measure_features(input_file: str, vocab_file: str, size: str) -> Row:
    """Time extract_features.py with and without --pad_to_max_length.

    The weights are random; the file has a sentence per line.
    """
    rates = []
    with tempfile.TemporaryDirectory(prefix="benchmark") as name:
        folder = Path(name)
        config = modeling.BertConfig.from_size(
            size, vocab_size=len(tokenization.load_vocab(vocab_file))
        )
        shutil.copy(vocab_file, folder / "vocab.txt")
        (folder / "bert_config.json").write_text(config.to_json_string())
        weight_files.write(
            str(folder / "bert_model.ckpt"),
            weight_files.as_tensors(modeling.BertModel(config).variables),
        )
        for padded in ("false", "true"):
            run = measuring.run_script(
                "extract_features.py",
                layers=-1,
                input_file=input_file,
                output_file=folder / "features.jsonl",
                init_checkpoint=folder,
                pad_to_max_length=padded,
            )
            # The last one is the mean over the whole run.
            rates.append(
                float(re.findall(r"([0-9.]+) sequences/s", run.log)[-1])
            )
    return Row(
        f"extract_features.py, {size}, last layer as JSON lines",
        f"{rates[0] / rates[1]:.1f} times padded",
        f"{rates[0]:.1f} against {rates[1]:.1f} sequences/s",
        {
            "ratio": rates[0] / rates[1],
            "sequences_per_second": rates[0],
            "padded_sequences_per_second": rates[1],
        },
    )
