"""SavedModels: strings in, answers out, none of this project's files needed.

Every export has two signatures: `serving_default` takes strings, tokenized in
the graph by serving.py; `ids` takes what the model takes and uses no text
operation, for servers that lack those. Batch and length are free; a batch of
strings is padded to its longest, which costs nothing: see padding.py. What an
encoder says of padding is zeros.
"""

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

import checkpoints
import modeling
import padding
import serving
from errors import UserError

_IDS = tf.TensorSpec([None, None], tf.int32)
_TEXTS = tf.TensorSpec([None], tf.string)

Outputs = dict[str, tf.Tensor]


class Export(tf.Module):
    """What a SavedModel is made of; subclasses say what it answers.

    Args:
        model: its variables exist and are set.
        tokenizer: in the graph.
        vocab_file: travels along as an asset.
        max_seq_length: longer texts are cut.

    Attributes:
        ids: what each input of the signature of that name is.
    """

    ids = _IDS

    def __init__(
        self,
        model: modeling.TaskModel,
        tokenizer: serving.Tokenizer,
        vocab_file: str,
        max_seq_length: int,
    ):
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        # What a SavedModel keeps has to hang on the module itself.
        self.weights = [variable.value for variable in model.variables]
        self.vocabulary = tf.saved_model.Asset(vocab_file)
        self.max_seq_length = max_seq_length

    def answers(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the outputs for input_ids, input_mask, segment_ids [n, S]."""
        raise NotImplementedError

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of strings [n]."""
        text_a, text_b = (*texts, None)[:2]
        return serving.make_features(
            self.tokenizer, text_a, text_b, self.max_seq_length
        )

    def from_texts(self, *texts: tf.Tensor) -> Outputs:
        """Return the outputs for strings [n]."""
        return self.answers(self.features(*texts))

    def text_names(self) -> list[str]:
        """Return the names of the strings the text signature takes."""
        return ["text"]

    def text_specs(self) -> list[tf.TensorSpec]:
        """Return what those are."""
        return [_TEXTS for _ in self.text_names()]

    def signatures(self) -> dict[str, Callable]:
        """Return the two signatures as concrete functions."""
        names = self.text_names()

        def from_texts(**texts):
            return self.from_texts(*(texts[name] for name in names))

        function = tf.function(from_texts, autograph=False)
        texts = {
            name: tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in zip(names, self.text_specs(), strict=True)
        }
        return {
            "serving_default": function.get_concrete_function(**texts),
            "ids": self.ids_signature(),
        }

    def ids_signature(self) -> Callable:
        """Return the signature that takes what the model takes."""
        longest = self.model.config.max_position_embeddings

        def from_ids(input_ids, input_mask, segment_ids):
            tf.debugging.assert_less_equal(
                tf.shape(input_ids)[-1],
                longest,
                "input_ids are longer than the model's "
                f"max_position_embeddings {longest}",
            )
            return self.answers(
                {
                    "input_ids": input_ids,
                    "input_mask": input_mask,
                    "segment_ids": segment_ids,
                }
            )

        return tf.function(
            from_ids, input_signature=[self.ids] * 3, autograph=False
        ).get_concrete_function()


class Classifier(Export):
    """probabilities [n, K], label [n], score [n]; or value [n].

    Args:
        labels: their names; None for regression.
        is_pair: whether there are two texts.
    """

    def __init__(self, *args: Any, labels: list[str] | None, is_pair: bool):
        super().__init__(*args)
        self.labels = None if labels is None else tf.constant(labels)
        self.is_pair = is_pair

    def text_names(self) -> list[str]:
        """Return text, or text_a and text_b."""
        return ["text_a", "text_b"] if self.is_pair else ["text"]

    def answers(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return probabilities and the likeliest label, or the number."""
        logits = self.model(features)
        if self.labels is None:
            return {"value": logits[:, 0]}
        probs = tf.nn.softmax(logits)
        return {
            "probabilities": probs,
            "label": tf.gather(self.labels, tf.argmax(probs, -1)),
            "score": tf.reduce_max(probs, -1),
        }


class Encoder(Export):
    """pooled_output [n, H], mean_output [n, H], sequence_output [n, S, H]."""

    def answers(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the encoder's outputs and the mean over real tokens."""
        output = self.model.encode(features)
        mask = tf.cast(features["input_mask"], tf.float32)[..., None]
        sequence = tf.cast(output.sequence_output, tf.float32)
        total = tf.reduce_sum(sequence * mask, axis=1)  # [n, H]
        return {
            "pooled_output": tf.cast(output.pooled_output, tf.float32),
            "sequence_output": sequence,
            "mean_output": total / tf.reduce_sum(mask, axis=1),
        }


class MaskedLm(Export):
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
        return serving.add_special_tokens(
            self.tokenizer.ids, ids, None, self.max_seq_length
        )

    def answers(self, features: dict[str, tf.Tensor]) -> Outputs:
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


class MultipleChoice(Export):
    """probabilities [n, C], answer [n], the number of the likeliest choice.

    Takes context [n] and choices [n, C] as strings; in the signature `ids`
    three times [n, C, S].
    """

    ids = tf.TensorSpec([None, None, None], tf.int32)

    def text_names(self) -> list[str]:
        """Return context and choices."""
        return ["context", "choices"]

    def text_specs(self) -> list[tf.TensorSpec]:
        """Return [n] and [n, C]."""
        return [_TEXTS, tf.TensorSpec([None, None], tf.string)]

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of every choice, [n, C, S]."""
        context, choices = texts
        count, width = tf.unstack(tf.shape(choices))
        of = tf.repeat(tf.range(count), width)  # [n * C]
        rows = serving.add_special_tokens(
            self.tokenizer.ids,
            tf.gather(self.tokenizer(context), of),
            self.tokenizer(tf.reshape(choices, [-1])),
            self.max_seq_length,
        )
        return {
            name: tf.reshape(value, [count, width, tf.shape(value)[1]])
            for name, value in rows.items()
        }

    def answers(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the probability of every choice, and the answer."""
        probs = tf.nn.softmax(self.model(features))
        answer = tf.argmax(probs, -1, tf.int32)
        return {"probabilities": probs, "answer": answer}


def write(export: Export, directory: str) -> None:
    """Write a SavedModel; it appears whole or not at all.

    Args:
        export: what to write.
        directory: must not exist; TF Serving wants it named by a number.

    Raises:
        UserError: something is there already.
    """
    directory = directory.rstrip("/")
    check_new(directory)
    temporary = directory + ".tmp"
    if tf.io.gfile.exists(temporary):
        tf.io.gfile.rmtree(temporary)
    tf.io.gfile.makedirs(temporary)  # and what leads to it
    with padding.skipping():
        signatures = export.signatures()
    tf.saved_model.save(export, temporary, signatures)
    tf.io.gfile.rename(temporary, directory)
    for name, function in signatures.items():
        taken = sorted(function.structured_input_signature[1]) or [
            "input_ids",
            "input_mask",
            "segment_ids",
        ]
        logging.info(
            "Signature %s: %s -> %s",
            name,
            ", ".join(taken),
            ", ".join(sorted(function.structured_outputs)),
        )
    logging.info("Wrote the SavedModel to %s", directory)


def check_new(directory: str) -> None:
    """Stop at an export directory that exists; make the one around it.

    Raises:
        UserError: it exists, or can never be made.
    """
    if tf.io.gfile.exists(directory):
        raise UserError(
            f"--export_dir={directory} exists already: name a new one (TF "
            "Serving takes the highest number beside it)"
        )
    checkpoints.make_directory(os.path.dirname(directory) or ".", "export_dir")
