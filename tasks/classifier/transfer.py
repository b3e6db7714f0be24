"""Read texts without labels, on which a student learns from its teachers.

They are read as batch_predict.py reads its inputs (tasks/reading.py): lines
with a text or, separated by a tab, a pair; or JSON lines; maybe gzip. The files
may be larger than memory: they are read in windows, once for each teacher and
once for the records.
"""

import functools
from collections.abc import Iterator
from typing import Any

from base import file_system
from base.errors import UserError

from tasks import reading
from tasks.classifier.data import Example
from tasks.task import Task

_FLAG = "transfer_file"


class TransferTexts:
    """The texts, or pairs of texts, of --transfer_file.

    Args:
        patterns: globs of the files.
        task: the student's task, which parses a line.

    Raises:
        UserError: a pattern matches no file, or a file holds no text.
    """

    def __init__(self, patterns: str, task: Task):
        self.task = task
        self.files = [
            reading.inspect(path, flag=_FLAG)
            for path in file_system.find_files(patterns, _FLAG)
        ]
        for file in self.files:
            if file.kind == "tfrecord":
                raise UserError(
                    f"--{_FLAG}: {file.path} holds TFRecords, wanted texts"
                )

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the texts depend on."""
        return {"data": self._checksums, "texts": self.task.text_names}

    @functools.cached_property
    def _checksums(self) -> list[str]:
        """The checksums of the files, which may be large: read once."""
        return [file_system.sha256(file.path) for file in self.files]

    def check(self) -> None:
        """Read all files to find mistakes.

        Raises:
            UserError: there is no text, or a line is damaged; names it.
        """
        if not sum(1 for _ in self):
            names = ", ".join(file.path for file in self.files[:3])
            raise UserError(f"--{_FLAG}: {names} holds no text")

    def __iter__(self) -> Iterator[Example]:
        """Yield the texts in the order of the files."""
        number = 0
        for file in self.files:
            for window in reading.read_windows(file, self.task.parse):
                for place, reason, _ in window.problems:
                    raise UserError(
                        f"{place.path}, line {place.number}: {reason}"
                    )
                for item in window.inputs:
                    texts = item.texts.values()
                    yield Example(f"transfer-{number}", *texts)
                    number += 1
