"""Named entities as a SavedModel: words or texts in, a tag per word out.

Windows and the place where a word is classified are those of ner_windows.py,
as TensorFlow operations; so no sentence is too long.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from serving import graph_tokenizer, saved_model


class WordFeatures(NamedTuple):
    """Windows over the pieces of words, and where each word is classified."""

    features: dict[str, tf.Tensor]  # input_ids, ..., [M, S], M windows
    windows: tf.Tensor  # int32 [words], of all texts in a row
    positions: tf.Tensor  # int32 [words], in the window


def make_word_features(
    tokenizer: graph_tokenizer.Tokenizer,
    words: tf.RaggedTensor,
    max_seq_length: int,
) -> WordFeatures:
    """Return what ner_windows.Converter makes of sentences, in the graph.

    Args:
        tokenizer: in the graph.
        words: ragged strings [n, words].
        max_seq_length: tokens of a window.
    """
    ids = tokenizer(words.flat_values)  # ragged [words, pieces]
    unknown = tf.fill([ids.nrows(), 1], tokenizer.ids["[UNK]"])
    none = tf.cast(ids.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_tensor(unknown, lengths=none)
    ids = tf.concat([ids, unknown], axis=1)  # no word without a piece
    starts = tf.cast(ids.row_starts(), tf.int32)  # [words]
    row = tf.cast(words.value_rowids(), tf.int32)  # [words]
    rows = words.with_values(ids).merge_dims(1, 2)  # ragged [n, pieces]
    sizes = tf.cast(rows.row_lengths(), tf.int32)  # [n]
    begins = tf.cast(rows.row_starts(), tf.int32)  # [n]

    limit = max_seq_length - 2
    stride = limit // 2
    counts = 1 + tf.maximum(0, -((limit - sizes) // stride))  # [n]
    number = tf.ragged.range(counts).flat_values  # [M], of a row's windows
    of = tf.repeat(tf.range(tf.size(sizes)), counts)  # [M], rows
    left = tf.gather(sizes, of) - number * stride
    begin = tf.gather(begins, of) + number * stride
    at = tf.ragged.range(begin, begin + tf.minimum(left, limit))
    pieces = at.with_flat_values(tf.gather(rows.flat_values, at.flat_values))
    features = graph_tokenizer.add_special_tokens(
        tokenizer.ids, tf.cast(pieces, tf.int32), None, max_seq_length
    )

    place = starts - tf.gather(begins, row)  # [words], among its row's pieces
    best = (2 * place - limit + stride) // (2 * stride)
    best = tf.clip_by_value(best, 0, tf.gather(counts, row) - 1)
    first = tf.gather(tf.cumsum(counts, exclusive=True), row)
    return WordFeatures(features, first + best, place - best * stride + 1)


class Tagger(saved_model.Export):
    """A tag in IOB2 and its probability for each word, whatever the length.

    `serving_default` takes texts, split into words; `words` takes words
    [n, W], rows filled up with "". `ids`, which a model on frozen features
    lacks, takes pieces and answers at every piece.

    Args:
        labels: names of the classes.
    """

    def __init__(self, *args: Any, labels: list[str]):
        super().__init__(*args)
        self.labels = tf.constant(labels)
        # An I- that continues nothing comes out as B-, as in predictions.
        self.begins = tf.constant([re.sub("^I-", "B-", x) for x in labels])
        names = ["", *sorted({label[2:] for label in labels} - {""})]
        self.types = tf.constant([names.index(x[2:]) for x in labels])
        self.is_inside = tf.constant([x[0] == "I" for x in labels])

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the likeliest class at every piece, tags as they are."""
        probs = tf.nn.softmax(self.model(features))  # [n, S, K]
        return {
            "tags": tf.gather(self.labels, tf.argmax(probs, -1)),
            "scores": tf.reduce_max(probs, -1),
        }

    def of_words(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return tags and scores [words] of all rows one after the other."""
        made = make_word_features(self.tokenizer, words, self.max_seq_length)
        at = tf.stack([made.windows, made.positions], axis=1)
        if hasattr(self.model, "activations"):
            found = tf.gather_nd(self.model.activations(made.features), at)
            rows = words.with_values(found)  # ragged [n, W, C, H]
            # A BiLSTM wants a step, even where there is no word.
            lengths = tf.cast(words.row_lengths(), tf.int32)
            width = tf.maximum(1, tf.reduce_max(lengths))
            mask = tf.sequence_mask(lengths, width, tf.int32)
            shape = tf.concat([[-1, width], tf.shape(found)[1:]], 0)
            logits = self.model(
                {"activations": rows.to_tensor(shape=shape), "input_mask": mask}
            )  # [n, W, K]
            logits = tf.boolean_mask(logits, mask)
        else:
            logits = tf.gather_nd(self.model(made.features), at)
        probs = tf.nn.softmax(logits)  # [words, K]
        best = tf.argmax(probs, -1)
        types = tf.gather(self.types, best)
        before = tf.concat([[0], types[:-1]], 0)
        row = words.value_rowids()
        is_first = tf.concat([[True], row[1:] != row[:-1]], 0)
        before = tf.where(is_first[: tf.size(row)], 0, before[: tf.size(row)])
        begins = tf.gather(self.is_inside, best) & (before != types)
        tags = tf.where(
            begins, tf.gather(self.begins, best), tf.gather(self.labels, best)
        )
        return tags, tf.reduce_max(probs, -1)

    def from_texts(self, text: tf.Tensor) -> saved_model.Outputs:
        """Return words, tags and scores [n, W] of texts [n]."""
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
        """Return the signatures as concrete functions."""

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
