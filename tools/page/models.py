"""Load the checkpoints of the page: task, prediction function, encoder."""

import copy
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from base.errors import UserError

import modeling
from checkpoints import weight_files
from checkpoints.checkpoint import open_checkpoint
from serving.search.build import OUTPUTS
from tasks import loading, registry
from tasks.classifier import attributions
from tasks.task import Model, Settings, Task
from tools.page import limits

NEXT_SENTENCE, REASONS = "next_sentence", "reasons"

# Without these weights the next sentence head is that of a new model.
_NEXT_SENTENCE_WEIGHTS = (
    "bert/pooler/dense/kernel",
    "cls/seq_relationship/output_weights",
)


class PageModel:
    """A checkpoint with everything that the page computes from it.

    Args:
        name: a short name, unique on the page.
        settings: of `loading.describe`.

    Attributes:
        task: inputs and predictions of the head, as batch_predict.py has them.
        heads: the task; NEXT_SENTENCE if that head was trained too; REASONS of
            a task that can be explained.
        run: the head as a function of batches.
        model: encoder and head; they share their weights with `run`.
        encoder: the task of vectors.
        run_encoder: the vectors of the encoder as a function of batches.

    Raises:
        UserError: weights are missing, or lengths do not fit.
    """

    def __init__(self, name: str, settings: Settings):
        self.name, self.settings = name, settings
        self.task: Task = registry.create_task(settings)
        self.graph = loading.load_graph(settings)
        self.model: modeling.TaskModel = self.graph.model
        self.run = limits.checked(loading.run_graph(self.graph))
        self.heads = (settings.task, *self._next_sentence())
        if settings.task in attributions.TASKS:
            self.heads += (REASONS,)
        self.run_encoder = self.run
        self.encoder = registry.create_task(settings._replace(task="encoder"))
        if settings.task != "encoder":
            graph = self.encoder.graph(self.model)
            self.run_encoder = limits.checked(loading.run_graph(graph))

    def of_vectors(self) -> tuple[Settings, Model]:
        """Return what makes the vectors that an index of search.py has."""
        if self.settings.task in OUTPUTS:
            return self.settings, self.run
        return self.encoder.settings, self.run_encoder

    def _next_sentence(self) -> tuple[str, ...]:
        """Return (NEXT_SENTENCE,) if the checkpoint has that head, else ()."""
        if self.settings.task != "masked_lm":
            return ()
        reader = weight_files.open_reader(self.settings.path)
        is_whole = all(map(reader.has_tensor, _NEXT_SENTENCE_WEIGHTS))
        # --objective=mlm and ltr keep these weights, and do not train them.
        is_trained = not self.settings.trained_for.objective
        return (NEXT_SENTENCE,) if is_whole and is_trained else ()

    @functools.cached_property
    def explaining(self) -> "PageModel":
        """The same model, a classifier; its predictions have attributions."""
        found = copy.copy(self)
        found.task = registry.create_task(self.settings._replace(explain=True))
        found.run = attributions.explaining(self.graph, self.run, limits.check)
        return found

    def summary(self) -> str:
        """Return task and sizes of the model in a line."""
        config = self.model.config
        layers = config.num_hidden_layers
        casing = (
            "uncased" if self.settings.normalization.do_lower_case else "cased"
        )
        return (
            f"{self.settings.task.replace('_', ' ')}, "
            f"{layers} layer{'s' if layers > 1 else ''} of "
            f"{config.hidden_size} units, {config.num_attention_heads} heads, "
            f"{len(self.task.tokenizer.vocab):,} word pieces, {casing}, "
            f"{self.settings.max_seq_length} tokens"
        )


def load_models(
    paths: Sequence[str],
    task: str | None,
    bert_config_file: str | None,
    vocab_file: str | None,
    do_lower_case: bool | None,
    options: Mapping[str, Any],
) -> list[PageModel]:
    """Return the models of checkpoints, in their order.

    Args:
        paths: of checkpoints, as --init_checkpoint takes them.
        task: one of registry.NAMES; None: what each was fine-tuned on.
        bert_config_file, vocab_file, do_lower_case: None: of each checkpoint.
        options: more fields of Settings; None: each model's own value.

    Raises:
        UserError: a checkpoint is missing or damaged, or cannot do the task.
    """
    models = []
    for name, path in zip(names_of(paths), paths, strict=True):
        checkpoint = open_checkpoint(
            path, bert_config_file, vocab_file, do_lower_case
        )
        settings = loading.describe(checkpoint, task, options)
        models.append(PageModel(name, settings))
    return models


def names_of(paths: Sequence[str]) -> list[str]:
    """Return a short name for each path; paths whose names agree stay whole.

    >>> names_of(["out/mrpc/", "out/base/bert_model.ckpt"])
    ['mrpc', 'base']
    >>> names_of(["a/mrpc", "b/mrpc"])
    ['a/mrpc', 'b/mrpc']
    """
    short = [_short_name(path) for path in paths]
    return [
        path if short.count(name) > 1 else name
        for path, name in zip(paths, short, strict=True)
    ]


def _short_name(path: str) -> str:
    """Return the last part of a path that is not a file of a checkpoint."""
    parts = [part for part in path.split("/") if part] or [path]
    is_file = ".ckpt" in parts[-1] and not os.path.isdir(path)
    return parts[-2] if is_file and len(parts) > 1 else parts[-1]


def split_paths(value: str) -> list[str]:
    """Return the checkpoints of --init_checkpoint, a list with commas.

    Raises:
        UserError: an item is empty, or is there twice.
    """
    paths = [path.strip() for path in value.split(",")]
    if not all(paths):
        raise UserError(
            f"--init_checkpoint={value}: item {paths.index('') + 1} of "
            f"{len(paths)} is empty; separate checkpoints by one comma"
        )
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise UserError(
                f"--init_checkpoint={value} names {path} twice: give each "
                "checkpoint once"
            )
    return paths
