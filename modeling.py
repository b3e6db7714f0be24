"""The sizes and rates of a model: the JSON file beside every checkpoint.

Apart from modeling.py, which is long enough with the model alone.
"""

import copy
import dataclasses
import json
import math
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from base.errors import UserError

import keras
import tensorflow as tf

from ops import elementwise, unpadding
from ops.elementwise import fold_seed, fused

# L and H of the named sizes; H / 64 heads, I = 4 H. Tiny to Medium are the
# miniatures of Turc et al. (arXiv:1908.08962), Base and Large the paper's.
NAMED_SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}


@dataclasses.dataclass
class BertConfig:
    """Sizes and rates of one model; the JSON file beside a checkpoint.

    Keys of the file that are not listed here (published files have some:
    pooler_type, directionality, ...) become attributes and are written back.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12  # must divide hidden_size
    intermediate_size: int = 3072  # width inside the feed-forward part
    hidden_act: str | Callable | None = "gelu"
    hidden_dropout_prob: float = 0.1  # after embeddings and each sublayer
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512  # the longest possible sequence
    type_vocab_size: int = 16  # of old; every published model has 2
    initializer_range: float = 0.02  # deviation of the truncated normal

    def __post_init__(self):
        """Refuse what no model can be built from."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int or value < 1):
                raise UserError(
                    f"bert config: {field.name} must be a whole number of at "
                    f"least 1, found {value!r}"
                )
            if field.type is float and (
                type(value) not in (int, float) or not 0 <= value < 1
            ):
                raise UserError(
                    f"bert config: {field.name} must be a number in [0, 1), "
                    f"found {value!r}"
                )
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"bert config: hidden_size {self.hidden_size} is not a "
                f"multiple of num_attention_heads {self.num_attention_heads}"
            )
        get_activation(self.hidden_act)

    @classmethod
    def from_dict(cls, json_object: dict[str, Any]) -> "BertConfig":
        """Return the configuration a JSON object describes."""
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
        """Return the configuration in a file; errors name the file."""
        try:
            with tf.io.gfile.GFile(json_file, "r") as reader:
                json_object = json.loads(reader.read())
            if not isinstance(json_object, dict):
                raise UserError(
                    "a bert config is a JSON object, found "
                    f"{type(json_object).__name__}"
                )
            return cls.from_dict(json_object)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{json_file}: not valid JSON, line {error.lineno} column "
                f"{error.colno}: {error.msg}"
            ) from error
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            raise UserError(
                f"{json_file}: cannot read the bert config: {error}"
            ) from error
        except UserError as error:
            raise UserError(f"{json_file}: {error}") from error

    @classmethod
    def from_size(cls, name: str, vocab_size: int) -> "BertConfig":
        """Return a published size: tiny, mini, small, medium, base, large."""
        if name not in NAMED_SIZES:
            raise UserError(
                f"unknown model size {name!r}; choose from "
                f"{', '.join(NAMED_SIZES)}"
            )
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
        """Return a copy of every key, unknown ones included."""
        return copy.deepcopy(vars(self))

    def to_json_string(self) -> str:
        """Return sorted JSON with a final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


def get_activation(name: str | Callable | None) -> Callable | None:
    """Return the function of that name; None stands for linear."""
    if name is None or callable(name):
        return name
    activations = {
        "gelu": elementwise.gelu,
        "gelu_erf": elementwise.gelu_erf,
        "relu": tf.nn.relu,
        "tanh": tf.tanh,
        "linear": None,
        "": None,
    }
    if not isinstance(name, str) or name.lower() not in activations:
        raise UserError(
            f"bert config: unknown activation {name!r}; choose from gelu, "
            "gelu_erf, relu, tanh, linear"
        )
    return activations[name.lower()]


# --- Layers, inside out -----------------------------------------------------


class Layer(keras.layers.Layer):
    """A layer whose variables exist after build(), which takes no shapes."""

    def __init__(self, name: str):
        # autocast would turn float32 norms into 16-bit ones.
        super().__init__(name=name, dtype="float32", autocast=False)

    def build(self) -> None:
        """Create the variables: those of each attribute that is a layer."""
        for part in list(vars(self).values()):
            if isinstance(part, Layer):
                part.build()

    def weight(self, name: str, shape: list[int], stddev: float) -> Any:
        """Create a variable: truncated normal, or zeros for stddev 0."""
        initializer = (
            keras.initializers.TruncatedNormal(stddev=stddev)
            if stddev
            else "zeros"
        )
        return self.add_weight(shape=shape, initializer=initializer, name=name)


class Dense(Layer):
    """A kernel [in, out] and a bias."""

    def __init__(self, inputs: int, outputs: int, stddev: float, name: str):
        super().__init__(name)
        self.shape, self.stddev = [inputs, outputs], stddev

    def build(self) -> None:
        """Create kernel and bias."""
        self.kernel = self.weight("kernel", self.shape, self.stddev)
        self.bias = self.weight("bias", self.shape[1:], 0)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return x W; whatever comes next adds the bias in its own pass."""
        return tf.matmul(x, tf.cast(self.kernel, x.dtype))


