r"""Make masked TFRecords for run_pretraining.py from plain text.

    python create_pretraining_data.py --input_file='books/*.txt' \
        --output_file=train.tfrecord@8 --vocab_file=vocab.txt

Input: one sentence per line, a blank line between documents. Output: records
with the original's features, in files `train.tfrecord-00000-of-00008`, ...

Documents are dealt out to buckets of --bucket_mb of text each, and worker
processes turn one bucket after the other into records (see
pretraining_buckets.py), so memory does not grow with the corpus. The bytes
written depend on the flags and the input alone, not on --num_workers. A file
appears when it is complete; a run that was killed goes on when the same
command is given again, and ends with the same bytes.
"""

import collections
import contextlib
import dataclasses
import hashlib
import itertools
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from base import errors, file_system, workers
from base.errors import UserError

import tqdm
from absl import flags, logging

import tokenization
from pretraining import buckets as pretraining_buckets
from pretraining import instances as pretraining_instances
from pretraining import outputs as pretraining_outputs
from pretraining.instances import InstanceConfig, describe_vocabulary
from records import tfrecord

FLAGS = flags.FLAGS

# Required
flags.DEFINE_string(
    "input_file",
    None,
    "Text files, one sentence per line, a blank line between documents: "
    "globs, separated by commas.",
)
flags.DEFINE_string(
    "output_file",
    None,
    "TFRecord files to write: paths separated by commas, or name@N for "
    "name-00000-of-0000N and so on.",
)
flags.DEFINE_string("vocab_file", None, "The WordPiece vocabulary.")

# What the records hold
flags.DEFINE_bool(
    "do_lower_case", True, "Lower-case the text: True for uncased models."
)
flags.DEFINE_bool(
    "do_whole_word_mask", False, "Mask all pieces of a word or none of them."
)
flags.DEFINE_integer("max_seq_length", 128, "Tokens per sequence.")
flags.DEFINE_integer(
    "max_predictions_per_seq",
    20,
    "Masked positions per sequence at most; about max_seq_length * "
    "masked_lm_prob.",
)
flags.DEFINE_integer("random_seed", 12345, "Seed of all random choices.")
flags.DEFINE_integer(
    "dupe_factor", 10, "Passes over the text, each with fresh masks."
)
flags.DEFINE_float("masked_lm_prob", 0.15, "Share of tokens to predict.")
flags.DEFINE_float("mask_token_prob", 0.8, "Share of those shown as [MASK].")
flags.DEFINE_float(
    "random_token_prob",
    0.1,
    "Share of those shown as a random token; the rest is shown as it is.",
)
flags.DEFINE_float(
    "short_seq_prob", 0.1, "Share of sequences made shorter than they could be."
)

# How they are made
flags.DEFINE_integer(
    "num_workers",
    None,
    "Worker processes; default: all cores. The output is the same.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "bucket_mb",
    4,
    "MB of text a worker holds at once, whatever the size of the corpus; its "
    "memory is about 100 MB and ten times this. Random next sentences come "
    "from the same bucket, and shuffling is within it.",
)
flags.DEFINE_string(
    "compression", "", "GZIP, or nothing for plain TFRecord files."
)

# Raised when the same flags would no longer give the same bytes.
_GENERATOR_VERSION = 1
_NUM_EXAMPLES_LOGGED = 20


# ---------------------------------------------------------------------------
# Flags, input and output files
# ---------------------------------------------------------------------------


def check_config(config: InstanceConfig) -> None:
    """Raise a UserError for values that cannot be meant."""
    for name, least in (
        ("max_seq_length", 8),
        ("max_predictions_per_seq", 1),
        ("dupe_factor", 1),
    ):
        value = getattr(config, name)
        if value < least:
            raise UserError(f"--{name}={value}: must be at least {least}")
    for name in (
        "masked_lm_prob",
        "mask_token_prob",
        "random_token_prob",
        "short_seq_prob",
    ):
        value = getattr(config, name)
        if not 0 <= value <= 1:
            raise UserError(f"--{name}={value}: must be between 0 and 1")
    if config.masked_lm_prob == 0:
        raise UserError("--masked_lm_prob=0: nothing would be predicted")
    total = config.mask_token_prob + config.random_token_prob
    if total > 1 + 1e-9:
        raise UserError(
            f"--mask_token_prob={config.mask_token_prob} and "
            f"--random_token_prob={config.random_token_prob} add up to "
            f"{total:g}; together they can be 1 at most"
        )


