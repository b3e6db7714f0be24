"""The SavedModel of multiple choice: context and choices in, answers out."""

import tensorflow as tf

from tasks import graph_tokenizer, saved_model


class MultipleChoice(saved_model.Export):
    """Outputs probabilities [n, C] and answer [n], the likeliest choice.

    `serving_default` takes strings, context [n] and choices [n, C]; `ids`
    takes input_ids, input_mask and segment_ids [n, C, S].
    """

    ids = tf.TensorSpec([None, None, None], tf.int32)

    def text_specs(self) -> list[tf.TensorSpec]:
        """Return the shapes of context and choices, [n] and [n, C]."""
        return [saved_model.TEXTS, tf.TensorSpec([None, None], tf.string)]

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of every choice, [n, C, S].

        Args:
            texts: context [n] and choices [n, C].
        """
        context, choices = texts
        count, width = tf.unstack(tf.shape(choices))  # n, C
        # Each context is tokenized once and repeated for its choices.
        question = tf.repeat(tf.range(count), width)  # [n * C]
        rows = graph_tokenizer.add_special_tokens(
            self.tokenizer.ids,
            tf.gather(self.tokenizer(context), question),
            self.tokenizer(tf.reshape(choices, [-1])),
            self.max_seq_length,
        )
        return {
            name: tf.reshape(value, [count, width, tf.shape(value)[1]])
            for name, value in rows.items()
        }

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the logits of choices, [n, C] of [n, C, S], [R] of [R, S]."""
        return {"logits": self.model(features)}

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the probability of every choice, and the likeliest one."""
        probs = tf.nn.softmax(self.numbers(features)["logits"])  # [n, C]
        answer = tf.argmax(probs, -1, tf.int32)
        return {"probabilities": probs, "answer": answer}
