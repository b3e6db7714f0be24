"""Tag words by a BiLSTM on frozen layers of BERT (section 5.3, table 7).

The encoder is not fine-tuned. Its activations at the first piece of each word
are computed once and kept on disk. They are the input of a BiLSTM of two
layers, whose output a linear layer classifies. The activations are those of
the embeddings or of some of the last transformer layers, concatenated or
summed with learned weights:

    word pieces --frozen BERT--> [words, C, H] --.npy file--> concat or sum
    --> BiLSTM, two layers --> [words, 2 * units] --> logits [words, K]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from base import file_system
from base.errors import UserError

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from modeling import (
    BertConfig,
    TaskModel,
    draw_seed,
    project,
)
from ops.losses import Loss
from records import cache as record_cache
from records import in_memory
from tasks.bilstm import BiLstm
from tasks.encoder import layers as features_layers
from tasks.heads import output_variables
from tasks.ner import data as ner_data
from tasks.ner import records as ner_records
from tasks.ner.model import word_loss
from tasks.ner.windows import IGNORED
from training import prediction

# --- Model -------------------------------------------------------------------


class BertForFeatureTagging(TaskModel):
    """A frozen encoder, a BiLSTM and an output vector per class.

    The BiLSTM's sequence are the words of a sentence, each with the
    activations of its first piece.

    Args:
        config: of the encoder.
        num_labels: K.
        choice: C layers and how to combine them, see encoder/layers.py.
        units: width of each direction of the BiLSTM.
        dtype: of the encoder's matrix products; the BiLSTM is float32.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        choice: features_layers.LayerChoice,
        units: int,
        dtype: str = "float32",
    ):
        super().__init__(config, dtype)
        self.bert.trainable = False
        self.choice, num_layers = choice, len(choice.indices)
        width = config.hidden_size
        if choice.combine == "sum":
            # The softmax of zeros: training begins with the mean of layers.
            self.layer_weights = keras.Variable(
                "zeros", shape=[num_layers], name="layer_weights"
            )
        else:
            width *= num_layers
        self.bilstm = BiLstm(width, units)
        self.bilstm.build()
        self.output_weights, self.output_bias = output_variables(
            num_labels, 2 * units
        )

    def activations(self, features: dict[str, tf.Tensor]) -> tf.Tensor:
        """Return the chosen layers of a batch of pieces, [B, S, C, H]."""
        output = self.encode(features)  # no dropout: features are constants
        return features_layers.layer_features(
            output.embedding_output, output.encoder_layers, self.choice.indices
        )

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 logits [B, W, K].

        Args:
            features: activations [B, W, C, H] of words, input_mask [B, W].
            training: whether dropout is on, after each layer of the BiLSTM.
            dropout_seed: see `BertModel.call`.
        """
        seed = draw_seed(training, dropout_seed)
        weights = None
        if self.choice.combine == "sum":
            weights = tf.nn.softmax(tf.convert_to_tensor(self.layer_weights))
        layers = tf.unstack(features["activations"], axis=2)  # C of [B, W, H]
        x = features_layers.layer_features(
            None, layers, range(len(layers)), self.choice.combine, weights
        )  # [B, W, H or C * H]
        mask = features["input_mask"]
        x = self.bilstm(
            x, mask, seed, training=training, compute=self.compute
        )  # [B, W, 2 * units]
        return project(x, self.output_weights, self.output_bias)

    def loss(self, logits: tf.Tensor, features: dict[str, tf.Tensor]) -> Loss:
        """Return the cross entropy of words; label_ids [B, W]."""
        return word_loss(logits, features)


# --- Data: activations of words instead of pieces ----------------------------


class SentenceActivations(in_memory.ShortRecords):
    """Sentences of words with their activations, batched like records.

    Args:
        activations: [words, C, H], in memory or mapped from a file.
        label_ids: [words].
        sizes: [n], number of words of each sentence.
        pad_to_max_length: pad every batch to the longest sentence.
    """

    def __init__(
        self,
        activations: np.ndarray,
        label_ids: np.ndarray,
        sizes: Sequence[int],
        pad_to_max_length: bool,
    ):
        # Not super().__init__(), which reads record files.
        self.activations = activations
        self.pad_to_max_length = pad_to_max_length
        self.lengths = np.array(sizes)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.num_records = len(sizes)
        self.full_length = int(self.lengths.max())
        is_word = np.arange(self.full_length) < self.lengths[:, None]
        labels = np.full(is_word.shape, IGNORED, np.int32)
        labels[is_word] = label_ids
        self.features = {"input_mask": is_word, "label_ids": labels}

    def gather(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the features of some sentences, [B, length, ...].

        Args:
            rows: numbers of the sentences, [B].
            length: words to pad to; no sentence is longer.
        """
        shape = [len(rows), length, *self.activations.shape[1:]]
        activations = np.zeros(shape, np.float32)
        for place, row in enumerate(rows):
            start, size = self.starts[row], self.lengths[row]
            activations[place, :size] = self.activations[start : start + size]
        return {
            "activations": activations,
            **{
                name: value[rows, :length].astype(np.int32)
                for name, value in self.features.items()
            },
        }

    def signature(
        self, size: int, length: int | None, group: int = 1
    ) -> dict[str, tf.TensorSpec]:
        """Return the shapes of a batch.

        Args:
            size: sentences in a batch.
            length: words to pad to; None: any number.
            group: 1; sentences are not grouped.
        """
        inner = self.activations.shape[1:]
        return {
            "activations": tf.TensorSpec([size, length, *inner], tf.float32),
            "input_mask": tf.TensorSpec([size, length], tf.int32),
            "label_ids": tf.TensorSpec([size, length], tf.int32),
        }


