"""The estimate of a run's memory: computed by hand, and what is advised."""

import types

import pytest
import tensorflow as tf
from small_models import tiny_config

import modeling
import optimization
from pretraining.model import BertForPreTraining
from training import memory
from training.compilation import Compilation
from training.memory import Limit, find_limit
from training.settings import Settings

# B 2, S 10, H 32, I 64, N 4, L 2: X = 2 * 10 * 32 * 4 bytes, I / H = 2,
# A = 2 * 4 * 10 * 10 * 4 bytes.
X, A, E = 2560, 3200, 8 * 2 * 10 * 32
LAYER = 12 * X + 2 * 2 * X
BACKWARD = 3 * X + 2 * 2 * X + 2 * A


@pytest.mark.parametrize(
    "choice, kept",
    [
        ("none", 2 * (LAYER + 2 * A)),
        ("attention", 2 * LAYER + 2 * A),
        ("layers", 2 * 3 * X + LAYER + 2 * A),
    ],
)
def test_activations_by_hand(choice, kept):
    batch = memory.Batch(2, 10, choice=choice)
    found = memory.activation_bytes(tiny_config(), batch)
    assert found == E + kept + BACKWARD


def test_activations_that_are_not_compiled_by_hand():
    batch = memory.Batch(2, 10, is_fused=False)
    # Norms: (16 / 4 + 2 / 4) X. Attention: A, and (4 / 4 + 1 / 4) A.
    layer = 6 * X + 5 * 2 * X + 4.5 * X + 2.25 * A
    found = memory.activation_bytes(tiny_config(), batch)
    assert found == E + 2 * layer + BACKWARD


def test_bfloat16_has_half_the_activations():
    batch = memory.Batch(2, 10, number_bytes=2)
    found = memory.activation_bytes(tiny_config(), batch)
    assert found == E + (2 * (LAYER + 2 * A) + BACKWARD) // 2


def test_rows_of_choices_logits_and_heads():
    batch, config = memory.Batch(2, 10), tiny_config()
    one = memory.activation_bytes(config, batch)
    four = memory.activation_bytes(config, batch, memory.Rows(encoded=4))
    assert four == 4 * one
    row = memory.Rows(logits=9000)  # 2 * 9000 * 4 bytes and their gradient
    found = memory.activation_bytes(config, batch, row)
    assert found == one - BACKWARD + 8 * 2 * 9000
    row = memory.Rows(encoded=0, head_numbers=7)
    assert memory.activation_bytes(config, batch, row) == 2 * 10 * 7 * 4


def test_total_by_hand():
    found = memory.estimate(100, 90, 2, activations=5000)
    assert found == memory.Estimate(400, 720, 360, 5000, 360)
    assert found.total == 400 + 720 + 360 + 5000
    small = memory.estimate(100, 90, 2, activations=10)
    assert small.total == 400 + 720 + 360 + 360, "the update is larger"
    skipping = memory.estimate(100, 90, 2, activations=10, may_skip=True)
    assert skipping.update == 1080
    found = memory.estimate(100, 90, 2, 5000, True, False)
    assert (found.gradients, found.update) == (720, 1440)


def test_measured_peaks():
    """docs/memory.md: peaks measured with commit b76e6a3, within 10%."""
    for size, rows, length, choice, measured in MEASURED:
        found = estimated(size, memory.Batch(rows, length, choice=choice))
        assert found == pytest.approx(measured, rel=0.1)


def test_measured_peaks_of_updates():
    """With one short row the update needs more than the activations do.

    The peaks are of commit b76e6a3, benchmark.py --parts=memory
    in each --dtype and with --jit_compile=false.
    """
    for size, dtype, compiles_update, measured in (
        ("base", "float32", True, 3250e6),
        ("large", "float32", True, 7450e6),
        ("base", "bfloat16", True, 3291e6),
        ("large", "bfloat16", True, 7607e6),
        ("base", "float16", True, 4424e6),
        ("large", "float16", True, 10506e6),
        ("base", "float32", False, 4575e6),
        ("large", "float32", False, 11839e6),
    ):
        found = estimated(size, memory.Batch(1, 32), dtype, compiles_update)
        assert found == pytest.approx(measured, rel=0.1)


def test_measured_peaks_of_16_bits():
    for dtype, measured in (("bfloat16", 1418e6), ("float16", 1566e6)):
        found = estimated("mini", memory.Batch(4, 256), dtype)
        assert found == pytest.approx(measured, rel=0.1)


