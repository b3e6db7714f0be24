"""BERT in Keras' own machinery: models, fit, files, policies, strategies.

Run as a script, it trains and loads in a process of two CPU devices:

    python tests/test_keras.py FOLDER
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

from base.errors import UserError

import classifier_runs
import keras
import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from classifier_runs import VOCAB
from marks import nightly
from paths import GOLDEN, HELPERS, ROOT, TESTS
from tiny import assert_same, values_of

import checkpoints
import modeling
import optimization
import tokenization
from checkpoints import weight_files
from checkpoints.checkpoint import Loaded, open_checkpoint, write_model
from modeling import BertConfig, BertModel
from tasks import graph_tokenizer
from tasks.classifier import model as classifier_model
from training import task_model, train_step
from training.compilation import Compilation
from training.keras_optimizer import AdamWeightDecay, Schedule
from training.settings import TrainingSettings

CONFIG = tiny.config_of(
    range(30),
    max_position_embeddings=16,
    initializer_range=0.2,
    **tiny.NO_DROPOUT,
)
NAMES = ("input_ids", "input_mask", "segment_ids")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def features_of(rows: int, length: int = 8, seed: int = 0) -> dict:
    """Return features, int64 as numpy makes them, with padding."""
    rng = np.random.default_rng(seed)
    mask = np.arange(length) < rng.integers(2, length + 1, [rows, 1])
    ids = rng.integers(1, CONFIG.vocab_size, [rows, length]) * mask
    values = ids, mask.astype(np.int64), mask * rng.integers(0, 2, ids.shape)
    return dict(zip(NAMES, values, strict=True))


def labels_of(features: dict) -> np.ndarray:
    return features["input_ids"][:, 0] % 2


@pytest.fixture(autouse=True)
def seed() -> None:
    keras.utils.set_random_seed(1)


def create_model(config: BertConfig = CONFIG) -> keras.Model:
    """Return a classifier of unknown batch size and length."""
    inputs = {
        name: keras.Input([None], dtype="int32", name=name) for name in NAMES
    }
    output = BertModel(config)(**inputs)
    head = keras.layers.Dense(2, dtype="float32", name="classifier")
    return keras.Model(inputs, head(output.pooled_output))


def compiled(model: keras.Model, rate=1e-2, **options) -> keras.Model:
    schedule = Schedule(rate, num_train_steps=10, num_warmup_steps=3)
    model.compile(AdamWeightDecay(schedule, **options), LOSS)
    return model


def fit(model: keras.Model, features: dict, epochs: int = 1) -> list[float]:
    """Train in batches of 8, in order; return the loss of each epoch."""
    history = model.fit(
        features,
        labels_of(features),
        batch_size=8,
        epochs=epochs,
        shuffle=False,
        verbose=0,
    )
    return history.history["loss"]


@contextlib.contextmanager
def policy(name: str):
    """Set Keras' policy of types for a block."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


# --- Models ------------------------------------------------------------------


