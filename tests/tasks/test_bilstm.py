"""tasks/bilstm.py: variables, numbers and sizes of the BiLSTM."""

from base.errors import UserError

import keras
import numpy as np
import pytest
import tensorflow as tf
import toy_training

import modeling
from checkpoints import training_state, weight_files
from checkpoints.model import Checkpoint
from checkpoints.run_folder import RunFolder
from checkpoints.trained_for import TrainedFor
from tasks import bilstm
from tasks.classifier.model import BertForSequenceClassification
from tasks.ner.model import BertForTokenClassification
from tasks.settings import (
    NO_BILSTM,
    BiLstmSize,
    bilstm_in,
    choose_bilstm,
)
from tasks.squad.model import BertForQuestionAnswering
from tasks.swag.model import BertForMultipleChoice
from training import start, task_model
from training.task_model import TaskModel

CONFIG = modeling.BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    type_vocab_size=2,
    initializer_range=0.5,
)
SIZE = BiLstmSize(2, 3)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], np.int32)


def create(inputs: int = 4, seed: int = 1) -> bilstm.BiLstm:
    tf.keras.utils.set_random_seed(seed)
    layer = bilstm.BiLstm(SIZE, inputs)
    layer.build()
    for variable in layer.weights:  # also the biases, which are 0 and 1
        variable.assign_add(0.3 * tf.random.normal(variable.shape))
    return layer


def inputs(width: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=[*MASK.shape, width]).astype(np.float32)


# --- Variables ---------------------------------------------------------------


def test_names_and_initial_values():
    """Keras' names, as in the checkpoints of 0.1.0."""
    tf.keras.utils.set_random_seed(1)
    layer = bilstm.BiLstm(BiLstmSize(2, 3), 4)
    layer.build()
    names = [variable.path for variable in layer.weights]
    assert names == [
        f"bilstm/layer_{number}/{direction}_lstm/lstm_cell/{name}"
        for number in range(2)
        for direction in ("forward", "backward")
        for name in ("kernel", "recurrent_kernel", "bias")
    ]
    kernel, recurrent, bias = (v.numpy() for v in layer.weights[:3])
    limit = np.sqrt(6 / (4 + 12))  # Glorot and Bengio 2010, uniform
    assert limit * 0.8 < np.abs(kernel).max() <= limit
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(3), atol=1e-6)
    np.testing.assert_array_equal(bias, [0] * 3 + [1] * 3 + [0] * 6)
    tf.keras.utils.set_random_seed(1)
    again = bilstm.BiLstm(BiLstmSize(2, 3), 4)
    again.build()
    for one, other in zip(layer.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, other)


# --- Numbers -----------------------------------------------------------------


def test_output_is_that_of_keras():
    """Keras' own BiLSTM with the same weights, padding included."""
    layer, x = create(), inputs()
    wanted = tf.constant(x)
    for number in range(2):
        other = keras.layers.Bidirectional(
            keras.layers.LSTM(3, return_sequences=True, use_cudnn=False)
        )
        other.build([None, None, wanted.shape[-1]])
        values = layer.weights[6 * number : 6 * number + 6]
        other.set_weights([v.numpy() for v in values])
        wanted = other(wanted, mask=MASK.astype(bool))
    in_training = x
    for one in layer.layers:  # without dropout
        in_training = one(in_training, MASK, training=True)
    for found in (layer(x, MASK, None), in_training):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    assert not found.numpy()[MASK == 0].any()


def test_dropout_follows_each_layer():
    layer, x = create(), inputs()
    seed = tf.constant(7, tf.uint32)
    found = layer(x, MASK, seed)
    np.testing.assert_array_equal(found, layer(x, MASK, seed))
    assert (found != layer(x, MASK, seed + 1)).numpy().any()
    first = task_model.head_dropout(
        layer.layers[0](x, MASK, training=True), seed, "layer_0/dropout"
    )
    second = layer.layers[1](first, MASK, training=True)
    wanted = task_model.head_dropout(second, seed, "layer_1/dropout")
    np.testing.assert_array_equal(found, wanted)


def test_bfloat16_stays_bfloat16():
    layer, x = create(), inputs()
    found = layer(tf.cast(x, tf.bfloat16), MASK, None)
    assert found.dtype == tf.bfloat16
    np.testing.assert_allclose(
        tf.cast(found, tf.float32), layer(x, MASK, None), rtol=0, atol=0.05
    )


# --- Models ------------------------------------------------------------------


