"""BERT: the configuration and the encoder.

The model of Devlin et al., "BERT: Pre-training of Deep Bidirectional
Transformers for Language Understanding" (arXiv:1810.04805; section numbers
below are this paper's). Variable names and arithmetic are the original
implementation's, so published checkpoints load and give the published numbers.

A comment at the end of a line gives the shape of the result in these letters:

    B  rows of the batch                H  hidden_size, 768 in Base
    S  tokens per row, with padding     N  num_attention_heads, 12
    F  S, as queries ("from")           D  size of a head, H / N = 64
    T  S, as keys and values ("to")     I  intermediate_size, 4 H = 3072
    L  num_hidden_layers, 12            V  vocab_size
    P  masked positions per row         K  outputs of a head, e.g. classes
    R  real tokens of the batch, where padding is skipped (ops/unpadding.py)

Inside the encoder a batch is one matrix [B * S, H] with a row per token: dense
layers and norms treat every token alone, and a matrix product needs no third
axis. Only attention splits it into [B, N, S, D].
"""

import contextlib
import copy
import dataclasses
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from base import lazy, text_files
from base.errors import UserError, check_choice, naming

import keras
import numpy as np
import tensorflow as tf

from ops import elementwise
from ops.choices import (
    BIDIRECTIONAL,
    DTYPES,
    LEFT_TO_RIGHT,
    NAMED_SIZES,
    RIGHT_TO_LEFT,
)

if keras.config.backend() != "tensorflow":  # keras was imported before base
    raise UserError("Keras has another backend: set KERAS_BACKEND=tensorflow")

Seed = tf.Tensor | int | None  # of a call's dropout; None: inference

__getattr__ = lazy.attributes_of("compat.modeling")

# --- Configuration -----------------------------------------------------------

DIRECTIONS = (BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT)


