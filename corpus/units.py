"""Turn a chunk of input into the files of a unit.

A unit is what a worker process does at once, and what a run that continues
another need not do again. Its files lie in the scratch folder:

    unit-000012.train    documents: their texts in the order of their keys, and
    unit-000012.heldout  behind them uint64 [documents, 2]: key, end of text
    unit-000012.json     counts, problems and sizes; written last, so it shows
                         that the unit is complete

As the documents are in the order of their keys, those of a shard, or of any
other range of keys, are read in one piece.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

import numpy as np

from corpus import documents
from corpus.documents import HELDOUT, TRAIN, DocumentSettings
from corpus.items import Chunk, Item, Problem

SPLITS = (TRAIN, HELDOUT)

# Problems of a unit that are listed; all are counted.
MAX_PROBLEMS = 100

# What is counted of every input file.
_SUMS = ("items", "bytes", "problems")

# Progress is reported after so many bytes of items.
_REPORT_BYTES = 2**18


class UnitSettings(NamedTuple):
    """All settings of a worker process.

    Attributes:
        scratch_dir: folder of the units.
        documents: what the documents depend on.
        is_strict: whether the first problem ends the run.
    """

    scratch_dir: str
    documents: DocumentSettings
    is_strict: bool


class Unit(NamedTuple):
    """Sizes of the files of a unit.

    Attributes:
        index: number of its chunk.
        num_documents: by split.
        num_bytes: of all texts, by split.
    """

    index: int
    num_documents: dict[str, int]
    num_bytes: dict[str, int]


# --- Writing -----------------------------------------------------------------


def make_unit(
    settings: UnitSettings, chunk: Chunk, report: Callable[[int], None]
) -> tuple[list[str], int]:
    """Write the files of a unit.

    Args:
        settings: of the run.
        chunk: the input.
        report: called as the work goes on, with numbers that add up to
            `chunk.num_bytes`.

    Returns:
        The lines of its first problems, and the bytes of its items.

    Raises:
        UserError: there is a problem and the run is strict.
    """
    texts, result = gather(settings, chunk, report)
    for split in SPLITS:
        path = unit_path(settings.scratch_dir, chunk.index, split)
        result["num_bytes"][split] = _write_texts(path, texts[split])
    path = unit_path(settings.scratch_dir, chunk.index, "json")
    with file_system.atomic_file(path, sync=False) as file:
        file.write(json.dumps(result).encode())
    lines = [problem.line() for problem in result["problems"]]
    return lines, result["counts"]["input_bytes"]


def gather(
    settings: UnitSettings, chunk: Chunk, report: Callable[[int], None]
) -> tuple[dict[str, dict[int, bytes]], dict[str, Any]]:
    """Return the documents of a chunk, and its result; see `make_unit`.

    Returns:
        Key -> text of the distinct documents, by split; and what
        `unit_result` returns.
    """
    texts = {split: {} for split in SPLITS}
    counts, problems, inputs = collections.Counter(), [], {}
    for item in _reporting(chunk, report):
        outcome = documents.make_document(item, settings.documents)
        if outcome.problem:
            if settings.is_strict:
                raise UserError(f"{outcome.problem.line()} (--strict)")
            problems.append(outcome.problem)
        _count_input(item, outcome.problem, inputs)
        counts.update(outcome.counts)
        counts["input_bytes"] += len(item.data)
        if outcome.document:
            key, split, text = outcome.document
            counts["duplicates"] += add_text(texts[split], key, text)
    return texts, {
        "end": chunk.end,
        "num_documents": {split: len(texts[split]) for split in SPLITS},
        "num_bytes": {
            split: sum(map(len, texts[split].values())) for split in SPLITS
        },
        "counts": counts,
        "problems": problems[:MAX_PROBLEMS],
        "inputs": inputs,
    }


def add_text(texts: dict[int, bytes], key: int, text: bytes) -> bool:
    """Add a document; return whether one with this key was there already.

    The texts of two documents with equal keys may differ in white space. The
    smaller one is kept, whichever comes first.
    """
    known = texts.get(key)
    texts[key] = text if known is None else min(text, known)
    return known is not None


def _reporting(chunk: Chunk, report: Callable[[int], None]) -> Iterator[Item]:
    """Yield the items of a chunk and report their share of its bytes."""
    total = sum(len(item.data) for item in chunk.items)
    done = reported = last = 0
    for item in chunk.items:
        yield item
        done += len(item.data)
        if done - last > _REPORT_BYTES:
            last = done
            now = chunk.num_bytes * done // total
            report(now - reported)
            reported = now
    report(chunk.num_bytes - reported)


def _count_input(
    item: Item, problem: Problem | None, inputs: dict[str, Any]
) -> None:
    """Count an item for its file."""
    source = item.source
    entry = inputs.setdefault(
        source.path,
        {"kind": source.kind, "language": source.language}
        | dict.fromkeys(_SUMS, 0),
    )
    # The report of a damaged file is not one of its items.
    entry["items"] += bool(item.data or not problem)
    entry["bytes"] += len(item.data)
    entry["problems"] += problem is not None


def _write_texts(path: str, texts: Mapping[int, bytes]) -> int:
    """Write documents in the order of their keys; return the texts' bytes."""
    keys = sorted(texts)
    index = np.empty([len(keys), 2], np.uint64)
    index[:, 0] = keys
    with file_system.atomic_file(path, sync=False) as file:
        for number, key in enumerate(keys):
            file.write(texts[key])
            index[number, 1] = file.tell()
        size = file.tell()
        file.write(index.tobytes())
    return size