def test_a_functional_model_gives_the_numbers_of_its_layer():
    bert = BertModel(CONFIG)
    inputs = {
        name: keras.Input([None], dtype="int32", name=name) for name in NAMES
    }
    output = bert(**inputs)
    assert isinstance(output, modeling.BertOutput)
    assert output.sequence_output.shape == (None, None, 16)
    model = keras.Model(inputs, output)
    for length in (8, 5, 16):
        features = features_of(3, length)
        wanted = bert(**{n: tf.constant(v) for n, v in features.items()})
        found = model(features)
        for one, other in zip(
            tf.nest.flatten(wanted), tf.nest.flatten(found), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    assert model.count_params() == sum(
        v.value.shape.num_elements() for v in bert.weights
    )


class Tagger(keras.Model):
    """A subclassed model, which computes its own mask."""

    def __init__(self):
        super().__init__()
        self.bert = BertModel(CONFIG)
        self.head = keras.layers.Dense(3)

    def call(self, input_ids):
        mask = tf.cast(input_ids != 0, tf.int32)
        return self.head(self.bert(input_ids, input_mask=mask).sequence_output)


@pytest.mark.nightly
def test_a_subclassed_model_trains_and_keeps_its_weights(tmp_path):
    features = features_of(16)
    ids, tags = features["input_ids"], features["segment_ids"]
    model = Tagger()
    model.bert.pooler.trainable = False  # not used
    model.compile(AdamWeightDecay(1e-2), LOSS)
    losses = model.fit(ids, tags, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save_weights(tmp_path / "tagger.weights.h5")
    other = Tagger()
    other(ids)
    other.load_weights(tmp_path / "tagger.weights.h5")
    np.testing.assert_array_equal(model(ids), other(ids))


@pytest.mark.nightly
def test_dropout_is_on_in_fit_alone():
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.5)
    model, features = create_model(config), features_of(8)
    np.testing.assert_array_equal(model(features), model(features))
    one, other = (model(features, training=True) for _ in range(2))
    assert np.abs(one - other).max() > 1e-3
    # Two learning rates of 0: what changes the loss is dropout alone.
    model.compile(AdamWeightDecay(0.0), LOSS)
    losses = fit(model, features, epochs=2)
    evaluated = model.evaluate(features, labels_of(features), verbose=0)
    assert len({*losses, evaluated}) == 3


def test_fit_trains_all_variables_but_the_frozen_ones():
    model, features = create_model(), features_of(16)
    bert = model.get_layer("bert")
    bert.encoder.layers[0].attention.trainable = False
    before = values_of(model.variables)
    fit(compiled(model), features, epochs=2)
    for path, value in values_of(model.variables).items():
        is_frozen = "/attention/" in path
        assert np.array_equal(value, before[path]) == is_frozen, path


@pytest.mark.nightly
def test_keras_optimizers_train_it_too():
    model, features = create_model(), features_of(16)
    model.compile(keras.optimizers.AdamW(1e-2), LOSS)
    losses = fit(model, features, epochs=8)
    assert losses[-1] < 0.8 * losses[0]


# --- Files -------------------------------------------------------------------


@pytest.mark.slow
def test_training_goes_on_after_save_and_load_model(tmp_path):
    """5 + 5 steps are 10: weights, moments, step, and what is frozen."""
    features = features_of(16)
    model = create_model()
    model.get_layer("bert").embeddings.trainable = False
    keras.models.clone_model(model).save(tmp_path / "start.keras")
    model = compiled(keras.models.load_model(tmp_path / "start.keras"))
    fit(model, features, epochs=2)  # of two steps each
    model.save(tmp_path / "middle.keras")
    loaded = keras.models.load_model(tmp_path / "middle.keras")
    np.testing.assert_array_equal(model(features), loaded(features))
    assert len(loaded.trainable_variables) == len(model.trainable_variables)
    for one in (model, loaded):
        fit(one, features, epochs=3)
    assert_same(values_of(model.variables), values_of(loaded.variables))
    assert int(loaded.optimizer.iterations) == 10
    assert loaded.optimizer.get_config() == model.optimizer.get_config()


def test_a_frozen_layer_of_a_copy_thaws():
    model = create_model()
    bert = model.get_layer("bert")
    count = len(bert.trainable_variables)
    bert.embeddings.trainable = bert.encoder.trainable = False
    copied = keras.models.clone_model(model).get_layer("bert")
    assert len(copied.trainable_variables) == 2  # of the pooler
    assert not copied.embeddings.trainable
    for layer in (copied.embeddings, copied.encoder):
        layer.trainable = True
    assert len(copied.trainable_variables) == count


def test_weights_clone_and_export_give_equal_answers(tmp_path):
    model, features = create_model(), features_of(5)
    wanted = model(features)
    other = keras.models.clone_model(model)
    assert np.abs(other(features) - wanted).max() > 1e-3
    model.save_weights(tmp_path / "a.weights.h5")
    other.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(other(features), wanted)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    rows = {n: tf.constant(v, tf.int32) for n, v in features.items()}
    np.testing.assert_allclose(served.serve(rows), wanted, atol=1e-6)


@keras.saving.register_keras_serializable("test_keras")
class Classifier(keras.Model):
    """A subclassed model; the form says what it is called with and holds."""

    def __init__(self, form: str):
        super().__init__()
        self.form = form
        self.encoders = [
            BertModel(CONFIG, name=f"bert_{number}")
            for number in range(2 if form == "two encoders" else 1)
        ]
        if form == "nested":
            self.inner = Classifier("ids")
        self.head = keras.layers.Dense(2)

    def call(self, inputs):
        if self.form == "ids":
            inputs = {"input_ids": inputs, "input_mask": inputs != 0}
        elif self.form == "list":
            inputs = dict(zip(NAMES, inputs, strict=True))
        vectors = [bert(**inputs).pooled_output for bert in self.encoders]
        if self.form == "nested":
            vectors.append(self.inner(inputs["input_ids"]))
        return self.head(keras.ops.concatenate(vectors, -1))

    def get_config(self):
        return {"form": self.form}


def inputs_of(form: str, features: dict) -> dict | list | np.ndarray:
    if form == "ids":
        return features["input_ids"]
    return list(features.values()) if form == "list" else features


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly("float32"), "mixed_bfloat16"])
@pytest.mark.parametrize(
    "form",
    [*map(nightly, ("list", "ids", "two encoders", "nested")), "dict"],
)
def test_a_model_that_holds_encoders_loads_with_its_head(tmp_path, form, name):
    """Keras builds it by a call with floats, whose errors it swallows."""
    features = features_of(16)
    inputs, labels = inputs_of(form, features), labels_of(features)
    with policy(name):
        model = Classifier(form)
        model.compile(AdamWeightDecay(1e-2), LOSS, jit_compile=False)
        model.fit(inputs, labels, verbose=0)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(inputs), model(inputs))
        for one in (model, loaded):
            one.fit(inputs, labels, shuffle=False, verbose=0)
        np.testing.assert_array_equal(loaded(inputs), model(inputs))
        other = keras.models.clone_model(model)
        other(inputs)
        model.save_weights(tmp_path / "model.weights.h5")
        other.load_weights(tmp_path / "model.weights.h5")
        np.testing.assert_array_equal(other(inputs), model(inputs))


