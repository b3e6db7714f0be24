"""The model for multiple choice (paper section 4.4), objective and graph.

Every choice is a sequence of its own: sentence A is the context, sentence B
the choice. A new vector scores the pooled output of each (see
modeling.class_vectors); a softmax over the scores of one question decides. The
bias that all heads have is added to every score, so it changes nothing.
"""

import tensorflow as tf

from modeling import Seed
from ops import losses
from tasks.graph import TEXTS, Outputs, TaskGraph
from tasks.heads import CLASSIFICATION, HeadModel, in_rows


class BertForMultipleChoice(HeadModel):
    """An encoder, and one vector that scores a choice.

    The score is its product with the pooled output, which is made of [CLS],
    or of the last token left to right (see modeling.class_vectors); with a
    BiLSTM, with its final states.
    """

    @property
    def uses_pooler(self) -> bool:
        """Whether there is no BiLSTM."""
        return self.bilstm is None

    def __call__(
        self, features: dict[str, tf.Tensor], seed: Seed = None
    ) -> tf.Tensor:
        """Return float32 scores [...] of sequences [..., S].

        The leading dimensions are [B, C] for questions with C choices, or [R]
        for choices in a row.
        """
        leading, rows = in_rows(features)  # [R, S]
        output = self.bert(**self.encoder_inputs(rows, seed))
        scores = self.project(self.text_vectors(output, rows, seed))  # [R, 1]
        return tf.reshape(scores, leading) if leading[1:] else scores[:, 0]

    def outputs(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the logits of choices, [B, C] of [B, C, S], [R] of [R, S]."""
        return {"logits": self(features)}

    def loss(
        self, logits: tf.Tensor, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the cross entropy of the scores [B, C] of questions.

        label_ids [B, C] have the number of the right choice, repeated for
        every choice.
        """
        return losses.classification_loss(logits, features["label_ids"][:, 0])


# The loss is a mean over questions.
MULTIPLE_CHOICE = CLASSIFICATION._replace(
    loss_weights=lambda batch: {
        "label_loss": tf.cast(tf.shape(batch["label_ids"])[0], tf.float32)
    }
)


class MultipleChoiceGraph(TaskGraph):
    """Outputs probabilities [n, C] and answer [n], the likeliest choice.

    `serving_default` takes strings, context [n] and choices [n, C]; `ids`
    takes input_ids, input_mask and segment_ids [n, C, S].
    """

    ids = tf.TensorSpec([None, None, None], tf.int32)

    def text_specs(self) -> list[tf.TensorSpec]:
        """Return the shapes of context and choices, [n] and [n, C]."""
        return [TEXTS, tf.TensorSpec([None, None], tf.string)]

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features [n, C, S] of context [n] and choices [n, C]."""
        context, choices = texts
        count, width = tf.unstack(tf.shape(choices))  # n, C
        # Each context is tokenized once and repeated for its choices.
        question = tf.repeat(tf.range(count), width)  # [n * C]
        rows = self.tokenizer.features(
            tf.gather(self.tokenizer(context), question),
            self.tokenizer(tf.reshape(choices, [-1])),
            max_seq_length=self.max_seq_length,
        )
        return {
            name: tf.reshape(value, [count, width, tf.shape(value)[1]])
            for name, value in rows.items()
        }

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return the probability of every choice, and the likeliest one."""
        probs = tf.nn.softmax(numbers["logits"])  # [n, C]
        answer = tf.argmax(probs, -1, tf.int32)
        return {"probabilities": probs, "answer": answer}
