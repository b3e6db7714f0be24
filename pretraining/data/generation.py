"""Write record files, and log some of their instances.

Flags, input and vocabulary are checked before any work: a mistake should end
the run in its first second.
"""

import collections
import contextlib
import dataclasses
import math
import os
import re
from typing import NamedTuple

from base import beam, file_system
from base.errors import UserError
from base.flags import flag
from base.jobs import engine
from base.jobs.run import Job

from absl import logging

from checkpoints.casing import TokenizerFiles
from pretraining.data import documents, masking, schema, sources
from pretraining.data.schema import InstanceConfig
from pretraining.data.sources import DEFAULT_SEED
from pretraining.data.steps import GeneratorSteps
from records import tfrecord
from tokenization import Vocabulary

# Raise it when the same flags no longer give the same bytes. It is part of
# the fingerprint, so that no run resumes on records of another version.
_GENERATOR_VERSION = 3

_NUMBERS_LOGGED = 1024  # of each feature of an example
_FEATURES_LOGGED = tuple(schema.packed_schema(1, 1, 1))


@dataclasses.dataclass(frozen=True)
class GeneratorFlags:
    """The text, the records to write, and how they are made."""

    input_file: str | None = flag()
    """Text files, one sentence per line, a blank line between documents:
    patterns such as books/*.txt, separated by commas."""

    output_file: str = flag(required=True, is_output=True, alias="output")
    """TFRecord files to write: paths separated by commas, or name@N for N files
    name-00000-of-0000N and so on."""

    vocab_file: str = flag(required=True)
    """The WordPiece vocabulary."""

    sources: str | None = flag()
    """Instead of input_file: a TOML file that names sources, with their files,
    and weights or a smoothing over languages (docs/corpus.md)."""

    # What the records hold
    do_lower_case: bool | None = flag()
    """Lower-case the text: true for uncased models. Default: what the files of
    a tokenizer beside the vocabulary say; they also say whether accents stay
    and whether ideographs are words. Without such files: true, unless the
    vocabulary has capitals, as a cased model's has; accents stay if many of its
    tokens have them."""

    random_seed: int = flag(DEFAULT_SEED, 0, 2**32 - 1)
    """Seed of all random choices."""

    # How they are made
    bucket_mb: int = flag(4, 1, 1024)
    """MB of text that a worker process turns into records at once, a bucket; it
    needs about 100 MB of memory, and ten times the bucket. Random next
    sentences come from the same bucket, and instances are shuffled within
    it."""

    compression: str = flag("", choices=("", "GZIP"))
    """Compression of the output: GZIP, or empty for plain TFRecord files."""


class GenerationPlan(NamedTuple):
    """A run of the generator: which files to read, which to write, and how.

    Attributes:
        inputs: the states of the text files; see `input_states`.
        job: the record files.
        steps: how they are made.
    """

    inputs: list[list]
    job: Job
    steps: GeneratorSteps


def make_plan(flags: GeneratorFlags, config: InstanceConfig) -> GenerationPlan:
    """Check the flags of create_pretraining_data.py and return the plan.

    Raises:
        UserError: a value out of its range, a file or token is missing, or the
            flag contradicts the files beside the vocabulary.
    """
    config.check()
    outputs = expand_output_files(flags.output_file)
    inputs, mix = sources.read(
        flags.input_file, flags.sources, flags.random_seed
    )
    vocabulary = Vocabulary(flags.vocab_file)
    masking.check_vocabulary(vocabulary.tokens, vocabulary.path, config)
    tokenizer_settings = TokenizerFiles(
        vocabulary=vocabulary, do_lower_case=flags.do_lower_case
    ).settings
    folder, name = os.path.split(outputs[0])
    job = Job(
        outputs,
        folder,
        re.sub(r"-00000-of-\d{5}$", "", name),
        "output_file",
        {
            "generator_version": _GENERATOR_VERSION,
            "input_file": inputs,
            "output_file": outputs,
            "vocab_file (SHA-256)": vocabulary.sha256,
            **tokenizer_settings.to_dict(),
            **dataclasses.asdict(config),
            "compression": flags.compression,
            "random_seed": flags.random_seed,
            "bucket_mb": flags.bucket_mb,
            **mix.describe(),
        },
    )
    bucket_bytes = flags.bucket_mb << 20
    steps = GeneratorSteps(
        vocabulary,
        tokenizer_settings,
        config,
        flags.random_seed,
        flags.compression,
        bucket_bytes,
        count_buckets(mix.num_bytes(inputs), bucket_bytes, len(outputs)),
        len(outputs),
        mix,
    )
    return GenerationPlan(inputs, job, steps)


