"""The SavedModel of a tagger: words or texts in, a tag per word out.

The graph splits sentences into the windows of tasks/ner/windows.py, so that a
sentence may have any length. There is no document context: a request holds
single sentences.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tasks import graph_tokenizer, saved_model
from tasks.task import Task

# --- Windows in the graph ----------------------------------------------------


class WordFeatures(NamedTuple):
    """M windows over the pieces of words, and the place of each word."""

    features: dict[str, tf.Tensor]  # input_ids, ..., [M, S]
    windows: tf.Tensor  # int32 [words], the window that classifies the word
    positions: tf.Tensor  # int32 [words], its position in the window


def make_word_features(
    tokenizer: graph_tokenizer.Tokenizer,
    words: tf.RaggedTensor,
    max_seq_length: int,
) -> WordFeatures:
    """Return words as windows, computed in the graph as Converter does.

    Args:
        tokenizer: the tokenizer in the graph.
        words: ragged strings [n, W], the words of n sentences.
        max_seq_length: S, tokens of a window.
    """
    ids = tokenizer(words.flat_values)  # ragged [words, pieces]
    unknown = tf.fill([ids.nrows(), 1], tokenizer.ids["[UNK]"])
    none = tf.cast(ids.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_tensor(unknown, lengths=none)
    ids = tf.concat([ids, unknown], axis=1)  # every word has a piece
    starts = tf.cast(ids.row_starts(), tf.int32)  # [words]
    row = tf.cast(words.value_rowids(), tf.int32)  # [words]
    rows = words.with_values(ids).merge_dims(1, 2)  # ragged [n, pieces]
    sizes = tf.cast(rows.row_lengths(), tf.int32)  # [n]
    begins = tf.cast(rows.row_starts(), tf.int32)  # [n]

    limit = max_seq_length - 2
    stride = limit // 2
    counts = 1 + tf.maximum(0, -((limit - sizes) // stride))  # [n]
    number = tf.ragged.range(counts).flat_values  # [M], 0, 1, ... in a row
    row_of = tf.repeat(tf.range(tf.size(sizes)), counts)  # [M]
    left = tf.gather(sizes, row_of) - number * stride  # [M]
    begin = tf.gather(begins, row_of) + number * stride  # [M]
    at = tf.ragged.range(begin, begin + tf.minimum(left, limit))
    pieces = at.with_flat_values(tf.gather(rows.flat_values, at.flat_values))
    features = graph_tokenizer.add_special_tokens(
        tokenizer.ids, tf.cast(pieces, tf.int32), None, max_seq_length
    )

    # The window with most context around a piece. Window w classifies up to
    # piece cut(w) = w * stride + (limit + stride + 1) // 2, see
    # split_into_windows; this is the number of cuts at or before the piece.
    place = starts - tf.gather(begins, row)  # [words], among its row's pieces
    # With limit 4 and stride 2 the cuts are at 3, 5, 7, ...: piece 4 is in
    # window (8 - 4 + 2) // 4 = 1, piece 5 in window (10 - 4 + 2) // 4 = 2.
    best = (2 * place - limit + stride) // (2 * stride)
    best = tf.clip_by_value(best, 0, tf.gather(counts, row) - 1)
    first = tf.gather(tf.cumsum(counts, exclusive=True), row)
    return WordFeatures(features, first + best, place - best * stride + 1)


# --- SavedModel --------------------------------------------------------------


class Tagger(saved_model.Export):
    """Outputs a tag in IOB2 and its probability for each word.

    The signature `serving_default` takes texts and splits them into words;
    `words` takes words [n, W], where "" fills up the rows; `ids` takes pieces
    and answers at every piece. A model on frozen features has no `ids`, since
    its BiLSTM reads words.
    """

    def __init__(self, task: Task, *args: Any):
        super().__init__(task, *args)
        labels = task.settings.labels  # of the K classes
        self.labels = tf.constant(labels)
        # Each class as the beginning of an entity: I-X becomes B-X.
        self.begins = tf.constant([re.sub("^I-", "B-", x) for x in labels])
        # The entity type of each class as a number, 0 for O.
        names = ["", *sorted({label[2:] for label in labels} - {""})]
        self.types = tf.constant([names.index(x[2:]) for x in labels])
        self.is_inside = tf.constant([x[0] == "I" for x in labels])

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the probability of every tag at every piece."""
        return {"probabilities": tf.nn.softmax(self.model(features))}

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the likeliest tag and its probability at every piece."""
        probs = self.numbers(features)["probabilities"]  # [n, S, K]
        return {
            "tags": tf.gather(self.labels, tf.argmax(probs, -1)),
            "scores": tf.reduce_max(probs, -1),
        }

    def of_words(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return tags and scores [words] of ragged words [n, W].

        The words of all sentences come one after the other.
        """
        made = make_word_features(self.tokenizer, words, self.max_seq_length)
        at = tf.stack([made.windows, made.positions], axis=1)  # [words, 2]
        if hasattr(self.model, "activations"):
            logits = self._logits_of_activations(words, made.features, at)
        else:
            logits = tf.gather_nd(self.model(made.features), at)
        probs = tf.nn.softmax(logits)  # [words, K]
        best = tf.argmax(probs, -1)
        return self._iob2_tags(best, words), tf.reduce_max(probs, -1)

    def _logits_of_activations(
        self, words: tf.RaggedTensor, features: dict, at: tf.Tensor
    ) -> tf.Tensor:
        """Return logits [words, K] of a BiLSTM over each sentence.

        Args:
            words: ragged [n, W].
            features: of the windows.
            at: [words, 2], window and position of each word.
        """
        found = tf.gather_nd(self.model.activations(features), at)
        rows = words.with_values(found)  # ragged [n, W, C, H]
        # An LSTM needs at least one step, even if there is no word.
        lengths = tf.cast(words.row_lengths(), tf.int32)
        width = tf.maximum(1, tf.reduce_max(lengths))
        mask = tf.sequence_mask(lengths, width, tf.int32)  # [n, W]
        shape = tf.concat([[-1, width], tf.shape(found)[1:]], 0)
        logits = self.model(
            {"activations": rows.to_tensor(shape=shape), "input_mask": mask}
        )  # [n, W, K]
        return tf.boolean_mask(logits, mask)

    def _iob2_tags(self, best: tf.Tensor, words: tf.RaggedTensor) -> tf.Tensor:
        """Return classes [words] as tags, as ner.data.normalized_tags does.

        An I- becomes B- where the word before has another type, or where the
        sentence begins.
        """
        types = tf.gather(self.types, best)
        before = tf.concat([[0], types[:-1]], 0)
        row = words.value_rowids()
        is_first = tf.concat([[True], row[1:] != row[:-1]], 0)
        # Without any word, the concatenations have one element too many.
        count = tf.size(row)
        before = tf.where(is_first[:count], 0, before[:count])
        begins = tf.gather(self.is_inside, best) & (before != types)
        return tf.where(
            begins, tf.gather(self.begins, best), tf.gather(self.labels, best)
        )

    def from_texts(self, text: tf.Tensor) -> saved_model.Outputs:
        """Return words, tags and scores [n, W] of texts [n].

        Shorter rows are filled up with "" and 0.
        """
        words = self.tokenizer.cased_words(text)
        tags, scores = self.of_words(words)
        return {
            "words": words.to_tensor(""),
            "tags": words.with_values(tags).to_tensor(""),
            "scores": words.with_values(scores).to_tensor(0.0),
        }

    def from_words(self, words: tf.Tensor) -> saved_model.Outputs:
        """Return tags and scores [n, W] of words [n, W]."""
        is_word = words != ""
        tags, scores = self.of_words(tf.ragged.boolean_mask(words, is_word))
        at, shape = tf.where(is_word), tf.shape(words, tf.int64)
        return {
            "tags": tf.tensor_scatter_nd_update(tf.fill(shape, ""), at, tags),
            "scores": tf.scatter_nd(at, scores, shape),
        }

    def signatures(self) -> dict[str, Callable]:
        """Return the two or three signatures as concrete functions."""

        def concrete(function: Callable, **takes: tf.TensorSpec) -> Callable:
            graph = tf.function(
                lambda **given: function(**given), autograph=False
            )
            return graph.get_concrete_function(**takes)

        made = {
            "serving_default": concrete(
                self.from_texts, text=tf.TensorSpec([None], tf.string, "text")
            ),
            "words": concrete(
                self.from_words,
                words=tf.TensorSpec([None, None], tf.string, "words"),
            ),
        }
        if not hasattr(self.model, "activations"):
            made["ids"] = self.ids_signature()
        return made
