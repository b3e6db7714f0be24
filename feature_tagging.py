"""Named entities from frozen features: a BiLSTM on layers of BERT (table 7).

Apart from heads.py, whose heads are one product each on an encoder that is
trained with them.
"""

import keras
import tensorflow as tf

import layer_features
from heads import Loss, head_dropout, output_variables, project, word_loss
from modeling import BertConfig, Layer, TaskModel, draw_seed


class BiLstm(Layer):
    """Layers of LSTMs in both directions, Keras' own."""

    def __init__(self, inputs: int, units: int, num_layers: int = 2):
        super().__init__("bilstm")
        self.inputs, self.units = inputs, units
        self.layers = [
            keras.layers.Bidirectional(
                keras.layers.LSTM(
                    units,
                    return_sequences=True,
                    # XLA, which a GPU's steps are compiled by, has no cuDNN.
                    use_cudnn=False,
                    name="lstm",
                ),
                name=f"layer_{number}",
            )
            for number in range(num_layers)
        ]

    def build(self) -> None:
        """Create the variables of every layer."""
        width = self.inputs
        for layer in self.layers:
            layer.build([None, None, width])
            width = 2 * self.units

    def call(
        self, x: tf.Tensor, input_mask: tf.Tensor, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Return [B, W, 2 * units], zeros where there is no word.

        Args:
            x: float32 [B, W, inputs].
            input_mask: [B, W], 1 for words, which all come first: the
                backward direction begins at the last of them.
            seed: of the dropout after each layer, or None.
        """
        is_word = tf.cast(input_mask, tf.bool)
        for layer in self.layers:
            x = tf.identity(layer(x, mask=is_word))  # [B, W, 2 * units]
            x = head_dropout(x, seed, f"{layer.name}/dropout")
        return x


class BertForFeatureTagging(TaskModel):
    """A BiLSTM on layers of an encoder that stays as it is (table 7).

    Its sequence is that of the words of a sentence, of which each brings the
    activations of its first piece.

    Args:
        config: of the encoder.
        num_labels: K.
        choice: which layers, see layer_features.table_7.
        units: of each direction.
        dtype: what the encoder's matrix products are computed in; the BiLSTM
            is float32.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        choice: layer_features.LayerChoice,
        units: int,
        dtype: str = "float32",
    ):
        super().__init__(config, dtype)
        self.bert.trainable = False
        self.choice, num_layers = choice, len(choice.indices)
        width = config.hidden_size
        if choice.combine == "sum":
            # Softmax of zeros: the mean, from which training departs.
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
        """Return the chosen layers of a batch of pieces: [B, S, C, H]."""
        output = self.encode(features)
        return layer_features.layer_features(
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
            training: whether dropout is on.
            dropout_seed: see `BertModel.call`.
        """
        seed = draw_seed(training, dropout_seed)
        weights = None
        if self.choice.combine == "sum":
            weights = tf.nn.softmax(tf.convert_to_tensor(self.layer_weights))
        layers = tf.unstack(features["activations"], axis=2)  # C of [B, W, H]
        x = layer_features.layer_features(
            None, layers, range(len(layers)), self.choice.combine, weights
        )  # [B, W, H or C * H]
        x = self.bilstm(x, features["input_mask"], seed)  # [B, W, 2 * units]
        return project(x, self.output_weights, self.output_bias)

    def loss(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> Loss:
        """Return the cross entropy; label_ids [B, W] as for `word_loss`."""
        return word_loss(self(features, training, dropout_seed), features)

    def flops(self, words: int) -> int:
        """Return the matrix-product operations of training on a sentence."""
        products = sum(
            variable.shape[0] * variable.shape[1]
            for variable in self.trainable_variables
            if len(variable.shape) == 2
        )
        return 3 * 2 * words * products
