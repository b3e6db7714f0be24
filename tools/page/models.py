"""The models of the page: a checkpoint and all that is computed with it."""

import copy
import functools
import os
from pathlib import PurePath
from typing import Any

from base.errors import UserError, counted

from extras import attributions
from serving.search.build import OUTPUTS
from tasks import loading, registry
from tasks.encoder.model import TextEncoder
from tasks.task import Task, TaskSettings
from tools.page import limits
from training.task_model import TaskModel

NUM_ANSWERS = 5  # of a question

NEXT_SENTENCE, REASONS = "next_sentence", "reasons"

# Without these weights the next sentence head would be that of a new model.
_NEXT_SENTENCE_WEIGHTS = (
    "bert/pooler/dense/kernel",
    "cls/seq_relationship/output_weights",
)


class PageModel:
    """A checkpoint with everything that the page computes from it.

    Args:
        name: a short name, unique on the page.
        settings: what `loading.describe` returns for the checkpoint.

    Attributes:
        task: inputs and predictions of the head, as batch_predict.py has them.
        run: the model as a function of batches.
        model: encoder and head; they share their weights with `run`.
        heads: the task, and what else the checkpoint can do: NEXT_SENTENCE,
            REASONS.
        vector_settings: settings of the task that makes vectors, as search.py
            makes them.
        run_vectors: the model of that task as a function of batches.
        searched: a neighbors.Collection or an index of search.py; None: the
            sentences that are pasted into the page are searched.

    Raises:
        UserError: weights are missing, or lengths do not fit.
    """

    searched: Any = None

    def __init__(self, name: str, settings: TaskSettings):
        self.name = name
        self.settings = settings._replace(
            num_answers=NUM_ANSWERS, token_scores=True
        )
        self.task: Task = registry.create_task(self.settings)
        self._graph = loading.load_graph(self.settings)
        self.model: TaskModel = self._graph.model
        self.run = limits.checked(loading.run_graph(self._graph))
        self.heads: tuple[str, ...] = (settings.task,)
        if _has_next_sentence(settings):
            self.heads += (NEXT_SENTENCE,)
        if settings.task in attributions.TASKS:
            self.heads += (REASONS,)
        self.vector_settings, self.run_vectors = self.settings, self.run
        if settings.task not in OUTPUTS:
            self.vector_settings = settings._replace(task="encoder")
            encoder = registry.create_task(self.vector_settings)
            graph = registry.create_graph(encoder, TextEncoder.of(self.model))
            self.run_vectors = limits.checked(loading.run_graph(graph))

    @functools.cached_property
    def explaining(self) -> "PageModel":
        """The same classifier, whose predictions have attributions too."""
        found = copy.copy(self)
        found.task = attributions.explaining_task(self.task)
        found.run = attributions.explaining(self._graph, self.run, limits.check)
        return found

    def summary(self) -> str:
        """Return task and sizes of the model in a line."""
        config, settings = self.model.config, self.settings
        is_uncased = settings.checkpoint.tokenizer_settings.do_lower_case
        return (
            f"{settings.task.replace('_', ' ')}, "
            f"{counted(config.num_hidden_layers, 'layer')} of "
            f"{config.hidden_size} units, {config.num_attention_heads} heads, "
            f"{len(self.task.tokenizer.vocab):,} word pieces, "
            f"{'uncased' if is_uncased else 'cased'}, "
            f"at most {settings.checkpoint.max_seq_length} tokens"
        )


def _has_next_sentence(settings: TaskSettings) -> bool:
    """Return whether a checkpoint has a next sentence head that was trained."""
    # --objective=mlm and ltr do not train the head; its weights are random.
    checkpoint = settings.checkpoint
    if settings.task != "masked_lm" or checkpoint.trained_for.objective:
        return False
    return {*_NEXT_SENTENCE_WEIGHTS} <= checkpoint.shapes.keys()


def named_paths(value: str) -> dict[str, str]:
    """Return the checkpoints of --init_checkpoint, a list with commas, by name.

    A name is the last part of a path that is not a file of a checkpoint. If
    several paths have the same one, each is named by the whole path.

    >>> named_paths("out/mrpc/,out/base/bert_model.ckpt")
    {'mrpc': 'out/mrpc/', 'base': 'out/base/bert_model.ckpt'}

    Raises:
        UserError: an item is empty, or is there twice.
    """
    paths = [path.strip() for path in value.split(",")]
    for number, path in enumerate(paths, 1):
        if not path or path in paths[: number - 1]:
            raise UserError(
                f"--init_checkpoint={value}: item {number} of {len(paths)} is "
                f"{'there twice' if path else 'empty'}; wanted different "
                "checkpoints, separated by one comma"
            )
    names = [_short_name(path) for path in paths]
    return {
        path if names.count(name) > 1 else name: path
        for path, name in zip(paths, names, strict=True)
    }


def _short_name(path: str) -> str:
    found = PurePath(path)
    if ".ckpt" in found.name and not os.path.isdir(path) and found.parent.name:
        found = found.parent
    return found.name or path
