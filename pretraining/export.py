"""A SavedModel that fills masks: from texts with [MASK] to tokens."""

from typing import Any

import tensorflow as tf

from serving import graph_tokenizer, saved_model


class MaskedLm(saved_model.Export):
    """Returns the `top_k` most probable tokens for each [MASK] of n texts.

    The outputs are `tokens` and `scores` (probabilities), both [n, M, top_k]
    where M is the largest number of [MASK]s in a text. Texts with fewer have
    empty tokens and scores of 0 at the end.

    Args:
        *args: as for `saved_model.Export`; the model is BertForPreTraining.
        tokens: the vocabulary, in the order of ids.
        top_k: number of tokens for each [MASK].
    """

    task = "masked_lm"

    def __init__(self, *args: Any, tokens: list[str], top_k: int):
        super().__init__(*args)
        self.tokens, self.top_k = tf.constant(tokens), top_k
        self.mask_id = tokens.index("[MASK]")

    def description(self) -> dict[str, Any]:
        """Return also the number of tokens for each [MASK]."""
        return super().description() | {"top_k": self.top_k}

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

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the most probable tokens for every [MASK]."""
        ids = features["input_ids"]
        width = tf.shape(ids)[1]
        place = tf.range(width)[None] + tf.zeros_like(ids)
        positions = tf.ragged.boolean_mask(place, ids == self.mask_id)
        is_mask = tf.sequence_mask(positions.row_lengths())  # [n, M]
        output = self.model(
            features | {"masked_lm_positions": positions.to_tensor()}
        )
        # Some models have more rows of embeddings than there are tokens.
        logits = output.masked_lm_logits[..., : len(self.tokens)]  # [n, M, V]
        scores, best = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        is_mask = is_mask[..., None]
        return {
            "tokens": tf.where(is_mask, tf.gather(self.tokens, best), ""),
            "scores": tf.where(is_mask, scores, 0.0),
        }
