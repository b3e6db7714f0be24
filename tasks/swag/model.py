"""The model for multiple choice, and its objective (paper section 4.4).

Every choice is a sequence of its own: sentence A is the context, sentence B
the choice. A vector, the only new parameters, scores the pooled output of each
(see modeling.class_vectors); a softmax over the scores of one question decides.
"""

import tensorflow as tf

from modeling import BertConfig
from ops import losses
from ops.elementwise import shape_of
from records.streaming import Batch
from tasks.bilstm import NO_BILSTM, BiLstmSize
from tasks.classifier import model as classifier_model

# --- Model -------------------------------------------------------------------


class BertForMultipleChoice(classifier_model.BertForSequenceClassification):
    """An encoder, and one vector that scores a choice.

    The score is its product with the pooled output, which is made of [CLS],
    or of the last token left to right (see modeling.class_vectors).
    """

    def __init__(
        self,
        config: BertConfig,
        dtype: str = "float32",
        bilstm_size: BiLstmSize = NO_BILSTM,
    ):
        super().__init__(config, 1, dtype, bilstm_size)

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 scores [...] of sequences [..., S].

        The leading dimensions are [B, C] for questions with C choices, or [R]
        for choices in a row.
        """
        *leading, length = shape_of(features["input_ids"])
        rows = {
            name: tf.reshape(features[name], [-1, length])
            for name in ("input_ids", "input_mask", "segment_ids")
            if name in features
        }  # [R, S]
        scores = super().__call__(rows, training, dropout_seed)  # [R, 1]
        return tf.reshape(scores, leading)

    def loss(
        self, logits: tf.Tensor, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the cross entropy of questions.

        Args:
            logits: scores [B, C] of C choices.
            features: label_ids [B, C]: the number of the right choice,
                repeated for every choice.
        """
        return losses.classification_loss(logits, features["label_ids"][:, 0])


# --- Objective ---------------------------------------------------------------


def _num_questions(batch: Batch) -> dict[str, tf.Tensor]:
    """Return the denominator of the loss: the questions of a batch."""
    questions = tf.shape(batch["label_ids"])[0]
    return {"label_loss": tf.cast(questions, tf.float32)}


MULTIPLE_CHOICE = classifier_model.CLASSIFICATION._replace(
    loss_weights=_num_questions
)