class LayerNorm(Layer):
    """Layer normalization over the last axis, in float32."""

    def __init__(self, size: int, name: str = "LayerNorm"):
        super().__init__(name)
        self.size = size

    def build(self) -> None:
        """Create beta and gamma."""
        self.beta = self.weight("beta", [self.size], 0)
        self.gamma = self.add_weight(
            shape=[self.size], initializer="ones", name="gamma"
        )


class Dropout(Layer):
    """A rate, and a random stream named by the layer's path."""

    def __init__(self, rate: float):
        super().__init__("dropout")
        self.rate = rate

    def call(self, seed: tf.Tensor | None) -> tf.Tensor | None:
        """Return this layer's own seed, None where nothing is dropped."""
        if seed is None or not self.rate:
            return None
        return fold_seed(seed, zlib.crc32(self.path.encode()))


class Embeddings(Layer):
    """Paper section 3, "Input/Output Representations" and figure 2."""

    def __init__(self, config: BertConfig, dtype: str):
        super().__init__("embeddings")
        self.config = config
        self.output_dtype = dtype
        self.norm = LayerNorm(config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def build(self) -> None:
        """Create the three tables and the norm."""
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
        self.norm.build()
        self.dropout.build()

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        position_ids: tf.Tensor | None,
        seed: tf.Tensor | None,
    ) -> tf.Tensor:
        """Return word + segment + position, normed: [B * S, H]."""
        batch, length = elementwise.shape_of(input_ids)
        hidden = self.config.hidden_size
        x = tf.gather(self.word_embeddings, tf.reshape(input_ids, [-1]))
        # A product with a narrow one-hot matrix has a dense gradient.
        segments = tf.one_hot(
            tf.reshape(segment_ids, [-1]), self.config.type_vocab_size
        )  # [B * S, types]
        x += tf.matmul(segments, self.token_type_embeddings)  # [B * S, H]
        if position_ids is None:
            positions = self.position_embeddings[:length]  # [S, H]
            x = tf.reshape(x, [batch, length, hidden]) + positions
            x = tf.reshape(x, [-1, hidden])  # [B * S, H]
        else:
            position_ids = tf.reshape(position_ids, [-1])
            x += tf.gather(self.position_embeddings, position_ids)
        x = fused(
            elementwise.norm_dropout,
            x,
            self.norm.gamma,
            self.norm.beta,
            self.dropout(seed),
            rate=self.dropout.rate,
        )  # [B * S, H]
        return tf.cast(x, self.output_dtype)


