"""Open a run of a job, write its files one by one, and resume it if killed.

A run may be killed at any moment. The same command then resumes where the first
one stopped; a different command must not add its files. So two things lie
beside the output files:

    .NAME.manifest.json  the fingerprint of the command and, once the run has
                         ended, an entry for each file and the run's total
    .NAME.scratch        a folder with unfinished work, and an entry for each
                         file that is complete; removed at the end

An entry is written behind its file, so a file with an entry is complete.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from base import file_system, logs, text_files
from base.errors import UserError

from absl import logging

# Names in a fingerprint that have the files of a model.
_MODELS = {"model", "init_checkpoint"}


class Target(NamedTuple):
    """An output file, and the JSON file that is written behind it."""

    path: str
    entry: str


@dataclasses.dataclass(frozen=True)
class Job:
    """What a command writes.

    Manifest and scratch folder are hidden, so that patterns over the output do
    not match them.

    Attributes:
        outputs: absolute paths of its files; none if the total is all.
        folder: where the manifest and the scratch folder lie. If `flag` names
            a directory, the outputs are below it.
        name: after which these two are named.
        flag: the flag that names the output; "" for files that the command
            removes again: then files of another command may be replaced.
        fingerprint: everything the files depend on; the keys are names of
            flags, or words, since messages show them. A list of files names
            them by path or by [path, ...].
        model: what a message calls the model whose files the fingerprint has.
    """

    outputs: list[str]
    folder: str
    name: str
    flag: str
    fingerprint: dict[str, Any]
    model: str = ""

    @property
    def label(self) -> str:
        """What messages call the output: its directory or first file."""
        is_folder = self.flag == "output_dir" or not self.outputs
        return self.folder if is_folder else self.outputs[0]

    @property
    def manifest(self) -> str:
        """The path of the manifest."""
        return os.path.join(self.folder, f".{self.name}.manifest.json")

    @property
    def shared_dir(self) -> str:
        """The folder of unfinished work that all machines reach."""
        return os.path.join(self.folder, f".{self.name}.scratch")

    @property
    def scratch_dir(self) -> str:
        """The local folder of unfinished work; locked during a run.

        It differs from `shared_dir` if the output is remote, since worker
        processes read and write it in small pieces.
        """
        if not file_system.is_remote(self.folder):
            return self.shared_dir
        digest = hashlib.sha256(self.manifest.encode()).hexdigest()
        name = f"{self.name}_{digest[:16]}"
        return os.path.join(file_system.private_folder(), name)

    def target(self, index: int) -> Target:
        """Return the paths for an output file, given its index."""
        entry = os.path.join(self.shared_dir, f"file-{index:05}.json")
        return Target(self.outputs[index], entry)


class Run:
    """A run of a job; `open_run` opens it.

    Attributes:
        job: what it writes.
        todo: indices of the output files that were not complete when the run
            began.
        total: what `finish` was given, by this run or an earlier one of the
            same command; None if none has finished.
        entries: path -> `bytes`, and what else is known, of each output file
            that is complete.
    """

    def __init__(self, job: Job, manifest: dict[str, Any]):
        self.job = job
        self.entries: dict[str, Any] = dict(manifest.get("files", {}))
        self._read_entries()
        paths = enumerate(job.outputs)
        self.todo = [n for n, path in paths if not self._is_complete(path)]
        self.total = manifest.get("total")

    def finish(self, total: Any = None) -> None:
        """Write the manifest with the total of all files; remove the rest."""
        self._read_entries()
        for path in self.job.outputs:
            if not self._is_complete(path):
                raise UserError(
                    f"{path} has disappeared during the run; give the same "
                    "command again"
                )
        self.entries = {path: self.entries[path] for path in self.job.outputs}
        if self.todo or self.total is None:
            self.total = total
            _write_manifest(self.job, files=self.entries, total=total)
        _empty(self.job)

    def discard(self) -> None:
        """Forget the command, if none of its files is complete.

        For input from which nothing can be made: the user will mend the input
        or the flags, which makes it a different command.
        """
        self._read_entries()
        if not any(map(self.entries.get, self.job.outputs)):
            _empty(self.job)
            file_system.remove(self.job.manifest)

    def _read_entries(self) -> None:
        there = dict(file_system.files_below(self.job.shared_dir))
        for index, path in enumerate(self.job.outputs):
            entry = self.job.target(index).entry
            is_there = os.path.basename(entry) in there
            if is_there and (found := text_files.read_own_json(entry)):
                self.entries[path] = found

    def _is_complete(self, path: str) -> bool:
        """Whether a file has the size that its entry says."""
        entry, state = self.entries.get(path), file_system.file_state(path)
        if not entry or not state:
            return False
        size, wanted = state[0], entry.get("bytes")
        if size != wanted:
            words = "%s has %d bytes instead of %s: it is made again"
            logging.warning(words, path, size, wanted)
        return size == wanted


@contextlib.contextmanager
def open_run(job: Job) -> Iterator[Run]:
    """Lock a job against other runs, and find what is left to do.

    Call `Run.finish` inside the block when all files are complete. Without that
    call everything stays, for the next run of the same command to resume.

    Raises:
        UserError: another run has the lock, the files belong to a different
            command, or the block fails with an OSError, such as that of a
            full disk.
    """
    try:
        for folder in sorted({*map(os.path.dirname, job.outputs)}):
            file_system.make_directories(folder)
        with file_system.locked_folder(job.scratch_dir, job.label):
            manifest = _read_manifest(job)
            if not manifest:
                _empty(job)
            file_system.make_directories(job.shared_dir)
            _remove_leftovers(job)
            run = Run(job, manifest)
            if run.todo or run.total is None:
                _write_manifest(job, files=manifest.get("files", {}))
            yield run
            # Workers of a killed run may have been there at the beginning.
            _remove_leftovers(job)
    except KeyboardInterrupt:
        logs.say("Give the same command again to resume this run.")
        raise
    except OSError as error:
        raise UserError(
            f"{error.filename or job.label}: {error.strerror or error}; mend "
            "that and give the same command again"
        ) from error


@contextlib.contextmanager
def publish(
    target: Target, sync: bool = True
) -> Iterator[tuple[IO[bytes], dict[str, Any]]]:
    """Open an output file for writing; it appears when it is complete.

    Yields the file and its entry. The caller adds to the entry what later runs
    have to know of the file, in types of JSON; `bytes` are added here. Several
    processes may write the same file at once, as long as they write the same
    bytes. For `sync` see `atomic_file`.
    """
    entry: dict[str, Any] = {}
    with file_system.atomic_file(target.path, sync) as file:
        yield file, entry
        entry["bytes"] = file.tell()
    with file_system.atomic_file(target.entry, sync=False) as file:
        file.write(json.dumps(entry).encode())


def remove(job: Job) -> None:
    """Remove all files of a job."""
    for folder in (job.scratch_dir, job.shared_dir):
        file_system.remove_directory(folder)
    for path in (*job.outputs, job.manifest):
        if file_system.exists(path):
            file_system.remove(path)


def read_manifest(path: str) -> dict[str, Any]:
    """Return a manifest; {} if there is none or it is damaged."""
    manifest = text_files.read_own_json(path)
    checksum = manifest.pop("checksum", None)
    return manifest if checksum == _checksum(manifest) else {}


def _read_manifest(job: Job) -> dict[str, Any]:
    """Return the manifest of earlier runs of a command, {} without one."""
    outputs = filter(file_system.file_state, job.outputs)
    manifest = read_manifest(job.manifest)
    if not manifest:
        if job.flag and (path := next(outputs, None)):
            raise UserError(
                f"{path} exists, but was not written by this command "
                f"(there is no {job.manifest}, or it is damaged or of an older "
                f"version); delete it or name another --{job.flag}"
            )
        return {}
    models = manifest.get("model", ""), job.model
    found = differences(manifest["fingerprint"], job.fingerprint, models)
    if not found:
        return manifest
    is_begun = (
        os.listdir(job.scratch_dir)
        or any(file_system.files_below(job.shared_dir))
        or any(map(file_system.file_state, manifest["files"]))
        or any(outputs)
    )
    if not (job.flag and is_begun):
        return {}
    files = f"the files and {job.manifest}"
    if job.label == job.folder:
        files = f"{job.folder}, if it holds nothing else"
    raise UserError(
        f"{job.label} was begun by a different command or with other files: "
        f"{'; '.join(found)}. Name another --{job.flag}, or delete {files}"
    )


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def differences(
    old: dict[str, Any], new: dict[str, Any], models: tuple[str, str] = ("", "")
) -> list[str]:
    """Return a phrase for each difference between two fingerprints.

    Another model brings other differences with it: one phrase has the names of
    the two `models`, and the log has the rest.
    """
    new = json.loads(json.dumps(new))  # The old one has been through JSON.
    for name in _MODELS & old.keys() & new.keys():
        if old[name] != new[name]:
            others = differences({**old, name: None}, {**new, name: None})
            before, now = models
            if before == now:
                return [f"its model {now} has changed since", *others]
            logging.info("Another model; more differences: %s", others)
            return [f"its model is {before or 'another'}, not {now}"]
    found = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            found += differences(before, now)
            continue
        shown = name if " " in name else f"--{name}"
        if not (isinstance(before, list) and isinstance(now, list)):
            found.append(f"{shown} was {before}, is {now}")
            continue
        changed = [x for x in before + now if x not in before or x not in now]
        item = (changed or now)[0]  # if only the order differs, any item
        path = item[0] if isinstance(item, list) else item
        states = [x for x in changed if isinstance(x, list) and x[0] == path]
        if list(map(len, states)) == [3, 3]:  # a file's path, size and digest
            (_, old_size, _), (_, size, _) = states
            sized = f"{old_size:,} bytes, now {size:,}"
            if old_size == size:
                sized = "the same size, other content or time of change"
            found.append(f"{path} has changed since ({sized})")
        else:
            found.append(f"{shown}, first difference at {path}")
    return found


def _write_manifest(job: Job, **content: Any) -> None:
    # Without indent, which would take a slow encoder: there may be a hundred
    # thousand files in it.
    content = {"fingerprint": job.fingerprint, **content}
    if job.model:
        content["model"] = job.model
    content["checksum"] = _checksum(content)
    file_system.write_text(job.manifest, json.dumps(content))


def _remove_leftovers(job: Job) -> None:
    for path in (*job.outputs, job.manifest):
        file_system.remove_leftovers(path)


def _empty(job: Job) -> None:
    """Remove unfinished work; the local folder itself stays locked."""
    for entry in os.scandir(job.scratch_dir):
        with contextlib.suppress(FileNotFoundError):
            os.remove(entry.path)
    if job.shared_dir != job.scratch_dir:
        file_system.remove_directory(job.shared_dir)
