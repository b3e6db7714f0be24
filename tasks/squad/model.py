"""The question answering model (paper sections 4.2, 4.3), objective and graph.

Dimensions as in modeling.py: B rows of a batch, S tokens of a row. Of the
graph: n questions, W windows of all of them, S tokens of the longest one.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

import modeling
from modeling import Layer
from ops import losses
from records.streaming import Batch
from tasks.graph import Outputs, TaskGraph
from tasks.heads import HeadModel
from tasks.squad.decoding import NOTHING_BUT_NULL
from training.objective import Objective, Sums, example_weights
from training.task_model import OutputLayer

# --- Model -------------------------------------------------------------------


class BertForQuestionAnswering(HeadModel):
    """Computes the start and the end logit of every token.

    They are the products of the token's vector with the start vector and the
    end vector (paper section 4.2), plus a bias each, as in the original. A
    BiLSTM may stand between encoder and vectors.
    """

    def create_head(self, num_outputs: int, width: int) -> None:
        """Create the start and the end vector, variables cls/squad/output_*.

        They are [2, width], and the biases [2].
        """
        self.cls = Layer("cls")
        # The original draws it with deviation 0.02, not initializer_range.
        self.cls.squad = OutputLayer(width, 2, "squad")
        self.cls.build()

    def __call__(
        self, features: dict[str, tf.Tensor], seed: modeling.Seed = None
    ) -> tf.Tensor:
        """Return the start logits and the end logits, float32 [2, B, S].

        features: input_ids, input_mask and segment_ids [B, S].
        """
        output = self.bert(**self.encoder_inputs(features, seed))
        x = self.token_vectors(output, features, seed)
        logits = self.cls.squad(x)  # [B, S, 2]
        return tf.transpose(logits, [2, 0, 1])

    def outputs(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the start logits and the end logits, [B, S] each."""
        logits = self(features)
        return {"start_logits": logits[0], "end_logits": logits[1]}


# --- Objective ---------------------------------------------------------------


def without_padding(
    logits: tf.Tensor, features: dict[str, tf.Tensor]
) -> tf.Tensor:
    """Return logits [2, B, S] that are very small at padding.

    The softmax is over the tokens of a row without padding, so that the loss
    does not depend on how far a batch is padded. The original includes padding.
    """
    is_padding = tf.cast(features["input_mask"], tf.float32) - 1.0  # [B, S]
    return logits + 10000.0 * is_padding


def _forward(
    model: BertForQuestionAnswering,
    batch: Batch,
    seed: modeling.Seed,
) -> Sums:
    """Return the losses and the accuracies of starts and ends.

    start_positions and end_positions [B] are 0 ([CLS]) for no answer.
    """
    logits = without_padding(model(batch, seed), batch)
    weights = batch.get("example_weights")
    names = ("start_positions", "end_positions")
    start, end = (
        losses.classification_loss(one, batch[name], weights)
        for one, name in zip(tf.unstack(logits), names, strict=True)
    )
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    return {
        "start_loss": (start.loss, start.weight),
        "end_loss": (end.loss, end.weight),
        "start_accuracy": (start.correct, start.weight),
        "end_accuracy": (end.correct, end.weight),
        "tokens": (tokens, start.weight),
    }


def _total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """Return the mean of the two mean losses; the paper has their sum."""
    start = sums["start_loss"] / weights["start_loss"]
    return (start + sums["end_loss"] / weights["end_loss"]) / 2.0


QUESTION_ANSWERING = Objective(
    loss_weights=lambda batch: dict.fromkeys(
        ("start_loss", "end_loss"),
        tf.reduce_sum(example_weights(batch, "start_positions")),
    ),
    forward=_forward,
    total_loss=_total_loss,
    names=(
        "start_loss",
        "end_loss",
        "start_accuracy",
        "end_accuracy",
        "tokens",
    ),
)


