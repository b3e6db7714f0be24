"""The model that labels words, and its objective (paper section 5.3)."""

import tensorflow as tf

import modeling
from classifier import model as classifier_model
from modeling import BertConfig, TaskModel, draw_seed
from ops import losses
from records.streaming import Batch

# --- Words (paper sections 4 and 5.3) ----------------------------------------


def word_loss(logits: tf.Tensor, features: dict[str, tf.Tensor]) -> losses.Loss:
    """Return the cross entropy of the words, all other positions left out.

    Args:
        logits: float32 [B, S, K].
        features: label_ids [B, S], negative where there is no word to
            classify; `example_weights` [B], where given, is 0 for rows that
            only fill a batch.
    """
    labels = features["label_ids"]
    weights = tf.cast(labels >= 0, tf.float32)  # [B, S]
    if "example_weights" in features:
        weights *= features["example_weights"][:, None]
    return losses.classification_loss(logits, tf.maximum(labels, 0), weights)


class BertForTokenClassification(TaskModel):
    """One vector per class on the last layer, at every position.

    Args:
        config: of the encoder.
        num_labels: K.
        dtype: what matrix products are computed in.
    """

    uses_pooler = False

    def __init__(
        self, config: BertConfig, num_labels: int, dtype: str = "float32"
    ):
        super().__init__(config, dtype)
        self.output_weights, self.output_bias = modeling.output_variables(
            num_labels, config.hidden_size
        )

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 logits [B, S, K]."""
        seed = draw_seed(training, dropout_seed)
        x = self.encode(features, training, seed).sequence_output  # [B, S, H]
        x = modeling.head_dropout(x, seed, "classifier/dropout")
        return modeling.project(x, self.output_weights, self.output_bias)

    def loss(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> losses.Loss:
        """Return the cross entropy; features as for `word_loss`."""
        return word_loss(self(features, training, dropout_seed), features)


def _word_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return how many words; other positions have negative labels."""
    is_word = tf.cast(batch["label_ids"] >= 0, tf.float32)  # [B, S]
    return {"label_loss": tf.reduce_sum(is_word)}


WORD_CLASSIFICATION = classifier_model.CLASSIFICATION._replace(
    loss_weights=_word_weights
)
