"""The graph that fills masks: from texts with [MASK] to tokens."""

from typing import Any

import tensorflow as tf

from tasks import graph_tokenizer, saved_model
from tasks.task import Task


class MaskedLmGraph(saved_model.TaskGraph):
    """Returns the `top_k` most probable tokens for each [MASK] of n texts.

    The outputs are `tokens` and `scores` (probabilities), both [n, M, top_k]
    where M is the largest number of [MASK]s in a text. Texts with fewer have
    empty tokens and scores of 0 at the end. The model is a BertForPreTraining.
    """

    def __init__(self, task: Task, *args: Any):
        super().__init__(task, *args)
        vocab = task.tokenizer.vocab  # in the order of ids
        self.tokens, self.mask_id = tf.constant(list(vocab)), vocab["[MASK]"]
        self.top_k = task.settings.top_k

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of texts [n], with [MASK] as one token.

        The tokenizer would split it into [, mask and ]. So the texts between
        are tokenized: "a [MASK] b" -> "a ", " b" -> a [MASK], b [MASK] -> a
        [MASK] b.
        """
        between = tf.strings.split(texts[0], "[MASK]")  # ragged [n, texts]
        ids = self.tokenizer(between.flat_values)  # ragged [all texts, ids]
        mask = tf.fill([ids.nrows(), 1], self.mask_id)
        ids = tf.concat([ids, tf.cast(mask, ids.dtype)], axis=1)
        # The last text of each row has no [MASK] after it.
        ids = between.with_values(ids).merge_dims(1, 2)[:, :-1]
        return graph_tokenizer.add_special_tokens(
            self.tokenizer.ids, ids, None, self.max_seq_length
        )

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return token_ids and scores [n, M, top_k], ids of -1 for no mask."""
        ids = features["input_ids"]
        is_mask = tf.cast(ids == self.mask_id, tf.int32)  # [n, S]
        counts = tf.reduce_sum(is_mask, axis=1)  # [n]
        # reduce_max of no text is the smallest int32.
        most = tf.maximum(0, tf.reduce_max(counts))  # M
        # The M largest of S - place at masks, 0 elsewhere, are the masks in
        # order. There is no ragged operation: LiteRT has none.
        left = tf.shape(ids)[1] - tf.range(tf.shape(ids)[1])  # [S]
        found = tf.math.top_k(is_mask * left, most)  # [n, M]
        output = self.model(features | {"masked_lm_positions": found.indices})
        # Some models have more rows of embeddings than there are tokens.
        logits = output.masked_lm_logits[..., : len(self.tokens)]  # [n, M, V]
        scores, best = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        is_found = tf.expand_dims(found.values > 0, -1)  # [n, M, 1]
        return {
            "token_ids": tf.where(is_found, best, -1),
            "scores": tf.where(is_found, scores, 0.0),
        }

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the most probable tokens for every [MASK]."""
        outputs = self.numbers(features)
        ids = outputs["token_ids"]  # [n, M, top_k]
        tokens = tf.gather(self.tokens, tf.maximum(ids, 0))
        return {
            "tokens": tf.where(ids < 0, "", tokens),
            "scores": outputs["scores"],
        }
