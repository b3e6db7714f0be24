"""What benchmark.py measures of tasks: length buckets, SQuAD, features.

A file of its own since it needs data sets, which the rest of benchmark.py
does without.
"""

import collections
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from base.errors import UserError

import numpy as np
import tensorflow as tf

import modeling
import optimization
import tokenization
from checkpoints import weight_files
from classifier import model as classifier_model
from classifier import records as classifier_records
from classifier import tasks as classifier_tasks
from records import in_memory
from squad import answers as squad_answers
from squad import data as squad_data
from squad import decoding as squad_decoding
from squad import scores as squad_scores
from squad import windows as squad_windows
from training import train_step
from training.settings import Settings

Lines = Iterator[tuple[str, str, str]]  # what, value, note

BATCH_SIZE, MAX_SEQ_LENGTH = 32, 128

_ROUNDS = 3

# --- Length buckets ---------------------------------------------------------


def measure_buckets(
    task_name: str, data_dir: str, vocab_file: str, size: str
) -> Lines:
    """Compare an epoch in batches of like length with a padded one.

    Every length that occurs is timed, in turns with the full one, so that a
    noisy machine slows all of them; an epoch is the sum over its batches.

    Args:
        task_name: of run_classifier.py.
        data_dir: its files.
        vocab_file: lower-cased.
        size: of the model, whose weights are random.
    """
    tokenizer = tokenization.FullTokenizer(vocab_file)
    config = modeling.BertConfig.from_size(
        size, vocab_size=len(tokenizer.vocab)
    )
    data = _training_data(task_name, data_dir, tokenizer)
    steps = data.num_records // BATCH_SIZE
    plan = data.training(BATCH_SIZE, seed=1, is_fine=True).plan
    counts = collections.Counter(map(plan.length, range(steps)))
    run = _step_of(config)
    lengths = sorted({*counts, MAX_SEQ_LENGTH})
    for length in lengths:
        run(length)
    seconds = dict.fromkeys(lengths, float("inf"))
    for _ in range(_ROUNDS):
        for length in lengths:
            seconds[length] = min(seconds[length], run(length))
    bucketed = sum(count * seconds[n] for n, count in counts.items())
    padded = steps * seconds[MAX_SEQ_LENGTH]
    tokens = plan.lengths.mean()
    yield (
        f"{task_name} training, {size}, batch {BATCH_SIZE}, like lengths",
        f"{padded / bucketed:.2f} times padded",
        f"{steps * BATCH_SIZE / bucketed:.1f} against "
        f"{steps * BATCH_SIZE / padded:.1f} examples/s; {tokens:.0f} of "
        f"{MAX_SEQ_LENGTH} tokens in the mean",
    )


def _training_data(
    task_name: str, data_dir: str, tokenizer: tokenization.FullTokenizer
) -> in_memory.ShortRecords:
    task = classifier_tasks.task_of(task_name)
    with tempfile.TemporaryDirectory(prefix="benchmark") as folder:
        return classifier_records.ClassifierRecords(
            task,
            data_dir,
            folder,
            tokenizer,
            len(tokenizer.vocab),
            MAX_SEQ_LENGTH,
            pad_to_max_length=False,
        ).split("train", task.train)


