"""The models of the page: a checkpoint and all that is computed with it.

Predictions are those of batch_predict.py, vectors those of search.py.
"""

import copy
import functools
import json
from collections.abc import Sequence
from typing import Any

from base.errors import UserError, counted

import numpy as np
import tensorflow as tf

from extras import attributions
from serving.search.build import OUTPUTS, task_for, vectors_of
from tasks import loading, registry, rows
from tasks import predict as tasks_predict
from tasks.encoder.model import TextEncoder
from tasks.masked_lm.task import sentence_to_ids
from tasks.rows import Row
from tasks.task import Input, Place, Prediction, Task, TaskSettings
from tools.page import limits
from training.task_model import TaskModel

NUM_ANSWERS = 5  # of a question

_BATCH_SIZE = 4  # rows; small, as requests end between batches

NEXT_SENTENCE, REASONS = "next_sentence", "reasons"

# Without these weights the next sentence head would be that of a new model.
_NEXT_SENTENCE_WEIGHTS = (
    "bert/pooler/dense/kernel",
    "cls/seq_relationship/output_weights",
)


class PageModel:
    """A checkpoint with everything that the page computes from it.

    Args:
        name: the path of the checkpoint.
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
        searched: an index of search.py; None: the sentences that are pasted
            into the page are searched.

    Raises:
        UserError: weights are missing, or lengths do not fit.
    """

    searched: Any = None

    def __init__(self, name: str, settings: TaskSettings):
        self.name = name
        self.settings = registry.with_options(
            settings, {"num_answers": NUM_ANSWERS, "token_scores": True}
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
            self.vector_settings = settings._replace(
                task="encoder", options=registry.find("encoder").options_type()
            )
            encoder = registry.create_task(self.vector_settings)
            graph = encoder.create_graph(TextEncoder.of(self.model))
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

    def predict(self, **texts: str | list[str]) -> Prediction:
        """Return the prediction for the texts of an input.

        It is the line that batch_predict.py writes for a line of JSON with
        these texts, without the id.

        Args:
            **texts: the task's own names and values: text="...", or
                question="..." and context="...", and so on.

        Raises:
            UserError: the input cannot be predicted; has the reason.
        """
        item = _parsed(self.task, **texts)
        (found,) = tasks_predict.predict(
            self.task, self.run, [item], _BATCH_SIZE
        )
        if isinstance(found, str):
            raise UserError(found)
        return found

    def vectors(self, texts: Sequence[str], use: str) -> np.ndarray:
        """Return the vectors of texts, float32 [n, D], as they are compared.

        Args:
            texts: n of them.
            use: "query" or "document", as search.py has vectors for both.
        """
        task = task_for(self.vector_settings, use)
        inputs = [_parsed(task, text=text) for text in texts]
        return vectors_of(task, self.run_vectors, inputs)

    def row(self, text_a: str, text_b: str = "", at_once: bool = False) -> Row:
        """Return [CLS] text_a [SEP] text_b [SEP].

        A masked LM reads "[MASK]" as one token, other models as any text.

        Args:
            text_a: the first text.
            text_b: the second text; blank: there is none.
            at_once: whether the row is as long as the encoder reads at once;
                else it may have several windows.

        Raises:
            UserError: there is no text.
        """
        if not text_a.strip():
            raise UserError("text is empty")
        checkpoint, tokenizer = self.task.checkpoint, self.task.tokenizer
        a, b = (
            sentence_to_ids(text, tokenizer)[1:-1]
            if self.settings.task == "masked_lm"
            else tokenizer.text_to_ids(text)
            for text in (text_a, text_b)
        )
        return rows.row_of_ids(
            a,
            b,
            checkpoint.max_seq_length if at_once else checkpoint.row_length,
            tokenizer,
            checkpoint.long_texts.how,
        )

    def tokens(self, row: Row) -> list[str]:
        """Return the word pieces of a row."""
        return self.task.tokenizer.convert_ids_to_tokens(row.input_ids.tolist())

    def next_sentence(self, row: Row) -> list[float]:
        """Return the probabilities that text B follows A, and that it does not.

        They are those of the next sentence head of pre-training, so the model
        has NEXT_SENTENCE.
        """
        features = features_of(row)
        output = self.model.bert(**self.model.encoder_inputs(features))
        logits = self.model.next_sentence_logits(output, features)
        return tf.nn.softmax(logits)[0].numpy().tolist()


def features_of(row: Row) -> dict[str, np.ndarray]:
    """Return a row as a batch, int32 [1, S]."""
    return rows.pad([row], len(row.input_ids))


def _parsed(task: Task, **texts: str | list[str]) -> Input:
    """Return texts as the input of a task."""
    return task.parse(Place("page", 1), json.dumps(texts).encode(), "jsonl")


def _has_next_sentence(settings: TaskSettings) -> bool:
    """Return whether a checkpoint has a next sentence head that was trained."""
    # --objective=mlm and ltr do not train the head; its weights are random.
    checkpoint = settings.checkpoint
    if settings.task != "masked_lm" or checkpoint.trained_for.objective:
        return False
    return {*_NEXT_SENTENCE_WEIGHTS} <= checkpoint.shapes.keys()