# --- From strings to answers -------------------------------------------------

_NEVER = -1e9  # less than every sum of two logits


class _Windows(NamedTuple):
    """W windows on n paragraphs; all int32."""

    features: dict[str, tf.Tensor]  # inputs of the model, [W, S]
    row: tf.Tensor  # [W] index of the question
    doc_offset: tf.Tensor  # [W] position in the row of the first piece
    doc_start: tf.Tensor  # [W] index of that piece in the paragraph
    doc_length: tf.Tensor  # [W] number of pieces


class QuestionAnsweringGraph(TaskGraph):
    """Answers questions [n] on contexts [n], both strings.

    Windows, max-context and the search for the best span follow windows.py and
    decoding.py, in TensorFlow operations, with two differences. Every span of
    the paragraph up to max_answer_length is a candidate, not those of the
    n_best_size best starts and ends only. And the answer has the white space of
    the paragraph, while decoding.py puts a blank between words.

    Outputs:
        answer: [n], part of the context.
        start, end: [n], the characters of the context from start to end - 1
            are the answer.
        score: [n], start logit + end logit of the answer; -1e6 for a context
            without a token.
        null_odds: [n], see decoding.py; with a threshold only. The answer is
            "" where they exceed it.
    """

    def from_texts(self, question: tf.Tensor, context: tf.Tensor) -> Outputs:
        """Return the answers to questions [n] on contexts [n]."""
        limit = self.task.lengths.max_query_length
        query = self.tokenizer(question)[:, :limit]
        pieces = self.tokenizer.with_offsets(context)
        windows = self._windows(query, pieces.ids)
        logits = self.numbers(windows.features)
        spans = self._best_spans(logits, windows, pieces.ids)
        # Those of each question's best window.
        count = tf.size(context)
        best = _first_best(spans[0], windows.row, count)  # [n] windows
        score, start, end = (tf.gather(x, best) for x in spans)
        # From positions in the row to indices of the pieces of all contexts.
        shift = tf.gather(windows.doc_start - windows.doc_offset, best)
        at = tf.cast(pieces.ids.row_starts(), tf.int32) + shift
        first = _take(pieces.starts.values, at + start)
        last = _take(pieces.ends.values, at + end)
        # -1e9 plus a logit is -1e9 in float32: masked spans have no more.
        is_answer = score > _NEVER
        null = tf.math.unsorted_segment_min(
            logits["start_logits"][:, 0] + logits["end_logits"][:, 0],
            windows.row,
            count,
        )
        outputs = {"score": tf.where(is_answer, score, -NOTHING_BUT_NULL)}
        threshold = self.task.options.null_threshold
        if threshold is not None:
            odds = tf.where(is_answer, null - score, NOTHING_BUT_NULL)
            outputs["null_odds"] = odds
            is_answer &= odds <= threshold
        first = tf.where(is_answer, first, 0)
        last = tf.where(is_answer, last, 0)
        return outputs | {
            "answer": tf.strings.substr(
                context, first, last - first, unit="UTF8_CHAR"
            ),
            "start": first,
            "end": last,
        }

    def _windows(
        self, query: tf.RaggedTensor, doc: tf.RaggedTensor
    ) -> _Windows:
        """Return the windows, at least one for each paragraph.

        query [n, (tokens)] and doc [n, (pieces)] are ids.
        """
        query_length = tf.cast(query.row_lengths(), tf.int32)  # [n]
        length = tf.cast(doc.row_lengths(), tf.int32)  # [n]
        max_pieces = self.task.lengths.max_seq_length - query_length - 3  # [n]
        stride = tf.minimum(max_pieces, self.task.lengths.doc_stride)  # [n]
        beyond = tf.maximum(length - max_pieces, 0)  # after the first window
        counts = 1 - (-beyond) // stride  # [n] windows; rounds up
        row = tf.repeat(tf.range(tf.size(counts)), counts)  # [W]
        number = tf.range(tf.size(row)) - tf.gather(
            tf.cumsum(counts, exclusive=True), row
        )  # [W] of the window among those of its question
        start = number * tf.gather(stride, row)  # [W]
        seen = tf.minimum(
            tf.gather(length, row) - start, tf.gather(max_pieces, row)
        )  # [W]
        first = tf.gather(tf.cast(doc.row_starts(), tf.int32), row) + start
        pieces = tf.ragged.range(first, first + seen)  # [W, (pieces)]
        features = self.tokenizer.features(
            tf.gather(query, row),
            tf.gather(doc.flat_values, pieces),
            max_seq_length=self.task.lengths.max_seq_length,
        )
        offset = tf.gather(query_length, row) + 2
        return _Windows(features, row, offset, start, seen)

    def _best_spans(
        self,
        logits: Outputs,
        windows: _Windows,
        doc: tf.RaggedTensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the score, start and end of each window's best span, [W].

        Start and end are positions in the row, the end inclusive.
        """
        starts, ends = logits["start_logits"], logits["end_logits"]
        width = tf.shape(starts)[1]
        at = tf.range(width)[None] - windows.doc_offset[:, None]  # [W, S]
        in_doc = (at >= 0) & (at < windows.doc_length[:, None])
        may_start = in_doc & _has_max_context(windows, at, in_doc, doc)
        starts = tf.where(may_start, starts, _NEVER)
        ends = tf.where(in_doc, ends, _NEVER)
        # sums[w, s, i] is the score of the span from s to s + i.
        length = self.task.options.max_answer_length
        padded = tf.pad(ends, [[0, 0], [0, length]], constant_values=_NEVER)
        sums = tf.stack(
            [starts + padded[:, i : i + width] for i in range(length)], -1
        )  # [W, S, length]
        sums = tf.reshape(sums, [-1, width * length])
        best = tf.argmax(sums, -1, tf.int32)
        start = best // length
        return tf.reduce_max(sums, -1), start, start + best % length


def _first_best(
    score: tf.Tensor, segment: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    """Return the index of the first of the best scores of each segment."""
    best = tf.math.unsorted_segment_max(score, segment, count)
    index, spare = tf.range(tf.size(score)), tf.size(score) - 1
    index = tf.where(score == tf.gather(best, segment), index, spare)
    found = tf.math.unsorted_segment_min(index, segment, count)
    return tf.minimum(found, spare)  # which is for a segment without a score


def _take(values: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    """Return values[at]; any value where `at` is outside, for masked places."""
    # One takes the place of values if there are none.
    values = tf.concat([values, tf.zeros([1], values.dtype)], 0)
    return tf.gather(values, tf.clip_by_value(at, 0, tf.size(values) - 1))


def _has_max_context(
    windows: _Windows, at: tf.Tensor, in_doc: tf.Tensor, doc: tf.RaggedTensor
) -> tf.Tensor:
    """Return whether each token has the most context in this window, [W, S].

    See decoding.max_context, which has an example. `at` [W, S] is the index of
    each position among the pieces of the window, and `in_doc` [W, S] whether
    the position holds one.
    """
    left = tf.cast(at, tf.float32)
    length = tf.cast(windows.doc_length, tf.float32)[:, None]
    score = tf.minimum(left, length - 1.0 - left) + 0.01 * length
    begins = tf.cast(tf.gather(doc.row_starts(), windows.row), tf.int32)
    token = (begins + windows.doc_start)[:, None] + at  # among all pieces
    # The last segment collects the positions outside of the paragraph.
    count = tf.size(doc.values) + 1
    token = tf.where(in_doc, token, count - 1)
    first = _first_best(tf.reshape(score, [-1]), tf.reshape(token, [-1]), count)
    position = tf.reshape(tf.range(tf.size(token)), tf.shape(token))
    return in_doc & (tf.gather(first, token) == position)
