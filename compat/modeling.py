"""The original's modeling.py: functions and a model of variable scopes.

Variables come from `tf.compat.v1.get_variable`, as in TensorFlow 1: their names
follow `variable_scope`, and a second model with `reuse` has the weights of the
first. In a `tf.compat.v1` graph everything is as it was.

Eagerly `get_variable` makes new variables in every call, so that a second
BertModel has weights of its own. `tf.compat.v1.wrap_function` gives a function
that keeps them; a model for TensorFlow 2 is modeling.BertModel(config).
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

import modeling
from ops import elementwise
from training.task_model import OutputLayer

v1 = tf.compat.v1

gelu = elementwise.gelu

# --- Variables ---------------------------------------------------------------


def create_initializer(initializer_range: float = 0.02) -> Callable:
    """Return the initializer of kernels and tables: a truncated normal."""
    return v1.truncated_normal_initializer(stddev=initializer_range)


def _variable(name: str, shape: Sequence[int], initializer_range: float) -> Any:
    """Return a variable of the current scope; its name says how it starts."""
    initializer = create_initializer(initializer_range)
    if name.endswith(("beta", "bias")):
        initializer = tf.zeros_initializer()
    elif name.endswith("gamma"):
        initializer = tf.ones_initializer()
    return v1.get_variable(name, shape, tf.float32, initializer)


def run_layer(
    create_layer: Callable[[], keras.layers.Layer],
    initializer_range: float,
    *inputs: Any,
    **options: Any,
) -> tuple[Any, dict[str, Any]]:
    """Call a layer of modeling.py with variables of the current scope.

    Returns:
        what the layer returns, and its variables by their names in the scope.
    """
    # A layer creates variables of Keras. In a graph that is thrown away they
    # take no memory, and still give the names and shapes that are needed.
    with tf.Graph().as_default():
        layer = create_layer()
        if not layer.built:
            layer.build()
    variables = {}
    for weight in layer.weights:
        name = weight.path.split("/", 1)[1]  # without the layer's name
        variables[name] = _variable(name, weight.shape, initializer_range)
    values = [variable.value() for variable in variables.values()]
    outputs, _ = layer.stateless_call(values, [], *inputs, **options)
    return outputs, variables


def output_layer(
    x: tf.Tensor, outputs: int, initializer_range: float = 0.02
) -> tf.Tensor:
    """Return logits of x [..., H], by output_weights and output_bias."""
    logits, _ = run_layer(
        lambda: OutputLayer(x.shape[-1], outputs, "head"), initializer_range, x
    )
    return logits


# --- Shapes ------------------------------------------------------------------


def assert_rank(
    tensor: tf.Tensor, expected_rank: int | list[int], name: str | None = None
) -> None:
    """Raise a ValueError unless a tensor has one of the ranks."""
    wanted = (
        [expected_rank] if isinstance(expected_rank, int) else expected_rank
    )
    if tensor.shape.ndims not in wanted:
        raise ValueError(
            f"{name or 'tensor'} has rank {tensor.shape.ndims} (shape "
            f"{tensor.shape}), wanted {' or '.join(map(str, wanted))}"
        )


def get_shape_list(
    tensor: tf.Tensor,
    expected_rank: int | list[int] | None = None,
    name: str | None = None,
) -> list[Any]:
    """Return the shape: an int for each known size, else a scalar tensor."""
    if expected_rank is not None:
        assert_rank(tensor, expected_rank, name)
    return elementwise.shape_of(tensor)


def reshape_to_matrix(input_tensor: tf.Tensor) -> tf.Tensor:
    """Return [..., H] as [rows, H]."""
    if input_tensor.shape.ndims < 2:
        raise ValueError(f"wanted rank 2 or more, found {input_tensor.shape}")
    return tf.reshape(input_tensor, [-1, input_tensor.shape[-1]])


def reshape_from_matrix(
    output_tensor: tf.Tensor, orig_shape_list: Sequence[Any]
) -> tf.Tensor:
    """Return [rows, H] with the leading axes of orig_shape_list."""
    width = output_tensor.shape[-1]
    return tf.reshape(output_tensor, [*orig_shape_list[:-1], width])


# --- Building blocks ---------------------------------------------------------


def dropout(input_tensor: tf.Tensor, dropout_prob: float | None) -> tf.Tensor:
    """Return the tensor with a share of zeros; itself for 0 or None."""
    if not dropout_prob:
        return input_tensor
    seed = modeling.draw_seed()
    return elementwise.dropout(input_tensor, seed, dropout_prob)


def layer_norm(input_tensor: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Normalize the last axis; variables beta, gamma in scope LayerNorm."""
    with v1.variable_scope(name, default_name="LayerNorm"):
        beta, gamma = (
            _variable(each, [input_tensor.shape[-1]], 0)
            for each in ("beta", "gamma")
        )
    return modeling.layer_norm(input_tensor, gamma, beta)


