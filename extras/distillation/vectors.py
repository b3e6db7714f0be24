"""Distillation of sentence encoders: the vectors of a teacher are learned.

The teacher reads the texts with a vocabulary, prompts and a length of its own;
what it makes of a text is a vector as long as the student's.
"""

from typing import Any

from base import progress
from base.errors import UserError

import numpy as np

from extras.distillation.teachers import FLAG, RUNNING, kept_outputs
from records import in_memory
from tasks import loading, predict, registry
from tasks.embeddings import learning
from tasks.embeddings.job import EmbeddingsJob, prompted
from tasks.embeddings.task import Embeddings
from tasks.job import LoadedModel
from tasks.task import TaskSettings
from training.objective import Objective


def find_teacher(path: str) -> TaskSettings:
    """Return the settings of the teacher at a path.

    Raises:
        UserError: there is no model, or it makes no sentence vectors.
    """
    teacher = loading.find(path)
    if teacher.task != Embeddings.name:
        raise UserError(
            f"--{FLAG}={path} makes no sentence vectors: its task is "
            f"{teacher.task}"
        )
    return teacher


def identity_of(teacher: TaskSettings) -> list[Any]:
    """Return everything that a teacher's vectors depend on."""
    # How it makes vectors is in several files beside the weights.
    return [*loading.fingerprint(teacher), teacher.fingerprint()]


class VectorDistillation:
    """The teacher of a job that learns vectors: the job's wrapper.

    Args:
        job: the student's job, which has the teacher's settings.
        path: the teacher, as the flag names it.
    """

    def __init__(self, job: EmbeddingsJob, path: str):
        self.job, self.path, self.teacher = job, path, job.teacher

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run is resumed: the teacher."""
        return {FLAG: identity_of(self.teacher)}

    def adjustable(self) -> dict[str, Any]:
        """Return nothing: all of it is fixed."""
        return {}

    def objective(self) -> Objective:
        """Return the job's objective, which learns the vectors."""
        return self.job.objective

    def train_data(
        self, data: in_memory.ShortRecords, loaded: LoadedModel
    ) -> in_memory.ShortRecords:
        """Return the training records with the teacher's vectors, [n, D].

        Raises:
            UserError: they have another size than this model's.
        """
        del loaded
        found = kept_outputs(
            self.job.cache,
            "teacher",
            self.path,
            {
                "teacher": identity_of(self.teacher),
                "texts": self.job.fingerprint(self.job.train),
            },
            self._run,
        )
        if found.shape[1] != self.job.width:
            raise UserError(
                f"--{FLAG}={self.path} has vectors of {found.shape[1]} "
                f"numbers, this model of {self.job.width}"
            )
        data.features[learning.TEACHER] = found
        return data

    def _run(self) -> np.ndarray:
        """Return the teacher's vectors of the training texts, [n, D]."""
        task = registry.create_task(self.teacher)
        units = [
            [task.row(prompted(prompt, text))[0]]
            for prompt, text in self.job.texts(self.job.train)
        ]
        with progress.Bar(len(units), "texts", RUNNING) as bar:
            outputs = predict.run_units(
                task,
                loading.load(self.teacher),
                units,
                self.job.settings.eval_batch_size,
                bar.update,
            )
        return np.stack([one["embedding"] for one in outputs])
