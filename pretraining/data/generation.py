"""Write the record files of a plan with worker processes.

    text files --dealing--> buckets --worker processes--> records of a bucket
    records of its buckets --outputs.publish--> output file

The memory needed does not grow with the corpus. Each file appears when it is
complete.
"""

import collections
import contextlib
import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

from base import progress, resuming, workers
from base.errors import UserError

from absl import logging

import tokenization
from pretraining.data import buckets as pretraining_buckets
from pretraining.data import dealing, documents, outputs
from pretraining.data import schema as pretraining_schema
from pretraining.data.plan import Plan
from records import tfrecord

_NUM_EXAMPLES_LOGGED = 20
_FEATURES_LOGGED = tuple(pretraining_schema.packed_schema(1, 1, 1))


def generate(plan: Plan, num_workers: int) -> dict[str, int]:
    """Write all output files that are not complete yet.

    Args:
        plan: the run.
        num_workers: number of processes on this machine.

    Returns:
        Counts over all output files, by name; see `summary.summarize`.

    Raises:
        UserError: bad input, or output files of a different command.
    """
    return run(plan, functools.partial(_make_files, num_workers=num_workers))


def generate_on_beam(plan: Plan, beam_options: str) -> dict[str, int]:
    """Do the same with Apache Beam, which is imported here.

    Args:
        plan: the run.
        beam_options: see base/beam.py.

    Returns:
        As `generate`.
    """
    from pretraining.data import on_beam

    def make_files(
        plan: Plan, manifest: dict[str, Any], to_do: list[int]
    ) -> None:
        on_beam.make_files(plan, manifest, to_do, beam_options)
        _log_examples(plan, plan.output_files[0])

    return run(plan, make_files)


def run(
    plan: Plan, make_files: Callable[[Plan, dict[str, Any], list[int]], None]
) -> dict[str, int]:
    """Write the output files of a plan that are not complete yet.

    Args:
        plan: the run.
        make_files: called with the plan, the manifest, which it keeps up to
            date, and the indices of the files to make.

    Returns:
        Counts over all output files, by name; see `summary.summarize`.

    Raises:
        UserError: bad input, or output files of a different command.
    """
    with outputs.locked_scratch(plan):
        manifest = outputs.read_manifest(plan)
        if not manifest:
            resuming.empty_folder(plan.buckets.scratch_dir)
            manifest = {"fingerprint": plan.fingerprint, "files": {}}
        to_do = outputs.files_to_do(plan, manifest)
        outputs.remove_leftovers(plan)
        if to_do:
            logging.info("*** Writing to output files ***")
            for index in to_do:
                logging.info("  %s", plan.output_files[index])
            start = time.monotonic()
            try:
                outputs.write_manifest(plan, manifest)
                make_files(plan, manifest, to_do)
                # Workers of a killed run may have been there at the beginning.
                outputs.remove_leftovers(plan)
            except UserError:
                outputs.discard_if_empty(plan, manifest)
                raise
            logging.info("Took %.1f s", time.monotonic() - start)
        else:
            logging.info("All output files are complete; nothing to do.")
        resuming.empty_folder(plan.buckets.scratch_dir)
    totals = collections.Counter(manifest["corpus"])
    for path in plan.output_files:
        totals.update(manifest["files"][path]["counts"])
    return dict(totals)


def _make_files(
    plan: Plan, manifest: dict[str, Any], to_do: list[int], num_workers: int
) -> None:
    """Make the output files with the indices `to_do`."""
    scratch_dir = plan.buckets.scratch_dir
    # Buckets that an earlier run has not finished, and how many each file has.
    missing, num_missing, waiting = [], {}, set(to_do)
    for index in to_do:
        some = [
            bucket
            for bucket in plan.sharing.buckets_of(index)
            if not pretraining_buckets.bucket_result(scratch_dir, bucket)
        ]
        missing += [bucket for bucket in some if bucket not in missing[-1:]]
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
        # Files whose buckets an earlier run has finished.
        for index in to_do:
            if not num_missing[index]:
                outputs.publish(plan, manifest, index, waiting)
        total = dealing.count_bytes(scratch_dir, missing)
        with progress.bar(total, "B", "Masking", unit_scale=True) as bar:
            for event in pool.run(missing):
                if isinstance(event, workers.Progress):
                    bar.update(event.value)
                    continue
                # An event of a finished bucket.
                if event.job == 0:
                    path = pretraining_buckets.bucket_path(scratch_dir, 0)
                    _log_examples(plan, path)
                for index in plan.sharing.files_of(event.job):
                    if index in num_missing:
                        num_missing[index] -= 1
                        if not num_missing[index]:
                            outputs.publish(plan, manifest, index, waiting)


def _deal(plan: Plan) -> dict[str, int]:
    """Deal the documents out to buckets, unless an earlier run has done it.

    Returns:
        Counts: documents, parts, files_without_text.

    Raises:
        UserError: too few documents.
    """
    scratch_dir = plan.buckets.scratch_dir
    counts = dealing.dealt_counts(scratch_dir)
    if counts is None:
        logging.info("*** Reading from input files ***")
        for path, _ in plan.input_files:
            logging.info("  %s", path)
        with progress.bar(
            plan.input_bytes, "B", "Reading", unit_scale=True
        ) as bar:
            counts = dealing.deal_documents(
                [path for path, _ in plan.input_files],
                plan.num_buckets,
                plan.bucket_bytes,
                plan.buckets.random_seed,
                scratch_dir,
                bar.update,
            )
    check_counts(plan, counts)
    return counts


def check_counts(plan: Plan, counts: dict[str, int]) -> None:
    """Raise a UserError if there are too few documents.

    Args:
        plan: the run.
        counts: documents and parts of the corpus.
    """
    if not counts["documents"]:
        raise documents.no_text_error(plan.input_files[0][0])
    if counts["documents"] == 1:
        raise documents.one_document_error()
    if counts["parts"] < len(plan.output_files):
        raise UserError(
            f"--output_file names {len(plan.output_files)} files, but there "
            f"are only {counts['documents']} documents to share among them; "
            "name fewer"
        )


def _log_examples(plan: Plan, path: str) -> None:
    """Log the first instances of a file of records, as the original does."""
    if not resuming.file_state(path)[0]:
        return  # a bucket without text
    vocab = tokenization.load_vocab(plan.buckets.vocab_file)
    tokens = {index: token for token, index in vocab.items()}
    with contextlib.closing(tfrecord.read_records(path)) as file:
        for record in itertools.islice(file, _NUM_EXAMPLES_LOGGED):
            features = tfrecord.decode_example(record)
            length = int(features["input_mask"].sum())
            shown = [tokens[i] for i in features["input_ids"][:length].tolist()]
            logging.info("*** Example ***")
            logging.info("tokens: %s", " ".join(shown))
            for name in _FEATURES_LOGGED:
                if name not in features:
                    continue  # of packed records only
                values = " ".join(map(str, features[name].tolist()))
                logging.info("%s: %s", name, values)
