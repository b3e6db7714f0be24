"""Write record files, and log some of their instances.

Flags, input and vocabulary are checked before any work: a mistake should end
the run in its first second.
"""

import collections
import contextlib
import dataclasses
import itertools
import math
import os
import re
from typing import NamedTuple

from base import file_system, workers
from base.errors import UserError
from base.jobs import engine
from base.jobs.run import Job

from absl import logging

from checkpoints.casing import TokenizerFiles
from pretraining.data import masking, schema, sources
from pretraining.data.schema import InstanceConfig
from pretraining.data.steps import GeneratorSteps
from records import tfrecord
from tokenization import Vocabulary

# Raise it when the same flags no longer give the same bytes. It is part of
# the fingerprint, so that no run resumes on records of another version.
_GENERATOR_VERSION = 3

_NUM_EXAMPLES_LOGGED = 20
_NUMBERS_LOGGED = 1024  # of each feature of an example
_FEATURES_LOGGED = tuple(schema.packed_schema(1, 1, 1))


class GenerationPlan(NamedTuple):
    """A run of the generator: which files to read, which to write, and how.

    Attributes:
        input_files: absolute paths of the text files, and their bytes.
        job: the record files.
        steps: how they are made.
    """

    input_files: list[tuple[str, int]]
    job: Job
    steps: GeneratorSteps


def make_plan(
    input_file: str | None,
    output_file: str,
    vocab_file: str,
    config: InstanceConfig,
    do_lower_case: bool | None = None,
    random_seed: int = 12345,
    bucket_mb: int = 4,
    compression: str = "",
    sources_file: str | None = None,
) -> GenerationPlan:
    """Check the flags of create_pretraining_data.py and return the plan.

    A file of sources takes the place of the input files. If do_lower_case is
    None, the files beside the vocabulary or the vocabulary itself decide.

    Raises:
        UserError: a value out of its range, a file or token is missing, or the
            flag contradicts the files beside the vocabulary.
    """
    config.check()
    outputs = expand_output_files(output_file)
    inputs, mix = sources.read(input_file, sources_file, random_seed)
    vocabulary = Vocabulary(vocab_file)
    masking.check_vocabulary(vocabulary.tokens, vocabulary.path, config)
    tokenizer_settings = TokenizerFiles(
        vocabulary=vocabulary, do_lower_case=do_lower_case
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
            "compression": compression,
            "random_seed": random_seed,
            "bucket_mb": bucket_mb,
            **mix.describe(),
        },
    )
    files = [(path, size) for path, size, _ in inputs]
    steps = GeneratorSteps(
        vocabulary,
        tokenizer_settings,
        config,
        random_seed,
        compression,
        bucket_mb << 20,
        count_buckets(mix.num_bytes(inputs), bucket_mb << 20, len(outputs)),
        len(outputs),
        mix,
        files[0][0],
    )
    return GenerationPlan(files, job, steps)


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
    for path in paths:
        if os.path.isdir(path):
            raise UserError(
                f"--output_file={names}: {path} is a directory; add a file name"
            )
    return paths


def generate(
    plan: GenerationPlan,
    num_workers: int | None = None,
    beam_options: str | None = None,
) -> dict[str, int]:
    """Write all output files of a plan that are not complete yet.

    Returns counts over all output files, by name; see `summary.summarize`. With
    `beam_options` a pipeline of Apache Beam does the work.

    Raises:
        UserError: bad input, or output files of a different command.
    """
    done = engine.make_files(
        plan.job,
        plan.steps,
        plan.steps.sources(plan.input_files),
        num_workers or workers.num_cores(),
        beam_options,
        sum(size for _, size in plan.input_files),
    )
    if done.todo:
        _log_examples(plan, plan.job.outputs[done.todo[0]])
    counts = collections.Counter(done.total["counts"])
    texts = done.total["num_documents"]
    counts["files_without_text"] = sum(
        not texts.get(path) for path, _ in plan.input_files
    )
    for entry in done.entries.values():
        counts.update(entry["counts"])
    return dict(counts)


def _log_examples(plan: GenerationPlan, path: str) -> None:
    """Log the first instances of a file of records, as the original does.

    Those after the first are for --verbosity=1.
    """
    vocab = plan.steps.vocabulary.tokens
    tokens = {index: token for token, index in vocab.items()}
    with contextlib.closing(tfrecord.read_records(path)) as file:
        first = itertools.islice(file, _NUM_EXAMPLES_LOGGED)
        for number, record in enumerate(first):
            log = logging.debug if number else logging.info
            features = tfrecord.decode_example(record)
            length = int(features["input_mask"].sum())
            length = min(length, _NUMBERS_LOGGED)
            shown = [tokens[i] for i in features["input_ids"][:length].tolist()]
            log("*** Example ***")
            log("tokens: %s", " ".join(shown))
            for name in _FEATURES_LOGGED:
                if name not in features:
                    continue  # a feature that only packed records have
                values = features[name][:_NUMBERS_LOGGED].tolist()
                log("%s: %s", name, " ".join(map(str, values)))
