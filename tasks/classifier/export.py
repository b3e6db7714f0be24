"""The SavedModel of a classifier: texts in, labels and probabilities out."""

from typing import Any

import tensorflow as tf

from tasks import saved_model


class Classifier(saved_model.Export):
    """Outputs probabilities [n, K], label [n], score [n]; or value [n].

    `score` is the probability of the label; a regression has only `value`.

    Args:
        labels: names of the K classes; None for regression.
        is_pair: whether the input is two texts.
    """

    task = "classifier"

    def __init__(self, *args: Any, labels: list[str] | None, is_pair: bool):
        super().__init__(*args)
        self.label_names = labels and tuple(labels)
        self.labels = None if labels is None else tf.constant(labels)
        self.is_pair = is_pair

    def description(self) -> dict[str, Any]:
        """Return also the labels, and whether texts come in pairs."""
        return super().description() | {
            "labels": self.label_names,
            "sentence_pairs": self.is_pair,
        }

    def text_names(self) -> list[str]:
        """Return the names of the inputs: text, or text_a and text_b."""
        return ["text_a", "text_b"] if self.is_pair else ["text"]

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
