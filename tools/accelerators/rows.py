"""Rows of compiled programs in a JSON file, a line each."""

import json
from pathlib import Path
from typing import Any

from base.errors import naming

from tools.accelerators import steps
from tools.accelerators.steps import Program
from training import memory

Row = dict[str, Any]  # of a Program, "device", and figures of compiler.py


def job(row: Row) -> tuple[Program, str]:
    """Return the program of a row, and its device."""
    return Program(**{n: row[n] for n in Program._fields}), row["device"]


def sizes(row: Row) -> memory.Sizes | None:
    """Return what memory.py estimates a training row from; else None."""
    if "parameters" not in row:
        return None
    return steps.sizes(job(row)[0], row["parameters"], row["logits"])


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