class SelfAttention(Layer):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, 3.2)."""

    def __init__(self, config: BertConfig):
        super().__init__("self")
        hidden, stddev = config.hidden_size, config.initializer_range
        self.num_heads = config.num_attention_heads
        self.head_size = hidden // self.num_heads
        self.query = Dense(hidden, hidden, stddev, "query")
        self.key = Dense(hidden, hidden, stddev, "key")
        self.value = Dense(hidden, hidden, stddev, "value")
        self.dropout = Dropout(config.attention_probs_dropout_prob)

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        seed: tf.Tensor | None,
        tokens: unpadding.Tokens | None,
    ) -> tf.Tensor:
        """Return the heads' contexts side by side.

        Args:
            x: [B * S, H]; [R, H] with `tokens`, as in every layer.
            bias: float32 [B, 1, 1 or F, T], 0 where a key may be seen.
            seed: of dropout, or None.
            tokens: which tokens the rows of x are, or None for all.
        """
        length = elementwise.shape_of(bias)[-1]

        def heads(dense: Dense) -> tf.Tensor:
            if tokens is not None:
                return tokens.split_heads(
                    elementwise.add_bias(dense(x), dense.bias)
                )
            return fused(
                elementwise.split_heads,
                dense(x),
                dense.bias,
                length=length,
                heads=self.num_heads,
            )

        query = heads(self.query)  # [B, N, F, D]
        key = heads(self.key)  # [B, N, T, D]
        value = heads(self.value)  # [B, N, T, D]
        scores = tf.matmul(query, key, transpose_b=True)  # [B, N, F, T]
        probs = fused(
            elementwise.attention_probs,
            scores,
            bias,
            self.dropout(seed),
            scale=1.0 / math.sqrt(self.head_size),
            rate=self.dropout.rate,
        )  # [B, N, F, T]
        context = tf.matmul(probs, value)  # [B, N, F, D]
        if tokens is not None:
            return tokens.merge_heads(context)  # [R, H]
        return fused(elementwise.merge_heads, context)  # [B * F, H]


class ResidualOutput(Layer):
    """norm(residual + dropout(dense(x))): both sublayers end with it."""

    def __init__(self, config: BertConfig, inputs: int):
        super().__init__("output")
        hidden = config.hidden_size
        self.dense = Dense(inputs, hidden, config.initializer_range, "dense")
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.norm = LayerNorm(hidden)

    def call(
        self, x: tf.Tensor, residual: tf.Tensor, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Return [B * S, H]."""
        return fused(
            elementwise.add_norm,
            self.dense(x),
            self.dense.bias,
            residual,
            self.norm.gamma,
            self.norm.beta,
            self.dropout(seed),
            rate=self.dropout.rate,
        )


class Attention(Layer):
    """First sublayer: attention, then the residual output."""

    def __init__(self, config: BertConfig):
        super().__init__("attention")
        self.self_attention = SelfAttention(config)
        self.residual_output = ResidualOutput(config, config.hidden_size)

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        seed: tf.Tensor | None,
        tokens: unpadding.Tokens | None,
    ) -> tf.Tensor:
        """Return [B * S, H]."""
        context = self.self_attention(x, bias, seed, tokens)  # [B * S, H]
        return self.residual_output(context, x, seed)


class DenseActivation(Layer):
    """A layer named `dense`, then an activation."""

    def __init__(self, config: BertConfig, outputs: int, act: Any, name: str):
        super().__init__(name)
        self.dense = Dense(
            config.hidden_size, outputs, config.initializer_range, "dense"
        )
        self.activation = get_activation(act)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return [..., outputs]."""
        return fused(
            elementwise.bias_activation,
            self.dense(x),
            self.dense.bias,
            activation=self.activation,
        )


class TransformerLayer(Layer):
    """Attention, then feed-forward; the norm comes after each (post-LN)."""

    def __init__(self, config: BertConfig, name: str):
        super().__init__(name)
        self.attention = Attention(config)
        self.intermediate = DenseActivation(
            config, config.intermediate_size, config.hidden_act, "intermediate"
        )
        self.residual_output = ResidualOutput(config, config.intermediate_size)

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        seed: tf.Tensor | None,
        tokens: unpadding.Tokens | None,
    ) -> tf.Tensor:
        """Return [B * S, H]."""
        x = self.attention(x, bias, seed, tokens)  # [B * S, H]
        return self.residual_output(self.intermediate(x), x, seed)


class Encoder(Layer):
    """The stack of layers (paper section 3, "Model Architecture")."""

    def __init__(self, config: BertConfig):
        super().__init__("encoder")
        self.layers = [
            TransformerLayer(config, f"layer_{i}")
            for i in range(config.num_hidden_layers)
        ]

    def build(self) -> None:
        """Create the variables of every layer."""
        for layer in self.layers:
            layer.build()

    def call(
        self,
        x: tf.Tensor,
        bias: tf.Tensor,
        seed: tf.Tensor | None,
        tokens: unpadding.Tokens | None,
    ) -> list[tf.Tensor]:
        """Return every layer's output, each [B * S, H]."""
        outputs = []
        for layer in self.layers:
            x = layer(x, bias, seed, tokens)  # [B * S, H]
            outputs.append(x)
        return outputs


# --- The model --------------------------------------------------------------


