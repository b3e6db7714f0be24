"""Where pre-training records go, and what earlier runs have left there.

A run can be killed at any moment. The same command, given again, must go on
where it stopped, and a different one must not mix its records in. So each set
of output files has a manifest beside it (hidden, lest globs over the records
find it), with all that decides their bytes and with the files that are
complete; and a scratch folder, with the documents dealt out to buckets and
the records of finished buckets, which is removed at the end.
"""

import collections
import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from base import file_system
from base.errors import UserError

from absl import logging

from pretraining import buckets as pretraining_buckets


class Plan(NamedTuple):
    """What is to be made, from what, and where.

    fingerprint: all that decides the bytes of the output, by flag name.
    """

    input_files: list[str]
    output_files: list[str]
    buckets_per_file: int
    bucket_bytes: int
    input_bytes: int
    manifest: str
    buckets: pretraining_buckets.BucketSettings
    fingerprint: dict[str, Any]

    @property
    def num_buckets(self) -> int:
        return self.buckets_per_file * len(self.output_files)

    def buckets_of(self, file_index: int) -> range:
        start = file_index * self.buckets_per_file
        return range(start, start + self.buckets_per_file)


def file_state(path: str) -> list[int] | None:
    """Return size and time of change, None when there is no such file."""
    if file_system.is_remote(path):
        if not file_system.gfile().exists(path):
            return None
        state = file_system.gfile().stat(path)
        return [state.length, state.mtime_nsec]
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return None
    return [state.st_size, state.st_mtime_ns]


def absolute(path: str) -> str:
    return path if file_system.is_remote(path) else os.path.abspath(path)


def hidden_paths(output_files: Sequence[str]) -> tuple[str, str]:
    """Return where the manifest and the scratch folder of some files are."""
    folder, name = os.path.split(output_files[0])
    name = re.sub(r"-00000-of-\d{5}$", "", name)
    manifest = os.path.join(folder, f".{name}.manifest.json")
    scratch_dir = os.path.join(folder, f".{name}.scratch")
    if file_system.is_remote(folder):
        # Workers write and read there in pieces, which wants a local disk.
        digest = hashlib.sha256("\n".join(output_files).encode()).hexdigest()
        name = f"pretraining_data_{digest[:16]}"
        scratch_dir = os.path.join(tempfile.gettempdir(), name)
    return manifest, scratch_dir


# ---------------------------------------------------------------------------
# What has been done: the manifest
# ---------------------------------------------------------------------------


@contextlib.contextmanager
def locked_scratch(plan: Plan) -> Iterator[None]:
    """Make the scratch folder, keep other runs out while it is in use."""
    scratch_dir = plan.buckets.scratch_dir
    for path in plan.output_files:
        if file_system.is_remote(path):
            file_system.gfile().makedirs(os.path.dirname(path))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
    os.makedirs(scratch_dir, exist_ok=True)
    lock = _lock(scratch_dir, plan)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)
        with contextlib.suppress(OSError):
            os.rmdir(scratch_dir)  # Goes only when it is empty.


def _lock(folder: str, plan: Plan) -> int | None:
    """Lock a folder until the descriptor returned is closed, or we die."""
    try:
        import fcntl
    except ImportError:  # Not on Windows; there two runs are not told apart.
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(
            f"another run is writing {plan.output_files[0]}; wait for its end"
        ) from None
    except OSError:  # Some network file systems have no locks.
        pass
    return descriptor