def expand_output_files(names: str) -> list[str]:
    """Return absolute paths for a comma list; `name@N` stands for N paths."""
    paths = []
    for name in names.split(","):
        base, at, number = name.rpartition("@")
        if at and re.fullmatch(r"\d+", number):
            if not 1 <= int(number) <= 99999 or not os.path.basename(base):
                raise UserError(
                    f"--output_file={name}: wanted name@N with N from 1 to "
                    "99999"
                )
            paths += [
                f"{base}-{index:05}-of-{int(number):05}"
                for index in range(int(number))
            ]
        elif not os.path.basename(name):
            raise UserError(f"--output_file={names}: {name!r} is no file name")
        else:
            paths.append(os.path.expanduser(name))
    paths = [pretraining_outputs.absolute(path) for path in paths]
    for path, times in collections.Counter(paths).items():
        if times > 1:
            raise UserError(f"--output_file={names}: {path} is named twice")
    return paths


def make_plan(
    input_file: str,
    output_file: str,
    vocab_file: str,
    config: InstanceConfig,
    do_lower_case: bool = True,
    random_seed: int = 12345,
    bucket_mb: int = 4,
    compression: str = "",
) -> pretraining_outputs.Plan:
    """Check everything that can be checked before any work is done."""
    check_config(config)
    tfrecord.check_compression(compression)
    if not 1 <= bucket_mb <= 1024:
        raise UserError(f"--bucket_mb={bucket_mb}: must be from 1 to 1024")
    outputs = expand_output_files(output_file)
    inputs = [
        pretraining_outputs.absolute(path)
        for path in file_system.find_files(input_file)
    ]
    check_vocabulary(vocab_file, do_lower_case, config)
    states = [pretraining_outputs.file_state(path) for path in inputs]
    input_bytes, bucket_bytes = sum(size for size, _ in states), bucket_mb << 20
    manifest, scratch_dir = pretraining_outputs.hidden_paths(outputs)
    settings = pretraining_buckets.BucketSettings(
        scratch_dir,
        vocab_file,
        do_lower_case,
        config,
        random_seed % 2**64,
        compression,
    )
    fingerprint = {
        "generator_version": _GENERATOR_VERSION,
        "input_file": [
            [path, *state] for path, state in zip(inputs, states, strict=True)
        ],
        "output_file": outputs,
        "vocab_file (SHA-256)": _sha256(vocab_file),
        "do_lower_case": do_lower_case,
        **dataclasses.asdict(config),
        "random_seed": random_seed,
        "bucket_mb": bucket_mb,
        "compression": compression,
    }
    return pretraining_outputs.Plan(
        inputs,
        outputs,
        max(1, math.ceil(input_bytes / (len(outputs) * bucket_bytes))),
        bucket_bytes,
        input_bytes,
        manifest,
        settings,
        fingerprint,
    )


def _sha256(path: str) -> str:
    with file_system.open_for_reading(path) as file:
        return hashlib.sha256(file.read()).hexdigest()


def check_vocabulary(
    vocab_file: str, do_lower_case: bool, config: InstanceConfig
) -> None:
    """Refuse a vocabulary that cannot do, warn of one that looks wrong."""
    vocab = tokenization.load_vocab(vocab_file)
    needed = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokenization.validate_special_tokens(vocab, needed, vocab_file)
    pieces = describe_vocabulary(vocab)
    if config.random_token_prob and not len(pieces.replacements):
        raise UserError(
            f"{vocab_file}: no token but special ones, so there is nothing "
            "to draw random replacements from"
        )
    upper = sum(vocab_token != vocab_token.lower() for vocab_token in vocab)
    looks_cased = upper > 0.02 * len(vocab) + len(needed) + 1
    if looks_cased == do_lower_case:
        logging.warning(
            "%s looks %s (%d of %d tokens hold capitals), but --do_lower_case "
            "is %s",
            vocab_file,
            "cased" if looks_cased else "uncased",
            upper,
            len(vocab),
            do_lower_case,
        )


# ---------------------------------------------------------------------------
# Making the files
# ---------------------------------------------------------------------------


def generate(
    plan: pretraining_outputs.Plan, num_workers: int
) -> dict[str, int]:
    """Write all output files that are not there yet.

    Returns:
        Counts over all output files, by name; see `summarize`.

    Raises:
        UserError: bad input, or output that is not this command's.
    """
    with pretraining_outputs.locked_scratch(plan):
        manifest = pretraining_outputs.read_manifest(plan)
        if not manifest:
            pretraining_outputs.empty_folder(plan.buckets.scratch_dir)
            manifest = {"fingerprint": plan.fingerprint, "files": {}}
        to_do = pretraining_outputs.files_to_do(plan, manifest)
        pretraining_outputs.remove_leftovers(plan)
        if to_do:
            logging.info("*** Writing to output files ***")
            for index in to_do:
                logging.info("  %s", plan.output_files[index])
            start = time.monotonic()
            try:
                pretraining_outputs.write_manifest(plan, manifest)
                _make_files(plan, manifest, to_do, num_workers)
            except UserError:
                pretraining_outputs.forget_if_nothing_was_made(plan, manifest)
                raise
            logging.info("Took %.1f s", time.monotonic() - start)
        else:
            logging.info(
                "This command has run to its end before; nothing to do."
            )
        pretraining_outputs.empty_folder(plan.buckets.scratch_dir)
    totals = collections.Counter(manifest["corpus"])
    for path in plan.output_files:
        totals.update(manifest["files"][path]["counts"])
    return dict(totals)


