"""The model of several labels: a classifier with a sigmoid for each label."""

import tensorflow as tf

from ops import losses
from tasks import saved_model
from tasks.classifier import model as classifier_model
from training.objective import example_weights


class BertForMultiLabel(classifier_model.BertForSequenceClassification):
    """An encoder and one output vector per label, each a question of its own.

    The variables are a classifier's, and so is the call: logits [B, K].
    """

    def loss(
        self, logits: tf.Tensor, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the binary cross-entropy, the mean over the labels.

        `correct` counts the examples all of whose labels are right, where a
        label is predicted from a probability of 0.5 on. label_ids [B, K] are
        0 and 1.
        """
        labels = tf.cast(features["label_ids"], tf.float32)  # [B, K]
        weights = example_weights(features, "label_ids")  # [B]
        entropy = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels, logits), -1
        )  # [B]
        is_right = tf.reduce_all((logits >= 0) == (labels > 0), -1)  # [B]
        return losses.Loss(
            tf.reduce_sum(entropy * weights),
            tf.reduce_sum(weights),
            tf.reduce_sum(tf.cast(is_right, tf.float32) * weights),
        )


class MultiLabelGraph(classifier_model.ClassifierGraph):
    """Outputs probabilities [n, K] and labels [n, K], "" if not predicted."""

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the probability of each label, [n, K]."""
        return {"probabilities": tf.sigmoid(self.model(features))}

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return probabilities and labels of n texts."""
        outputs = self.numbers(features)
        thresholds = tf.constant(self.task.thresholds, tf.float32)  # [K]
        is_predicted = outputs["probabilities"] >= thresholds  # [n, K]
        return outputs | {"labels": tf.where(is_predicted, self.labels, "")}
