"""The numbers of a run by step: scalars.jsonl, from which curves.png is drawn.

They are those that TensorBoard shows, a line of JSON for each step that has a
report. Training writes to output_dir, evaluations to its folder `eval`. A run
that resumes after step 60 removes what it had written of later steps, since it
repeats them.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from base import file_system, text_files

import tensorflow as tf

NAME = "scalars.jsonl"

Curve = dict[int, float]  # step -> value


class Window(NamedTuple):
    """Consecutive steps: the last one, how many they are, their mean loss."""

    step: int
    size: int
    loss: float


def append(folder: str, step: int, values: Mapping[str, float]) -> None:
    """Add the numbers of a step, {name: finite number}, to a folder's file."""
    file_system.make_directory(folder)
    with tf.io.gfile.GFile(os.path.join(folder, NAME), "a") as file:
        file.write(json.dumps({"step": step, **values}) + "\n")


def read(folder: str) -> list[dict[str, float]]:
    """Return the numbers of every step, in order; none without a file.

    A step that was written twice has the later numbers. The last line of a
    killed process may be cut off; it does not count, as no damaged line does.
    """
    path = os.path.join(folder, NAME)
    if not tf.io.gfile.exists(path):
        return []
    points = {}
    with tf.io.gfile.GFile(path, "rb") as file:
        for line in file.read().splitlines():
            try:
                point = text_files.parse_json(line)
            except ValueError:
                continue
            # A step with its finite numbers.
            if (
                isinstance(point, dict)
                and "step" in point
                and all(
                    type(number) in (int, float)
                    and abs(number) <= sys.float_info.max
                    for number in point.values()
                )
            ):
                points[point["step"]] = point
    return [points[step] for step in sorted(points)]


def read_curves(folder: str) -> dict[str, Curve]:
    """Return the numbers as {name: {step: value}}."""
    curves: dict[str, Curve] = {}
    for point in read(folder):
        for name, value in point.items():
            curves.setdefault(name, {})[point["step"]] = value
    return curves


def forget_after(folder: str, step: int) -> None:
    """Remove the numbers of the steps after `step`; rewrites the file."""
    path = os.path.join(folder, NAME)
    if not tf.io.gfile.exists(path):
        return
    kept = [point for point in read(folder) if point["step"] <= step]
    lines = [json.dumps(point) + "\n" for point in kept]
    file_system.write_text(path, "".join(lines))


def windows(output_dir: str) -> list[Window]:
    """Return the windows of all reports of a run."""
    return [
        Window(point["step"], point["steps"], point["loss"])
        for point in read(output_dir)
        if "loss" in point and point.get("steps", 0) > 0 < point["step"]
    ]