def _make_files(
    plan: pretraining_outputs.Plan,
    manifest: dict[str, Any],
    to_do: list[int],
    num_workers: int,
) -> None:
    scratch_dir = plan.buckets.scratch_dir
    missing, num_missing = [], {}
    for index in to_do:
        some = [
            bucket
            for bucket in plan.buckets_of(index)
            if not pretraining_buckets.bucket_result(scratch_dir, bucket)
        ]
        missing += some
        num_missing[index] = len(some)
    num_workers = min(num_workers, len(missing))
    logging.info(
        "%d of %d buckets to make, %d worker processes",
        len(missing),
        plan.num_buckets,
        num_workers,
    )
    # The workers load their vocabulary while the corpus is dealt out.
    with workers.WorkerPool(
        num_workers,
        pretraining_buckets.BucketMaker,
        plan.buckets,
        pretraining_buckets.make_bucket,
    ) as pool:
        manifest["corpus"] = _deal(plan)
        for index in to_do:
            if not num_missing[index]:
                pretraining_outputs.publish(plan, manifest, index)
        total = pretraining_buckets.dealt_bytes(scratch_dir, missing)
        with _bar("Masking", total) as bar:
            for event in pool.run(missing):
                if isinstance(event, workers.Progress):
                    bar.update(event.value)
                    continue
                if event.job == 0:
                    with bar.external_write_mode():
                        _log_examples(plan)
                index = event.job // plan.buckets_per_file
                num_missing[index] -= 1
                if not num_missing[index]:
                    pretraining_outputs.publish(plan, manifest, index)


def _bar(name: str, total: float) -> tqdm.tqdm:
    """A progress bar with MB/s and the time left; rare lines in a log file."""
    return tqdm.tqdm(
        desc=name,
        total=total,
        unit="B",
        unit_scale=True,
        mininterval=0.2 if sys.stderr.isatty() else 10,
    )


def _deal(plan: pretraining_outputs.Plan) -> dict[str, int]:
    """Deal the documents out to buckets, unless an earlier run has."""
    scratch_dir = plan.buckets.scratch_dir
    counts = pretraining_buckets.dealt_counts(scratch_dir)
    if counts is None:
        logging.info("*** Reading from input files ***")
        for path in plan.input_files:
            logging.info("  %s", path)
        with _bar("Reading", plan.input_bytes) as bar:
            counts = pretraining_buckets.deal_documents(
                plan.input_files,
                plan.num_buckets,
                plan.bucket_bytes,
                plan.buckets.random_seed,
                scratch_dir,
                bar.update,
            )
    if not counts["documents"]:
        raise pretraining_buckets.no_text_error(plan.input_files)
    if counts["documents"] == 1:
        raise pretraining_buckets.one_document_error()
    if counts["parts"] < len(plan.output_files):
        raise UserError(
            f"--output_file names {len(plan.output_files)} files, but there "
            f"are only {counts['documents']} documents to share among them"
        )
    return counts


# ---------------------------------------------------------------------------
# Telling
# ---------------------------------------------------------------------------


def _log_examples(plan: pretraining_outputs.Plan) -> None:
    """Log the first instances as the original does."""
    vocab = tokenization.load_vocab(plan.buckets.vocab_file)
    tokens = {index: token for token, index in vocab.items()}
    path = pretraining_buckets.bucket_path(plan.buckets.scratch_dir, 0)
    if not os.path.getsize(path):
        return
    with contextlib.closing(tfrecord.read_records(path)) as file:
        for record in itertools.islice(file, _NUM_EXAMPLES_LOGGED):
            features = tfrecord.decode_example(record)
            length = int(features["input_mask"].sum())
            shown = [tokens[i] for i in features["input_ids"][:length].tolist()]
            logging.info("*** Example ***")
            logging.info("tokens: %s", " ".join(shown))
            for name in pretraining_instances.schema(1, 1):
                values = " ".join(map(str, features[name].tolist()))
                logging.info("%s: %s", name, values)


