"""Read the scalars that runs write for TensorBoard.

A run that was interrupted and goes on has several files in a folder. Steps
after its last checkpoint are done twice then: those of the first time are
lost, and their scalars are in an earlier file.
"""

import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from base import file_system
from base.errors import UserError

import tensorflow as tf
from absl import logging

from records import tfrecord

Curve = dict[int, float]  # step -> value


class EventFile(NamedTuple):
    """The scalars of one file that TensorBoard reads.

    Attributes:
        began: time of the first scalar, in seconds since 1970. The time in
            its name and in its first record is rounded to seconds.
        curves: {name of a scalar: curve}.
    """

    began: float
    curves: dict[str, Curve]

    def first_step(self) -> int | None:
        """Return the first step of all curves; None without a scalar."""
        return min((min(curve) for curve in self.curves.values()), default=None)


def read(folder: str, names: Collection[str] | None = None) -> list[EventFile]:
    """Return the scalars of the files in a folder, the oldest file first.

    A file that ends inside a record, as that of a killed process may, is read
    up to there.

    Args:
        folder: local or remote; need not exist.
        names: of the scalars to read; None: all.
    """
    if not file_system.is_directory(folder):
        return []
    paths = [
        os.path.join(folder, name)
        for name in tf.io.gfile.listdir(folder)
        if name.startswith("events.out.tfevents.")
    ]
    files = [_read_file(path, names) for path in sorted(paths)]
    return sorted(files, key=lambda file: file.began)


def _read_file(path: str, names: Collection[str] | None) -> EventFile:
    """Return the scalars of one file."""
    began, curves = 0.0, {}
    try:
        for record in tfrecord.read_records(path):
            event = tf.compat.v1.Event.FromString(record)
            if event.summary.value:
                began = began or event.wall_time
            for value in event.summary.value:
                if names is not None and value.tag not in names:
                    continue
                number = float(tf.make_ndarray(value.tensor))
                curves.setdefault(value.tag, {})[event.step] = number
    except UserError as error:
        logging.info("%s: read up to there", error)
    return EventFile(began, curves)


def joined(files: Sequence[EventFile]) -> dict[str, Curve]:
    """Return the curves of a folder; of a step the later value counts."""
    found: dict[str, Curve] = {}
    for file in files:
        for name, curve in file.curves.items():
            found.setdefault(name, {}).update(curve)
    return {name: dict(sorted(curve.items())) for name, curve in found.items()}


def without_lost_steps(
    files: Sequence[EventFile], training: Sequence[EventFile]
) -> list[EventFile]:
    """Return files without the steps that a later part of the run did again.

    Args:
        files: of a folder of the run.
        training: the files that training wrote, one for each part of the run.
    """
    begun = [
        (part.began, first)
        for part in training
        if (first := part.first_step()) is not None
    ]
    found = []
    for file in files:
        # The first step that a later part did.
        again = min(
            (first for began, first in begun if began > file.began),
            default=None,
        )
        curves = {
            name: {s: v for s, v in curve.items() if again is None or s < again}
            for name, curve in file.curves.items()
        }
        kept = {name: curve for name, curve in curves.items() if curve}
        found.append(EventFile(file.began, kept))
    return found
