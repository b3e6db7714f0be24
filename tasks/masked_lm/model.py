"""The models that fill masks and score sentences, and the graph of masks."""

import tensorflow as tf

from pretraining.model import BertForPreTraining
from tasks.graph import Outputs, TaskGraph
from tasks.task import Task
from training.task_model import TaskModel

# Rows that are run at once have about as many tokens as a batch of 32 rows of
# 128, unless the sentences themselves have more.
_STEP_TOKENS = 4096


class BertForMaskedLM(BertForPreTraining):
    """The masked LM of a pre-trained model.

    Pooler and next sentence head may be missing: they are not used.

    Args:
        task: has configuration, vocabulary and options.
        dtype: type of the matrix products.
    """

    def __init__(self, task: Task, dtype: str):
        config, vocab = task.checkpoint.config, task.tokenizer.vocab
        super().__init__(config, dtype, predicts_next_sentence=False)
        self.mask_id, self.options = vocab["[MASK]"], task.options
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
        scores, best = tf.math.top_k(tf.nn.softmax(logits), self.options.top_k)
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

    def __init__(self, task: Task, model: TaskModel):
        super().__init__(task, model)
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
        return self.tokenizer.features(ids, max_seq_length=self.max_seq_length)

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return the most probable tokens for every [MASK]."""
        ids = numbers["token_ids"]  # [n, M, top_k]
        tokens = tf.gather(self.tokens, tf.maximum(ids, 0))
        return {
            "tokens": tf.where(ids < 0, "", tokens),
            "scores": numbers["scores"],
        }


# --- Scores of sentences: every token masked in turn --------------------------


class SentenceScorer(BertForMaskedLM):
    """Returns log P(token | all others) of n sentences, and their sums.

    The outputs are `token_scores` [n, S], 0 at [CLS], [SEP] and padding;
    `score` [n], their sum; `num_tokens` [n]; and `perplexity` [n]. "a b" and
    "c" are run as these rows, of which only the vectors at masks go to the
    output layer:

        [CLS] [MASK] b [SEP]    [CLS] a [MASK] [SEP]    [CLS] [MASK] [SEP]
    """

    def __init__(self, task: Task, dtype: str):
        super().__init__(task, dtype)
        vocab, joins = task.tokenizer.vocab, self.options.score_whole_words
        self.cls_id, self.sep_id = vocab["[CLS]"], vocab["[SEP]"]
        # Whether a token, in the order of ids, is masked with the one before.
        self.is_joined = tf.constant(
            [joins and token.startswith("##") for token in vocab]
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
            output = self.bert(**self.encoder_inputs(batch))
            x = tf.gather_nd(output.sequence_output, places)  # [P, H]
            logits = self.word_logits(x)[:, : self.num_tokens]  # [P, V]
            log_probs = tf.nn.log_softmax(logits)
            found = tf.gather(log_probs, labels, batch_dims=1)  # [P]
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