def summarize(counts: dict[str, int], config: InstanceConfig) -> list[str]:
    """Return the lines of the closing summary."""
    c = collections.Counter(counts)
    instances, predictions = c["instances"], c["predictions"]
    mean_length = c["filled"] / instances
    given = c["filled"] + c["truncated_tokens"]
    return [
        f"documents: {c['documents']:,}",
        f"sentences: {c['sentences']:,} "
        f"({c['lines_without_tokens']:,} lines without a token skipped)",
        f"tokens: {c['tokens']:,}, of them [UNK] "
        f"{c['unknown_tokens'] / c['tokens']:.3%}",
        f"instances: {instances:,}",
        f"mean length: {mean_length:.1f}, "
        f"{mean_length / config.max_seq_length:.1%} of max_seq_length",
        f"tokens truncated: {c['truncated_tokens'] / given:.2%}",
        f"predictions: {predictions / instances:.2f} per instance, "
        f"{predictions / c['filled']:.2%} of the tokens; "
        f"{c['shown_as_mask'] / predictions:.2%} shown as [MASK], "
        f"{c['shown_unchanged'] / predictions:.2%} unchanged",
        f"random next sentences: {c['random_next'] / instances:.2%}",
    ]


def find_warnings(counts: dict[str, int], config: InstanceConfig) -> list[str]:
    """Return what in the counts looks as if the input were not as meant."""
    c, found = collections.Counter(counts), []
    unknown = c["unknown_tokens"] / c["tokens"]
    if unknown > 0.05:
        found.append(
            f"{unknown:.1%} of the tokens are [UNK]: is the vocabulary of "
            "this language and casing (--do_lower_case)?"
        )
    single = c["one_sentence_parts"] / c["parts_with_text"]
    if single > 0.5:
        found.append(
            f"{single:.0%} of the documents have one sentence only, so that "
            "no next sentence is a true one: blank lines belong between "
            "documents, not between sentences"
        )
    long = c["sentences_beyond_room"] / c["sentences"]
    if long > 0.1:
        found.append(
            f"{long:.0%} of the lines are longer than a sequence: is it one "
            "sentence per line?"
        )
    empty = c["lines_without_tokens"]
    if empty > 0.01 * (c["sentences"] + empty):
        found.append(f"{empty:,} lines hold no token and were skipped")
    fill = c["filled"] / c["instances"] / config.max_seq_length
    if fill < 0.5:
        found.append(
            f"sequences are filled to {fill:.0%} on average: the documents "
            "are short for this --max_seq_length"
        )
    if c["files_without_text"]:
        found.append(f"{c['files_without_text']} input files have no text")
    return found


def _warn_of_flags(config: InstanceConfig) -> None:
    wanted = config.max_seq_length * config.masked_lm_prob
    if config.max_predictions_per_seq < 0.9 * wanted:
        logging.warning(
            "--max_predictions_per_seq=%d caps the %.0f predictions that "
            "--masked_lm_prob=%g wants in a full sequence of %d",
            config.max_predictions_per_seq,
            wanted,
            config.masked_lm_prob,
            config.max_seq_length,
        )


def main(unused_argv: Sequence[str]) -> None:
    config = InstanceConfig(
        max_seq_length=FLAGS.max_seq_length,
        max_predictions_per_seq=FLAGS.max_predictions_per_seq,
        masked_lm_prob=FLAGS.masked_lm_prob,
        short_seq_prob=FLAGS.short_seq_prob,
        mask_token_prob=FLAGS.mask_token_prob,
        random_token_prob=FLAGS.random_token_prob,
        do_whole_word_mask=FLAGS.do_whole_word_mask,
        dupe_factor=FLAGS.dupe_factor,
    )
    plan = make_plan(
        FLAGS.input_file,
        FLAGS.output_file,
        FLAGS.vocab_file,
        config,
        FLAGS.do_lower_case,
        FLAGS.random_seed,
        FLAGS.bucket_mb,
        FLAGS.compression,
    )
    _warn_of_flags(config)
    try:
        counts = generate(plan, FLAGS.num_workers or workers.num_cores())
    except KeyboardInterrupt:
        logging.info("The same command goes on where this one stopped.")
        raise
    except OSError as error:
        where = error.filename or plan.output_files[0]
        raise UserError(
            f"{where}: {error.strerror or error}; mend that and give the same "
            "command again"
        ) from error
    logging.info("***** Pre-training data *****")
    for line in summarize(counts, config):
        logging.info("  %s", line)
    for line in find_warnings(counts, config):
        logging.warning(line)
    logging.info("Wrote %d total instances", counts["instances"])


if __name__ == "__main__":
    flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])
    errors.run(main)