class ActivationCache:
    """Activations of every word, computed once and kept as .npy files.

    Args:
        cache: of the record files, whose directory the .npy files go to.
        predictor: see `ner.records.word_outputs`.
        encoder: fingerprint of the encoder; `layers` is part of it.
    """

    def __init__(
        self,
        cache: record_cache.RecordCache,
        predictor: prediction.Predictor,
        encoder: Mapping[str, Any],
    ):
        self.cache, self.predictor = cache, predictor
        self.encoder = dict(encoder)
        if file_system.is_remote(cache.directory):
            raise UserError(
                "the files of activations are mapped into memory, which is "
                f"not possible in {cache.directory}: name a local --records_dir"
            )

    def sentences(
        self,
        name: str,
        file: ner_data.File,
        data: in_memory.ShortRecords,
        fingerprint: Mapping[str, Any],
        batch_size: int,
    ) -> SentenceActivations:
        """Return the sentences of a file with their activations.

        Args:
            name: of the records, such as train.
            file: the sentences.
            data: their records.
            fingerprint: everything that the records depend on.
            batch_size: records in a batch of the encoder.
        """
        layers = "_".join(map(str, self.encoder["layers"]))
        path = self.cache.path(f"{name}_{layers}")
        path = path.removesuffix(".tf_record") + ".npy"

        def write(path: str) -> None:
            logging.info("Computing activations")
            with file_system.atomic_file(path) as temporary:
                array = ner_records.word_outputs(
                    self.predictor,
                    data,
                    batch_size,
                    "activations",
                    temporary.name,
                )
                array.flush()
            logging.info(
                "Wrote the activations of %d words to %s, %.1f MB",
                len(array),
                path,
                array.nbytes / 1e6,
            )

        self.cache.make(path, {**fingerprint, "encoder": self.encoder}, write)
        labels = data.features["label_ids"]
        sizes = [len(sentence.words) for sentence in file.sentences]
        return SentenceActivations(
            np.load(path, mmap_mode="r"),
            labels[labels >= 0],
            sizes,
            data.pad_to_max_length,
        )