def estimated(size, batch, dtype="float32", compiles_update=True):
    """Return the bytes of pre-training with the published vocabulary."""
    batch = batch._replace(number_bytes=tf.as_dtype(dtype).size)
    config = modeling.BertConfig.from_size(size, 30522)
    numbers = PARAMETERS[size]
    row = memory.Rows(logits=PREDICTIONS[batch.length] * 30522)
    activations = memory.activation_bytes(config, batch, row)
    found = memory.estimate(
        numbers,
        numbers,
        2,
        activations,
        compiles_update=compiles_update,
        may_skip=dtype == "float16",
    )
    return found.total + memory.RUNTIME_BYTES[dtype]


PREDICTIONS = {32: 5, 128: 20, 256: 39, 512: 77}
PARAMETERS = {"mini": 11_301_692, "base": 110_106_428, "large": 336_226_108}
MEASURED = [
    ("mini", 8, 512, "none", 1974e6),
    ("mini", 8, 512, "layers", 1564e6),
    ("mini", 8, 512, "attention", 1771e6),
    ("mini", 32, 128, "none", 1784e6),
    ("base", 8, 512, "none", 8840e6),
    ("base", 8, 512, "attention", 6636e6),
    ("base", 8, 512, "layers", 4401e6),
    ("large", 4, 512, "none", 14013e6),
    ("large", 4, 512, "layers", 8028e6),
    ("large", 4, 512, "attention", 10914e6),
    ("large", 16, 128, "none", 11491e6),
    ("large", 16, 128, "layers", 7935e6),
    ("large", 16, 128, "attention", 10566e6),
]

# --- Runs --------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return BertForPreTraining(tiny_config())


def step_of(model, replicas=1, **changes):
    """Return what the estimate reads of a step."""
    return types.SimpleNamespace(
        settings=Settings("", 10, 16)._replace(**changes),
        strategy=tf.distribute.get_strategy(),
        model=model,
        compilation=Compilation(elementwise=True, update=replicas == 1),
        optimizer=optimization.create_optimizer(),
        replicas=replicas,
    )


def estimate_of(model, **changes):
    step = step_of(model, **changes)
    return memory.estimate_step(step, 40, memory.ONE_SEQUENCE)


def test_devices_and_micro_batches_share_the_batch(model):
    one = estimate_of(model)
    for changes in (
        {"replicas": 4},
        {"gradient_accumulation_steps": 4},
        {"replicas": 2, "gradient_accumulation_steps": 2},
    ):
        found = estimate_of(model, **changes)
        assert found.activations == one.activations // 4
        assert found.gradients == 2 * one.gradients
        assert found.weights == one.weights


def test_steps_of_float16_may_be_skipped(model):
    float16 = estimate_of(model, dtype="float16")
    bfloat16 = estimate_of(model, dtype="bfloat16")
    assert float16 == bfloat16._replace(update=3 * bfloat16.update)


def test_the_longest_batch_counts_and_a_run_that_does_not_fit_warns(
    model, monkeypatch, caplog
):
    caplog.set_level("INFO", "absl")
    lengths = [8, 40, 16, *[8] * 7]
    for free, warns in ((10**6, True), (10**12, False)):
        monkeypatch.setattr(
            memory, "find_limit", lambda kind, free=free: Limit("it", free)
        )
        caplog.clear()
        memory.log_estimate(
            step_of(model), lambda step: lengths[step], 0, memory.ONE_SEQUENCE
        )
        assert "(--recompute=none, length 40)" in caplog.text
        assert ("more than what is free" in caplog.text) == warns


# --- Limits ------------------------------------------------------------------


def write_proc(root, group="0::/job\n"):
    proc = root / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(
        "MemTotal:       1000 kB\nMemAvailable:    300 kB\n"
    )
    (proc / "self/status").write_text("Name:\tpython\nVmRSS:\t   100 kB\n")
    (proc / "self/cgroup").write_text(group)


def test_the_machine_without_a_group(tmp_path):
    write_proc(tmp_path)
    assert find_limit("CPU", str(tmp_path)) == Limit("this machine", 409_600)


@pytest.mark.parametrize(
    "group, file",
    [
        ("0::/job/step\n", "memory.max"),  # of the container's root
        ("0::/job/step\n", "job/memory.max"),
        ("9:cpu:/x\n5:memory:/job\n", "memory/job/memory.limit_in_bytes"),
        ("5:memory:/job\n", "memory/memory.limit_in_bytes"),
    ],
)
def test_the_groups_limit_counts(tmp_path, group, file):
    write_proc(tmp_path, group)
    path = tmp_path / "sys/fs/cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text("200000\n")
    found = find_limit("CPU", str(tmp_path))
    assert found == Limit("this control group (container)", 200000)
    path.write_text("max\n")
    assert find_limit("CPU", str(tmp_path)).free == 409_600


def test_unknown_limits(tmp_path):
    assert find_limit("CPU", str(tmp_path)) is None, "no /proc"
    assert find_limit("TPU") is None
