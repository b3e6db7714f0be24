"""The SavedModel of a masked LM: texts with [MASK] in, tokens out."""

from typing import Any

import tensorflow as tf

from serving import graph_tokenizer, saved_model


class MaskedLm(saved_model.Export):
    """tokens and scores [n, M, top_k] of the M [MASK]s of the fullest text.

    A text with fewer has empty tokens and scores 0 at the end.
    """

    def __init__(self, *args: Any, tokens: list[str], top_k: int):
        super().__init__(*args)
        self.tokens, self.top_k = tf.constant(tokens), top_k
        self.mask_id = tokens.index("[MASK]")

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of strings in which [MASK] is the token."""
        pieces = tf.strings.split(texts[0], "[MASK]")  # ragged [n, pieces]
        ids = self.tokenizer(pieces.flat_values)  # ragged [all pieces, ids]
        mask = tf.fill([ids.nrows(), 1], self.mask_id)
        ids = tf.concat([ids, tf.cast(mask, ids.dtype)], axis=1)
        ids = pieces.with_values(ids).merge_dims(1, 2)[:, :-1]
        return graph_tokenizer.add_special_tokens(
            self.tokenizer.ids, ids, None, self.max_seq_length
        )

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the likeliest tokens at every [MASK]."""
        ids = features["input_ids"]
        width = tf.shape(ids)[1]
        place = tf.range(width)[None] + tf.zeros_like(ids)
        at = tf.ragged.boolean_mask(place, ids == self.mask_id)
        is_mask = tf.sequence_mask(at.row_lengths())  # [n, M]
        output = self.model(features | {"masked_lm_positions": at.to_tensor()})
        # Some models have more rows than their vocabulary tokens.
        logits = output.masked_lm_logits[..., : len(self.tokens)]
        scores, best = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        is_mask = is_mask[..., None]
        return {
            "tokens": tf.where(is_mask, tf.gather(self.tokens, best), ""),
            "scores": tf.where(is_mask, scores, 0.0),
        }
