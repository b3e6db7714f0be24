"""Divide the text into training text and held-out text, always the same way.

If there are many files, whole files are held out: the chapters of a novel name
the same people, and a model that has read half of them predicts the other half
too well. If there are few, documents are held out. Hashes of the files' names
or of the documents' texts decide which ones, so that the result depends neither
on the order of the files nor on their folder.
"""

import contextlib
import itertools
import json
import os
import random
import sys
from collections.abc import Iterable, Iterator, Sequence

from base import file_system, text_files
from base.errors import UserError
from base.hashing import hash64

from absl import logging

from tools.reproduction.work_dir import check_same, checksums, read_own

WHOLE_FILES_FROM = 10  # files
MIN_DOCUMENTS = 2  # a random next sentence comes from another document
FOLDERS = ("train", "held_out")
_SHUFFLED = "shuffled.txt"
_NAMED_FILES = 5  # held-out files that are named in the log


def path_of(work_dir: str) -> str:
    """Return the file that describes how the text was divided."""
    return os.path.join(work_dir, "corpus", "corpus.json")


def prepare(
    files: Sequence[str],
    held_out_files: Sequence[str],
    share: float,
    max_mb: float,
    vocab_file: str | None,
    work_dir: str,
) -> str:
    """Make corpus/train and corpus/held_out; return a description of both.

    Whole files are linked to, documents are copied. A second call returns the
    description of the first one, unless a folder was removed.

    Args:
        files: text, one sentence per line, a blank line between documents.
        held_out_files: the files to hold out; [] to choose.
        share: about which share of the bytes to hold out.
        max_mb: how many megabytes to take of the text, and `share` of them of
            held_out_files; 0 for the whole text.
        vocab_file: the user's vocabulary, of which only the hash is written.
        work_dir: the directory that gets the folder corpus.

    Raises:
        UserError: there are too few documents, or the directory was begun with
            another text, or it has files of somebody else.
    """
    path = path_of(work_dir)
    folders = [os.path.join(os.path.dirname(path), name) for name in FOLDERS]
    source = {"corpus.held_out_share": share, "corpus.max_mb": max_mb}
    for flag, own in (
        ("input_file", files),
        ("held_out_file", held_out_files),
        ("vocab_file", [vocab_file] if vocab_file else []),
    ):
        for name, digest in checksums(own).items():
            source[f"{name} of --{flag}"] = digest
    if known := read_own(path, how=str, source=dict):
        check_same(work_dir, "the text", known["source"], source)
        if all(map(os.path.isdir, folders)):
            return known["how"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        file_system.check_new_directory(os.path.dirname(path), "work_dir", [])
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    # It stays empty until the folders are full. A later call may then empty
    # the folders, since their files are of this script.
    file_system.write_text(path, "{}")
    for folder in folders:
        file_system.empty_folder(folder)
    with contextlib.suppress(FileNotFoundError):
        os.remove(_shuffled_path(work_dir))
    max_bytes = round(max_mb * 1e6) or sys.maxsize
    chosen = [*held_out_files]
    how = f"{len(chosen)} files of --held_out_file are held out"
    if not chosen and not max_mb and len(files) >= WHOLE_FILES_FROM:
        chosen = choose_files(files, share)
        how = f"{len(chosen)} of {len(files)} files are held out"
    if chosen:
        kept = {os.path.realpath(path) for path in chosen}
        train = [f for f in files if os.path.realpath(f) not in kept]
        limits = [max_bytes, round(share * max_bytes)] if max_mb else [0, 0]
        sizes = list(map(_fill, folders, (train, chosen), limits))
    else:
        sizes, how = _copy_documents(files, share, max_bytes, folders)
    if max_mb:
        how += f", of the first {max_mb:g} MB of the text"
    if 0 < len(chosen) <= _NAMED_FILES:
        how += f" ({', '.join(map(os.path.basename, chosen))})"
    train_mb, held_out_mb = (size / 1e6 for size in sizes)
    how += f": {train_mb:.2f} MB to train, {held_out_mb:.2f} MB held out"
    logging.info("%s", how)
    known = {"how": how, "source": source}
    file_system.write_text(path, json.dumps(known, indent=1))
    return how


def _shuffled_path(work_dir: str) -> str:
    folder = os.path.join(os.path.dirname(path_of(work_dir)), "shuffled")
    return os.path.join(folder, _SHUFFLED)


def shuffle(work_dir: str) -> None:
    """Make corpus/shuffled of corpus/train, unless it is there.

    It has the same sentences in a random order, which is always the same, and
    documents of the same lengths. The text has to fit into the memory.
    """
    path = _shuffled_path(work_dir)
    if os.path.exists(path):
        return
    folder = os.path.join(os.path.dirname(path_of(work_dir)), FOLDERS[0])
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    texts = itertools.chain.from_iterable(map(documents, files))
    sentences = [text.splitlines(keepends=True) for text in texts]
    order = list(itertools.chain.from_iterable(sentences))
    random.Random(0).shuffle(order)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with file_system.atomic_file(path) as file:
        start = 0
        for document in sentences:
            end = start + len(document)
            file.write(b"".join([*order[start:end], b"\n"]))
            start = end


def _too_few(count: int, where: str, wanted: int) -> UserError:
    return UserError(
        f"--input_file: {where} have too few documents, {count} of the "
        f"{wanted} that are wanted at least: put blank lines between documents "
        "(a random next sentence comes from another document)"
    )


def choose_files(files: Sequence[str], share: float) -> list[str]:
    """Return the files to hold out, in the order in which they were chosen.

    Files are tried in the order of the hashes of their names. A file is taken
    if it brings the bytes nearer to the share; at least one is taken.
    """
    sizes = {path: os.path.getsize(path) for path in files}
    target = share * sum(sizes.values())
    names = file_system.names_in_shared_folder(files)
    by_hash = sorted(zip(map(hash64, names), files, strict=True))
    order = [path for _, path in by_hash]
    found, total = [], 0
    for path in order:
        if abs(total + sizes[path] - target) < abs(total - target):
            found.append(path)
            total += sizes[path]
    return found or [min(order, key=lambda path: sizes[path])]


def _fill(folder: str, files: Sequence[str], max_bytes: int) -> int:
    """Link to the files, or copy documents up to a size; return the bytes."""
    some = first_documents(files, 0, MIN_DOCUMENTS)
    name = os.path.basename(folder)
    if (count := sum(1 for _ in some)) < MIN_DOCUMENTS:
        where = "training" if name == "train" else "held-out"
        raise _too_few(count, f"the {where} files", MIN_DOCUMENTS)
    if max_bytes:
        texts = first_documents(files, max_bytes, MIN_DOCUMENTS)
        return _write(folder, texts)
    for number, path in enumerate(files):
        link = f"{number:05}_{os.path.basename(path)}"
        os.symlink(os.path.abspath(path), os.path.join(folder, link))
    return sum(map(os.path.getsize, files))


def _write(folder: str, texts: Iterable[bytes]) -> int:
    """Write documents to the file of a folder; return the bytes."""
    path = os.path.join(folder, f"{os.path.basename(folder)}.txt")
    with file_system.atomic_file(path) as file:
        return sum(file.write(text + b"\n") for text in texts)


def documents(path: str) -> Iterator[bytes]:
    """Yield the documents of a file: runs of lines between blank lines."""
    lines: list[bytes] = []
    start = 0  # of the line
    with file_system.open_for_reading(path) as file:
        for line in file:
            try:
                is_blank = not line.decode().strip()
            except UnicodeDecodeError as error:
                raise text_files.utf8_error(path, file, start, error) from error
            start += len(line)
            if not is_blank:
                lines.append(line if line.endswith(b"\n") else line + b"\n")
            elif lines:
                yield b"".join(lines)
                lines = []
    if lines:
        yield b"".join(lines)


def first_documents(
    files: Sequence[str], max_bytes: int, least: int
) -> Iterator[bytes]:
    """Yield documents up to `max_bytes`, but at least `least` of them."""
    count = size = 0
    for path in files:
        for text in documents(path):
            yield text
            count, size = count + 1, size + len(text)
            if size >= max_bytes and count >= least:
                return


def _copy_documents(
    files: Sequence[str], share: float, max_bytes: int, folders: Sequence[str]
) -> tuple[list[int], str]:
    """Copy the documents to both folders; return the bytes, and a description.

    Documents are held out in the order of their hashes until they have the
    share. At least two are held out and two are kept.
    """
    least = 2 * MIN_DOCUMENTS

    def texts() -> Iterator[tuple[int, bytes]]:
        for text in first_documents(files, max_bytes, least):
            yield hash64(text), text

    hashes = [(value, len(text)) for value, text in texts()]
    order = sorted(set(hashes))
    if len(order) < least:
        raise _too_few(len(order), "all files", least)
    target = share * sum(size for _, size in order)
    total, chosen = 0, set()
    for value, size in order[:-MIN_DOCUMENTS]:
        if len(chosen) >= MIN_DOCUMENTS and total >= target:
            break
        chosen.add(value)
        total += size
    train, held_out = folders
    sizes = [
        _write(train, (text for value, text in texts() if value not in chosen)),
        _write(held_out, (text for value, text in texts() if value in chosen)),
    ]
    count = sum(value in chosen for value, _ in hashes)
    return sizes, f"{count} of {len(hashes)} documents are held out"
