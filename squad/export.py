"""Question answering as a SavedModel: strings in, a piece of the string out.

Windows, the rule of the best context and the search for the best span are
those of squad_features.py and squad_decoding.py, as TensorFlow operations. The
answer is cut out of the paragraph as it was given.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from serving import graph_tokenizer, saved_model
from squad.decoding import NOTHING_BUT_NULL
from squad.windows import Lengths

_NEVER = -1e9  # below any sum of logits


class _Windows(NamedTuple):
    """W windows on n paragraphs; all int32."""

    features: dict[str, tf.Tensor]  # [W, S]
    row: tf.Tensor  # [W] which question
    doc_offset: tf.Tensor  # [W] where in the row the paragraph begins
    doc_start: tf.Tensor  # [W] which of its tokens that is
    doc_length: tf.Tensor  # [W]


class QuestionAnswering(saved_model.Export):
    """answer, start and end [n] in characters, score [n]; null_odds [n].

    `score` is the sum of the answer's two logits; a context without a token
    has -1e6, and null_odds of 1e6 as in null_odds.json. With a threshold,
    answer is "" where null_odds, by how much no answer scores higher, exceed
    it.

    Args:
        lengths: of windows.
        max_answer_length: in tokens.
        null_threshold: None where every question has an answer.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: graph_tokenizer.Tokenizer,
        vocab_file: str,
        lengths: Lengths,
        max_answer_length: int,
        null_threshold: float | None,
    ):
        super().__init__(model, tokenizer, vocab_file, lengths.max_seq_length)
        self.lengths, self.max_answer_length = lengths, max_answer_length
        self.null_threshold = null_threshold

    def text_names(self) -> list[str]:
        """Return question and context."""
        return ["question", "context"]

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return start_logits and end_logits [n, S]: what ids lead to."""
        starts, ends = tf.unstack(self.model(features))
        return {"start_logits": starts, "end_logits": ends}

    def from_texts(
        self, question: tf.Tensor, context: tf.Tensor
    ) -> saved_model.Outputs:
        """Return the answers to questions [n] on contexts [n]."""
        tf.debugging.assert_equal(
            tf.size(question),
            tf.size(context),
            "question and context have to be equally many",
        )
        limit = self.lengths.max_query_length
        query = self.tokenizer(question)[:, :limit]
        pieces = self.tokenizer.with_offsets(context)
        windows = self._windows(query, pieces.ids)
        logits = self.answers(windows.features)
        score, start, end = self._best_spans(logits, windows, pieces.ids)
        return self._texts(context, pieces, windows, logits, score, start, end)

    def _windows(
        self, query: tf.RaggedTensor, doc: tf.RaggedTensor
    ) -> _Windows:
        """Return the windows on paragraphs, at least one each."""
        ids = self.tokenizer.ids
        query_length = tf.cast(query.row_lengths(), tf.int32)  # [n]
        length = tf.cast(doc.row_lengths(), tf.int32)
        room = self.lengths.max_seq_length - query_length - 3
        stride = tf.minimum(room, self.lengths.doc_stride)
        beyond = tf.maximum(length - room, 0)
        counts = 1 - (-beyond) // stride  # of windows
        row = tf.repeat(tf.range(tf.size(counts)), counts)  # [W]
        number = tf.range(tf.size(row)) - tf.gather(
            tf.cumsum(counts, exclusive=True), row
        )
        start = number * tf.gather(stride, row)
        seen = tf.minimum(tf.gather(length, row) - start, tf.gather(room, row))
        q, d = tf.gather(query_length, row)[:, None], seen[:, None]
        # So wide too where there is no window at all.
        width = tf.maximum(0, tf.reduce_max(q + d)) + 3
        at = tf.range(width)[None]  # [1, S]
        query_at = tf.gather(tf.cast(query.row_starts(), tf.int32), row)
        doc_at = tf.gather(tf.cast(doc.row_starts(), tf.int32), row) + start
        in_doc = (at >= q + 2) & (at < q + 2 + d)
        is_end = (at == q + 1) | (at == q + 2 + d)
        pad = tf.constant([ids["[PAD]"]])
        values = tf.where(
            (at > 0) & (at <= q),
            _take(query.values, query_at[:, None] + at - 1, pad),
            _take(doc.values, doc_at[:, None] + at - q - 2, pad),
        )
        values = tf.where(in_doc | (at <= q), values, ids["[PAD]"])
        values = tf.where(is_end, ids["[SEP]"], values)
        values = tf.where(at == 0, ids["[CLS]"], values)
        mask = at < q + d + 3
        features = {
            "input_ids": values,
            "input_mask": tf.cast(mask, tf.int32),
            "segment_ids": tf.cast(mask & (at >= q + 2), tf.int32),
        }
        return _Windows(features, row, q[:, 0] + 2, start, seen)

    def _best_spans(
        self,
        logits: saved_model.Outputs,
        windows: _Windows,
        doc: tf.RaggedTensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return each window's best score, start and end in its row, [W]."""
        starts, ends = logits["start_logits"], logits["end_logits"]
        width = tf.shape(starts)[1]
        at = tf.range(width)[None] - windows.doc_offset[:, None]  # [W, S]
        in_doc = (at >= 0) & (at < windows.doc_length[:, None])
        may_start = in_doc & _seen_best(windows, at, in_doc, doc)
        starts = tf.where(may_start, starts, _NEVER)
        ends = tf.where(in_doc, ends, _NEVER)
        length = self.max_answer_length
        padded = tf.pad(ends, [[0, 0], [0, length]], constant_values=_NEVER)
        sums = tf.stack(
            [starts + padded[:, i : i + width] for i in range(length)], -1
        )  # [W, S, length]
        sums = tf.reshape(sums, [-1, width * length])
        best = tf.argmax(sums, -1, tf.int32)
        start = best // length
        return tf.reduce_max(sums, -1), start, start + best % length

    def _texts(
        self,
        context: tf.Tensor,
        pieces: graph_tokenizer.TokenSpans,
        windows: _Windows,
        logits: saved_model.Outputs,
        score: tf.Tensor,
        start: tf.Tensor,
        end: tf.Tensor,
    ) -> saved_model.Outputs:
        """Return the outputs of the best windows of each question."""
        count = tf.size(context)

        def of_questions(values: tf.Tensor) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_value_rowids(
                values, tf.cast(windows.row, tf.int64), tf.cast(count, tf.int64)
            )

        by_question = of_questions(score)
        most = tf.reduce_max(by_question.row_lengths())
        padded = by_question.to_tensor(
            4 * _NEVER, shape=tf.stack([-1, tf.maximum(most, 1)])
        )  # [n, windows]; one column too where there is no question
        best = tf.argmax(padded, -1)
        best += by_question.row_starts()  # [n] windows
        score, start, end = (tf.gather(x, best) for x in (score, start, end))
        shift = tf.gather(windows.doc_start - windows.doc_offset, best)
        at = tf.cast(pieces.ids.row_starts(), tf.int32) + shift
        nothing = tf.zeros([1], tf.int64)
        first = _take(pieces.starts.values, at + start, nothing)
        last = _take(pieces.ends.values, at + end, nothing)
        is_answer = score > _NEVER
        null = tf.reduce_min(
            of_questions(
                logits["start_logits"][:, 0] + logits["end_logits"][:, 0]
            ),
            axis=1,
        )
        outputs = {"score": tf.where(is_answer, score, -NOTHING_BUT_NULL)}
        if self.null_threshold is not None:
            odds = tf.where(is_answer, null - score, NOTHING_BUT_NULL)
            outputs["null_odds"] = odds
            is_answer &= odds <= self.null_threshold
        first = tf.where(is_answer, first, 0)
        last = tf.where(is_answer, last, 0)
        return outputs | {
            "answer": tf.strings.substr(
                context, first, last - first, unit="UTF8_CHAR"
            ),
            "start": first,
            "end": last,
        }


