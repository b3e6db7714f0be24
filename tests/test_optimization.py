"""Schedule, clipping, AdamW and LAMB against the original and by hand."""

import contextlib

from base.errors import UserError

import keras
import numpy as np
import pytest
import small_models
import tensorflow as tf

import optimization
from optimization import create_schedule
from tasks.ner.model import BertForTokenClassification
from tasks.settings import BiLstmSize

# --- The original's numbers --------------------------------------------------


def assert_weights_and_moments(variables, slots, trained):
    """Every variable and its two moments are near those of a checkpoint."""
    for variable in variables:
        path = variable.path
        values = {
            path: variable,
            **{f"{path}/{name}": slot for name, slot in slots[path].items()},
        }
        for name, value in values.items():
            np.testing.assert_allclose(
                value.numpy(), trained.get_tensor(name), atol=1e-4, err_msg=name
            )


@pytest.mark.slow
def test_thirty_compiled_steps_are_the_originals():
    """test_run_pretraining_golden.py has those that are not compiled."""
    golden = small_models.golden_arrays()
    golden_model = small_models.golden_model()
    features = {
        name: tf.constant(golden[name]) for name in small_models.FEATURES
    }
    variables = golden_model.trainable_variables
    optimizer = optimization.named_optimizer("adamw")
    optimizer.create_slots(variables)
    schedule = create_schedule(
        float(golden["learning_rate"]),
        int(golden["num_train_steps"]),
        int(golden["num_warmup_steps"]),
    )

    @tf.function(jit_compile=True, autograph=False)
    def train_step(step):
        with tf.GradientTape() as tape:
            loss = small_models.total_loss(
                small_models.losses_of(golden_model, features, seed=step)
            )
        gradients = tape.gradient(loss, [v.value for v in variables])
        gradients = [tf.convert_to_tensor(g) for g in gradients]
        gradients, _ = optimization.clip_by_global_norm(gradients, 1.0)
        # Update n has the rate of step n + 1; see create_schedule.
        rate = schedule(step + 1)
        optimizer.apply_gradients(variables, gradients, rate, step)
        return loss

    losses = [
        float(train_step(tf.constant(step, tf.int64)))
        for step in range(int(golden["steps"]))
    ]
    np.testing.assert_allclose(losses, golden["train_losses"], atol=1e-4)
    trained = tf.train.load_checkpoint(
        str(small_models.GOLDEN_MODEL / "trained/model.ckpt-30")
    )
    assert_weights_and_moments(variables, optimizer.slots, trained)
    output = golden_model.bert(**golden_model.encoder_inputs(features))
    np.testing.assert_allclose(
        tf.stack(output.encoder_layers),
        golden["all_encoder_layers_after"],
        atol=1e-4,
    )
    np.testing.assert_allclose(
        output.pooled_output, golden["pooled_output_after"], atol=1e-4
    )


# --- Schedule ----------------------------------------------------------------


def rates(schedule, steps):
    return [float(schedule(tf.constant(s, tf.int64))) for s in steps]


@pytest.mark.parametrize(
    "continuous, warmup, steps, wanted",
    [
        (False, 10, [0, 1, 9, 10, 11, 99, 100], [0, 10, 90, 90, 89, 1, 0]),
        # A longer warm-up ends in a drop.
        (False, 40, [39, 40, 1000], [97.5, 60, 0]),
        (True, 40, [0, 39, 40, 70, 100, 101], [0, 97.5, 100, 50, 0, 0]),
        (False, 0, [0, 25, 50, 75, 100], [100, 75, 50, 25, 0]),
        (False, None, [0, 25, 50, 75, 100], [100, 75, 50, 25, 0]),
        # All steps are warm-up.
        (False, 100, [0, 50, 100, 101], [0, 50, 0, 0]),
        (True, 100, [0, 50, 99], [0, 50, 99]),
    ],
)
def test_schedule_of_100_steps(continuous, warmup, steps, wanted):
    """In hundredths of the peak rate; the first is the original's."""
    schedule = create_schedule(100.0, 100, warmup, continuous)
    found = rates(schedule, steps)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize(
    "name, warmup, steps, wanted",
    [
        ("cosine", 40, [0, 20, 40, 60, 70, 100], [0, 50, 100, 75, 50, 0]),
        ("cosine", 0, [0, 50, 100, 101], [100, 50, 0, 0]),
        (
            "wsd",
            40,
            [0, 20, 40, 75, 80, 90, 100],
            [0, 50] + [100] * 3 + [50, 0],
        ),
        # A warm-up that reaches into the fall.
        ("wsd", 90, [45, 89, 90], [50, 98.89, 50]),
    ],
)
def test_other_schedules_of_100_steps(name, warmup, steps, wanted):
    schedule = create_schedule(100.0, 100, warmup, name=name)
    np.testing.assert_allclose(rates(schedule, steps), wanted, atol=0.01)