@dataclasses.dataclass
class BertConfig:
    """Sizes and rates of one model; the JSON file beside a checkpoint.

    Defaults are the original's. Keys that are not listed here (published files
    have some: pooler_type, directionality, ...) are kept and written back.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12  # has to divide hidden_size
    intermediate_size: int = 3072  # width of the feed-forward layer
    hidden_act: str | Callable | None = "gelu"
    hidden_dropout_prob: float = 0.1  # after embeddings and sublayers
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512  # longest sequence
    type_vocab_size: int = 16  # 2 in all published models
    initializer_range: float = 0.02  # of the truncated normal
    attention_direction: str = BIDIRECTIONAL  # one of DIRECTIONS
    # Amplitude of the sines that new position embeddings are; 0: random ones.
    sinusoidal_positions: float = 0.0

    def __post_init__(self):
        """Raise a UserError if a value is of no use in a model."""
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            # The memory limits widths, but not the number of layers, which
            # could be built for days.
            most = 1000 if name == "num_hidden_layers" else 2**31 - 1
            is_good, wanted = True, f"a whole number from 1 to {most}"
            if field.type is int:
                is_good = type(value) is int and 1 <= value <= most
            elif field.type is float:
                is_good = type(value) in (int, float) and 0 <= value < 1
                wanted = "a number in [0, 1)"
            if not is_good:
                raise UserError(
                    f"bert config: {name} must be {wanted}, found {value!r}"
                )
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"bert config: hidden_size {self.hidden_size} is not a "
                f"multiple of num_attention_heads {self.num_attention_heads}"
            )
        get_activation(self.hidden_act)
        check_choice(
            "bert config: unknown attention_direction",
            self.attention_direction,
            DIRECTIONS,
        )

    @classmethod
    def from_dict(cls, json_object: dict[str, Any]) -> "BertConfig":
        """Return the configuration with the keys of a JSON object."""
        if json_object.get("vocab_size") is None:
            raise UserError(
                "bert config: vocab_size is missing; set it to the number of "
                "lines of the vocabulary file"
            )
        known = {field.name for field in dataclasses.fields(cls)}
        config = cls(**{k: v for k, v in json_object.items() if k in known})
        vars(config).update(json_object)
        return config

    @classmethod
    def from_json_file(cls, json_file: str) -> "BertConfig":
        """Return the configuration in a JSON file; errors name the file."""
        json_object = text_files.read_json_object(json_file)
        with naming(json_file):
            return cls.from_dict(json_object)

    @classmethod
    def from_size(cls, name: str, vocab_size: int) -> "BertConfig":
        """Return the configuration of a size in NAMED_SIZES, e.g. "base"."""
        check_choice("unknown model size", name, NAMED_SIZES)
        num_hidden_layers, hidden_size = NAMED_SIZES[name]
        return cls(
            vocab_size,
            hidden_size,
            num_hidden_layers,
            num_attention_heads=hidden_size // 64,
            intermediate_size=4 * hidden_size,
            type_vocab_size=2,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of every key, those not listed above included.

        What the original does not have is left out where it has its usual
        value: the files of ordinary models stay as the original's.
        """
        values = copy.deepcopy(vars(self))
        for name in ("attention_direction", "sinusoidal_positions"):
            if values[name] == getattr(BertConfig, name):
                del values[name]
        return values

    def to_json_string(self) -> str:
        """Return sorted JSON with a final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def get_activation(activation_string: str | Callable | None) -> Callable | None:
    """Return the activation function of a name; None is the identity."""
    if activation_string is None or callable(activation_string):
        return activation_string
    known, name = elementwise.ACTIVATIONS, str(activation_string).lower()
    if name not in known:
        raise UserError(
            f"bert config: unknown activation {activation_string!r}; choose "
            f"from {', '.join(filter(None, known))}"
        )
    return known[name]


@dataclasses.dataclass(frozen=True)
class Compute:
    """How a model computes; what a task reads is the same in every way.

    Attributes:
        fuse: whether XLA compiles elementwise operations in groups
            (ops/elementwise.py), for training on a CPU. Without it all
            operations can be exported and need no compiler.
        recompute: activations that the backward pass computes again: none, or
            those of layers or attention (ops/recompute.py).
        skip_padding: whether padding is left out of all but attention
            (ops/unpadding.py), for inference. Nothing is skipped in training,
            without an input_mask, or where word_vectors are given.
        one_program: whether forward and backward pass are one program of XLA.
    """

    fuse: bool = False
    recompute: str = "none"
    skip_padding: bool = False
    one_program: bool = False


PLAIN = Compute()


@dataclasses.dataclass(frozen=True)
class Shared:
    """What all layers of one call share.

    Attributes:
        bias: float32 [B, 1, 1 or F, T] of `attention_bias`.
        seed: of the dropout of the call; None: inference, without dropout.
        tokens: unpadding.Tokens if the rows of x are the real tokens alone,
            [R, H]; None: x has padding, [B * S, H].
        compute: how to compute.
    """

    bias: tf.Tensor
    seed: Seed = None
    tokens: Any = None
    compute: Compute = PLAIN


# --- Building blocks ---------------------------------------------------------


class Layer(keras.layers.Layer):
    """A Keras layer that gets the sizes of its variables when constructed.

    Keras joins the names of nested layers to the path of a variable, as in
    `bert/encoder/layer_0/attention/self/query/kernel`. The path is the key in
    a checkpoint, so layers have the names of the original's scopes; the names
    of Python attributes are free.
    """

    # Shapes, by paths, of variables that are about to be read (`to_be_read`).
    read: Mapping[str, Sequence[int]] = {}

    def __init__(self, name: str):
        # Variables are float32, activations need not be: autocast would turn
        # them into float32 at the entrance of every layer.
        super().__init__(name=name, dtype="float32", autocast=False)

    def build(self) -> None:
        """Create the variables of the layers that are attributes, in order."""
        for part in self._flatten_layers(include_self=False, recursive=False):
            part.build()

    def weight(self, name: str, shape: list[int], stddev: float) -> Any:
        """Create a variable: truncated normal, or zeros for stddev 0."""
        # Cut at two deviations, as in the original. That leaves 0.88 of the
        # deviation: 0.0176 for initializer_range 0.02.
        initializer = "zeros"
        if stddev:
            initializer = keras.initializers.TruncatedNormal(stddev=stddev)
        if list(Layer.read.get(f"{self.path}/{name}", ())) == shape:
            initializer = "zeros"
        return self.add_weight(shape=shape, initializer=initializer, name=name)


@contextlib.contextmanager
def to_be_read(shapes: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Create layers without random values for variables that are read next.

    Drawing those of a Base takes seconds. `shapes` are the checkpoint's.
    """
    Layer.read = shapes
    try:
        yield
    finally:
        Layer.read = {}


