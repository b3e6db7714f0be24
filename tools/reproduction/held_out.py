"""Divide the text into training text and held-out text, always the same way.

Where there are many files, whole files are held out: the chapters of a novel
name the same people, so a model that has read half of them predicts the other
half too well. Else documents are held out. Which ones follows from the hash of
the file's name or of the document's text, so that the order of the files and
the place where they stand do not matter.
"""

import contextlib
import itertools
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence

from base import file_system, text_files
from base.errors import UserError
from base.hashing import hash64

from absl import logging

from tools.reproduction.work_dir import check_same, checksums, read_own

WHOLE_FILES_FROM = 10  # files
# A random next sentence comes from another document.
MIN_DOCUMENTS = 2
FOLDERS = ("train", "held_out")
_SHUFFLED = "shuffled.txt"
_NAMED_FILES = 5  # held-out files that are named in the log


def path_of(work_dir: str) -> str:
    """Return the file that says what became of the text."""
    return os.path.join(work_dir, "corpus", "corpus.json")


def prepare(
    files: Sequence[str],
    held_out_files: Sequence[str],
    share: float,
    max_mb: float,
    vocab_file: str | None,
    work_dir: str,
) -> str:
    """Make corpus/train and corpus/held_out; return in words what is there.

    Whole files are linked to, documents are copied. A second call reads what
    the first one did, unless a folder was removed.

    Args:
        files: text, one sentence per line, a blank line between documents.
        held_out_files: to hold out, given by the user; [] to choose.
        share: of the bytes to hold out, about.
        max_mb: take the first documents up to this size, of held_out_files up
            to `share` of it; 0: all of them.
        vocab_file: of the user, only noted.
        work_dir: gets the folder corpus.

    Raises:
        UserError: too few documents, or the directory was begun with another
            text, or has files of somebody else.
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
    # Empty until the folders are full: what is in them is this script's.
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
    how += (
        f": {sizes[0] / 1e6:.2f} MB to train, {sizes[1] / 1e6:.2f} MB held out"
    )
    logging.info("%s", how)
    known = {"how": how, "source": source}
    file_system.write_text(path, json.dumps(known, indent=1))
    return how


def _shuffled_path(work_dir: str) -> str:
    folder = os.path.join(os.path.dirname(path_of(work_dir)), "shuffled")
    return os.path.join(folder, _SHUFFLED)


def shuffle(work_dir: str) -> None:
    """Make corpus/shuffled of corpus/train, in memory, unless it is there.

    It has the same sentences in random order, always the same one, in documents
    of as many sentences.
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

    The files come in the order of the hashes of their names. One is taken if
    it brings the bytes nearer to the share; at least one is taken.
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
    """Link to the files, or copy first documents; return the bytes."""
    name = os.path.basename(folder)
    some = itertools.islice(
        itertools.chain.from_iterable(map(documents, files)), MIN_DOCUMENTS
    )
    if (count := sum(1 for _ in some)) < MIN_DOCUMENTS:
        where = "training" if name == "train" else "held-out"
        raise _too_few(count, f"the {where} files", MIN_DOCUMENTS)
    if not max_bytes:
        for number, path in enumerate(files):
            link = f"{number:05}_{os.path.basename(path)}"
            os.symlink(os.path.abspath(path), os.path.join(folder, link))
        return sum(map(os.path.getsize, files))
    with file_system.atomic_file(os.path.join(folder, f"{name}.txt")) as file:
        return sum(
            file.write(text + b"\n")
            for text in first_documents(files, max_bytes, MIN_DOCUMENTS)
        )


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
    """Yield documents until they have `max_bytes`, at least `least` of them."""
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
    """Write both parts; return their bytes and how they were divided.

    The documents are held out in the order of their hashes, until they have
    the share; two at least are held out and two kept.
    """
    least = 2 * MIN_DOCUMENTS
    hashes = [
        (hash64(text), len(text))
        for text in first_documents(files, max_bytes, least)
    ]
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
    sizes = [0, 0]
    paths = [os.path.join(f, f"{os.path.basename(f)}.txt") for f in folders]
    with (
        file_system.atomic_file(paths[0]) as train,
        file_system.atomic_file(paths[1]) as held_out,
    ):
        for text in first_documents(files, max_bytes, least):
            is_held_out = hash64(text) in chosen
            file = held_out if is_held_out else train
            sizes[is_held_out] += file.write(text + b"\n")
    count = sum(value in chosen for value, _ in hashes)
    return sizes, f"{count} of {len(hashes)} documents are held out"
