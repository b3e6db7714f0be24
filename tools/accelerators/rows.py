"""Rows of compiled programs in a JSON file, a line each."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from base.errors import naming

from ops.choices import OBJECTIVES

Row = dict[str, Any]  # of a Program, "device", and figures of compiler.py

# What is compiled: steps.py says of each how it is made.
KINDS = (
    *OBJECTIVES,
    "packed",
    "accumulated",
    "muon",
    "recompute_layers",
    "recompute_attention",
    "evaluation",
    "classifier",
    "squad",
    "ner",
    "swag",
    "classifier_prediction",
    "squad_prediction",
)


class Program(NamedTuple):
    """What is compiled: one of KINDS, and its sizes.

    `batch` are the sequences of a replica, `length` their tokens.
    """

    step: str
    size: str
    length: int
    batch: int
    dtype: str
    replicas: int = 1


def job(row: Row) -> tuple[Program, str]:
    """Return the program of a row, and its device."""
    return Program(**{n: row[n] for n in Program._fields}), row["device"]


def read(path: str) -> list[Row]:
    """Return the rows of a file; none where there is no file."""
    if not Path(path).exists():
        return []
    with naming(f"--rows_file={path}", (OSError, ValueError)):
        return json.loads(Path(path).read_text("utf-8"))


def merged(rows: list[Row], new: list[Row]) -> list[Row]:
    """Return the rows in order; a new row replaces the row of the same job."""
    found = {job(row): row for row in (*rows, *new)}
    return [found[key] for key in sorted(found)]


def write(path: str, rows: list[Row]) -> None:
    """Write the rows to the file."""
    lines = ",\n".join(map(json.dumps, rows))
    Path(path).write_text(f"[\n{lines}\n]\n", "utf-8")
