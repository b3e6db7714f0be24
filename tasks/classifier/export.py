"""The SavedModel of a classifier: texts in, labels and probabilities out."""

from typing import Any

import tensorflow as tf

from tasks import saved_model
from tasks.task import Task


class Classifier(saved_model.Export):
    """Outputs probabilities [n, K], label [n], score [n]; or value [n].

    `score` is the probability of the label; a regression has only `value`.
    """

    def __init__(self, task: Task, *args: Any):
        super().__init__(task, *args)
        labels = task.settings.labels
        self.labels = None if labels is None else tf.constant(labels)

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the probabilities [n, K]; a number [n] of a regression."""
        logits = self.model(features)  # [n, K]
        if self.labels is None:
            return {"value": logits[:, 0]}
        return {"probabilities": tf.nn.softmax(logits)}

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return probabilities and the likeliest label of n texts.

        A regression has a number for each text instead.
        """
        outputs = self.numbers(features)
        if self.labels is None:
            return outputs
        probs = outputs["probabilities"]  # [n, K]
        return outputs | {
            "label": tf.gather(self.labels, tf.argmax(probs, -1)),
            "score": tf.reduce_max(probs, -1),
        }