def count_buckets(input_bytes: int, bucket_bytes: int, num_files: int) -> int:
    """Return the number of buckets: a multiple or a divisor of the files.

    A file is made from one bucket or more. Where the corpus is too small for
    that, several files share a bucket. For example, with 8 files and
    buckets of 4 MB, a corpus of 30 MB has 8 buckets, one of 100 MB 32 and one
    of 9 MB 4.
    """
    needed = max(1, math.ceil(input_bytes / bucket_bytes))
    if needed > num_files:
        return num_files * math.ceil(needed / num_files)
    while num_files % needed:
        needed += 1
    return needed


def expand_output_files(names: str) -> list[str]:
    """Return absolute paths for a comma list; `name@N` stands for N paths.

    For example `x@2` stands for x-00000-of-00002 and x-00001-of-00002.

    Raises:
        UserError: not a file name, or one path twice.
    """
    paths = []
    for name in map(os.path.expanduser, map(str.strip, names.split(","))):
        base, at, number = name.rpartition("@")
        if at and re.fullmatch(r"\d+", number):
            # Python turns no more than 4,300 digits into a number.
            is_known = len(number) <= 5 and int(number) >= 1
            if not is_known or not os.path.basename(base):
                raise UserError(
                    f"--output_file={name}: wanted name@N with N from 1 to "
                    "99999"
                )
            paths += [
                f"{base}-{index:05}-of-{int(number):05}"
                for index in range(int(number))
            ]
        elif not os.path.basename(name):
            raise UserError(
                f"--output_file={names}: {name!r} is not a file name"
            )
        else:
            paths.append(name)
    paths = list(map(file_system.absolute_path, paths))
    files = map(file_system.real_path, paths)  # links may lead to one file
    for path, times in collections.Counter(files).items():
        if times > 1:
            raise UserError(f"--output_file={names}: {path} is named twice")
        if os.path.isdir(path):
            raise UserError(
                f"--output_file={names}: {path} is a directory; add a file name"
            )
    return paths


def generate(plan: GenerationPlan, runner: beam.Flags) -> dict[str, int]:
    """Write all output files of a plan that are not complete yet.

    Returns counts over all output files, by name; see `summary.summarize`.

    Raises:
        UserError: bad input, or output files of a different command.
    """
    done = engine.make_files(
        plan.job,
        plan.steps,
        documents.split_files(plan.inputs, documents.CHUNK_BYTES),
        runner,
        sum(size for _, size, _ in plan.inputs),
    )
    if done.todo:
        _log_example(plan, plan.job.outputs[done.todo[0]])
    counts = collections.Counter(done.total["counts"])
    texts = done.total["num_documents"]
    counts["files_without_text"] = sum(
        not texts.get(path) for path, *_ in plan.inputs
    )
    for entry in done.entries.values():
        counts.update(entry["counts"])
    return dict(counts)


def _log_example(plan: GenerationPlan, path: str) -> None:
    """Log the first instance of a file of records, as the original does."""
    vocab = plan.steps.vocabulary.tokens
    tokens = {index: token for token, index in vocab.items()}
    with contextlib.closing(tfrecord.read_records(path)) as file:
        features = tfrecord.decode_example(next(file))
    length = min(int(features["input_mask"].sum()), _NUMBERS_LOGGED)
    shown = [tokens[i] for i in features["input_ids"][:length].tolist()]
    logging.info("*** Example ***")
    logging.info("tokens: %s", " ".join(shown))
    for name in _FEATURES_LOGGED:
        if name in features:  # some are of packed records alone
            values = features[name][:_NUMBERS_LOGGED].tolist()
            logging.info("%s: %s", name, " ".join(map(str, values)))
