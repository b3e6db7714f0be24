"""The model that scores sentences: every token masked in turn."""

from collections.abc import Mapping

import tensorflow as tf

from modeling import BertConfig
from tasks.graph import Outputs
from tasks.masked_lm.model import BertForMaskedLM

# Rows that are run at once have about as many tokens as a batch of 32 rows of
# 128, unless the sentences themselves have more.
_STEP_TOKENS = 4096


class SentenceScorer(BertForMaskedLM):
    """Returns log P(token | all others) of n sentences, and their sums.

    The outputs are `token_scores` [n, S], 0 at [CLS], [SEP] and padding;
    `score` [n], their sum; `num_tokens` [n]; and `perplexity` [n]. "a b" and
    "c" are run as these rows, of which only the vectors at masks go to the
    output layer:

        [CLS] [MASK] b [SEP]    [CLS] a [MASK] [SEP]    [CLS] [MASK] [SEP]
    """

    def __init__(
        self,
        config: BertConfig,
        dtype: str,
        vocab: Mapping[str, int],
        score_whole_words: bool,
    ):
        super().__init__(config, dtype, vocab)
        self.cls_id, self.sep_id = vocab["[CLS]"], vocab["[SEP]"]
        # Whether a token, in the order of ids, is masked with the one before.
        self.is_joined = tf.constant(
            [score_whole_words and token.startswith("##") for token in vocab]
        )

    def outputs(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the four outputs."""
        ids = features["input_ids"]  # [n, S]
        is_token = (
            (features["input_mask"] > 0)
            & (ids != self.cls_id)
            & (ids != self.sep_id)
        )
        is_start = is_token & ~tf.gather(self.is_joined, ids)
        # The number of each token's word in its sentence, from 1; else 0.
        words = tf.cumsum(tf.cast(is_start, tf.int32), axis=1)
        words = tf.where(is_token, words, 0)  # [n, S]
        starts = tf.where(is_start)  # [M, 2], a row to run for each word
        shape = tf.shape(ids)
        size = tf.maximum(shape[0], _STEP_TOKENS // shape[1])

        def step(first: tf.Tensor, scores: tf.Tensor) -> tuple:
            """Score the words of R starts."""
            taken = starts[first : first + size]  # [R, 2]
            sentences = taken[:, 0]
            word = tf.expand_dims(tf.gather_nd(words, taken), 1)  # [R, 1]
            is_masked = tf.gather(words, sentences) == word  # [R, S]
            batch = {n: tf.gather(v, sentences) for n, v in features.items()}
            places = tf.where(is_masked)  # [P, 2], of the rows
            labels = tf.gather_nd(batch["input_ids"], places)
            batch["input_ids"] = tf.where(
                is_masked, self.mask_id, batch["input_ids"]
            )
            found = self._log_probs(batch, places, labels)
            of_sentences = tf.stack(
                [tf.gather(sentences, places[:, 0]), places[:, 1]], axis=1
            )
            # Every token is masked once.
            scores += tf.scatter_nd(
                of_sentences, found, tf.shape(ids, tf.int64)
            )
            return first + size, scores

        _, scores = tf.while_loop(
            lambda first, _: first < tf.shape(starts)[0],
            step,
            (0, tf.zeros(shape)),
            parallel_iterations=1,  # several steps would need their memory
        )
        score = tf.reduce_sum(scores, axis=1)
        count = tf.reduce_sum(tf.cast(words > 0, tf.float32), axis=1)
        return {
            "token_scores": scores,
            "score": score,
            "num_tokens": tf.cast(count, tf.int32),
            # Rows that fill up a batch have no token.
            "perplexity": tf.exp(tf.math.divide_no_nan(-score, count)),
        }

    def _log_probs(
        self,
        features: dict[str, tf.Tensor],
        places: tf.Tensor,
        labels: tf.Tensor,
    ) -> tf.Tensor:
        """Return log P [P] of labels [P] at places [P, 2] of [R, S]."""
        output = self.bert(**self.encoder_inputs(features))
        x = tf.gather_nd(output.sequence_output, places)  # [P, H]
        x = tf.expand_dims(x, 0)  # [1, P, H]
        logits = self.cls.predictions(
            x,
            tf.expand_dims(tf.range(tf.shape(x)[1]), 0),
            self.bert.embeddings.word_embeddings,
            compute=self.compute,
        )
        log_probs = tf.nn.log_softmax(logits[0, :, : self.num_tokens])  # [P, V]
        return tf.gather(log_probs, labels, batch_dims=1)