def read_manifest(plan: Plan) -> dict[str, Any]:
    """Return what earlier runs of this command have left.

    Raises:
        UserError: the output files belong to a different command.
    """
    if file_state(plan.manifest) is None:
        for path in plan.output_files:
            if file_state(path) is not None:
                raise UserError(
                    f"{path} exists and is not of this command (there is no "
                    f"{plan.manifest}); delete it or name another "
                    "--output_file"
                )
        return {}
    with file_system.open_for_reading(plan.manifest) as file:
        manifest = json.loads(file.read())
    if manifest["files"] and not (
        any(map(file_state, manifest["files"]))
        or os.listdir(plan.buckets.scratch_dir)
    ):
        return {}  # All it speaks of has been deleted.
    differences = _differences(manifest["fingerprint"], plan.fingerprint)
    if differences:
        raise UserError(
            f"{plan.output_files[0]} was begun by a different command: "
            f"{'; '.join(differences)}. Name another --output_file, or delete "
            f"the files and {plan.manifest}"
        )
    return manifest


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Say what differs between two fingerprints."""
    new = json.loads(json.dumps(new))
    found = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if name in ("input_file", "output_file"):
            changed = [item for item in before if item not in now]
            changed += [item for item in now if item not in before]
            item = (changed or now)[0]
            path = item[0] if isinstance(item, list) else item
            found.append(f"--{name}, first difference at {path}")
        else:
            found.append(f"--{name} was {before}, is {now}")
    return found


def write_manifest(plan: Plan, manifest: dict[str, Any]) -> None:
    with file_system.atomic_file(plan.manifest) as file:
        file.write(json.dumps(manifest, indent=1).encode())


def files_to_do(plan: Plan, manifest: dict[str, Any]) -> list[int]:
    """Return which output files are not there as the manifest says."""
    to_do = []
    for index, path in enumerate(plan.output_files):
        entry, state = manifest["files"].get(path), file_state(path)
        if not entry or not state or entry["bytes"] != state[0]:
            if entry and state:
                logging.warning(
                    "%s has %d bytes instead of %d: it is made again",
                    path,
                    state[0],
                    entry["bytes"],
                )
            to_do.append(index)
    return to_do


def remove_leftovers(plan: Plan) -> None:
    """Remove the temporary files of runs that were killed."""
    for path in (*plan.output_files, plan.manifest):
        file_system.remove_leftovers(path)


def empty_folder(folder: str) -> None:
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))


def forget_if_nothing_was_made(plan: Plan, manifest: dict[str, Any]) -> None:
    """After bad input leave nothing, so that the next run starts afresh."""
    scratch_dir = plan.buckets.scratch_dir
    results = (
        pretraining_buckets.bucket_result(scratch_dir, bucket)
        for bucket in range(plan.num_buckets)
    )
    made = any(r and r["counts"].get("instances") for r in results)
    if not manifest["files"] and not made:
        empty_folder(scratch_dir)
        os.remove(plan.manifest)


def publish(plan: Plan, manifest: dict[str, Any], index: int) -> None:
    """Put an output file together from its buckets.

    First the first pass over the documents of all its buckets, then the
    second, and so on: the copies of a sentence lie as far apart as they can.
    """
    scratch_dir, path = plan.buckets.scratch_dir, plan.output_files[index]
    results = {
        bucket: pretraining_buckets.bucket_result(scratch_dir, bucket)
        for bucket in plan.buckets_of(index)
    }
    counts = collections.Counter()
    for result in results.values():
        counts.update(result["counts"])
    if not counts["instances"]:
        raise pretraining_buckets.no_text_error(plan.input_files)
    with file_system.atomic_file(path) as target:
        for duplicate in range(plan.buckets.instances.dupe_factor):
            for bucket, result in results.items():
                bounds = result["bounds"][duplicate : duplicate + 2]
                if len(bounds) == 2:
                    _copy(
                        pretraining_buckets.bucket_path(scratch_dir, bucket),
                        *bounds,
                        target,
                    )
        size = target.tell()
    manifest["files"][path] = {"bytes": size, "counts": dict(counts)}
    write_manifest(plan, manifest)
    for bucket in results:
        os.remove(pretraining_buckets.bucket_path(scratch_dir, bucket))


def _copy(path: str, start: int, end: int, target: IO[bytes]) -> None:
    with open(path, "rb") as source:
        source.seek(start)
        while start < end:
            block = source.read(min(end - start, 2**20))
            target.write(block)
            start += len(block)