class BertOutput(NamedTuple):
    """What BertModel returns."""

    sequence_output: tf.Tensor  # [B, S, H], the last layer
    pooled_output: tf.Tensor  # [B, H]
    encoder_layers: list[tf.Tensor]  # L of [B, S, H]
    embedding_output: tf.Tensor  # [B, S, H]


class BertModel(Layer):
    """The encoder every task shares.

    Example:
        >>> config = BertConfig.from_size("tiny", vocab_size=30522)
        >>> model = BertModel(config)
        >>> output = model(tf.constant([[101, 7592, 102, 0]]),
        ...                input_mask=tf.constant([[1, 1, 1, 0]]))
        >>> output.pooled_output.shape
        TensorShape([1, 128])
    """

    def __init__(
        self,
        config: BertConfig,
        name: str = "bert",
        dtype: str | None = None,
    ):
        super().__init__(name)
        if dtype not in (None, "float32", "bfloat16"):
            raise UserError(
                f"--dtype: unknown type {dtype!r}; choose float32 or bfloat16"
            )
        self.config = config
        self.embeddings = Embeddings(config, dtype or "float32")
        self.encoder = Encoder(config)
        self.pooler = DenseActivation(
            config, config.hidden_size, tf.tanh, "pooler"
        )
        self.build()

    def __call__(self, input_ids: tf.Tensor, *args, **kwargs) -> BertOutput:
        """Check the length, then `call`, whose errors Keras decorates."""
        length = input_ids.shape[1]
        longest = self.config.max_position_embeddings
        if length is not None and length > longest:
            raise UserError(
                f"sequence length {length} is more than the model's "
                f"max_position_embeddings {longest}; shorten the sequences "
                "or train a model with more positions"
            )
        return super().__call__(input_ids, *args, **kwargs)

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        segment_ids: tf.Tensor | None = None,
        position_ids: tf.Tensor | None = None,
        sequence_ids: tf.Tensor | None = None,
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> BertOutput:
        """Encode a batch.

        Args:
            input_ids: [B, S] word pieces.
            input_mask: [B, S], 1 for tokens, 0 for padding; default ones.
            segment_ids: [B, S], 0 or 1 (sentence A or B); default zeros.
            position_ids: [B, S]; default 0 .. S - 1.
            sequence_ids: [B, S], which of the examples packed into the row
                a token belongs to, 0 for padding. Attention stays inside.
            training: whether dropout is on.
            dropout_seed: all random numbers of the call are a function of
                this integer. None draws one from TensorFlow's generator.
        """
        batch, length = elementwise.shape_of(input_ids)
        if segment_ids is None:
            segment_ids = tf.zeros_like(input_ids)
        dropout_seed = draw_seed(training, dropout_seed)
        bias = attention_bias(input_ids, input_mask, sequence_ids)
        tokens = None
        if unpadding.is_skipped(training, input_mask):
            heads = self.config.num_attention_heads
            tokens = unpadding.real_tokens(input_mask, heads)
            input_ids = tokens.pick(input_ids)  # [1, R], as the others
            segment_ids = tokens.pick(segment_ids)
            position_ids = tokens.positions(position_ids)
        embedded = self.embeddings(
            input_ids, segment_ids, position_ids, dropout_seed
        )  # [B * S, H]
        encoded = self.encoder(embedded, bias, dropout_seed, tokens)

        def unflatten(x: tf.Tensor) -> tf.Tensor:
            if tokens is not None:
                return tokens.restore(x)
            return tf.reshape(x, [batch, length, self.config.hidden_size])

        layers = [unflatten(x) for x in encoded]  # L of [B, S, H]
        return BertOutput(
            sequence_output=layers[-1],
            pooled_output=self.pooler(layers[-1][:, 0]),  # [B, H]
            encoder_layers=layers,
            embedding_output=unflatten(embedded),
        )


def draw_seed(
    training: bool, dropout_seed: tf.Tensor | int | None
) -> tf.Tensor | None:
    """Return the seed of a call's dropout; None where nothing is dropped."""
    if not training:
        return None
    if dropout_seed is None:
        dropout_seed = tf.random.uniform([], maxval=2**31 - 1, dtype="int32")
    return tf.cast(dropout_seed, tf.uint32)


