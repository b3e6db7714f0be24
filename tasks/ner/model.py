"""The model that tags words, its objective and its SavedModel (section 5.3).

Tags are a classification of single words, without a CRF: the output at the
first piece of a word is the input of a classifier. label_ids hold the class
there and IGNORED at every other position ([CLS], [SEP], padding, the other
pieces of a word, words of neighboring sentences).
"""

from collections.abc import Callable

import tensorflow as tf

from modeling import Seed
from ops import losses
from tasks import graph_tokenizer
from tasks.classifier import model as classifier_model
from tasks.graph import Outputs, TaskGraph, concrete
from tasks.heads import HeadModel
from tasks.ner.data import normalized_tags
from tasks.settings import bilstm_in
from tasks.task import Task
from training.task_model import TaskModel


class BertForTokenClassification(HeadModel):
    """An encoder, maybe a BiLSTM, and a vector per class at each position."""

    @classmethod
    def for_task(cls, task: Task, dtype: str) -> "BertForTokenClassification":
        """Return a new model of a task, with a vector for each tag."""
        size = bilstm_in(task.checkpoint.trained_for)
        return cls(task.checkpoint.config, len(task.labels), dtype, size)

    def __call__(
        self, features: dict[str, tf.Tensor], seed: Seed = None
    ) -> tf.Tensor:
        """Return float32 logits [B, S, K]."""
        output = self.bert(**self.encoder_inputs(features, seed))
        x = self.token_vectors(output, features, seed)
        if self.bilstm is None:  # which drops out its own output
            x = self.dropout(x, seed)
        return self.project(x)

    def outputs(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the logits and probabilities of tags, [B, S, K]."""
        logits = self(features)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    def loss(
        self, logits: tf.Tensor, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the cross entropy of the words, of logits [B, S, K].

        Positions whose label_ids [B, S] are negative are no words. If there
        are `example_weights` [B], they are 0 for rows that only fill a batch.
        """
        # Any class will do where the weight is 0, but -1 is out of range.
        labels = tf.maximum(features["label_ids"], 0)
        return losses.classification_loss(
            logits, labels, word_weights(features)
        )


# --- Objective: a mean over words --------------------------------------------


def word_weights(features: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return 1.0 for words to classify, 0.0 elsewhere, [B, S]."""
    weights = tf.cast(features["label_ids"] >= 0, tf.float32)
    if "example_weights" in features:
        weights *= features["example_weights"][:, None]
    return weights


WORD_CLASSIFICATION = classifier_model.CLASSIFICATION._replace(
    # The loss is divided by the words of a batch.
    loss_weights=lambda batch: {
        "label_loss": tf.reduce_sum(word_weights(batch))
    }
)


# --- SavedModel --------------------------------------------------------------


def make_word_features(
    tokenizer: graph_tokenizer.Tokenizer,
    words: tf.RaggedTensor,
    max_seq_length: int,
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Return words as M windows, computed in the graph as Converter does.

    Args:
        words: ragged strings [n, W], the words of n sentences.

    Returns:
        input_ids and so on, [M, S]; and int32 [words, 2], the window that
        classifies each word, and the word's position in it.
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
    features = tokenizer.features(
        tf.cast(pieces, tf.int32), max_seq_length=max_seq_length
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
    position = place - best * stride + 1
    return features, tf.stack([first + best, position], axis=1)


class TaggerGraph(TaskGraph):
    """Outputs a tag in IOB2 and its probability for each word.

    The signature `serving_default` takes texts and splits them into words;
    `words` takes words [n, W], where "" fills up the rows; `ids` takes pieces
    and answers at every piece. A model on frozen features has no `ids`, since
    its BiLSTM reads words. Sentences may have any length, and there is no
    document context: a request holds single sentences.
    """

    def __init__(self, task: Task, model: TaskModel):
        super().__init__(task, model)
        if hasattr(self.model, "activations"):
            self.ids = None
        labels = task.labels  # of the K classes
        self.labels = tf.constant(labels)
        # The tag of each class after each class, as ner.data.normalized_tags
        # gives it: a row for each class before, and one for the beginning of a
        # sentence.
        self.after = tf.constant(
            [
                [normalized_tags([before, label])[1] for label in labels]
                for before in (*labels, "O")
            ]
        )

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return the likeliest tag and its probability at every piece."""
        probs = numbers["probabilities"]  # [n, S, K]
        found = {
            "tags": tf.gather(self.labels, tf.argmax(probs, -1)),
            "scores": tf.reduce_max(probs, -1),
        }
        return found | numbers if self.task.settings.teacher else found

    def of_words(self, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return tags and scores [words] of ragged words [n, W].

        The words of all sentences come one after the other.
        """
        features, at = make_word_features(
            self.tokenizer, words, self.max_seq_length
        )
        if hasattr(self.model, "activations"):
            found = tf.gather_nd(self.model.activations(features), at)
            rows = words.with_values(found)  # ragged [n, W, C, H]
            # An LSTM needs at least one step, even if there is no word.
            lengths = tf.cast(words.row_lengths(), tf.int32)
            width = tf.maximum(1, tf.reduce_max(lengths))
            mask = tf.sequence_mask(lengths, width, tf.int32)  # [n, W]
            shape = tf.concat([[-1, width], tf.shape(found)[1:]], 0)
            inputs = {"activations": rows.to_tensor(shape=shape)}
            numbers = self.numbers(inputs | {"input_mask": mask})  # [n, W, K]
            probs = tf.boolean_mask(numbers["probabilities"], mask)
        else:
            probs = tf.gather_nd(self.numbers(features)["probabilities"], at)
        best = tf.argmax(probs, -1)
        return self._iob2_tags(best, words), tf.reduce_max(probs, -1)

    def _iob2_tags(self, best: tf.Tensor, words: tf.RaggedTensor) -> tf.Tensor:
        """Return classes [words] as tags, as ner.data.normalized_tags does."""
        start = tf.cast(tf.size(self.labels), best.dtype)  # of a sentence
        before = tf.concat([[start], best[:-1]], 0)
        row = words.value_rowids()
        is_first = tf.concat([[True], row[1:] != row[:-1]], 0)
        # Without any word, the concatenations have one element too many.
        count = tf.size(row)
        before = tf.where(is_first[:count], start, before[:count])
        return tf.gather_nd(self.after, tf.stack([before, best], axis=1))

    def from_texts(self, text: tf.Tensor) -> Outputs:
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

    def from_words(self, words: tf.Tensor) -> Outputs:
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
        inputs = {"words": tf.TensorSpec([None, None], tf.string)}
        made = super().signatures()
        return made | {"words": concrete(self.from_words, inputs)}
