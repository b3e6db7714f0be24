"""Divide the text into training text and held-out text, always the same way.

Where there are many files, whole files are held out: the chapters of a novel
name the same people, so a model that has read half of them predicts the other
half too well. Else documents are held out. Which ones follows from the hash of
the file's name or of the document's text, so that the order of the files and
the place where they stand do not matter.
"""

import itertools
import json
import os
import sys
from collections.abc import Iterator, Sequence

from base import file_system, resuming, text_files
from base.errors import UserError
from base.hashing import hash64

from absl import logging

from pretraining.data import documents as pretraining_documents
from tools.reproduction.work_dir import check_same, checksums

WHOLE_FILES_FROM = 10  # files
# A random next sentence comes from another document.
MIN_DOCUMENTS = 2
FOLDERS = ("train", "held_out")
_BUCKET_BYTES = 4 << 20  # --bucket_mb of create_pretraining_data.py
_NAME = "corpus.json"  # what became of the text
_NAMED_FILES = 5  # held-out files that are named in the log


def is_prepared(work_dir: str) -> bool:
    """Return whether `prepare` has finished in a work directory."""
    path = os.path.join(work_dir, "corpus", _NAME)
    return text_files.read_own_json(path) is not None


def prepare(
    files: Sequence[str],
    held_out_files: Sequence[str],
    share: float,
    max_mb: float,
    num_record_files: int,
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
        num_record_files: corpus.num_record_files, none of which may be empty.
        vocab_file: of the user, only noted; None without one.
        work_dir: gets the folder corpus.

    Raises:
        UserError: too few documents, or the directory was begun with another
            text.
    """
    folder = os.path.join(work_dir, "corpus")
    path = os.path.join(folder, _NAME)
    folders = [os.path.join(folder, name) for name in FOLDERS]
    source = {"corpus.held_out_share": share, "corpus.max_mb": max_mb}
    for flag, own in (
        ("input_file", files),
        ("held_out_file", held_out_files),
        ("vocab_file", [vocab_file] if vocab_file else []),
    ):
        for name, digest in checksums(own).items():
            source[f"{name} of --{flag}"] = digest[:16]
    known = text_files.read_own_json(path)
    if known is not None:
        check_same(work_dir, "the text", known["source"], source)
    is_there = known is not None and all(map(os.path.isdir, folders))
    if not is_there:
        for part in folders:
            os.makedirs(part, exist_ok=True)
            resuming.empty_folder(part)
        how = _divide(files, held_out_files, share, max_mb, folder)
        logging.info("%s", how)
        known = {"how": how, "source": source}
    check_files(folder, num_record_files)
    if not is_there:
        file_system.write_text(path, json.dumps(known, indent=1))
    return known["how"]


def check_files(folder: str, num_files: int) -> None:
    """Check that no file of records would be empty.

    create_pretraining_data.py deals documents out to the files, long ones in
    parts, so there have to be as many parts as files.

    Args:
        folder: of `prepare`.
        num_files: corpus.num_record_files; no more parts are counted.

    Raises:
        UserError: names the key and a value that it may have.
    """
    count = num_documents = 0
    train = os.path.join(folder, FOLDERS[0])
    part_size = pretraining_documents.part_size(_BUCKET_BYTES)
    for name in sorted(os.listdir(train)):
        file = pretraining_documents.Range(os.path.join(train, name))
        for part in pretraining_documents.read_parts(
            file, part_size, _BUCKET_BYTES
        ):
            num_documents += part.index == 0
            count += 1
            if count >= num_files:
                return
    raise UserError(
        f"--input_file: the documents to train on ({num_documents}) have "
        f"{count} parts, fewer than the {num_files} files of records: give "
        f"--set=corpus.num_record_files={count}, or put blank lines between "
        "documents"
    )


def _divide(
    files: Sequence[str],
    held_out_files: Sequence[str],
    share: float,
    max_mb: float,
    folder: str,
) -> str:
    """Fill the folders; return how, in words; see `prepare`."""
    max_bytes = round(max_mb * 1e6) or sys.maxsize
    chosen = [*held_out_files]
    how = f"{len(chosen)} files of --held_out_file are held out"
    if not chosen and not max_mb and len(files) >= WHOLE_FILES_FROM:
        chosen = choose_files(files, share)
        how = f"{len(chosen)} of {len(files)} files are held out"
    if chosen:
        kept = {os.path.realpath(path) for path in chosen}
        train = [f for f in files if os.path.realpath(f) not in kept]
        limits = (max_bytes, round(share * max_bytes))
        sizes = {
            name: _fill(os.path.join(folder, name), part, max_mb and limit)
            for name, part, limit in zip(
                FOLDERS, (train, chosen), limits, strict=True
            )
        }
    else:
        sizes, how = _copy_documents(files, share, max_bytes, folder)
    if max_mb:
        how += f", of the first {max_mb:g} MB of the text"
    if 0 < len(chosen) <= _NAMED_FILES:
        how += f" ({', '.join(map(os.path.basename, chosen))})"
    return how + (
        f": {sizes['train'] / 1e6:.2f} MB to train, "
        f"{sizes['held_out'] / 1e6:.2f} MB held out"
    )


# --- Whole files -------------------------------------------------------------


def choose_files(files: Sequence[str], share: float) -> list[str]:
    """Return the files to hold out, in the order in which they were chosen.

    The files come in the order of the hashes of their names. One is taken if
    it brings the bytes nearer to the share; at least one is taken.

    Args:
        files: local paths.
        share: of all bytes.
    """
    sizes = {path: os.path.getsize(path) for path in files}
    target = share * sum(sizes.values())
    order = sorted(files, key=lambda path: hash64(os.path.basename(path)))
    found, total = [], 0
    for path in order:
        if abs(total + sizes[path] - target) < abs(total - target):
            found.append(path)
            total += sizes[path]
    return found or [min(order, key=lambda path: sizes[path])]


def _fill(folder: str, files: Sequence[str], max_bytes: float) -> int:
    """Link to whole files, or copy their first documents; return the bytes.

    Args:
        folder: of one part.
        files: whose documents it gets, two at least.
        max_bytes: of documents to copy; 0: link to the files.
    """
    name = os.path.basename(folder)
    found = itertools.chain.from_iterable(map(documents, files))
    count = sum(1 for _ in itertools.islice(found, MIN_DOCUMENTS))
    if count < MIN_DOCUMENTS:
        where = "training" if name == "train" else "held-out"
        raise _too_few(count, f"the {where} files", MIN_DOCUMENTS)
    size = 0
    if not max_bytes:
        for number, path in enumerate(files):
            link = f"{number:05}_{os.path.basename(path)}"
            os.symlink(os.path.abspath(path), os.path.join(folder, link))
            size += os.path.getsize(path)
        return size
    with file_system.atomic_file(os.path.join(folder, f"{name}.txt")) as file:
        for text in first_documents(files, max_bytes, MIN_DOCUMENTS):
            file.write(text + b"\n")
            size += len(text) + 1
    return size


def _too_few(count: int, where: str, wanted: int) -> UserError:
    have = "1 document" if count == 1 else f"{count} documents"
    return UserError(
        f"--input_file: {where} have {have}, wanted {wanted} at least: put "
        "blank lines between documents (a random next sentence comes from "
        "another document)"
    )


# --- Documents ---------------------------------------------------------------


def documents(path: str) -> Iterator[bytes]:
    """Yield the documents of a file: runs of lines between blank lines.

    Raises:
        UserError: a line is not UTF-8.
    """
    lines: list[bytes] = []
    with file_system.open_for_reading(path) as file:
        for number, line in enumerate(file, 1):
            if _decoded(line, path, number).strip():
                lines.append(line if line.endswith(b"\n") else line + b"\n")
            elif lines:
                yield b"".join(lines)
                lines = []
    if lines:
        yield b"".join(lines)


def _decoded(line: bytes, path: str, number: int) -> str:
    """Return a line as text; raise a UserError if it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        head = line if number == 1 else b""
        raise UserError(
            f"{path}: line {number} is not UTF-8: byte "
            f"0x{line[error.start]:02x} at column {error.start + 1}; "
            f"{text_files.how_to_mend_utf8(head)}"
        ) from error


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


def choose_documents(
    hashes: Sequence[tuple[int, int]], share: float
) -> set[int]:
    """Return the hashes of the documents to hold out.

    Args:
        hashes: (hash, bytes) of every document.
        share: of all bytes; two documents at least are held out and two kept.
    """
    total, chosen = 0, set()
    order = sorted(set(hashes))
    target = share * sum(size for _, size in order)
    for value, size in order[:-MIN_DOCUMENTS]:
        if len(chosen) >= MIN_DOCUMENTS and total >= target:
            break
        chosen.add(value)
        total += size
    return chosen


def _copy_documents(
    files: Sequence[str], share: float, max_bytes: int, folder: str
) -> tuple[dict[str, int], str]:
    """Write both parts; return their bytes and how they were divided."""
    least = 2 * MIN_DOCUMENTS
    hashes = [
        (hash64(text), len(text))
        for text in first_documents(files, max_bytes, least)
    ]
    if len(set(hashes)) < least:
        raise _too_few(len(set(hashes)), "all files", least)
    chosen = choose_documents(hashes, share)
    sizes = dict.fromkeys(FOLDERS, 0)
    paths = [os.path.join(folder, name, f"{name}.txt") for name in FOLDERS]
    with (
        file_system.atomic_file(paths[0]) as train,
        file_system.atomic_file(paths[1]) as held_out,
    ):
        for text in first_documents(files, max_bytes, least):
            is_held_out = hash64(text) in chosen
            (held_out if is_held_out else train).write(text + b"\n")
            sizes[FOLDERS[is_held_out]] += len(text) + 1
    count = sum(value in chosen for value, _ in hashes)
    return sizes, f"{count} of {len(hashes)} documents are held out"
