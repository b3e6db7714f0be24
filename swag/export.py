"""The SavedModel of multiple choice: context and choices in, answer out."""

import tensorflow as tf

from serving import graph_tokenizer, saved_model


class MultipleChoice(saved_model.Export):
    """probabilities [n, C], answer [n], the number of the likeliest choice.

    Takes context [n] and choices [n, C] as strings; in the signature `ids`
    three times [n, C, S].
    """

    ids = tf.TensorSpec([None, None, None], tf.int32)

    def text_names(self) -> list[str]:
        """Return context and choices."""
        return ["context", "choices"]

    def text_specs(self) -> list[tf.TensorSpec]:
        """Return [n] and [n, C]."""
        return [saved_model.TEXTS, tf.TensorSpec([None, None], tf.string)]

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of every choice, [n, C, S]."""
        context, choices = texts
        count, width = tf.unstack(tf.shape(choices))
        of = tf.repeat(tf.range(count), width)  # [n * C]
        rows = graph_tokenizer.add_special_tokens(
            self.tokenizer.ids,
            tf.gather(self.tokenizer(context), of),
            self.tokenizer(tf.reshape(choices, [-1])),
            self.max_seq_length,
        )
        return {
            name: tf.reshape(value, [count, width, tf.shape(value)[1]])
            for name, value in rows.items()
        }

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the probability of every choice, and the answer."""
        probs = tf.nn.softmax(self.model(features))
        answer = tf.argmax(probs, -1, tf.int32)
        return {"probabilities": probs, "answer": answer}
