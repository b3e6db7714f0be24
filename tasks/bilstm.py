"""A BiLSTM between the encoder and the output layer (paper, tables 5 and 7).

Fine-tuning trains it together with the encoder (`--bilstm_layers`), as table
5 does for the left-to-right model; run_ner.py --feature_based trains it on
layers of a frozen encoder, as table 7 does. Letters in shapes are those of
modeling.py, and U: units of one direction.
"""

from base import machine

import tensorflow as tf

from modeling import PLAIN, Compute, Layer, Seed
from ops import recurrence
from ops.elementwise import add_bias, shape_of
from tasks.settings import BiLstmSize
from training.task_model import head_dropout


class Direction(Layer):
    """One direction of a layer, with Keras' names and initial values.

    The variables are under `<name>/lstm_cell`.
    """

    def __init__(self, name: str, inputs: int, units: int):
        super().__init__(name)
        self.cell = Layer("lstm_cell")
        self.inputs, self.units = inputs, units
        self.is_backward = name.startswith("backward")

    def build(self) -> None:
        cell, width = self.cell, 4 * self.units
        # 1 for the forget gates, which then keep most of the state at first
        # (Jozefowicz et al. 2015), else 0.
        is_forget = tf.range(width) // self.units == 1
        for name, shape, initializer in (
            ("kernel", [self.inputs, width], "glorot_uniform"),
            ("recurrent_kernel", [self.units, width], "orthogonal"),
            ("bias", [width], lambda *_, **__: tf.cast(is_forget, tf.float32)),
        ):
            variable = cell.add_weight(
                shape, initializer=initializer, name=name
            )
            setattr(cell, name, variable)

    def call(
        self, x: tf.Tensor, input_mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Return the states for x [B, S, inputs], first to last, [B, S, U].

        For `training` see ops.recurrence.lstm.
        """
        if self.is_backward:
            x, input_mask = x[:, ::-1], input_mask[:, ::-1]
        cell = self.cell
        batch, length, _ = shape_of(x)
        rows = tf.reshape(x, [-1, self.inputs])  # [B * S, inputs]
        gates = tf.matmul(rows, tf.cast(cell.kernel, x.dtype))
        gates = add_bias(tf.cast(gates, tf.float32), cell.bias)
        gates = tf.reshape(gates, [batch, length, 4 * self.units])
        gates = recurrence.close_padding(gates, input_mask)
        gates = tf.transpose(gates, [1, 0, 2])  # [S, B, 4 * U]
        states = recurrence.lstm(
            gates, cell.recurrent_kernel, x.dtype, training
        )  # [S, B, U]
        if self.is_backward:
            states = states[::-1]
        return tf.transpose(states, [1, 0, 2])  # [B, S, U]


class BiLstmLayer(Layer):
    """One layer, in both directions: [B, S, inputs] to [B, S, 2 * U]."""

    def __init__(self, name: str, inputs: int, units: int):
        super().__init__(name)
        self.directions = [
            Direction(f"{direction}_lstm", inputs, units)
            for direction in ("forward", "backward")
        ]

    def call(
        self, x: tf.Tensor, input_mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Return the states of both directions side by side, in x's dtype."""
        # Neither direction needs the other: two cores run both at once.
        states = [
            one(x, input_mask, training=training) for one in self.directions
        ]
        return tf.cast(tf.concat(states, axis=-1), x.dtype)


class BiLstm(Layer):
    """Layers of LSTMs, each run in both directions.

    A layer's output is twice as wide as its units U; `inputs` is the width of
    what the first one reads. The paper's tagger has two layers.
    """

    def __init__(self, size: BiLstmSize, inputs: int):
        super().__init__("bilstm")
        num_layers, units = size
        widths = [inputs] + [2 * units] * (num_layers - 1)
        machine.check_fits(
            sum(4 * 8 * units * (width + units + 1) for width in widths),
            str(size),
            "use fewer units",
        )
        self.layers = [
            BiLstmLayer(f"layer_{number}", width, units)
            for number, width in enumerate(widths)
        ]

    def call(
        self,
        x: tf.Tensor,
        input_mask: tf.Tensor,
        seed: Seed = None,
        compute: Compute = PLAIN,
    ) -> tf.Tensor:
        """Return [B, S, 2 * U] in the dtype of x [B, S, inputs], 0 at padding.

        State and gates are float32. Padding resets the state of both
        directions, so it has to be at an end of the row. The seed is of the
        dropout after each layer; None: inference.
        """
        for layer in self.layers:
            x = layer(x, input_mask, training=seed is not None)
            x = head_dropout(x, seed, f"{layer.name}/dropout", compute)
        return x
