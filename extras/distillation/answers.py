"""The answers of teachers: files that batch_predict.py --as_teacher writes.

A line is a prediction, with the text and the teacher that it is of:

    {"id": 7, "label": "good", "score": 0.9, "probabilities": {"bad": 0.1,
     "good": 0.9}, "text": "fine", "teacher": "5f2ab0c1d2e3f405"}

A student finds an answer by the text, in files of any number and order, which
may have answers to other texts too. So an answer is never used for another
text, and a text without one is an error. The classes have names: their order
plays no part. Lines of different teachers are kept apart.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from base import cluster, file_system, tables, text_files
from base.errors import UserError

import numpy as np

from tasks import reading

FLAG = "teacher_answers"

# A line of a file.
Line = dict[str, Any]

# What is asked, such as {"text": "fine"} in JSON -> a teacher's answer.
Answered = dict[str, np.ndarray]

_UNANSWERED = "unanswered.jsonl"

# Answers to one text that differ by no more, beside 1% of the largest number,
# are taken as one: batches of other lengths round differently, in bfloat16 too.
_ROUNDING = 0.01


class Answers:
    """The files of --teacher_answers.

    Args:
        places: files, patterns, or directories of batch_predict.py. Where
            nothing is found yet, nothing is answered.
        output_dir: of the student.

    Raises:
        UserError: a part of them matches no file.
    """

    def __init__(self, places: Sequence[str], output_dir: str = ""):
        self.places, self.output_dir = ",".join(places), output_dir
        patterns = [
            os.path.join(place, "predictions-*.jsonl")
            if file_system.is_directory(place)
            else place
            for place in places
        ]
        self.files: list[str] = []
        glob = file_system.gfile().glob
        if any(file_system.exists(p) or glob(p) for p in patterns):
            self.files = file_system.find_files(",".join(patterns), FLAG)

    def fingerprint(self) -> list[str]:
        """Return the checksum of each file."""
        return [file_system.sha256(path) for path in self.files]

    def lines(self) -> Iterator[tuple[str, Line]]:
        """Yield the place and the object of each line.

        Raises:
            UserError: a line is damaged.
        """
        for path in self.files:
            file = reading.inspect(path, flag=FLAG)
            for window in reading.read_windows(file, lambda *raw: raw):
                for place, reason, _ in window.problems:
                    raise UserError(f"{path}, line {place.number}: {reason}")
                for place, data, _ in window.inputs:
                    at = f"{path}, line {place.number}"
                    yield at, text_files.json_object(at, data)

    def by_teacher(
        self, entries: Callable[[Line, str], Iterable[tuple[str, np.ndarray]]]
    ) -> dict[str, Answered]:
        """Return what each teacher answers, by the names in the files.

        `entries` yields what was asked, and the answer, of a line at a place.

        Raises:
            UserError: an answer is damaged, or given twice and different.
        """
        found: dict[str, Answered] = {}
        for at, line in self.lines():
            own = found.setdefault(str(line.get("teacher", "")), {})
            for key, answer in entries(line, at):
                first = own.setdefault(key, answer)
                if not _is_same(first, answer):
                    raise UserError(
                        f"{at}: another answer to {key:.100} than in a line "
                        "before, by the same teacher: give the files of one "
                        "command"
                    )
        return dict(sorted(found.items())) or {"": {}}

    def check(
        self,
        found: dict[str, Answered],
        asked: Sequence[str],
        texts_of: Callable[[Sequence[str]], Iterable[str]] = list,
        hint: str = "",
    ) -> None:
        """Check that each teacher has answered all that is asked.

        Args:
            found: the answers of each teacher.
            asked: the keys that they need.
            texts_of: returns the lines that ask this in batch_predict.py.
            hint: why there may be no answer.

        Raises:
            UserError: answers are missing. They are asked in a file.
        """
        for teacher, own in found.items():
            missing = [key for key in asked if key not in own]
            if not missing:
                continue
            lines = list(dict.fromkeys(texts_of(missing)))
            path = os.path.join(self.output_dir, _UNANSWERED)
            if cluster.is_chief():
                file_system.write_text(path, "\n".join(lines) + "\n")
            raise UserError(
                f"--{FLAG}={self.places}: {len(missing):,} of {len(asked):,} "
                f"training texts have no answer"
                + (f" of teacher {teacher}" if len(found) > 1 else "")
                + f", the first is {lines[0]:.100}; {path} has them: give it "
                "to batch_predict.py --as_teacher, and its output_dir to "
                f"--{FLAG}{hint}"
            )


def key_of(**texts: Any) -> str:
    """Return the key of an answer: its texts as a line of batch_predict.py."""
    return json.dumps(texts, ensure_ascii=False)


def numbers(values: Any, shape: tuple[int, ...], at: str) -> np.ndarray:
    """Return the numbers of an answer as float32 of a shape.

    Raises:
        UserError: they are none, not finite, or of another shape.
    """
    try:
        found = np.array(values, np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{at}: the answer is no array of numbers") from error
    if found.shape != shape:
        raise UserError(
            f"{at}: the answer has {list(found.shape)} numbers, wanted "
            f"{list(shape)}"
        )
    if not np.isfinite(found).all():
        raise UserError(f"{at}: the answer has a number that is not finite")
    return found


def logits_of(
    line: Line,
    at: str,
    labels: Sequence[str],
    names: Sequence[str],
    shape: tuple[int, ...] = (),
) -> np.ndarray:
    """Return the logarithms of a line's probabilities by label, [..., K].

    The temperature divides them as it would divide the logits.

    Args:
        line: of the answers.
        at: its place.
        labels: the classes in the student's order.
        names: what a teacher may call them instead; in the same order.
        shape: of the probabilities of one label.

    Raises:
        UserError: they are of other labels, or no probabilities.
    """
    shares = tables.require(line, "probabilities", dict, at)
    known = names if {*shares} == {*names} else labels
    if {*shares} != {*known}:
        raise UserError(
            f"{at}: the teacher was fine-tuned on the labels "
            f"{', '.join(list(shares)[:8])}; those of this task are "
            f"{', '.join(labels[:8])}: use a teacher of the same labels, or "
            "correct id2label in its configuration"
        )
    shares = [shares[label] for label in known]
    found = numbers(shares, (len(known), *shape), at)
    if found.min() < 0 or abs(found.sum(0) - 1).max() > _ROUNDING:
        raise UserError(f"{at}: the probabilities do not add up to 1")
    found = np.maximum(found, np.finfo(np.float32).tiny)  # log 0 is -inf
    return np.log(np.moveaxis(found, 0, -1))


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two answers are the same, but for rounding."""
    allowed = _ROUNDING * (1 + abs(one).max(initial=0))
    return one.shape == other.shape and np.allclose(one, other, 0, allowed)
