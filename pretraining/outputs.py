"""Write the record files of a run, and continue a run that was killed.

A run may be killed at any moment. The same command, given again, then continues
where the first one stopped; a different command must not add its records. So
two things lie beside the output files:

    .NAME.manifest.json  the fingerprint of the command, and size and counts of
                         every output file that is complete
    .NAME.scratch        a folder with the documents of all buckets and the
                         records of finished buckets; removed at the end
"""

import collections
import contextlib
import json
import os
from collections.abc import Iterator
from typing import IO, Any

from base import file_system, resuming
from base.errors import UserError

from pretraining import buckets as pretraining_buckets
from pretraining import documents
from pretraining.plan import Plan

# --- The scratch folder ------------------------------------------------------


@contextlib.contextmanager
def locked_scratch(plan: Plan) -> Iterator[None]:
    """Make the scratch folder and lock it against other runs.

    Raises:
        UserError: another run has it.
    """
    for path in plan.output_files:
        if file_system.is_remote(path):
            file_system.gfile().makedirs(os.path.dirname(path))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
    with resuming.locked_folder(plan.buckets.scratch_dir, plan.output_files[0]):
        yield


# --- The manifest ------------------------------------------------------------


def read_manifest(plan: Plan) -> dict[str, Any]:
    """Return the manifest of earlier runs of this command, {} without one.

    Raises:
        UserError: the output files belong to a different command.
    """
    return resuming.read_manifest(
        plan.manifest,
        plan.output_files,
        plan.fingerprint,
        plan.buckets.scratch_dir,
        "output_file",
        plan.output_files[0],
    )


def write_manifest(plan: Plan, manifest: dict[str, Any]) -> None:
    """Replace the manifest of a run."""
    with file_system.atomic_file(plan.manifest) as file:
        file.write(json.dumps(manifest, indent=1).encode())


def files_to_do(plan: Plan, manifest: dict[str, Any]) -> list[int]:
    """Return the output files that are missing or not as in the manifest.

    Returns:
        Indices in `plan.output_files`.
    """
    return [
        index
        for index, path in enumerate(plan.output_files)
        if not resuming.is_complete(path, manifest["files"].get(path))
    ]


def remove_leftovers(plan: Plan) -> None:
    """Remove the temporary files of runs that were killed."""
    for path in (*plan.output_files, plan.manifest):
        file_system.remove_leftovers(path)


def discard_if_empty(plan: Plan, manifest: dict[str, Any]) -> None:
    """Remove manifest and scratch files of a run without a single instance.

    Called after bad input, so that the user can mend the input and give the
    same command again.
    """
    scratch_dir = plan.buckets.scratch_dir
    results = (
        pretraining_buckets.bucket_result(scratch_dir, bucket)
        for bucket in range(plan.num_buckets)
    )
    made = any(r and r["counts"].get("instances") for r in results)
    if not manifest["files"] and not made:
        resuming.empty_folder(scratch_dir)
        file_system.remove(plan.manifest)


# --- Output files ------------------------------------------------------------


def publish(
    plan: Plan, manifest: dict[str, Any], index: int, waiting: set[int]
) -> None:
    """Write an output file from its buckets, and enter it in the manifest.

    The first pass over the documents of all its buckets comes first, then the
    second, and so on: the copies of a sentence lie as far apart as they can.
    For two buckets a, b and dupe_factor 3: a0 b0 a1 b1 a2 b2.

    Args:
        plan: the run.
        manifest: changed in place.
        index: of the file in `plan.output_files`; its buckets are finished.
        waiting: files still to be written, from which this one is removed.
    """
    scratch_dir, path = plan.buckets.scratch_dir, plan.output_files[index]
    results = {
        bucket: pretraining_buckets.bucket_result(scratch_dir, bucket)
        for bucket in plan.buckets_of(index)
    }
    entry = {"counts": count_file(plan, index, results)}
    with file_system.atomic_file(path) as target:
        for bucket, start, end in slices_of(plan, index, results):
            source = pretraining_buckets.bucket_path(scratch_dir, bucket)
            with open(source, "rb") as file:
                copy_bytes(file, start, end, target)
        entry["bytes"] = target.tell()
    manifest["files"][path] = entry
    write_manifest(plan, manifest)
    waiting.discard(index)
    for bucket in results:
        if waiting.isdisjoint(plan.files_of(bucket)):
            os.remove(pretraining_buckets.bucket_path(scratch_dir, bucket))


def count_file(
    plan: Plan, index: int, results: dict[int, dict]
) -> dict[str, int]:
    """Return the counts of an output file.

    Those of a bucket that several files share are counted in the first.

    Args:
        plan: the run.
        index: of the file in `plan.output_files`.
        results: bucket -> what `write_bucket` returned.

    Raises:
        UserError: the file would be empty.
    """
    if not any(
        end > start for _, start, end in slices_of(plan, index, results)
    ):
        if not any(r["counts"].get("instances") for r in results.values()):
            raise documents.no_text_error(plan.input_files[0][0])
        raise too_many_files_error(plan)
    counts = collections.Counter()
    for bucket, result in results.items():
        if plan.files_of(bucket)[0] == index:
            counts.update(result["counts"])
    return dict(counts)


def too_many_files_error(plan: Plan) -> UserError:
    """Return the error for more output files than the corpus can fill."""
    return UserError(
        f"--output_file names {len(plan.output_files)} files, which are more "
        "than the documents and instances of the corpus can fill; name fewer"
    )


def slices_of(
    plan: Plan, index: int, results: dict[int, dict]
) -> Iterator[tuple[int, int, int]]:
    """Yield (bucket, start, end) of the bytes of an output file, in order."""
    for duplicate in range(plan.buckets.instances.dupe_factor):
        for bucket, result in results.items():
            sharing = plan.files_of(bucket)
            place = duplicate * len(sharing) + sharing.index(index)
            bounds = result["bounds"][place : place + 2]
            if len(bounds) == 2:  # not of a bucket without text
                yield bucket, *bounds


def copy_bytes(
    source: IO[bytes], start: int, end: int, target: IO[bytes]
) -> None:
    """Append the bytes from `start` to `end` of a file to another."""
    source.seek(start)
    while start < end:
        block = source.read(min(end - start, 2**20))
        target.write(block)
        start += len(block)
