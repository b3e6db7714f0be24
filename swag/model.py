"""The model that chooses a continuation (paper section 4.4), its objective."""

import tensorflow as tf

from classifier import model as classifier_model
from modeling import BertConfig
from ops import losses
from ops.elementwise import shape_of
from records.streaming import Batch

# --- Multiple choice (paper section 4.4) --------------------------------------


class BertForMultipleChoice(classifier_model.BertForSequenceClassification):
    """One vector, whose product with the pooled output scores a choice.

    Every choice of a question is a sequence of its own: sentence A the
    question, sentence B the choice. A softmax over the scores decides.
    """

    def __init__(self, config: BertConfig, dtype: str = "float32"):
        super().__init__(config, 1, dtype)

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 scores [...] of sequences [..., S]."""
        *leading, length = shape_of(features["input_ids"])
        rows = {
            name: tf.reshape(features[name], [-1, length])
            for name in ("input_ids", "input_mask", "segment_ids")
            if name in features
        }  # [R, S]
        scores = super().__call__(rows, training, dropout_seed)  # [R, 1]
        return tf.reshape(scores, leading)

    def loss(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> losses.Loss:
        """Return the cross entropy of questions.

        Args:
            features: sequences [B, C, S] of C choices, label_ids [B, C], the
                number of the right one in the row of each.
            training: whether dropout is on.
            dropout_seed: see `BertModel.call`.
        """
        scores = self(features, training, dropout_seed)  # [B, C]
        return losses.classification_loss(scores, features["label_ids"][:, 0])


def _question_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return how many questions, whose choices are rows [B, C]."""
    rows = tf.shape(batch["label_ids"])[0]
    return {"label_loss": tf.cast(rows, tf.float32)}


MULTIPLE_CHOICE = classifier_model.CLASSIFICATION._replace(
    loss_weights=_question_weights
)