# --- Clipping ----------------------------------------------------------------


def test_clipping_scales_all_gradients_by_one_factor():
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = optimization.clip_by_global_norm(gradients, 1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose(clipped[0], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [[0.8]], rtol=1e-6)
    kept, norm = optimization.clip_by_global_norm(gradients, 6.0)
    assert float(norm) == 5.0
    np.testing.assert_array_equal(kept[0], gradients[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_norm_that_is_not_finite_spoils_every_gradient(bad):
    gradients = [tf.constant([1.0, bad]), tf.constant([1.0])]
    clipped, norm = optimization.clip_by_global_norm(gradients, 1.0)
    assert not np.isfinite(norm)
    assert np.isnan(clipped[1]).all()


# --- Updates -----------------------------------------------------------------

KERNEL, BIAS = "bert/pooler/dense/kernel", "bert/pooler/dense/bias"


def make_variables():
    rng = np.random.default_rng(1)
    layer = keras.layers.Layer(name="bert")
    variables = []
    with keras.name_scope("bert"), keras.name_scope("pooler"):
        with keras.name_scope("dense"):
            for name, shape in (("kernel", [3, 4]), ("bias", [4])):
                value = rng.normal(size=shape).astype(np.float32)
                variables.append(keras.Variable(value, name=name))
    del layer
    assert [v.path for v in variables] == [KERNEL, BIAS]
    return variables


def by_hand(name, w, gradients, lrs, decays, bias_correction=False):
    """The formulas of the papers in numpy, float64."""
    w = w.astype(np.float64)
    m = v = np.zeros_like(w)
    for t, (g, lr) in enumerate(zip(gradients, lrs, strict=True), start=1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        top, bottom = m, v
        if bias_correction:
            top, bottom = m / (1 - 0.9**t), v / (1 - 0.999**t)
        update = top / (np.sqrt(bottom) + 1e-6)
        if decays:
            update = update + 0.01 * w
        if name == "lamb" and decays:
            update *= np.linalg.norm(w) / np.linalg.norm(update)
        w = w - lr * update
    return w, m, v


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_updates_are_those_of_the_formulas(name, bias_correction, jit_compile):
    variables = make_variables()
    starts = [v.numpy() for v in variables]
    optimizer = optimization.named_optimizer(
        name, bias_correction=bias_correction
    )
    optimizer.create_slots(variables)
    slots = optimizer.slots
    assert slots[BIAS]["adam_v"].name == f"{BIAS}/adam_v:0"
    rng = np.random.default_rng(3)
    gradients = [
        [rng.normal(size=v.shape) for _ in range(4)] for v in variables
    ]
    lrs = [0.0, 0.1, 0.2, 0.05]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def apply(kernel_gradient, bias_gradient, rate, step):
        optimizer.apply_gradients(
            variables, [kernel_gradient, bias_gradient], rate, step
        )

    for step in range(4):
        apply(
            *(tf.constant(g[step], tf.float32) for g in gradients),
            tf.constant(lrs[step]),
            tf.constant(step, tf.int64),
        )
        if step == 0:  # a rate of 0 leaves weights and moves moments
            np.testing.assert_array_equal(variables[0].numpy(), starts[0])
            assert slots[KERNEL]["adam_m"].numpy().any()
    for variable, start, gradient in zip(
        variables, starts, gradients, strict=True
    ):
        decays = variable.path == KERNEL
        w, m, v = by_hand(name, start, gradient, lrs, decays, bias_correction)
        found = slots[variable.path]
        np.testing.assert_allclose(variable.numpy(), w, rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(found["adam_m"].numpy(), m, atol=1e-6)
        np.testing.assert_allclose(found["adam_v"].numpy(), v, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_rates_by_path_and_averages_by_hand(jit_compile):
    variables = make_variables()
    starts = [v.numpy() for v in variables]
    optimizer = optimization.named_optimizer(
        rate_factor=lambda path: 0.25 if path == KERNEL else 1.0, ema_decay=0.8
    )
    optimizer.create_slots(variables)
    gradients = [np.full(v.shape, 0.5, np.float32) for v in variables]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def apply(step, is_applied):
        optimizer.apply_gradients(variables, gradients, 0.1, step, is_applied)

    # The third step is skipped: its weights are those of the second.
    weights = []
    for step, is_applied in enumerate((True, True, False)):
        apply(tf.constant(step), tf.constant(is_applied))
        weights.append([v.numpy() for v in variables])
    for number, rate in enumerate((0.025, 0.1)):
        w, _, _ = by_hand(
            "adamw",
            starts[number],
            [gradients[number]] * 2,
            [rate] * 2,
            decays=number == 0,
        )
        np.testing.assert_allclose(weights[1][number], w, atol=1e-5)
        np.testing.assert_array_equal(weights[2][number], weights[1][number])
    # 0.64, 0.8 and 1 times 0.2, divided by 1 - 0.8^3 = 0.488.
    for number, average in enumerate(optimizer.averages(variables, 3)):
        found = np.tensordot(
            [0.128, 0.16, 0.2], [w[number] for w in weights], 1
        )
        np.testing.assert_allclose(average, found / 0.488, rtol=1e-5)


def test_lamb_trust_ratio_is_one_where_a_norm_is_zero():
    optimizer = optimization.named_optimizer("lamb", weight_decay_rate=0.0)
    for w, u in (([0.0, 0.0], [1.0, 1.0]), ([1.0, 2.0], [0.0, 0.0])):
        ratio = optimizer.trust_ratio(KERNEL, tf.constant(w), tf.constant(u))
        assert float(ratio) == 1.0


# --- Muon --------------------------------------------------------------------

LAYER = "bert/encoder/layer_0/output/dense"


def variable_of(path, value):
    with contextlib.ExitStack() as scopes:
        *names, name = path.split("/")
        for scope in names:
            scopes.enter_context(keras.name_scope(scope))
        return keras.Variable(value, name=name)


def orthogonalized_by_hand(path, matrix):
    """The iteration in numpy, float64, for each 64 units, the wide side up."""
    is_read = path.endswith("/output/dense/kernel")
    units = matrix if is_read else matrix.T
    found = []
    for begin in range(0, len(units), 64):
        x = units[begin : begin + 64]
        x = x / np.linalg.norm(x)
        for a, b, c in optimization.ORTHOGONALIZE:
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        found.append(x)
    found = np.concatenate(found)
    return found if is_read else found.T


@pytest.mark.parametrize("jit_compile", [False, True])
def test_twenty_steps_of_muon_are_those_of_the_formulas(jit_compile):
    """With rates by layer and averages; the gradients of step 7 overflow."""
    rng = np.random.default_rng(5)
    shapes = {
        f"{LAYER}/kernel": (130, 4),
        "bert/encoder/layer_1/output/dense/kernel": (6, 4),
        "bert/encoder/layer_1/intermediate/dense/kernel": (4, 130),
        "bert/encoder/layer_2/intermediate/dense/kernel": (4, 1),
        "bert/encoder/layer_2/output/dense/kernel": (1, 4),
        "bert/encoder/layer_0/attention/self/query/kernel": (4, 4),
        f"{LAYER}/bias": (4,),
        KERNEL: (4, 4),
    }
    starts = {path: rng.normal(size=shape) for path, shape in shapes.items()}
    variables = [
        variable_of(path, value.astype(np.float32))
        for path, value in starts.items()
    ]
    optimizer = optimization.named_optimizer(
        "muon",
        momentum=0.9,
        muon_factor=3.0,
        rate_factor=lambda path: 0.5 if "layer_0" in path else 1.0,
        ema_decay=0.8,
        is_compiled=jit_compile,
    )
    optimizer.create_slots(variables)
    slots = optimizer.slots[f"{LAYER}/kernel"]
    assert list(slots) == ["muon_m", "average"]
    gradients = [
        [rng.normal(size=v.shape) for v in variables] for _ in range(20)
    ]
    gradients[7] = [np.full(v.shape, np.inf) for v in variables]
    rates = [0.01 * (1 - step / 20) for step in range(20)]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def update(*args, **options):
        optimizer.apply_gradients(variables, *args, **options)

    for step in range(20):
        found = [tf.constant(g, tf.float32) for g in gradients[step]]
        norm = optimization.global_norm(found)
        directions = optimizer.directions(variables, found, norm)
        clipped, _ = optimization.clip_by_global_norm(found, norm=norm)
        options = {"is_applied": tf.constant(step != 7)}
        rate, number = tf.constant(rates[step]), tf.constant(step, tf.int64)
        update(clipped, rate, number, directions=directions, **options)

    averages = optimizer.averages(variables, 20)
    del gradients[7]
    for index, variable in enumerate(variables):
        path, w = variable.path, starts[variable.path]
        own = [rate * optimizer.rate_factor(path) for rate in rates]
        del own[7]
        scaled = []
        for found in gradients:
            norm = np.sqrt(sum(np.sum(g**2) for g in found))
            scaled.append(found[index] / max(1.0, norm))
        if "adam_m" in optimizer.slots[path]:
            wanted, *_ = by_hand("adamw", w, scaled, own, path == KERNEL)
        else:
            m, wanted, weights = np.zeros_like(w), w, []
            for step, (g, rate) in enumerate(zip(scaled, own, strict=True)):
                m = 0.9 * m + 0.1 * g
                o = orthogonalized_by_hand(path, 0.9 * m + 0.1 * g)
                # The rate is of the decay too, as in torch.optim.Muon.
                u = 0.2 * np.sqrt(4) * o + 0.01 * wanted
                wanted = wanted - 3 * rate * u
                # The step that is skipped has those of step 6 once more.
                weights += [wanted] * (2 if step == 6 else 1)
            shares = 0.2 * 0.8 ** np.arange(20)[::-1] / (1 - 0.8**20)
            average = np.tensordot(shares, weights, 1)
            np.testing.assert_allclose(averages[index], average, atol=2e-4)
            np.testing.assert_allclose(
                optimizer.slots[path]["muon_m"].numpy(), m, atol=1e-6
            )
        np.testing.assert_allclose(variable.numpy(), wanted, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(48, 48), (24, 96)])
def test_orthogonalized_values_are_near_1_with_the_same_vectors(shape, dtype):
    """Of values from 1 to 0.01, as momentum has them."""
    rng = np.random.default_rng(1)
    u, _, v = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    values = np.geomspace(1, 0.01, min(shape))
    matrix = tf.constant((u * values) @ v / np.linalg.norm(values), dtype)
    found = optimization.orthogonalized(matrix).numpy().astype(np.float32)
    rotated = u.T @ found @ v.T
    assert np.diag(rotated).min() > 0.6 and np.diag(rotated).max() < 1.3
    off = rotated - np.diag(np.diag(rotated))
    assert np.abs(off).max() < (1e-3 if dtype == "float32" else 0.1)


# --- Weight decay ------------------------------------------------------------

# What the original searches for in names.
ORIGINALS = ("LayerNorm", "layer_norm", "bias")


def test_weight_decay_is_the_originals():
    optimizer = optimization.named_optimizer()
    size = BiLstmSize(1, 8)
    tagger = BertForTokenClassification(
        small_models.tiny_config(), 3, "float32", size
    )
    variables = small_models.golden_model().variables + tagger.variables
    for path in (variable.path for variable in variables):
        wanted = not any(name in path for name in ORIGINALS)
        assert optimizer.uses_weight_decay(path) == wanted, path
    assert not optimization.named_optimizer(
        weight_decay_rate=0.0
    ).uses_weight_decay(KERNEL)


def test_unknown_optimizer_names_the_choices():
    with pytest.raises(UserError, match="adamw, lamb"):
        optimization.named_optimizer("sgd")