class Dense(Layer):
    """The layer x W + b; variables kernel [in, out] and bias [out]."""

    # Kernels in 16 bits, by path, of a graph that is made (`kernels_kept`).
    kept: dict[str, tf.Variable] | None = None

    def __init__(self, inputs: int, outputs: int, stddev: float, name: str):
        super().__init__(name)
        self.shape, self.stddev = [inputs, outputs], stddev

    def build(self) -> None:
        self.kernel = self.weight("kernel", self.shape, self.stddev)
        self.bias = self.weight("bias", self.shape[1:], 0)

    def product(self, x: tf.Tensor) -> tf.Tensor:
        """Return x W, where a fused operation that follows adds the bias."""
        kernel = self.kernel
        if Dense.kept is not None and x.dtype != kernel.dtype:
            if kernel.path not in Dense.kept:
                with tf.init_scope():
                    value = tf.cast(kernel, x.dtype)
                    copy = tf.Variable(value, trainable=False)
                Dense.kept[kernel.path] = copy
            kernel = Dense.kept[kernel.path]
        return tf.matmul(x, tf.cast(kernel, x.dtype))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return x W + b in the dtype of x."""
        return elementwise.add_bias(self.product(x), self.bias)


@contextlib.contextmanager
def kernels_kept() -> Iterator[dict[str, tf.Variable]]:
    """Make graphs whose kernels have the type of their products already.

    Yields the 16-bit kernels by the paths of the float32 ones, which the model
    has for training. To convert them in each call costs more than the products
    of a short text do.
    """
    Dense.kept = {}
    try:
        yield Dense.kept
    finally:
        Dense.kept = None


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Return (x - mean) / deviation * gamma + beta along the last axis.

    Ba et al., arXiv:1607.06450. Computed in float32, returned in the dtype
    of x.
    """
    wide = tf.cast(x, tf.float32)  # [..., H]
    # The mean is subtracted first: E[x^2] - E[x]^2 loses its digits where the
    # mean is large. For 10,000 and 10,001 both terms are 100,010,000 in
    # float32, and the variance is 0 instead of 0.25.
    wide -= tf.reduce_mean(wide, axis=-1, keepdims=True)
    variance = tf.reduce_mean(
        tf.square(wide), axis=-1, keepdims=True
    )  # [..., 1]
    # 1e-12 as in the original (a Keras default is 1e-3): it matters only where
    # all numbers of a row are equal.
    wide *= tf.math.rsqrt(variance + 1e-12)
    return tf.cast(wide * gamma + beta, x.dtype)


class LayerNorm(Layer):
    """Layer normalization; variables gamma and beta [H]."""

    def __init__(self, size: int, name: str = "LayerNorm"):
        super().__init__(name)
        self.size = size

    def build(self) -> None:
        self.beta = self.weight("beta", [self.size], 0)
        self.gamma = self.add_weight(
            shape=[self.size], initializer="ones", name="gamma"
        )

    def call(self, x: tf.Tensor, compute: Compute = PLAIN) -> tf.Tensor:
        """Return layer_norm(x)."""
        return elementwise.apply(
            layer_norm, x, self.gamma, self.beta, fuse=compute.fuse
        )


class Dropout(Layer):
    """Dropout of a rate, with a stream of random numbers of its own."""

    def __init__(self, rate: float):
        super().__init__("dropout")
        self.rate = rate

    def stream(self, seed: Seed) -> Seed:
        """Return the seed of this layer; None if nothing is dropped."""
        if seed is None or not self.rate:
            return None
        # One seed per step, and one stream per layer: fold in the path. crc32
        # is the same in every process, Python's hash() is not.
        return elementwise.fold_seed(seed, zlib.crc32(self.path.encode()))


# --- Embeddings --------------------------------------------------------------


