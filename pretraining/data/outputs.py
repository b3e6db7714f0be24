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

from pretraining.data import buckets as pretraining_buckets
from pretraining.data import documents
from pretraining.data.plan import Plan, Sharing

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
        for bucket in plan.sharing.buckets_of(index)
    }
    counts = count_file(plan.sharing, index, results, plan.input_files[0][0])
    entry = {"counts": counts}
    with file_system.atomic_file(path) as target:
        for bucket, start, end in slices_of(plan.sharing, index, results):
            source = pretraining_buckets.bucket_path(scratch_dir, bucket)
            with open(source, "rb") as file:
                copy_bytes(file, start, end, target)
        entry["bytes"] = target.tell()
    manifest["files"][path] = entry
    write_manifest(plan, manifest)
    waiting.discard(index)
    for bucket in results:
        if waiting.isdisjoint(plan.sharing.files_of(bucket)):
            os.remove(pretraining_buckets.bucket_path(scratch_dir, bucket))


def count_file(
    sharing: Sharing, index: int, results: dict[int, dict], first_input: str
) -> dict[str, int]:
    """Return the counts of an output file.

    Those of a bucket that several files share are counted in the first.

    Args:
        sharing: of the plan.
        index: of the file.
        results: bucket -> what `write_bucket` returned.
        first_input: path of the first input file, for a message.

    Raises:
        UserError: the file would be empty.
    """
    slices = slices_of(sharing, index, results)
    if not any(end > start for _, start, end in slices):
        if sharing.num_files == 1:
            raise documents.no_text_error(first_input)
        raise UserError(
            f"--output_file names {sharing.num_files} files, which are more "
            "than the documents and instances of the corpus can fill; name "
            "fewer"
        )
    counts = collections.Counter()
    for bucket, result in results.items():
        if sharing.files_of(bucket)[0] == index:
            counts.update(result["counts"])
    return dict(counts)


def slices_of(
    sharing: Sharing, index: int, results: dict[int, dict]
) -> Iterator[tuple[int, int, int]]:
    """Yield (bucket, start, end) for the slices of records of an output file.

    Args:
        sharing: of the plan.
        index: of the file.
        results: bucket -> what `write_bucket` returned; start and end are
            offsets in the bucket's file.
    """
    for duplicate in range(sharing.dupe_factor):
        for bucket, result in results.items():
            files = sharing.files_of(bucket)
            place = duplicate * len(files) + files.index(index)
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