# --- Reading -----------------------------------------------------------------


def unit_path(scratch_dir: str, index: int, name: str) -> str:
    """Return the path of a file of a unit: of a split, or "json"."""
    return os.path.join(scratch_dir, f"unit-{index:06}.{name}")


def unit_result(scratch_dir: str, index: int) -> dict[str, Any] | None:
    """Return what `make_unit` has written to the JSON file, None without it.

    Returns:
        end: where the next chunk begins.
        num_documents, num_bytes: see `Unit`.
        counts: numbers by name.
        problems: the first ones, as lists of the values of `Problem`.
        inputs: kind, language and numbers by path.
    """
    try:
        with open(unit_path(scratch_dir, index, "json"), "rb") as file:
            result = json.loads(file.read())
        # No file is synced to the disk. So after a power failure any of them
        # may be incomplete.
        for split in SPLITS:
            wanted = result["num_bytes"][split]
            wanted += 16 * result["num_documents"][split]
            path = unit_path(scratch_dir, index, split)
            if os.path.getsize(path) != wanted:
                return None
        return result
    except (FileNotFoundError, ValueError):
        return None


def sum_results(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of the results of units.

    Returns:
        units: their number.
        documents: in all of them; a document may be in several.
        counts, problems, inputs: as in `unit_result`.
    """
    number = num_documents = 0
    counts, problems, inputs = collections.Counter(), [], {}
    for result in results:
        number += 1
        num_documents += sum(result["num_documents"].values())
        counts.update(result["counts"])
        problems += result["problems"][: MAX_PROBLEMS - len(problems)]
        for path, entry in result["inputs"].items():
            add_input_entry(inputs, path, entry)
    return {
        "units": number,
        "documents": num_documents,
        "counts": dict(counts),
        "problems": problems,
        "inputs": inputs,
    }


def add_input_entry(
    inputs: dict[str, Any], path: str, entry: dict[str, Any]
) -> None:
    """Add the numbers of an input file to those of the same file."""
    known = inputs.setdefault(path, {**entry, **dict.fromkeys(_SUMS, 0)})
    for name in _SUMS:
        known[name] += entry[name]


def as_unit(index: int, result: dict[str, Any]) -> Unit:
    """Return the sizes in the result of a unit."""
    return Unit(index, result["num_documents"], result["num_bytes"])


def read_texts(
    scratch_dir: str, unit: Unit, split: str, low: int, high: int
) -> Iterator[tuple[int, bytes]]:
    """Yield (key, text) of a unit's documents, from key `low` to `high` - 1."""
    number, size = unit.num_documents[split], unit.num_bytes[split]
    if not number:
        return
    with open(unit_path(scratch_dir, unit.index, split), "rb") as file:
        file.seek(size)
        index = np.frombuffer(file.read(), np.uint64).reshape(number, 2)
        keys = index[:, 0]
        first, last = (
            int(np.searchsorted(keys, np.uint64(bound)))
            if bound < 2**64
            else number
            for bound in (low, high)
        )
        ends = index[first:last, 1].tolist()
        begin = int(index[first - 1, 1]) if first else 0
        file.seek(begin)
        for key, end in zip(keys[first:last].tolist(), ends, strict=True):
            yield key, file.read(end - begin)
            begin = end