def sinusoids(rows: int, width: int) -> np.ndarray:
    """Return a sine and a cosine of each wavelength, [rows, width].

    The width / 2 wavelengths rise from 2 pi to nearly 20,000 pi positions, as
    in Vaswani et al. 2017 (section 3.5). Sines come first; there they alternate
    with cosines.
    """
    frequencies = 1e4 ** (-np.arange((width + 1) // 2) * 2 / width)
    angles = np.arange(rows)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)[:, :width]


def norm_dropout(
    x: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    seed: tf.Tensor | None = None,
    *,
    rate: float,
) -> tf.Tensor:
    """Return dropout(layer_norm(x)), the last step of the embeddings."""
    return elementwise.dropout(layer_norm(x, gamma, beta), seed, rate)


class Embeddings(Layer):
    """The sum of word, segment and position embeddings, normalized.

    Section 3, "Input/Output Representations", and figure 2. Positions are
    learned vectors, not the sines of Vaswani et al., so a sequence cannot be
    longer than the table of positions.
    """

    def __init__(self, config: BertConfig, dtype: str):
        super().__init__("embeddings")
        self.config = config
        self.output_dtype = dtype
        self.norm = LayerNorm(config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def build(self) -> None:
        config, stddev = self.config, self.config.initializer_range

        def table(name: str, rows: int) -> Any:
            return self.weight(name, [rows, config.hidden_size], stddev)

        self.word_embeddings = table("word_embeddings", config.vocab_size)
        self.token_type_embeddings = table(
            "token_type_embeddings", config.type_vocab_size
        )
        self.position_embeddings = table(
            "position_embeddings", config.max_position_embeddings
        )
        if config.sinusoidal_positions:
            self.position_embeddings.assign(
                config.sinusoidal_positions
                * sinusoids(*self.position_embeddings.shape)
            )
        super().build()

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        position_ids: tf.Tensor | None,
        word_vectors: tf.Tensor | None,
        shared: Shared,
    ) -> tf.Tensor:
        """Return the embeddings [B * S, H]; arguments as for BertModel."""
        batch, length = elementwise.shape_of(input_ids)
        hidden = self.config.hidden_size
        # Words are looked up: a one-hot matrix [B * S, V] would be huge.
        if word_vectors is None:
            x = tf.gather(self.word_embeddings, tf.reshape(input_ids, [-1]))
        else:
            x = tf.reshape(word_vectors, [-1, hidden])
        # Segments are multiplied: the gradient of a lookup would add B * S rows
        # into two rows, one after the other; here it is a matrix product.
        segments = tf.one_hot(
            tf.reshape(segment_ids, [-1]), self.config.type_vocab_size
        )  # [B * S, type_vocab_size]
        x += tf.matmul(segments, self.token_type_embeddings)  # [B * S, H]
        if position_ids is None:
            positions = self.position_embeddings[:length]  # [S, H], 0 .. S - 1
            x = tf.reshape(x, [batch, length, hidden]) + positions  # [B, S, H]
            x = tf.reshape(x, [-1, hidden])  # [B * S, H]
        else:
            position_ids = tf.reshape(position_ids, [-1])  # [B * S]
            x += tf.gather(self.position_embeddings, position_ids)
        x = elementwise.apply(
            norm_dropout,
            x,
            self.norm.gamma,
            self.norm.beta,
            self.dropout.stream(shared.seed),
            fuse=shared.compute.fuse,
            rate=self.dropout.rate,
        )
        return tf.cast(x, self.output_dtype)  # [B * S, H]


# --- Transformer layers (section 3, "Model Architecture") --------------------


def attention_probs(
    scores: tf.Tensor,
    bias: tf.Tensor,
    seed: tf.Tensor | None = None,
    *,
    scale: float,
    rate: float,
) -> tf.Tensor:
    """Return dropout(softmax(scores * scale + bias)), [B, N, F, T].

    The softmax is over keys, in float32. Dropout of probabilities drops whole
    keys for a query, and leaves a row that does not sum to 1 (Vaswani et al.
    and the original do the same).
    """
    wide = tf.cast(scores, tf.float32) * scale + bias
    return elementwise.dropout(
        tf.cast(tf.nn.softmax(wide), scores.dtype), seed, rate
    )


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    bias: tf.Tensor,
    seed: Seed,
    rate: float,
    compute: Compute = PLAIN,
) -> tf.Tensor:
    """Return softmax(query key^T / sqrt(D) + bias) value, [B, N, F, D].

    query is [B, N, F, D], key and value [B, N, T, D], bias broadcasts to
    [B, N, F, T]; seed and rate are of the dropout of the softmax.
    """
    # A score is a sum of D products. If these are independent and of variance
    # 1, its deviation is sqrt(D), 8 for D = 64, and the softmax is all but an
    # argmax, with hardly a gradient. So sqrt(D) divides it.
    scale = 1.0 / math.sqrt(query.shape[-1])
    if compute.one_program and compute.recompute == "attention":
        from ops import recompute  # a choice of few runs

        return recompute.attention(query, key, value, bias, seed, scale, rate)
    scores = tf.matmul(query, key, transpose_b=True)  # [B, N, F, T]
    probs = elementwise.apply(
        attention_probs,
        scores,
        bias,
        seed,
        fuse=compute.fuse,
        scale=scale,
        rate=rate,
    )  # [B, N, F, T]
    return tf.matmul(probs, value)  # [B, N, F, D]


