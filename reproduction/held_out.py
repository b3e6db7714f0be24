"""Divide the text into training text and held-out text, always the same way.

Where there are many files, whole files are held out: the chapters of a novel
name the same people, so a model that has read half of them predicts the other
half too well. Else documents are held out. Which ones follows from the hash of
the file's name or of the document's text, so that the order of the files and
the place where they stand do not matter.
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from base import file_system, resuming, text_files
from base.errors import UserError
from base.hashing import hash64

from absl import logging

WHOLE_FILES_FROM = 10  # files
# A random next sentence comes from another document.
MIN_DOCUMENTS = 2
FOLDERS = ("train", "held_out")


class Text(NamedTuple):
    """What became of the text; kept in corpus/corpus.json.

    Attributes:
        how: in words.
        num_bytes: {"train": bytes, "held_out": bytes}.
        held_out: names of the held-out files; [] if documents are held out.
    """

    how: str
    num_bytes: dict[str, int]
    held_out: list[str]


def prepare(
    files: Sequence[str],
    held_out_files: Sequence[str],
    share: float,
    folder: str,
) -> Text:
    """Make the folders train and held_out; return what is in them.

    Whole files are linked to, documents are copied. A second call with the
    same folder reads what the first one did.

    Args:
        files: text, one sentence per line, a blank line between documents.
        held_out_files: to hold out, given by the user; [] to choose.
        share: of the bytes to hold out, about.
        folder: local path.

    Raises:
        UserError: too few documents.
    """
    path = os.path.join(folder, "corpus.json")
    known = text_files.read_own_json(path)
    if known is not None:
        return Text(**known)
    if held_out_files:
        chosen = [*held_out_files]
        how = f"{len(chosen)} files of --held_out_file are held out"
    elif len(files) >= WHOLE_FILES_FROM:
        chosen = choose_files(files, share)
        how = f"{len(chosen)} of {len(files)} files are held out"
    else:
        chosen = []
        how = ""
    for name in FOLDERS:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        resuming.empty_folder(os.path.join(folder, name))
    if chosen:
        kept = {os.path.realpath(path) for path in chosen}
        train = [f for f in files if os.path.realpath(f) not in kept]
        sizes = _link(train, chosen, folder)
    else:
        sizes, how = _copy(files, share, folder)
    text = Text(how, sizes, [os.path.basename(path) for path in chosen])
    logging.info(
        "%s%s: %.2f MB to train, %.2f MB held out",
        how,
        f" ({', '.join(text.held_out)})" if 0 < len(chosen) <= 5 else "",
        sizes["train"] / 1e6,
        sizes["held_out"] / 1e6,
    )
    file_system.write_text(path, json.dumps(text._asdict()))
    return text


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


def _link(
    train: Sequence[str], held_out: Sequence[str], folder: str
) -> dict[str, int]:
    """Link to whole files; return the bytes of both parts."""
    found = {}
    for name, part in zip(FOLDERS, (train, held_out), strict=True):
        _check_documents(part, name)
        for number, path in enumerate(part):
            link = f"{number:05}_{os.path.basename(path)}"
            os.symlink(os.path.abspath(path), os.path.join(folder, name, link))
        found[name] = sum(map(os.path.getsize, part))
    return found


def _check_documents(files: Sequence[str], part: str) -> None:
    """Check that a part has two documents at least; reads no more than that."""
    count = 0
    for path in files:
        for _ in documents(path):
            count += 1
            if count >= MIN_DOCUMENTS:
                return
    where = "the training files" if part == "train" else "the held-out files"
    raise _too_few(count, where, MIN_DOCUMENTS)


def _too_few(count: int, where: str, wanted: int) -> UserError:
    have = "1 document" if count == 1 else f"{count} documents"
    return UserError(
        f"--input_file: {where} have {have}, wanted {wanted} at least: put "
        "blank lines between documents (a random next sentence comes from "
        "another document)"
    )


# --- Documents ---------------------------------------------------------------


def documents(path: str) -> Iterator[bytes]:
    """Yield the documents of a file: runs of lines between blank lines."""
    lines: list[bytes] = []
    with file_system.open_for_reading(path) as file:
        for line in file:
            if line.strip():
                lines.append(line if line.endswith(b"\n") else line + b"\n")
            elif lines:
                yield b"".join(lines)
                lines = []
    if lines:
        yield b"".join(lines)


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


def _copy(
    files: Sequence[str], share: float, folder: str
) -> tuple[dict[str, int], str]:
    """Write both parts; return their bytes and how they were divided."""
    hashes = [
        (hash64(text), len(text)) for path in files for text in documents(path)
    ]
    if len(set(hashes)) < 2 * MIN_DOCUMENTS:
        raise _too_few(len(set(hashes)), "all files", 2 * MIN_DOCUMENTS)
    chosen = choose_documents(hashes, share)
    sizes = dict.fromkeys(FOLDERS, 0)
    paths = {n: os.path.join(folder, n, f"{n}.txt") for n in FOLDERS}
    with (
        file_system.atomic_file(paths["train"]) as train,
        file_system.atomic_file(paths["held_out"]) as held_out,
    ):
        for path in files:
            for text in documents(path):
                is_held_out = hash64(text) in chosen
                name = FOLDERS[is_held_out]
                (held_out if is_held_out else train).write(text + b"\n")
                sizes[name] += len(text) + 1
    count = sum(value in chosen for value, _ in hashes)
    return sizes, f"{count} of {len(hashes)} documents are held out"
