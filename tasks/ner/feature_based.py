"""Tag words by a BiLSTM on frozen layers of BERT (section 5.3, table 7).

The encoder is not fine-tuned. Its activations at the first piece of each word,
of the embeddings or of some of the last layers, are computed once and kept on
disk (NerJob). Concatenated or summed with learned weights, they are the input
of a BiLSTM of two layers, whose output a linear layer classifies:

    word pieces --frozen BERT--> [words, C, H] --.npy file--> concat or sum
    --> BiLSTM, two layers --> [words, 2 * units] --> logits [words, K]
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from modeling import Seed
from records import in_memory
from tasks.encoder.layers import layer_choice
from tasks.encoder.model import layer_features
from tasks.ner.model import BertForTokenClassification
from tasks.ner.windows import IGNORED
from tasks.settings import BiLstmSize
from tasks.task import Task


class BertForFeatureTagging(BertForTokenClassification):
    """A frozen encoder, a BiLSTM and an output vector per class.

    The BiLSTM, of `lstm_units` in each direction, is float32 and reads C
    layers, as the task's `feature_layers` say.
    """

    def __init__(self, task: Task, dtype: str = "float32"):
        config, own = task.checkpoint.config, task.checkpoint.trained_for
        choice = layer_choice(own.feature_layers, config.num_hidden_layers)
        num_layers = len(choice.indices)
        width = config.hidden_size * (1 if choice.is_sum else num_layers)
        size = BiLstmSize(2, own.lstm_units)
        super().__init__(config, len(task.labels), dtype, size, width)
        self.bert.trainable = False
        self.choice = choice
        if choice.is_sum:
            # The softmax of zeros: training begins with the mean of layers.
            self.layer_weights = keras.Variable(
                "zeros", shape=[num_layers], name="layer_weights"
            )

    @classmethod
    def for_task(cls, task: Task, dtype: str) -> "BertForFeatureTagging":
        """Return a new model of a task, on the layers that it reads."""
        return cls(task, dtype)

    def activations(self, features: dict[str, tf.Tensor]) -> tf.Tensor:
        """Return the chosen layers of a batch of pieces, [B, S, C, H]."""
        # Without dropout: features are constants.
        output = self.bert(**self.encoder_inputs(features))
        return layer_features(output, self.choice.indices)

    def __call__(
        self, features: dict[str, tf.Tensor], seed: Seed = None
    ) -> tf.Tensor:
        """Return float32 logits [B, W, K].

        Features are activations [B, W, C, H] of words, and input_mask [B, W].
        Dropout is after each layer of the BiLSTM.
        """
        layers = tf.unstack(features["activations"], axis=2)  # C of [B, W, H]
        if self.choice.is_sum:
            weights = tf.nn.softmax(tf.convert_to_tensor(self.layer_weights))
            layers = [weights[k] * layer for k, layer in enumerate(layers)]
            x = tf.add_n(layers)  # [B, W, H]
        else:
            x = tf.concat(layers, axis=-1)  # [B, W, C * H]
        mask = features["input_mask"]
        x = self.bilstm(x, mask, seed, compute=self.compute)
        return self.project(x)  # of [B, W, 2 * units]


class SentenceActivations(in_memory.ShortRecords):
    """Sentences of words with their activations, batched like records.

    Activations are [words, C, H], in memory or mapped from a file, label_ids
    [words]; `sizes` [n] are the words of each sentence.
    """

    def __init__(
        self,
        activations: np.ndarray,
        label_ids: np.ndarray,
        sizes: Sequence[int],
        pad_to_max_length: bool,
    ):
        is_word = np.arange(max(sizes)) < np.array(sizes)[:, None]
        labels = np.full(is_word.shape, IGNORED, np.int32)
        labels[is_word] = label_ids
        features = {"input_mask": is_word.astype(np.int32), "label_ids": labels}
        super().__init__(features, pad_to_max_length=pad_to_max_length)
        self.activations = activations
        self.starts = np.cumsum(self.lengths) - self.lengths

    def gather(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the features of sentences [B], padded: [B, length, ...]."""
        shape = [len(rows), length, *self.activations.shape[1:]]
        activations = np.zeros(shape, np.float32)
        for place, row in enumerate(rows):
            start, size = self.starts[row], self.lengths[row]
            activations[place, :size] = self.activations[start : start + size]
        return {"activations": activations, **super().gather(rows, length)}

    def signature(
        self, size: int, length: int | None
    ) -> dict[str, tf.TensorSpec]:
        """Return the shapes of a batch; `length` None: of any length."""
        shape = [size, length, *self.activations.shape[1:]]
        activations = tf.TensorSpec(shape, tf.float32)
        return {"activations": activations, **super().signature(size, length)}