@pytest.mark.slow
def test_a_model_that_holds_an_encoder_exports_with_floats(tmp_path):
    model, features = Classifier("dict"), features_of(5)
    wanted = model(features)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    rows = {n: tf.constant(v, tf.float32) for n, v in features.items()}
    np.testing.assert_allclose(served.serve(rows), wanted, atol=1e-6)
    rows["input_ids"] += 0.5
    with pytest.raises(tf.errors.InvalidArgumentError, match="whole numbers"):
        served.serve(rows)


@keras.saving.register_keras_serializable("test_keras")
class Pooled(keras.layers.Layer):
    """The pooled output of an encoder that `build` may build, or create."""

    def __init__(self, is_late: bool, **options):
        super().__init__(**options)
        self.is_late = is_late
        if not is_late:
            self.bert = BertModel(CONFIG, name="mine")
            self.bert.embeddings.trainable = False

    def build(self, input_shape):
        if self.is_late:
            self.bert = BertModel(CONFIG)
        self.bert.build(input_shape)

    def call(self, input_ids):
        return self.bert(input_ids).pooled_output

    def get_config(self):
        return super().get_config() | {"is_late": self.is_late}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_sequential_model_takes_an_encoder(tmp_path, is_late):
    ids = features_of(3)["input_ids"]
    model = keras.Sequential([Pooled(is_late), keras.layers.Dense(2)])
    wanted = model(ids)
    bert = model.layers[0].bert
    np.testing.assert_array_equal(
        wanted, model.layers[1](bert(ids).pooled_output)
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(ids), wanted)
    # A second build changes no path of `get_config`.
    copied = BertModel.from_config(bert.get_config())
    assert len(copied.trainable_variables) == len(bert.trainable_variables)


def test_a_sequential_model_of_16_bits_takes_whole_numbers():
    """Keras would round ids of 257 to 256 in its own embedding."""
    ids = features_of(3)["input_ids"]
    with policy("mixed_bfloat16"):
        with pytest.raises(UserError, match="bfloat16.*begins with keras.Inp"):
            keras.Sequential([Pooled(False)])(ids)
        layer = Pooled(False)
        model = keras.Sequential([keras.Input([None], dtype="int32"), layer])
        np.testing.assert_array_equal(model(ids), layer(ids))


# --- The optimizer -----------------------------------------------------------


