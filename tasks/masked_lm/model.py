"""The model that fills masks, and its graph: from texts to tokens."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from modeling import BertConfig
from pretraining.model import BertForPreTraining
from tasks import graph_tokenizer
from tasks.graph import Outputs, TaskGraph
from tasks.task import Task


class BertForMaskedLM(BertForPreTraining):
    """The masked LM of a pre-trained model.

    Pooler and next sentence head may be missing: they are not used.

    Args:
        config: the encoder's configuration.
        dtype: type of the matrix products.
        vocab: token -> id.
        top_k: tokens for each [MASK].
    """

    required = "^(?!bert/pooler/|cls/seq_relationship/)"

    def __init__(
        self,
        config: BertConfig,
        dtype: str,
        vocab: Mapping[str, int],
        top_k: int = 1,
    ):
        super().__init__(config, dtype)
        self.mask_id, self.top_k = vocab["[MASK]"], top_k
        # Some models have more rows of embeddings than there are tokens.
        self.num_tokens = len(vocab)

    def outputs(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return token_ids and scores [n, M, top_k], ids of -1 for no mask.

        M is the largest number of [MASK]s in a text.
        """
        ids = features["input_ids"]
        is_mask = tf.cast(ids == self.mask_id, tf.int32)  # [n, S]
        counts = tf.reduce_sum(is_mask, axis=1)  # [n]
        # reduce_max of no text is the smallest int32.
        most = tf.maximum(0, tf.reduce_max(counts))  # M
        # The M largest of S - place at masks, 0 elsewhere, are the masks in
        # order. There is no ragged operation: LiteRT has none.
        left = tf.shape(ids)[1] - tf.range(tf.shape(ids)[1])  # [S]
        found = tf.math.top_k(is_mask * left, most)  # [n, M]
        output = self(features | {"masked_lm_positions": found.indices})
        logits = output.masked_lm_logits[..., : self.num_tokens]  # [n, M, V]
        scores, best = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        is_found = tf.expand_dims(found.values > 0, -1)  # [n, M, 1]
        return {
            "token_ids": tf.where(is_found, best, -1),
            "scores": tf.where(is_found, scores, 0.0),
        }


class MaskedLmGraph(TaskGraph):
    """Returns the `top_k` most probable tokens for each [MASK] of n texts.

    The outputs are `tokens` and `scores` (probabilities), both [n, M, top_k]
    where M is the largest number of [MASK]s in a text. Texts with fewer have
    empty tokens and scores of 0 at the end.
    """

    def __init__(self, task: Task, *args: Any):
        super().__init__(task, *args)
        # In the order of ids.
        self.tokens = tf.constant(list(task.tokenizer.vocab))

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of texts [n], with [MASK] as one token.

        The tokenizer would split it into [, mask and ]. So the texts between
        are tokenized: "a [MASK] b" -> "a ", " b" -> a [MASK], b [MASK] -> a
        [MASK] b.
        """
        between = tf.strings.split(texts[0], "[MASK]")  # ragged [n, texts]
        ids = self.tokenizer(between.flat_values)  # ragged [all texts, ids]
        mask = tf.fill([ids.nrows(), 1], self.model.mask_id)
        ids = tf.concat([ids, tf.cast(mask, ids.dtype)], axis=1)
        # The last text of each row has no [MASK] after it.
        ids = between.with_values(ids).merge_dims(1, 2)[:, :-1]
        return graph_tokenizer.add_special_tokens(
            self.tokenizer.ids, ids, None, self.max_seq_length
        )

    def answers(self, numbers: Outputs) -> Outputs:
        """Return the most probable tokens for every [MASK]."""
        ids = numbers["token_ids"]  # [n, M, top_k]
        tokens = tf.gather(self.tokens, tf.maximum(ids, 0))
        return {
            "tokens": tf.where(ids < 0, "", tokens),
            "scores": numbers["scores"],
        }