def _step_of(config: modeling.BertConfig) -> Callable[[int], float]:
    """Return a function that trains on full rows of a length and times it."""
    model = classifier_model.BertForSequenceClassification(config, 2)
    optimizer = optimization.create_optimizer()
    optimizer.create_slots(model.trainable_variables)
    step = train_step.Step(
        tf.distribute.get_strategy(),
        model,
        classifier_model.CLASSIFICATION,
        optimizer,
        optimization.create_schedule(1e-5, 1000, 100),
        Settings(
            "", 1000, BATCH_SIZE, jit_compile=False, jit_compile_update=True
        ),
    )
    rng = np.random.default_rng(0)
    one = tf.constant(1, tf.int64)
    spec = {
        name: tf.TensorSpec([BATCH_SIZE, None], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    } | {"label_ids": tf.TensorSpec([BATCH_SIZE], tf.int32)}
    wanted = [0]

    def batches() -> Iterator[dict[str, np.ndarray]]:
        while True:
            shape = [BATCH_SIZE, wanted[0]]
            yield {
                "input_ids": rng.integers(0, config.vocab_size, shape),
                "input_mask": np.ones(shape),
                "segment_ids": np.zeros(shape),
                "label_ids": rng.integers(0, 2, BATCH_SIZE),
            }

    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    options = tf.data.Options()
    # A batch made ahead would have the length that was wanted before.
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    iterator = iter(dataset.with_options(options))

    def run(length: int) -> float:
        wanted[0] = length
        began = time.perf_counter()
        done, _ = step.run(iterator, tf.constant(1, tf.int64), one)
        int(done)  # waits for the device
        return time.perf_counter() - began

    return run


# --- SQuAD ------------------------------------------------------------------


def measure_squad(squad_file: str, vocab_file: str) -> Lines:
    """Time windows, records and decoding of a file, at the default flags.

    Decoding is of random logits, whose n-best lists are as full as can be.
    """
    tokenizer = tokenization.FullTokenizer(vocab_file)
    began = time.perf_counter()
    data = squad_data.read_squad([squad_file], False, _is_version_2(squad_file))
    reading = time.perf_counter() - began
    lengths = squad_windows.Lengths()
    for workers in (1, 2):
        began = time.perf_counter()
        windows = squad_windows.convert_all(data, tokenizer, lengths, workers)
        with tempfile.TemporaryDirectory(prefix="benchmark") as folder:
            squad_windows.write_records(
                str(Path(folder) / "r"),
                windows,
                data.examples,
                tokenizer.vocab,
                lengths.max_seq_length,
                is_training=False,
            )
        seconds = time.perf_counter() - began
        yield (
            f"SQuAD windows and records, {workers} worker",
            f"{len(windows) / seconds:,.0f} windows/s",
            f"{len(windows):,} in {seconds:.1f} s; reading took "
            f"{reading:.1f} s",
        )
    rng = np.random.default_rng(0)
    shape = [2, len(windows), lengths.max_seq_length]
    logits = rng.normal(0, 3, shape).astype(np.float32)
    began = time.perf_counter()
    options = squad_decoding.DecodingOptions()
    tokens = tokenizer.inv_vocab
    decoded = squad_decoding.decode(data, windows, *logits, tokens, options)
    decoding = time.perf_counter() - began
    squad_answers.nbest_json(decoded.nbest)
    squad_scores.score(data, decoded.answers(), _is_version_2(squad_file))
    whole = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    yield (
        "SQuAD decoding",
        f"{decoding:.1f} s",
        f"{whole:.1f} s with n-best file and scores; at most {peak:,.0f} MB, "
        "TensorFlow's among them",
    )


def _is_version_2(squad_file: str) -> bool:
    """Whether a file says of its questions whether they have an answer."""
    articles = squad_data.read_json(squad_file)["data"]
    questions = (
        qa
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    )
    return any("is_impossible" in qa for qa in questions)


# --- extract_features.py ----------------------------------------------------


def measure_features(input_file: str, vocab_file: str, size: str) -> Lines:
    """Time extract_features.py as it is, and with every batch padded.

    Args:
        input_file: sentences, one per line.
        vocab_file: lower-cased.
        size: of the model, whose weights are random.
    """
    rates = []
    with tempfile.TemporaryDirectory(prefix="benchmark") as folder:
        _write_model(Path(folder), vocab_file, size)
        for padded in ("false", "true"):
            rates.append(
                _extraction_rate(
                    f"--input_file={input_file}",
                    f"--output_file={folder}/features.jsonl",
                    f"--init_checkpoint={folder}",
                    f"--pad_to_max_length={padded}",
                )
            )
    yield (
        f"extract_features.py, {size}, last layer as JSON lines",
        f"{rates[0] / rates[1]:.1f} times padded",
        f"{rates[0]:.1f} against {rates[1]:.1f} sequences/s",
    )


def _write_model(folder: Path, vocab_file: str, size: str) -> None:
    count = len(tokenization.load_vocab(vocab_file))
    config = modeling.BertConfig.from_size(size, vocab_size=count)
    shutil.copy(vocab_file, folder / "vocab.txt")
    (folder / "bert_config.json").write_text(config.to_json_string())
    weight_files.write(
        str(folder / "bert_model.ckpt"),
        weight_files.as_tensors(modeling.BertModel(config).variables),
    )


def _extraction_rate(*flags: str) -> float:
    """Return the sequences/s a run says of itself."""
    script = Path(__file__).resolve().parents[1] / "extract_features.py"
    command = [sys.executable, str(script), "--layers=-1", *flags]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        last = run.stderr.strip().rpartition("\n")[2]
        raise UserError(last.removeprefix("ERROR: "))
    return float(re.findall(r"([0-9.]+) sequences/s", run.stderr)[-1])
