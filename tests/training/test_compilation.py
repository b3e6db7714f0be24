"""What XLA compiles on each kind of device, by length and number of steps."""

import pytest

from training import compilation, devices
from training.compilation import Compilation
from training.settings import TrainingSettings


class FakeStrategy:
    """A strategy as far as the decision looks at it."""

    def __init__(self, replicas: int = 1):
        self.num_replicas_in_sync = replicas


@pytest.fixture(params=["CPU", "GPU", "TPU"])
def kind(request, monkeypatch) -> str:
    monkeypatch.setattr(devices, "kind", lambda: request.param)
    monkeypatch.setattr(devices, "is_tpu", lambda _: request.param == "TPU")
    return request.param


def decide(jit=True, replicas=1, steps=10_000, dtype="float32", lengths=()):
    settings = TrainingSettings(
        "", num_train_steps=steps, dtype=dtype, jit_compile=jit
    )
    strategy = FakeStrategy(replicas)
    return compilation.for_training(strategy, settings, *lengths)


def many(layers=6, hidden=384):
    """Batches of 32 rows whose lengths are 8, 16, ..., 64 in turns."""
    return lambda step: 8 + 8 * (step % 8), 32 * layers * hidden


def test_one_length(kind):
    """As in pre-training, or with --pad_to_max_length."""
    assert (
        decide()
        == {
            "CPU": Compilation(elementwise=True, update=True),
            "GPU": Compilation(step=True),
            "TPU": Compilation(),
        }[kind]
    )


def test_many_lengths_in_a_long_run(kind):
    assert (
        decide(steps=2000, lengths=many())
        == {
            "CPU": Compilation(elementwise=True, update=True, per_length=True),
            "GPU": Compilation(step=True, per_length=True),
            "TPU": Compilation(per_length=True),
        }[kind]
    )


@pytest.mark.parametrize(
    ("steps", "size", "dtype", "pays"),
    [
        # 8 lengths take 8 s. A step of 36 tokens in 32 rows of 6 x 384 saves
        # 36 * 32 * 2304 * 1.1e-8 = 0.029 s, so 8 s are saved in 274 steps.
        (272, (6, 384), "float32", False),
        (280, (6, 384), "float32", True),
        # 0.066 s in bfloat16: 121 steps.
        (112, (6, 384), "bfloat16", False),
        (128, (6, 384), "bfloat16", True),
        # Base, four times as large: 69 steps. Tiny, a ninth: 2,466 steps.
        (72, (12, 768), "float32", True),
        (1999, (2, 128), "float32", False),
        # Fewer lengths than 8 are seen: 4 s, of 20 tokens 0.016 s each.
        (4, (6, 384), "float32", False),
    ],
)
def test_many_lengths_in_a_short_run(kind, steps, size, dtype, pays):
    """On a CPU it depends on what compiling saves, on the others on nothing."""
    assert (
        decide(steps=steps, dtype=dtype, lengths=many(*size))
        == {
            "CPU": Compilation(elementwise=pays, update=True),
            "GPU": Compilation(step=True, per_length=True),
            "TPU": Compilation(per_length=True),
        }[kind]
    )


def test_nothing_without_the_flag(kind):
    """But a TPU compiles all it runs."""
    wanted = Compilation(per_length=kind == "TPU")
    assert decide(jit=False, lengths=many()) == wanted
    assert decide(jit=False) == Compilation()


def test_the_update_of_several_devices_is_not_a_program(kind):
    assert not decide(replicas=2).update
    assert not decide(replicas=2, steps=10, lengths=many()).update


def test_evaluation_is_compiled_except_on_a_tpu(kind):
    found = compilation.compiles_evaluation(FakeStrategy(), True)
    assert found == (kind != "TPU")
    assert not compilation.compiles_evaluation(FakeStrategy(), False)


def test_16_bit_products_are_not_compiled_on_a_cpu(kind):
    """There XLA's own are slower than oneDNN's, which it does not call."""
    for dtype in ("bfloat16", "float16"):
        found = compilation.compiles_evaluation(FakeStrategy(), True, dtype)
        assert found == (kind == "GPU")


def test_prediction_is_compiled_on_a_gpu_alone(kind):
    found = compilation.for_prediction(FakeStrategy(), True)
    assert found.step == (kind == "GPU")
    assert found.per_length == (kind != "CPU")
    assert not compilation.for_prediction(FakeStrategy(), False).step