def _take(values: tf.Tensor, at: tf.Tensor, spare: tf.Tensor) -> tf.Tensor:
    """Gather; places outside, which the caller masks, give anything."""
    values = tf.concat([values, tf.cast(spare, values.dtype)], 0)
    return tf.gather(values, tf.clip_by_value(at, 0, tf.size(values) - 1))


def _seen_best(
    windows: _Windows, at: tf.Tensor, in_doc: tf.Tensor, doc: tf.RaggedTensor
) -> tf.Tensor:
    """Whether a window sees a token with the most context, [W, S]."""
    left = tf.cast(at, tf.float32)
    length = tf.cast(windows.doc_length, tf.float32)[:, None]
    score = tf.minimum(left, length - 1.0 - left) + 0.01 * length
    begins = tf.cast(tf.gather(doc.row_starts(), windows.row), tf.int32)
    token = (begins + windows.doc_start)[:, None] + at  # number of all
    count = tf.size(doc.values) + 1
    token = tf.where(in_doc, token, count - 1)
    best = tf.math.unsorted_segment_max(score, token, count)
    is_best = in_doc & (score == tf.gather(best, token))
    number = tf.range(tf.shape(at)[0])[:, None] + tf.zeros_like(at)
    number = tf.where(is_best, number, tf.int32.max)
    owner = tf.math.unsorted_segment_min(number, token, count)
    return in_doc & (tf.gather(owner, token) == number)