def transposed(path: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    """Return a variable of run_classifier.py's head as Keras' Dense has it."""
    if path == "output_weights":
        return "classifier/kernel", value.T
    return path.replace("output_bias", "classifier/bias"), value


@pytest.mark.slow
@pytest.mark.parametrize("bias_correction", [False, nightly(True)])
def test_ten_steps_are_those_of_run_classifier(monkeypatch, bias_correction):
    monkeypatch.setattr(task_model, "HEAD_DROPOUT", 0.0)
    settings = TrainingSettings(
        "",
        num_train_steps=10,
        train_batch_size=8,
        num_warmup_steps=3,
        learning_rate=1e-3,
        bias_correction=bias_correction,
    )
    ours = classifier_model.BertForSequenceClassification(CONFIG, 2)
    ours.output_weights.assign(20 * ours.output_weights)  # large gradients
    step = train_step.Step(
        tf.distribute.get_strategy(),
        ours,
        classifier_model.CLASSIFICATION,
        settings,
        Compilation(),
    )
    model = compiled(create_model(), 1e-3, bias_correction=bias_correction)
    for variable in ours.variables:
        path, value = transposed(variable.path, variable.numpy())
        (own,) = (v for v in model.variables if v.path == path)
        own.assign(value)
    features = features_of(80)
    batches = {n: tf.constant(v, tf.int32) for n, v in features.items()}
    batches["label_ids"] = tf.constant(labels_of(features), tf.int32)
    data = tf.data.Dataset.from_tensor_slices(batches).batch(8)
    iterator, total = iter(data), 0.0
    for start, count in ((0, 1), (1, 9)):
        done, sums = step.repeat(
            iterator, tf.constant(start, tf.int64), tf.constant(count, tf.int64)
        )
        assert int(done) == count
        total += float(sums["loss"][0])
        # The gradient of the first step is clipped.
        assert start or float(sums["gradient_norm"][0]) > 1
    (loss,) = fit(model, features)
    assert loss == pytest.approx(total / 10, abs=1e-5)
    found = values_of(model.variables)
    for variable in ours.variables:
        path, value = transposed(variable.path, variable.numpy())
        np.testing.assert_allclose(found[path], value, atol=1e-5, err_msg=path)


def decays_of(optimizer: AdamWeightDecay, variables: list) -> list[bool]:
    """Return which variables a gradient of zero changes."""
    before = [variable.numpy() for variable in variables]
    optimizer.apply([tf.zeros(v.shape) for v in variables], variables)
    return [
        bool(np.any(variable.numpy() != value))
        for variable, value in zip(variables, before, strict=True)
    ]


@pytest.mark.slow
def test_norms_and_biases_of_all_layers_do_not_decay():
    """Whatever the layers are named: "debias" is a dense layer."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input([4], dtype="int32"),
            layers.Embedding(3, 6, name="LayerNorm_of_bias"),
            layers.LayerNormalization(),
            layers.RMSNormalization(),
            layers.GroupNormalization(2),
            layers.Bidirectional(layers.LSTM(2, return_sequences=True)),
            layers.Conv1D(4, 1, name="layer_norm"),
            layers.BatchNormalization(),
            layers.Dense(2, name="debias"),
        ]
    )
    for variable in model.trainable_variables:
        variable.assign(tf.ones(variable.shape))
    decays = decays_of(AdamWeightDecay(0.5), model.trainable_variables)
    found = {True: set(), False: set()}
    for variable, is_decaying in zip(
        model.trainable_variables, decays, strict=True
    ):
        found[is_decaying].add(variable.path.split("/")[-1])
    assert found == {
        True: {"embeddings", "kernel", "recurrent_kernel"},
        False: {"bias", "gamma", "beta", "scale"},
    }


def test_weight_decay_excludes_more_by_path():
    variables = []
    for name in ("dense/kernel", "mine", "other"):
        variables.append(keras.Variable(np.ones(2, "float32"), name="x"))
        variables[-1]._path = name
    optimizer = AdamWeightDecay(0.5, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(variables[1:2], ["ot.er"])
    optimizer = AdamWeightDecay.from_config(optimizer.get_config())
    assert decays_of(optimizer, variables) == [True, False, False]
    np.testing.assert_allclose(variables[0], 0.95, rtol=1e-6)


def test_repeated_rows_of_an_embedding_are_clipped_by_the_norm_of_their_sum():
    table = keras.Variable(np.zeros([3, 1], "float32"), name="table")
    rows = tf.IndexedSlices(tf.ones([2, 1]), tf.constant([1, 1]), [3, 1])
    optimizer = AdamWeightDecay(1.0, weight_decay=0.0, epsilon=1.0)
    optimizer.apply([rows], [table])
    g = 1.0  # 2, clipped to 1
    wanted = -0.1 * g / (np.sqrt(0.001 * g**2) + 1)
    np.testing.assert_allclose(table.numpy()[:, 0], [0, wanted, 0], rtol=1e-6)


def test_the_schedule_is_that_of_the_scripts():
    schedule = Schedule(1e-3, 10, 4)
    schedule = Schedule.from_config(schedule.get_config())
    rate = optimization.create_schedule(1e-3, 10, 4)
    for n in range(10):
        assert float(schedule(n)) == float(rate(tf.constant(n + 1)))


# --- Policies ----------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_policies_compute_in_16_bits(name, tmp_path):
    features = features_of(16)
    wide = create_model()
    with policy(name):
        model = create_model()
        model.set_weights(wide.get_weights())
        output = model.get_layer("bert")(**features).pooled_output
        assert output.dtype == name.removeprefix("mixed_")
        error = np.abs(model(features) - wide(features)).max()
        assert 0 < error < 0.1
        losses = fit(compiled(model), features, epochs=5)
        assert losses[-1] < 0.9 * losses[0]
        assert {v.dtype for v in model.variables} == {"float32"}
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(features), model(features))
        fit(model, features), fit(loaded, features)
        assert_same(values_of(model.variables), values_of(loaded.variables))


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, nightly(True)])
@pytest.mark.parametrize(
    "name, most", [("mixed_bfloat16", 0.03), ("mixed_float16", 0.005)]
)
def test_gradients_of_mixed_policies_are_those_of_float32(
    name, most, jit_compile
):
    """Of 2,048 tokens: sums of as many numbers in bfloat16 are far off."""
    features = {n: tf.constant(v) for n, v in features_of(256).items()}
    labels = labels_of(features)
    wide = create_model()

    def gradients(model: keras.Model) -> dict[str, np.ndarray]:
        @tf.function(jit_compile=jit_compile, autograph=False)
        def run():
            with tf.GradientTape() as tape:
                loss = LOSS(labels, model(features, training=True))
            values = [v.value for v in model.trainable_variables]
            return [
                tf.convert_to_tensor(g) for g in tape.gradient(loss, values)
            ]

        paths = [v.path for v in model.trainable_variables]
        return {p: g.numpy() for p, g in zip(paths, run(), strict=True)}

    with policy(name):
        model = create_model()
    model.set_weights(wide.get_weights())
    wanted, found = gradients(wide), gradients(model)
    for path, gradient in wanted.items():
        if "/key/bias" in path:  # it cancels in the softmax
            continue
        error = np.linalg.norm(found[path] - gradient)
        assert error < most * np.linalg.norm(gradient), path


# --- From a checkpoint and texts ---------------------------------------------

TEXTS = ["A good film!", "the bad book", "", "good " * 40]
PAIRS = ["the book", "", "a film", "bad"]


def test_load_gives_what_belongs_to_a_checkpoint(encoder_dir, hub_folder):
    config, tokenizer, model = checkpoints.load(str(encoder_dir))
    assert config == classifier_runs.CONFIG and model.config is config
    assert tokenizer.tokenize("A GOOD film") == ["a", "good", "film"]
    weights = weight_files.read_weights(str(encoder_dir / "bert_model.ckpt"))
    assert_same(values_of(model.weights), weights)
    loaded = checkpoints.load(str(hub_folder), dtype="bfloat16")
    output = loaded.model(tf.ones([1, 4], tf.int32))
    assert output.sequence_output.dtype == tf.bfloat16
    with pytest.raises(UserError, match="^no_such: no such checkpoint"):
        checkpoints.load("no_such")


class Reader(keras.layers.Layer):
    """Builds an encoder when it is called first."""

    def __init__(self, folder: Path):
        super().__init__(name="reader")
        self.folder = str(folder)

    def build(self, shape):
        self.bert = checkpoints.load(self.folder).model

    def call(self, input_ids):
        return self.bert(input_ids).pooled_output


@pytest.mark.nightly
def test_two_checkpoints_in_one_model(encoder_dir, tmp_path):
    """The paths of both are keys of checkpoints, whatever the layers' names."""
    encoders = [
        checkpoints.load(str(encoder_dir), layer_name=name).model
        for name in ("query", "passage")
    ]
    encoders[1].embeddings.word_embeddings.assign_add(
        0.1 + tf.zeros_like(encoders[1].embeddings.word_embeddings)
    )
    ids = [keras.Input([None], dtype="int32") for _ in encoders]
    vectors = [
        bert(x).pooled_output for bert, x in zip(encoders, ids, strict=True)
    ]
    model = keras.Model(ids, keras.layers.Dot(-1)(vectors))
    model.compile(AdamWeightDecay(1e-2), "mse")
    rows = [np.ones([4, 3], np.int32), np.full([4, 5], 2)]
    model.fit(rows, np.ones(4), verbose=0)
    model.save(tmp_path / "two.keras")
    model = keras.models.load_model(tmp_path / "two.keras")
    for bert, x in zip(encoders, rows, strict=True):
        written = tmp_path / bert.name
        written.mkdir()
        source = open_checkpoint(str(encoder_dir))
        write_model(str(written), model.get_layer(bert.name), source)
        found = checkpoints.load(str(written)).model
        np.testing.assert_array_equal(
            found(x).pooled_output, bert(x).pooled_output
        )


def test_a_layer_that_builds_an_encoder_reads_a_checkpoint(encoder_dir):
    reader = Reader(encoder_dir)
    ids = tf.ones([1, 3], tf.int32)
    wanted = checkpoints.load(str(encoder_dir)).model(ids).pooled_output
    np.testing.assert_array_equal(reader(ids), wanted)


@pytest.mark.parametrize("is_pair", [nightly(False), True])
def test_batches_of_texts_are_the_tokenizers_ids(encoder_dir, is_pair):
    loaded = checkpoints.load(str(encoder_dir))
    encode = graph_tokenizer.batch_encoder(loaded, max_seq_length=12)
    texts = (TEXTS, PAIRS) if is_pair else TEXTS
    data = tf.data.Dataset.from_tensor_slices((texts, [0, 1, 2, 3]))
    ((features, labels),) = data.batch(4).map(encode)
    assert labels.numpy().tolist() == [0, 1, 2, 3]
    assert set(features) == set(NAMES)
    for number, text in enumerate(TEXTS):
        tokens = loaded.tokenizer.tokenize(text)
        second = loaded.tokenizer.tokenize(PAIRS[number]) if is_pair else []
        if number == 3:
            tokens = tokens[: 12 - 2 - len(second) - bool(second)]
        wanted = ["[CLS]", *tokens, "[SEP]"]
        wanted += [*second, "[SEP]"] if second else []
        count = int(tf.reduce_sum(features["input_mask"][number]))
        ids = features["input_ids"][number, :count].numpy()
        assert loaded.tokenizer.convert_ids_to_tokens(ids) == wanted
    answers = loaded.model(**encode(TEXTS)).pooled_output
    assert answers.shape == (4, 16)


# --- keras-hub, where it is installed ----------------------------------------


def test_keras_hub_loads_what_convert_checkpoint_writes(tmp_path):
    """Its BertBackbone, from a Hugging Face directory, gives our numbers."""
    keras_hub = pytest.importorskip("keras_hub")
    config = dataclasses.replace(
        classifier_runs.CONFIG, num_hidden_layers=2, hidden_size=64
    )
    source = tiny.write_model(tmp_path / "source", config, VOCAB)
    scripts.run(
        scripts.load("convert_checkpoint"),
        input=str(source),
        output=str(tmp_path / "hub"),
        output_format="huggingface",
    )
    features = features_of(4)
    features["input_ids"] %= len(VOCAB)
    wanted = checkpoints.load(str(tmp_path / "hub")).model(**features)
    names = ("token_ids", "padding_mask", "segment_ids")
    backbone = keras_hub.models.BertBackbone.from_preset(str(tmp_path / "hub"))
    found = backbone(dict(zip(names, features.values(), strict=True)))
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(
            found[name], getattr(wanted, name), atol=1e-5
        )


# --- Mistakes ----------------------------------------------------------------


def call_with(**inputs) -> None:
    BertModel(CONFIG)(**inputs)


def fit_in_pure_bfloat16() -> None:
    with policy("bfloat16"):
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
        model.compile(AdamWeightDecay(1e-3), "mse")
        model.fit(np.ones([2, 2]), np.ones(2), verbose=0)


def predict_too_long() -> None:
    model = create_model()
    for length in (8, 9, 17):  # the third is traced with no length
        model.predict(features_of(2, length), verbose=0)


def without_mask() -> None:
    features = features_of(2)
    del features["input_mask"]
    create_model().predict(features, verbose=0)


def encode_with(length: int, texts, *rest) -> None:
    tokenizer = tokenization.FullTokenizer(
        str(GOLDEN / "vocab" / "uncased.txt")
    )
    loaded = Loaded(CONFIG, tokenizer, None)
    graph_tokenizer.batch_encoder(loaded, length)(texts, *rest)


def save_a_function() -> None:
    config = dataclasses.replace(CONFIG, hidden_act=keras.activations.relu)
    BertModel(config).get_config()


def in_float64() -> None:
    with policy("float64"):
        BertModel(CONFIG)


@pytest.mark.parametrize(
    "mistake, words",
    [
        (
            lambda: call_with(input_ids=tf.constant([[1.0, 0.5]])),
            "input_ids must be whole numbers",
        ),
        (
            lambda: call_with(
                input_ids=tf.ones([1, 2], tf.int32), segment_ids=[0, 1]
            ),
            "segment_ids must be whole numbers .*found int32",
        ),
        (
            lambda: call_with(input_ids=tf.constant(["a text"])),
            "found string .*texts go through a tokenizer",
        ),
        (
            lambda: call_with(input_ids=tf.ones([1, 17], tf.int64)),
            "length 17 is more than .* 16; shorten",
        ),
        (
            lambda: BertModel(CONFIG)([tf.ones([1, 3], tf.int32)] * 2),
            r"is a list: .*bert\(input_ids=ids, input_mask=mask",
        ),
        (
            lambda: BertModel(CONFIG)(
                {name: keras.Input([None], dtype="int32") for name in NAMES}
            ),
            r"is a dict: .*bert\(\*\*inputs\)",
        ),
        (predict_too_long, "length is more than .* 16; shorten"),
        (without_mask, "input_mask"),
        (save_a_function, "hidden_act is a function"),
        (in_float64, "float64 .*choose float32, bfloat16, float16"),
        (lambda: encode_with(17, ["a"]), "=17: choose 3 to 16"),
        (lambda: encode_with(8, "a text"), "found string .*batch the data"),
        (lambda: encode_with(8, [[1, 2]]), "found int32"),
        (lambda: encode_with(8, ["a"], tf.constant(["b"])), "for pairs"),
        (fit_in_pure_bfloat16, "use the policy mixed_bfloat16"),
    ],
)
def test_mistakes_end_in_a_sentence(mistake, words):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as found:
        mistake()
    found.match(words)


# --- Two devices, and a process of its own -----------------------------------


def test_another_backend_of_keras_is_replaced_or_refused():
    """One in the environment or in keras.json ended in errors of JAX."""
    program = (
        "import importlib, modeling, keras\n"
        "assert keras.config.backend() == 'tensorflow'\n"
        "keras.config.backend = lambda: 'jax'\n"  # imported before modeling
        "importlib.reload(modeling)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax", "TF_USE_LEGACY_KERAS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "Keras has another backend: set" in result.stderr


@pytest.mark.nightly
def test_two_devices_train_as_one_and_a_new_process_loads(tmp_path):
    model, features = create_model(), features_of(16)
    model.save(tmp_path / "start.keras")
    model = compiled(keras.models.load_model(tmp_path / "start.keras"))
    fit(model, features, epochs=5)
    model.save(tmp_path / "end.keras")
    np.save(tmp_path / "answers.npy", model.predict(features, verbose=0))
    program = "import sys; sys.path[:0] = sys.argv[1:4]; import test_keras"
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{program}; test_keras.main()",
            *map(str, (ROOT, TESTS, HELPERS, tmp_path)),
        ],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]


def main() -> None:
    """Train under a MirroredStrategy; compare with the files of the test."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    folder, features = Path(sys.argv[-1]), features_of(16)
    loaded = keras.models.load_model(folder / "end.keras")
    answers = np.load(folder / "answers.npy")
    np.testing.assert_array_equal(loaded.predict(features, verbose=0), answers)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = compiled(keras.models.load_model(folder / "start.keras"))
    fit(model, features, epochs=5)
    for one, other in zip(loaded.variables, model.variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-5)
