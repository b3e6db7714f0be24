"""Distillation of sentence encoders: the vectors of a teacher are learned.

The teacher reads the texts with a vocabulary, prompt and length of its own;
what it makes of a text is a vector as long as the student's.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from base import tables
from base.errors import UserError

import numpy as np

from extras.distillation.answers import FLAG, Answers, Line, key_of, numbers
from tasks.embeddings import learning
from tasks.embeddings.job import EmbeddingsJob
from tasks.job import Learned


def similarity_of(places: Sequence[str]) -> str | None:
    """Return how the vectors of --teacher_answers are compared."""
    _, first = next(Answers(places).lines(), ("", {}))
    return first.get("similarity_fn_name")


class VectorDistillation:
    """What a job learns from the vectors of a teacher: the job's wrapper."""

    def __init__(self, job: EmbeddingsJob):
        self.job, self.width = job, job.task.width
        places = job.flags.teacher_answers
        self.answers = Answers(places, job.settings.output_dir)

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run is resumed: the vectors."""
        return {FLAG: self.answers.fingerprint()}

    def learned(self, of_job: Learned) -> Learned:
        """Return the training records with the teacher's vectors, [n, D].

        The job's objective learns them.
        """
        keys = [
            None if text is None else key_of(text=text)
            for _, text in self.job.texts(self.job.train)
        ]
        found = self.answers.by_teacher(self._entries)
        self.answers.check(found, [key for key in keys if key])
        if len(found) > 1:
            raise UserError(
                f"--{FLAG}: vectors of {len(found)} teachers, whose mean means "
                "nothing: give those of one"
            )
        (vectors,) = found.values()
        nothing = np.zeros([self.width], np.float32)  # fills up examples
        of_job.data.features[learning.TEACHER] = np.stack(
            [vectors[key] if key else nothing for key in keys]
        )
        return of_job

    def _entries(self, line: Line, at: str) -> Iterator[tuple[str, np.ndarray]]:
        """Yield a text and its vector, as long as this model's."""
        text = tables.require(line, "text", str, at)
        vector = tables.require(line, "embedding", list, at)
        yield key_of(text=text), numbers(vector, (self.width,), at)
