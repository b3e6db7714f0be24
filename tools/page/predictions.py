"""Predict one input of the page, by the code of batch_predict.py."""

import json
from collections.abc import Mapping

from base.errors import UserError

import numpy as np
import tensorflow as tf

from tasks import predict as tasks_predict
from tasks.task import BadInput, Input, Place, Prediction, Task
from tools.page.models import PageModel

_BATCH_SIZE = 4  # rows; small, as requests end between batches

_PLACE = Place("page", 1)


def predict(model: PageModel, **texts: str | list[str]) -> Prediction:
    """Return the prediction for the texts of an input.

    It is the line that batch_predict.py writes for a line of JSON with these
    texts, without the id.

    Args:
        model: with its task.
        **texts: the task's own names and values: text="...", or question="..."
            and context="...", and so on.

    Raises:
        UserError: the input cannot be predicted; has the reason.
    """
    item = parsed(model.task, **texts)
    (found,) = tasks_predict.predict(model.task, model.run, [item], _BATCH_SIZE)
    if isinstance(found, str):
        raise UserError(found)
    return found


def parsed(task: Task, **texts: str | list[str]) -> Input:
    """Return texts as the input of a task; see `predict`."""
    try:
        return task.parse(_PLACE, json.dumps(texts).encode(), "jsonl")
    except BadInput as error:
        raise UserError(str(error)) from error


def next_sentence(
    model: PageModel, features: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return how probable it is that text B follows A, and that it does not.

    The pair of probabilities [2] is that of pre-training's next sentence head.

    Args:
        model: has the head models.NEXT_SENTENCE.
        features: input_ids, input_mask and segment_ids, [1, S].
    """
    tensors = {name: tf.constant(value) for name, value in features.items()}
    output = model.model.encode(tensors)
    logits = model.model.next_sentence_logits(output, tensors)
    return tf.nn.softmax(logits)[0].numpy()
