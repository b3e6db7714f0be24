"""The model that tags words, and its objective (paper section 5.3).

Tags are a classification of single words, without a CRF: the output at the
first piece of a word is the input of a classifier. label_ids hold the class
there and IGNORED at every other position ([CLS], [SEP], padding, the other
pieces of a word, words of neighboring sentences).
"""

import tensorflow as tf

import modeling
from modeling import BertConfig, TaskModel, draw_seed
from ops import losses
from records.streaming import Batch
from tasks import bilstm, heads
from tasks.bilstm import NO_BILSTM, BiLstmSize
from tasks.classifier import model as classifier_model

# --- Model -------------------------------------------------------------------


class BertForTokenClassification(TaskModel):
    """An encoder and one output vector per class, at every position.

    Args:
        config: of the encoder.
        num_labels: K.
        dtype: of matrix products.
        bilstm_size: of the BiLSTM between encoder and vectors, if any.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        dtype: str = "float32",
        bilstm_size: BiLstmSize = NO_BILSTM,
    ):
        super().__init__(config, dtype)
        self.bilstm = bilstm.create(bilstm_size, config.hidden_size)
        self.output_weights, self.output_bias = heads.output_variables(
            num_labels, bilstm.output_width(bilstm_size, config.hidden_size)
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
        if self.bilstm is None:
            x = heads.head_dropout(x, seed, "classifier/dropout", self.compute)
        else:  # which drops out its output
            mask = bilstm.mask_of(features)
            x = self.bilstm(
                x, mask, seed, training=training, compute=self.compute
            )  # [B, S, 2 * U]
        return modeling.project(x, self.output_weights, self.output_bias)

    def loss(
        self, logits: tf.Tensor, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the cross entropy of words; features as for `word_loss`."""
        return word_loss(logits, features)


# --- Objective: a mean over words --------------------------------------------


def word_loss(logits: tf.Tensor, features: dict[str, tf.Tensor]) -> losses.Loss:
    """Return the cross entropy of the words; other positions do not count.

    Args:
        logits: float32 [B, S, K].
        features: label_ids [B, S], negative where there is no word to
            classify. If there are `example_weights` [B], they are 0 for rows
            that only fill a batch.
    """
    # Any class will do where the weight is 0, but -1 is out of range.
    labels = tf.maximum(features["label_ids"], 0)
    return losses.classification_loss(logits, labels, word_weights(features))


def word_weights(features: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return 1.0 for words to classify, 0.0 elsewhere, [B, S]."""
    weights = tf.cast(features["label_ids"] >= 0, tf.float32)
    if "example_weights" in features:
        weights *= features["example_weights"][:, None]
    return weights


def _num_words(batch: Batch) -> dict[str, tf.Tensor]:
    """Return the denominator of the loss: the words of a batch."""
    return {"label_loss": tf.reduce_sum(word_weights(batch))}


WORD_CLASSIFICATION = classifier_model.CLASSIFICATION._replace(
    loss_weights=_num_words
)