def layer_norm_and_dropout(
    input_tensor: tf.Tensor, dropout_prob: float, name: str | None = None
) -> tf.Tensor:
    """Return dropout(layer_norm(x))."""
    return dropout(layer_norm(input_tensor, name), dropout_prob)


def embedding_lookup(
    input_ids: tf.Tensor,
    vocab_size: int,
    embedding_size: int = 128,
    initializer_range: float = 0.02,
    word_embedding_name: str = "word_embeddings",
    use_one_hot_embeddings: bool = False,
) -> tuple[tf.Tensor, Any]:
    """Return the vectors [B, S, E] of ids [B, S] or [B, S, 1], and the table.

    use_one_hot_embeddings changes no number and is ignored.
    """
    del use_one_hot_embeddings
    shape = [vocab_size, embedding_size]
    table = _variable(word_embedding_name, shape, initializer_range)
    if input_ids.shape.ndims == 2:
        input_ids = tf.expand_dims(input_ids, -1)  # [B, S, 1]
    batch, length, count = elementwise.shape_of(input_ids)
    vectors = tf.gather(table, input_ids)  # [B, S, count, E]
    return tf.reshape(vectors, [batch, length, count * embedding_size]), table


def embedding_postprocessor(
    input_tensor: tf.Tensor,
    use_token_type: bool = False,
    token_type_ids: tf.Tensor | None = None,
    token_type_vocab_size: int = 16,
    token_type_embedding_name: str = "token_type_embeddings",
    use_position_embeddings: bool = True,
    position_embedding_name: str = "position_embeddings",
    initializer_range: float = 0.02,
    max_position_embeddings: int = 512,
    dropout_prob: float = 0.1,
) -> tf.Tensor:
    """Add segments and positions to word vectors [B, S, E]; norm, dropout."""
    assert_rank(input_tensor, 3, "input_tensor")
    _, length, width = elementwise.shape_of(input_tensor)

    def table(name: str, rows: int) -> Any:
        return _variable(name, [rows, width], initializer_range)

    output = input_tensor
    if use_token_type:
        if token_type_ids is None:
            raise ValueError("use_token_type needs token_type_ids")
        types = table(token_type_embedding_name, token_type_vocab_size)
        output += tf.gather(types, token_type_ids)
    if use_position_embeddings:
        if isinstance(length, int) and length > max_position_embeddings:
            raise ValueError(
                f"found {length} tokens, wanted at most "
                f"max_position_embeddings {max_position_embeddings}"
            )
        positions = table(position_embedding_name, max_position_embeddings)
        output += positions[:length]
    return layer_norm_and_dropout(output, dropout_prob)


def create_attention_mask_from_input_mask(
    from_tensor: tf.Tensor, to_mask: tf.Tensor
) -> tf.Tensor:
    """Return float32 [B, F, T]: for every query the mask [B, T] of the keys."""
    batch, queries = elementwise.shape_of(from_tensor)[:2]
    mask = tf.expand_dims(tf.cast(to_mask, tf.float32), 1)  # [B, 1, T]
    return mask * tf.ones([batch, queries, 1])


def _attention_bias(
    attention_mask: tf.Tensor | None, batch: Any, length: Any
) -> tf.Tensor:
    """Return a mask [B, F, T] as numbers to add to scores, [B, 1, F, T]."""
    if attention_mask is None:
        attention_mask = tf.ones([batch, 1, length])
    mask = tf.cast(attention_mask, tf.float32)
    return modeling.mask_bias(tf.expand_dims(mask, 1))


def attention_layer(
    from_tensor: tf.Tensor,
    to_tensor: tf.Tensor,
    attention_mask: tf.Tensor | None = None,
    num_attention_heads: int = 1,
    size_per_head: int = 512,
    query_act: Callable | None = None,
    key_act: Callable | None = None,
    value_act: Callable | None = None,
    attention_probs_dropout_prob: float = 0.0,
    initializer_range: float = 0.02,
    do_return_2d_tensor: bool = False,
    batch_size: int | None = None,
    from_seq_length: int | None = None,
    to_seq_length: int | None = None,
) -> tf.Tensor:
    """Let from_tensor attend to to_tensor, both [B, S, H] or [B * S, H].

    Matrices need the three sizes. Returns [B, F, N * D], or [B * F, N * D] if
    do_return_2d_tensor.
    """
    assert_rank(to_tensor, from_tensor.shape.ndims, "to_tensor")
    if from_tensor.shape.ndims == 3:
        batch_size, from_seq_length = elementwise.shape_of(from_tensor)[:2]
        to_seq_length = elementwise.shape_of(to_tensor)[1]
    elif None in (batch_size, from_seq_length, to_seq_length):
        raise ValueError(
            "matrices need batch_size, from_seq_length and to_seq_length"
        )
    width = num_attention_heads * size_per_head

    def heads(x: tf.Tensor, name: str, act: Any, length: Any) -> tf.Tensor:
        x = reshape_to_matrix(x)
        with v1.variable_scope(name):
            x, _ = run_layer(
                lambda: modeling.Dense(x.shape[-1], width, 0, name),
                initializer_range,
                x,
            )
        x = elementwise.activate(x, act)
        return elementwise.split_heads(x, length, num_attention_heads)

    rate = attention_probs_dropout_prob
    context = modeling.attention(
        heads(from_tensor, "query", query_act, from_seq_length),
        heads(to_tensor, "key", key_act, to_seq_length),
        heads(to_tensor, "value", value_act, to_seq_length),
        _attention_bias(attention_mask, batch_size, to_seq_length),
        modeling.draw_seed() if rate else None,
        rate,
    )  # [B, N, F, D]
    context = elementwise.merge_heads(context)  # [B * F, N * D]
    if do_return_2d_tensor:
        return context
    return tf.reshape(context, [batch_size, from_seq_length, width])


