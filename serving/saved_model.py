"""Write a SavedModel that takes strings and needs none of this project's files.

Every export has two signatures: `serving_default` takes strings, which
graph_tokenizer.py turns into ids inside the graph; `ids` takes what the model
takes and has no text operation, for servers without TensorFlow Text. Batch
and length are free. A batch of strings is padded to its longest text, and the
padding is skipped (ops/unpadding.py). The output of an encoder at padding is
zero.
"""

import os
from collections.abc import Callable

from base import file_system
from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
from ops import unpadding
from serving import graph_tokenizer

IDS = tf.TensorSpec([None, None], tf.int32)

TEXTS = tf.TensorSpec([None], tf.string)

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

    ids = IDS

    def __init__(
        self,
        model: modeling.TaskModel,
        tokenizer: graph_tokenizer.Tokenizer,
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
        return graph_tokenizer.make_features(
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
        return [TEXTS for _ in self.text_names()]

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
    with unpadding.skipping():
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
    file_system.make_directory(os.path.dirname(directory) or ".", "export_dir")