def attention_bias(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor | None,
    sequence_ids: tf.Tensor | None,
) -> tf.Tensor:
    """Return what is added to attention scores: float32 [B, 1, 1 or F, T].

    Keys out of reach get -10000, as the original's did: finite, so that a row
    of padding alone has a softmax instead of NaN.
    """
    if input_mask is None:
        input_mask = tf.ones_like(input_ids)
    visible = tf.cast(input_mask, tf.float32)[:, None, None, :]  # [B, 1, 1, T]
    if sequence_ids is not None:
        same = tf.equal(sequence_ids[:, :, None], sequence_ids[:, None, :])
        visible *= tf.cast(same, tf.float32)[:, None]  # [B, 1, F, T]
    return (1.0 - visible) * -10000.0


class TaskModel(tf.Module):
    """An encoder and the head of one task; subclasses add the head.

    Not a Keras layer itself, so that paths start at `bert/` and `cls/`. A
    head is any `Layer` or `keras.Variable` kept as an attribute.

    Attributes:
        uses_pooler: whether the head reads pooled_output. Where none does
            the pooler stays as it is, and a checkpoint may lack it.
    """

    uses_pooler = True

    def __init__(self, config: BertConfig, dtype: str = "float32"):
        super().__init__()
        self.config = config
        self.bert = BertModel(config, dtype=dtype)

    @property
    def variables(self) -> list[keras.Variable]:
        """Every variable, in the order in which the parts were added."""
        variables = []
        for part in vars(self).values():
            if isinstance(part, keras.layers.Layer):
                variables += part.weights  # Keras' own seeds are no state
            elif isinstance(part, keras.Variable):
                variables.append(part)
        return variables

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The variables an optimizer changes."""
        return [
            v
            for v in self.variables
            if v.trainable
            and (self.uses_pooler or not v.path.startswith("bert/pooler/"))
        ]

    def encode(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> BertOutput:
        """Run the encoder on those features it knows by name."""
        return self.bert(
            features["input_ids"],
            input_mask=features.get("input_mask"),
            segment_ids=features.get("segment_ids"),
            position_ids=features.get("position_ids"),
            sequence_ids=features.get("sequence_ids"),
            training=training,
            dropout_seed=dropout_seed,
        )


def project(x: tf.Tensor, weights: Any, bias: Any) -> tf.Tensor:
    """Return x W^T + b in float32, W stored [out, in] as all heads store it."""
    weights = tf.cast(weights, x.dtype)
    logits = tf.matmul(x, weights, transpose_b=True)
    logits = tf.cast(logits, tf.float32)
    return logits + bias


class OutputLayer(Layer):
    """A head that is one product: variables output_weights, output_bias."""

    def __init__(
        self,
        hidden_size: int,
        num_outputs: int,
        name: str,
        stddev: float = 0.02,
    ):
        super().__init__(name)
        self.shape, self.stddev = [num_outputs, hidden_size], stddev

    def build(self) -> None:
        """Create output_weights [K, H] and output_bias [K]."""
        self.output_weights = self.weight(
            "output_weights", self.shape, self.stddev
        )
        self.output_bias = self.weight("output_bias", self.shape[:1], 0)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32 logits [..., K]."""
        return project(x, self.output_weights, self.output_bias)


# --- Sentences and pairs (paper section 4.1) ---------------------------------

# Fixed in the original, whatever the configuration says.
_CLASSIFIER_DROPOUT = 0.1

_CLASSIFIER_STDDEV = 0.02


def output_variables(num_outputs: int, size: int) -> tuple[Any, Any]:
    """Return output_weights [K, size] and output_bias [K].

    In no layer: these stand at the root of a checkpoint.
    """
    weights = keras.Variable(
        keras.initializers.TruncatedNormal(stddev=_CLASSIFIER_STDDEV),
        shape=[num_outputs, size],
        dtype="float32",
        name="output_weights",
    )
    bias = keras.Variable(
        "zeros", shape=[num_outputs], dtype="float32", name="output_bias"
    )
    return weights, bias


def head_dropout(x: tf.Tensor, seed: tf.Tensor | None, name: str) -> tf.Tensor:
    """Drop a tenth of x, by a random stream of that name."""
    if seed is None:
        return x
    seed = elementwise.fold_seed(seed, zlib.crc32(name.encode()))
    return fused(elementwise.dropout, x, seed, rate=_CLASSIFIER_DROPOUT)
