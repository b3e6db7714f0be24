"""The table that benchmark.py prints, and the JSON object that ends it.

People read the table: one row per figure, printed as soon as it is measured.
Scripts read the last line of standard output, which holds the same figures as
plain numbers:

    python benchmark.py | tail -n 1 | python -m json.tool
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tools import machine as tools_machine


class Row(NamedTuple):
    """One row of the table.

    Attributes:
        what: what was measured; several rows may share it.
        value: the figure with its unit.
        note: how it was measured, or figures beside it.
        figures: the same as numbers, {name with unit: number}, for the JSON
            object.
    """

    what: str
    value: str
    note: str
    figures: Mapping[str, float] = {}


def machine() -> dict[str, Any]:
    """Return processor, cores, GPUs and versions of this machine."""
    gpus = [d.name for d in tf.config.list_logical_devices("GPU")]
    found = tools_machine.describe()
    return {
        "processor": found["processor"],
        "cores": int(found["cores"]),
        "gpus": gpus,
        **{n.lower(): found[n] for n in ("Python", "TensorFlow", "numpy")},
    }


def describe(values: Mapping[str, Any]) -> str:
    """Return one line about a machine.

    Args:
        values: see machine().
    """
    devices = ", ".join([f"{values['cores']} cores", *values["gpus"]])
    return (
        f"{values['processor']}, {devices}; Python {values['python']}, "
        f"TensorFlow {values['tensorflow']}, numpy {values['numpy']}"
    )


def print_rows(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Print a Markdown table, each row as soon as it is measured.

    Returns:
        {what: {name: number}} of all rows, for print_json.
    """
    figures: dict[str, dict[str, float]] = {}
    print("| what | measured | |\n|---|---:|---|", flush=True)
    for row in rows:
        print(f"| {row.what} | {row.value} | {row.note} |", flush=True)
        if row.figures:
            figures.setdefault(row.what, {}).update(row.figures)
    return figures


def print_json(**values: Any) -> None:
    """Print one JSON object on a line of its own."""
    # json cannot write numpy's numbers; float() makes Python's of them.
    print("\n" + json.dumps(values, default=float), flush=True)