class SelfAttention(Layer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, 3.2).

    "Bidirectional" means that every token sees all tokens of its sequence.
    Another attention_direction adds a mask (see attention_bias).
    """

    def __init__(self, config: BertConfig):
        super().__init__("self")
        hidden, stddev = config.hidden_size, config.initializer_range
        self.num_heads = config.num_attention_heads
        self.query = Dense(hidden, hidden, stddev, "query")
        self.key = Dense(hidden, hidden, stddev, "key")
        self.value = Dense(hidden, hidden, stddev, "value")
        self.dropout = Dropout(config.attention_probs_dropout_prob)

    def call(self, x: tf.Tensor, shared: Shared) -> tf.Tensor:
        """Return the heads' weighted sums of values, concatenated.

        x is [B * S, H], or [R, H] without padding; the result has its shape.
        """
        tokens, compute = shared.tokens, shared.compute
        length = elementwise.shape_of(shared.bias)[-1]

        def heads(dense: Dense) -> tf.Tensor:  # [B, N, S, D]
            if tokens is not None:
                return tokens.split_heads(dense(x))
            return elementwise.apply(
                elementwise.add_bias_split_heads,
                dense.product(x),  # [B * S, H]
                dense.bias,
                # A compiled program needs a length known while tracing.
                fuse=compute.fuse and isinstance(length, int),
                length=length,
                heads=self.num_heads,
            )

        def attend(query, key, value):
            seed, rate = self.dropout.stream(shared.seed), self.dropout.rate
            return attention(
                query, key, value, shared.bias, seed, rate, compute
            )

        if compute.recompute == "attention" and not compute.one_program:
            attend = tf.recompute_grad(attend)
        context = attend(heads(self.query), heads(self.key), heads(self.value))
        if tokens is not None:
            return tokens.merge_heads(context)  # [R, H]
        return elementwise.apply(
            elementwise.merge_heads, context, fuse=compute.fuse
        )  # [B * F, H]


def add_norm(
    x: tf.Tensor,
    bias: tf.Tensor,
    residual: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    seed: tf.Tensor | None = None,
    *,
    rate: float,
) -> tf.Tensor:
    """Return layer_norm(residual + dropout(x + bias)).

    The last step of attention and of feed-forward, after their dense layers.
    """
    x = elementwise.dropout(elementwise.add_bias(x, bias), seed, rate)
    return layer_norm(residual + x, gamma, beta)


class ResidualOutput(Layer):
    """The end of both sublayers: norm(residual + dropout(dense(x))).

    The norm comes after the addition (post-LN), as in Vaswani et al. The
    published weights fit no other order. At the start of training the
    gradients of post-LN are largest near the output, one reason why the
    learning rate is warmed up (Xiong et al., arXiv:2002.04745).
    """

    def __init__(self, config: BertConfig, inputs: int):
        super().__init__("output")
        hidden = config.hidden_size
        self.dense = Dense(inputs, hidden, config.initializer_range, "dense")
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.norm = LayerNorm(hidden)

    def call(
        self, x: tf.Tensor, residual: tf.Tensor, shared: Shared
    ) -> tf.Tensor:
        """Return [B * S, H] for x [B * S, inputs] and residual [B * S, H]."""
        return self.after_product(self.dense.product(x), residual, shared)

    def after_product(
        self, product: tf.Tensor, residual: tf.Tensor, shared: Shared
    ) -> tf.Tensor:
        """Return what `call` does of dense.product(x), [B * S, H]."""
        return elementwise.apply(
            add_norm,
            product,
            self.dense.bias,
            residual,
            self.norm.gamma,
            self.norm.beta,
            self.dropout.stream(shared.seed),
            fuse=shared.compute.fuse,
            rate=self.dropout.rate,
        )


class Attention(Layer):
    """First sublayer: norm(x + dropout(dense(self-attention(x))))."""

    def __init__(self, config: BertConfig):
        super().__init__("attention")
        self.self_attention = SelfAttention(config)
        self.residual_output = ResidualOutput(config, config.hidden_size)

    def call(self, x: tf.Tensor, shared: Shared) -> tf.Tensor:
        """Return [B * S, H] for x [B * S, H]."""
        context = self.self_attention(x, shared=shared)  # [B * S, H]
        return self.residual_output(context, x, shared=shared)


class DenseActivation(Layer):
    """activation(dense(x)); the variables are under `<name>/dense`."""

    def __init__(self, config: BertConfig, outputs: int, act: Any, name: str):
        super().__init__(name)
        self.dense = Dense(
            config.hidden_size, outputs, config.initializer_range, "dense"
        )
        self.activation = get_activation(act)

    def call(self, x: tf.Tensor, compute: Compute = PLAIN) -> tf.Tensor:
        """Return [..., outputs] for x [..., H]."""
        # Not self.dense(x): TensorFlow would no longer fuse product, bias and
        # GELU of an exported graph into one operation.
        return elementwise.apply(
            elementwise.add_bias_activate,
            self.dense.product(x),
            self.dense.bias,
            fuse=compute.fuse,
            activation=self.activation,
        )


class TransformerLayer(Layer):
    """One layer of the encoder: attention, then feed-forward.

    x = norm(x + dropout(attention(x)))
    x = norm(x + dropout(dense(gelu(dense(x)))))
    """

    def __init__(self, config: BertConfig, name: str):
        super().__init__(name)
        self.attention = Attention(config)
        self.intermediate = DenseActivation(
            config, config.intermediate_size, config.hidden_act, "intermediate"
        )
        self.residual_output = ResidualOutput(config, config.intermediate_size)

    def call(self, x: tf.Tensor, shared: Shared) -> tf.Tensor:
        """Return [B * S, H] for x [B * S, H]."""

        def to_last_product(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            x = self.attention(x, shared=shared)
            inner = self.intermediate(x, compute=shared.compute)  # [B * S, I]
            return self.residual_output.dense.product(inner), x

        # The call that the backward pass repeats leaves the last product out, a
        # third of the work, since no gradient needs its value.
        if shared.compute.recompute == "layers":
            to_last_product = tf.recompute_grad(to_last_product)
        product, x = to_last_product(x)  # [B * S, H] both
        return self.residual_output.after_product(product, x, shared)


class Encoder(Layer):
    """The stack of L Transformer layers."""

    def __init__(self, config: BertConfig):
        super().__init__("encoder")
        self.layers = [
            TransformerLayer(config, f"layer_{i}")
            for i in range(config.num_hidden_layers)
        ]

    def call(self, x: tf.Tensor, shared: Shared) -> list[tf.Tensor]:
        """Return the output of every layer, first to last, L of [B * S, H]."""
        outputs = []
        for layer in self.layers:
            x = layer(x, shared=shared)
            outputs.append(x)
        return outputs


# --- The encoder of all tasks ------------------------------------------------


class BertOutput(NamedTuple):
    """The result of BertModel in its dtype."""

    sequence_output: tf.Tensor  # [B, S, H], the last layer
    pooled_output: tf.Tensor  # [B, H], see class_vectors
    encoder_layers: list[tf.Tensor]  # L of [B, S, H]
    embedding_output: tf.Tensor  # [B, S, H]


@keras.saving.register_keras_serializable("bert")
class BertModel(Layer):
    """The encoder that all tasks share: embeddings, L layers and the pooler.

    Args:
        config: the sizes.
        name: of the layer. Two of them in one Keras model need two names. The
            paths of variables begin with bert/ all the same, as in checkpoints.
        dtype: type of activations, one of DTYPES; variables are float32. None:
            as Keras' policy has it, which is float32 unless it was set.

    Call arguments:
        input_ids: [B, S], ids of word pieces.
        input_mask: [B, S], 1 for tokens, 0 for padding; default ones.
        segment_ids: [B, S], 0 in sentence A, 1 in B; default zeros.
        position_ids: [B, S]; default 0 .. S - 1.
        sequence_ids: [B, S], for rows that hold several examples: the number
            of the token's example, from 1, and 0 for padding. Tokens attend
            to tokens of the same number only. Such rows need position_ids
            that start from 0 in every example.
        word_vectors: float32 [B, S, H], to read in place of the word embeddings
            of input_ids; default these.
        training: whether dropout is on.
        dropout_seed: an integer that determines all random numbers of the
            call. None draws one from TensorFlow's generator.
        compute: how to compute.

    Example:
        >>> model = BertModel(BertConfig.from_size("tiny", vocab_size=30522))
        >>> output = model(tf.constant([[101, 7592, 102, 0]]),
        ...                input_mask=tf.constant([[1, 1, 1, 0]]))
        >>> output.pooled_output.shape
        TensorShape([1, 128])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return compat's model for the original's arguments (migration.md)."""
        if "is_training" in kwargs or args[1:2] in ((True,), (False,)):
            return __getattr__("OriginalBertModel")(*args, **kwargs)
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self, config: BertConfig, name: str = "bert", dtype: str | None = None
    ):
        super().__init__("bert")
        self._parent_path = ""  # not of a layer that builds this one
        dtype = dtype or keras.config.dtype_policy().compute_dtype
        if dtype not in DTYPES:
            raise UserError(
                f"--dtype={dtype} (or Keras' policy): choose "
                f"{', '.join(DTYPES)}"
            )
        self.config = config
        self.embeddings = Embeddings(config, dtype)
        self.encoder = Encoder(config)
        # The paper's C is the last hidden vector of [CLS]. The original adds
        # this dense layer with tanh, pre-trained by next sentence prediction.
        self.pooler = DenseActivation(
            config, config.hidden_size, tf.tanh, "pooler"
        )
        self.build()
        self.name = name

    def build(self, input_shape: Any = None) -> None:
        """Create the variables, once: a layer that holds this one may ask."""
        if not self.built:
            super().build()

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        segment_ids: tf.Tensor | None = None,
        position_ids: tf.Tensor | None = None,
        sequence_ids: tf.Tensor | None = None,
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
        compute: Compute = PLAIN,
        word_vectors: tf.Tensor | None = None,
    ) -> BertOutput:
        """Encode a batch; the class describes the arguments."""
        if isinstance(input_ids, (dict, list, tuple)):
            raise UserError(
                f"input_ids is a {type(input_ids).__name__}: give each input "
                "by its name, bert(input_ids=ids, input_mask=mask, "
                "segment_ids=segments), those of a dict as bert(**inputs)"
            )
        input_ids = whole_numbers("input_ids", input_ids)
        segment_ids = whole_numbers("segment_ids", segment_ids)
        position_ids = whole_numbers("position_ids", position_ids)
        sequence_ids = whole_numbers("sequence_ids", sequence_ids)
        batch, length = elementwise.shape_of(input_ids)  # B, S
        longest = self.config.max_position_embeddings
        too_long = (
            f"is more than the model's max_position_embeddings {longest}; "
            "shorten the sequences or train a model with more positions"
        )
        if not isinstance(length, int):
            check = tf.debugging.assert_less_equal(
                length, longest, f"the sequence length {too_long}"
            )
            # Else a lookup may fail first, or tf.compat.v1 drop the check.
            with tf.control_dependencies([check]):
                input_ids = tf.identity(input_ids)
                if input_mask is not None:  # positions may follow from it
                    input_mask = tf.identity(input_mask)
                if compute.skip_padding or position_ids is not None:
                    # XLA drops the check and clips positions, but no slice.
                    zeros = tf.zeros([longest], input_ids.dtype)
                    input_ids += tf.slice(zeros, [0], [length])
        elif length > longest:
            raise UserError(f"sequence length {length} {too_long}")
        seed = None
        if training:
            seed = draw_seed() if dropout_seed is None else dropout_seed
        if segment_ids is None:
            segment_ids = tf.zeros_like(input_ids)
        direction = self.config.attention_direction
        bias = attention_bias(input_ids, input_mask, sequence_ids, direction)
        tokens = None
        # word_vectors has the padding, too: nothing is skipped.
        skips = compute.skip_padding and not training and word_vectors is None
        if skips and input_mask is not None:
            from ops import unpadding  # for inference alone

            heads = self.config.num_attention_heads
            tokens = unpadding.real_tokens(input_mask, heads)
            input_ids = tokens.pick(input_ids)  # [1, R]
            segment_ids = tokens.pick(segment_ids)  # [1, R]
            position_ids = tokens.positions(position_ids)  # [1, R]
        shared = Shared(bias, seed, tokens, compute)
        embedded = self.embeddings(
            input_ids, segment_ids, position_ids, word_vectors, shared=shared
        )  # [B * S, H], or [R, H] without padding
        encoded = self.encoder(embedded, shared=shared)

        def unflatten(x: tf.Tensor) -> tf.Tensor:  # [B, S, H]
            if tokens is not None:
                return tokens.restore(x)
            return tf.reshape(x, [batch, length, self.config.hidden_size])

        layers = [unflatten(x) for x in encoded]  # L of [B, S, H]
        return BertOutput(
            sequence_output=layers[-1],
            pooled_output=self.pooler(
                class_vectors(layers[-1], input_mask, direction),  # [B, H]
                compute=compute,
            ),
            encoder_layers=layers,
            embedding_output=unflatten(embedded),
        )

    def get_config(self) -> dict[str, Any]:
        """Return what Keras writes into its files, for `from_config`."""
        if callable(self.config.hidden_act):
            raise UserError(
                "hidden_act is a function, which Keras' files cannot hold; "
                "give the name of one"
            )
        return {
            "name": self.name,
            "bert_config": self.config.to_dict(),
            "dtype": self.embeddings.output_dtype,
            # Keras keeps `trainable` of the outermost layer alone.
            "frozen": [p for p, x in self._parts().items() if not x.trainable],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BertModel":
        """Return the model, with new weights, of a `get_config`."""
        bert_config = BertConfig.from_dict(config["bert_config"])
        model = cls(bert_config, config["name"], config["dtype"])
        for path, part in model._parts().items():
            part.trainable = path not in config["frozen"]
        return model

    def _parts(self) -> dict[str, Any]:
        """Return {path in the model: layer or variable}; the model's is "".

        A layer comes before its parts, since it hands its `trainable` to them.
        """
        return {
            part.path.partition("/")[2]: part
            for part in (*self._flatten_layers(), *self.weights)
        }


def whole_numbers(name: str, x: tf.Tensor | None) -> tf.Tensor | None:
    """Return [B, S] as integers; they may come as floats from Keras.

    Keras builds a subclassed model of its files by calling it with float32
    tensors of the saved shapes, and gives a Sequential model an input of the
    first layer's dtype.
    """
    if x is None:
        return None
    x = tf.convert_to_tensor(x)
    # 16 bits would round ids, but do no harm while a model is only built.
    with keras.SymbolicScope() as scope:
        is_building = scope.original_scope is not None
    is_float = x.dtype.is_floating and (is_building or x.dtype.size > 2)
    if x.shape.rank != 2 or not (x.dtype.is_integer or is_float):
        raise UserError(
            f"{name} must be whole numbers [B, S], found {x.dtype.name} "
            f"{x.shape}; texts go through a tokenizer first, and a model "
            "whose policy has 16 bits begins with keras.Input([None], "
            "dtype='int32')"
        )
    if not is_float:
        return x
    whole = tf.cast(x, tf.int32)
    check = tf.debugging.assert_equal(
        tf.cast(whole, x.dtype), x, f"{name} must be whole numbers"
    )
    with tf.control_dependencies([check]):
        return tf.identity(whole)


def draw_seed() -> tf.Tensor:
    """Return a new seed for the dropout of a call, an int32 scalar."""
    return tf.random.uniform([], maxval=2**31 - 1, dtype="int32")


def attention_bias(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor | None,
    sequence_ids: tf.Tensor | None,
    attention_direction: str = BIDIRECTIONAL,
) -> tf.Tensor:
    """Return the mask as numbers that are added to the attention scores.

    0 where a query may see a key, -10000 where it may not. Two examples of 2
    and 1 tokens packed into a row of 4, sequence_ids [[1, 1, 2, 0]] and
    input_mask [[1, 1, 1, 0]], give

                  key 0       1       2       3
        query 0       0       0  -10000  -10000
        query 1       0       0  -10000  -10000
        query 2  -10000  -10000       0  -10000
        query 3  -10000  -10000  -10000  -10000   (padding)

    With attention_direction "left_to_right" a query sees no key after it in
    the row, whatever the position_ids. This input_mask alone gives

        query 0       0  -10000  -10000  -10000
        query 1       0       0  -10000  -10000
        query 2       0       0       0  -10000
        query 3       0       0       0  -10000   (padding)

    Right to left it sees no key before it. Packed and in one direction, both
    masks apply. Other arguments: see BertModel.
    Returns float32 [B, 1, F, T]; [B, 1, 1, T] if all queries see the same keys.
    """
    if input_mask is None:
        input_mask = tf.ones_like(input_ids)
    # Not [:, None, None]: see serving/litert/convert.py.
    visible = tf.expand_dims(tf.cast(input_mask, tf.float32), 1)  # [B, 1, T]
    visible = tf.expand_dims(visible, 1)  # [B, 1, 1, T]
    if sequence_ids is not None:
        same = tf.equal(sequence_ids[:, :, None], sequence_ids[:, None, :])
        visible *= tf.cast(same, tf.float32)[:, None]  # [B, 1, F, T]
    if attention_direction != BIDIRECTIONAL:
        key = tf.range(elementwise.shape_of(input_ids)[1])  # [S]
        query = tf.expand_dims(key, 1)  # [F, 1]
        is_left = attention_direction == LEFT_TO_RIGHT
        seen = key <= query if is_left else key >= query  # [F, T]
        visible *= tf.cast(seen, tf.float32)  # [B, 1, F, T]
    return mask_bias(visible)


def mask_bias(visible: tf.Tensor) -> tf.Tensor:
    """Return 0 where a mask of scores is 1, and -10000 where it is 0."""
    # -10000 as in the original: exp(-10000) is 0 in float32, as good as
    # minus infinity. But if a query sees no key, as in a row of padding alone,
    # the softmax is NaN for minus infinity, and finite for -10000.
    return (1.0 - visible) * -10000.0


def class_vectors(
    x: tf.Tensor, input_mask: tf.Tensor | None, attention_direction: str
) -> tf.Tensor:
    """Return the vector of the token that represents each row, [B, ...].

    It is the first token, [CLS] (section 3). Left to right, it is the last one
    that is not padding, a [SEP], since [CLS] sees itself alone (the paper
    leaves it open). In a row of padding alone it is token 0.

    x [B, S, ...] has a vector for each token; input_mask is BertModel's.
    """
    if attention_direction != LEFT_TO_RIGHT:
        return x[:, 0]
    if input_mask is None:
        return x[:, -1]
    places = tf.range(elementwise.shape_of(input_mask)[1])  # [S]
    places *= tf.cast(input_mask != 0, tf.int32)  # [B, S], 0 at padding
    return tf.gather(x, tf.reduce_max(places, axis=1), batch_dims=1)