MODELS = {
    "classifier": lambda: BertForSequenceClassification(
        CONFIG, 3, bilstm_size=SIZE
    ),
    "reader": lambda: BertForQuestionAnswering(CONFIG, bilstm_size=SIZE),
    "tagger": lambda: BertForTokenClassification(CONFIG, 5, bilstm_size=SIZE),
    "chooser": lambda: BertForMultipleChoice(CONFIG, bilstm_size=SIZE),
}


def features(width: int) -> dict[str, np.ndarray]:
    """Three rows of 3, 5 and 1 tokens, padded to `width`."""
    ids = np.random.default_rng(0).integers(1, 30, MASK.shape) * MASK
    more = width - MASK.shape[1]
    return {
        "input_ids": np.pad(ids, [(0, 0), (0, more)]).astype(np.int32),
        "input_mask": np.pad(MASK, [(0, 0), (0, more)]),
    }


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_no_output(name):
    """Wider batches, rows alone, and batches without padding at all."""
    tf.keras.utils.set_random_seed(1)
    model = MODELS[name]()
    batch = features(5)

    def per_row(batch: dict, model=model) -> list[np.ndarray]:
        output = model({k: tf.constant(v) for k, v in batch.items()}).numpy()
        if name == "reader":
            output = output.transpose(1, 2, 0)
        if name in ("classifier", "chooser"):
            return list(output)
        sizes = batch["input_mask"].sum(1)
        return [o[:n] for o, n in zip(output, sizes, strict=True)]

    wanted = per_row(batch)
    compute = modeling.Compute(skip_padding=True)
    skipping = per_row(batch, model.computing(compute))
    alone = [
        per_row({k: v[row : row + 1, :size] for k, v in batch.items()})[0]
        for row, size in enumerate(MASK.sum(1))
    ]
    for others in (per_row(features(9)), skipping, alone):
        for one, other in zip(wanted, others, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", MODELS)
def test_the_pooler_is_not_trained(name):
    model = MODELS[name]()
    paths = {v.path for v in model.trainable_variables}
    assert not any(path.startswith("bert/pooler/") for path in paths)
    assert sum(path.startswith("bilstm/") for path in paths) == 12
    head = [v for v in model.variables if v.path.endswith("output_weights")]
    assert head[0].shape[1] == 2 * SIZE.bilstm_units


@pytest.mark.parametrize("name", [None, *MODELS])
def test_a_missing_pooler_is_said_where_the_head_reads_it(
    tmp_path, caplog, name
):
    encoder = TaskModel(CONFIG).variables
    tensors = weight_files.as_tensors(encoder)
    kept = {n: v for n, v in tensors.items() if "/pooler/" not in n}
    weight_files.write(str(tmp_path / "model.ckpt"), kept)
    model = TaskModel(CONFIG) if name is None else MODELS[name]()
    out = tmp_path / "out"
    out.mkdir()
    settings = toy_training.settings_of(
        out, init_checkpoint=str(tmp_path / "model.ckpt")
    )
    state = training_state.TrainingState(
        RunFolder.read(str(out)), model.variables, {}
    )
    assert (
        start.resume_or_start(RunFolder(str(out)), state, model, settings) == 0
    )
    assert ("has no pooler" in caplog.text) == (name is None)


# --- Sizes -------------------------------------------------------------------


def test_the_size_of_a_command():
    """Flags, a fine-tuned model's configuration, and what contradicts them."""

    plain = Checkpoint("", CONFIG)
    keys = TrainedFor(bilstm_layers=2, bilstm_units=3)
    own, other = Checkpoint("model", CONFIG, keys), BiLstmSize(1, 3)
    for given, found, is_training, wanted in (
        (None, plain, True, NO_BILSTM),
        (SIZE, plain, True, SIZE),
        (SIZE, plain, False, SIZE),  # a run that was interrupted
        (None, own, False, SIZE),
        (SIZE, own, False, SIZE),
        (SIZE, own, True, SIZE),  # trained further
        (None, own, True, NO_BILSTM),  # left out, with a warning
    ):
        size = choose_bilstm(given, found, is_training)
        assert size == wanted, (given, found, is_training)
    for given, is_training in (
        (other, False),
        (other, True),
        (NO_BILSTM, False),
    ):
        with pytest.raises(UserError, match="was fine-tuned with a BiLSTM"):
            choose_bilstm(given, own, is_training)
    for wrong in ((2,), (2, 0), (-1, 3), (101, 3), ("2", 3), (True, 3)):
        keys = dict(zip(BiLstmSize._fields, wrong, strict=False))
        with pytest.raises(UserError, match="must be a? ?whole number"):
            bilstm_in(TrainedFor.from_dict(keys))