def transformer_model(
    input_tensor: tf.Tensor,
    attention_mask: tf.Tensor | None = None,
    hidden_size: int = 768,
    num_hidden_layers: int = 12,
    num_attention_heads: int = 12,
    intermediate_size: int = 3072,
    intermediate_act_fn: Callable | None = gelu,
    hidden_dropout_prob: float = 0.1,
    attention_probs_dropout_prob: float = 0.1,
    initializer_range: float = 0.02,
    do_return_all_layers: bool = False,
) -> Any:
    """Run an encoder on [B, S, H]; variables layer_0/... in this scope.

    Returns the output of the last layer, or the list of all.
    """
    assert_rank(input_tensor, 3, "input_tensor")
    batch, length, width = elementwise.shape_of(input_tensor)
    if width != hidden_size:
        raise ValueError(
            f"input_tensor has width {width}, wanted hidden_size {hidden_size}"
        )
    config = modeling.BertConfig(
        1,  # no table of words is made
        hidden_size,
        num_hidden_layers,
        num_attention_heads,
        intermediate_size,
        intermediate_act_fn,
        hidden_dropout_prob,
        attention_probs_dropout_prob,
        initializer_range=initializer_range,
    )
    layers, _ = run_layer(
        lambda: modeling.Encoder(config),
        initializer_range,
        reshape_to_matrix(input_tensor),
        shared=modeling.Shared(
            _attention_bias(attention_mask, batch, length), modeling.draw_seed()
        ),
    )
    shape = [batch, length, hidden_size]
    layers = [tf.reshape(x, shape) for x in layers]
    return layers if do_return_all_layers else layers[-1]


# --- The model ---------------------------------------------------------------


class OriginalBertModel:
    """The original's BertModel, whose constructor encodes one batch.

    modeling.BertModel(config=..., is_training=..., input_ids=...) is one.
    token_type_ids are our segment_ids; use_one_hot_embeddings changes no
    number and is ignored.
    """

    def __init__(
        self,
        config: modeling.BertConfig,
        is_training: bool,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        token_type_ids: tf.Tensor | None = None,
        use_one_hot_embeddings: bool = False,
        scope: str | None = None,
    ):
        del use_one_hot_embeddings
        assert_rank(input_ids, 2, "input_ids")
        with v1.variable_scope(scope, default_name="bert"):
            self._output, variables = run_layer(
                lambda: modeling.BertModel(config),
                config.initializer_range,
                input_ids,
                input_mask,
                token_type_ids,
                training=is_training,
            )
        self._table = variables["embeddings/word_embeddings"]

    def get_pooled_output(self) -> tf.Tensor:
        """Return the vector of each row, [B, H]."""
        return self._output.pooled_output

    def get_sequence_output(self) -> tf.Tensor:
        """Return the output of the last layer, [B, S, H]."""
        return self._output.sequence_output

    def get_all_encoder_layers(self) -> list[tf.Tensor]:
        """Return the outputs of all layers, L of [B, S, H]."""
        return self._output.encoder_layers

    def get_embedding_output(self) -> tf.Tensor:
        """Return the embeddings that enter the first layer, [B, S, H]."""
        return self._output.embedding_output

    def get_embedding_table(self) -> Any:
        """Return the variable of the word embeddings, [V, H]."""
        return self._table


def get_assignment_map_from_checkpoint(
    tvars: Sequence[Any], init_checkpoint: str
) -> tuple[dict[str, str], dict[str, int]]:
    """Return what `tf.compat.v1.train.init_from_checkpoint` needs.

    Returns:
        {name: name} of the variables that the checkpoint has, and a dictionary
        with their names, also as "name:0", for the log.
    """
    names = {re.sub(r":\d+$", "", variable.name) for variable in tvars}
    stored = [name for name, _ in tf.train.list_variables(init_checkpoint)]
    found = {name: name for name in stored if name in names}
    if not found:
        logging.warning(
            "%s has none of the %d variables: the model is not initialized "
            "from it. It has %s; the model %s",
            init_checkpoint,
            len(names),
            ", ".join(stored[:3]),
            ", ".join(sorted(names)[:3]),
        )
    return found, {name + end: 1 for name in found for end in ("", ":0")}
