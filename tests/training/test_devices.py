"""One device, several, several machines, a TPU that is not there."""

import os
import signal
import subprocess
from pathlib import Path

from base.errors import UserError

import pytest
import scripts
import tensorflow as tf
import two_devices
from pretraining_runs import flags_for, write_data
from tiny import assert_same, results_of, weights_of

from training import devices, train_step
from training.settings import DeviceChoice, TrainingSettings

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


@pytest.mark.slow
def test_two_logical_devices(data, tmp_path):
    """tests/training/test_cluster_failures.py has two machines."""
    values = flags_for(
        data,
        tmp_path / "one",
        bert_config_file=data / "no_dropout.json",
        do_eval=True,
        eval_input_file=data / "dev",
        eval_batch_size=4,
        gradient_accumulation_steps=2,
        optimizer="muon",
    )
    scripts.run(run_pretraining, **values)
    values |= {"output_dir": tmp_path / "two", "recompute": "layers"}
    two_devices.run("run_pretraining", **values)
    one, two = (tmp_path / name for name in ("one", "two"))
    name = "bert_model.ckpt"
    assert_same(weights_of(one / name), weights_of(two / name), 1e-5)
    assert results_of(two) == pytest.approx(results_of(one), abs=1e-5, rel=1e-5)


def test_batch_has_to_divide_among_devices(tmp_path):
    settings = TrainingSettings("", 8, gradient_accumulation_steps=2)
    with pytest.raises(UserError, match="8 does not divide by 3 devices times"):
        train_step.check_batch_size(settings, 3)


# --- TPU ---------------------------------------------------------------------


def test_tpu_flags_reach_the_resolver(data, tmp_path, monkeypatch):
    seen = {}

    def resolver(**kwargs):
        seen.update(kwargs)
        raise ValueError("stop here")

    monkeypatch.setattr(
        tf.distribute.cluster_resolver, "TPUClusterResolver", resolver
    )
    line = scripts.error_of(
        run_pretraining,
        **flags_for(data, tmp_path / "out"),
        use_tpu=True,
        tpu_name="my-tpu",
        tpu_zone="us-central1-b",
        gcp_project="my-project",
    )
    assert seen == {
        "tpu": "my-tpu",
        "zone": "us-central1-b",
        "project": "my-project",
    }
    assert "my-tpu" in line and "stop here" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "status, wanted", [(-signal.SIGILL, "AVX512_CORE_FP16"), (0, None)]
)
def test_a_processor_that_dies_of_its_amx(monkeypatch, status, wanted):
    """Only the probe that was killed changes what 16-bit products use."""
    probes = []

    def run(*args, **kwargs):
        probes.append(args)
        return subprocess.CompletedProcess(args, status)

    monkeypatch.setattr(devices.machine, "cpu_flags", lambda: {"amx_tile"})
    monkeypatch.setattr(devices.subprocess, "run", run)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    devices.avoid_broken_products("float32")
    assert not probes
    devices.avoid_broken_products("bfloat16")
    assert len(probes) == 1
    assert os.environ.pop("ONEDNN_MAX_CPU_ISA", None) == wanted


@pytest.mark.parametrize(
    "before, dtype, after",
    [
        ("", "bfloat16", "--xla_gpu_enable_triton_gemm=false"),
        ("--a=1", "auto", "--a=1 --xla_gpu_enable_triton_gemm=false"),
        ("", "float32", ""),
        (f"{devices.TRITON_FLAG}=1", "float16", f"{devices.TRITON_FLAG}=1"),
    ],
)
def test_products_of_16_bits_do_without_triton(
    monkeypatch, before, dtype, after
):
    """On GPUs, unless XLA_FLAGS says something else."""
    monkeypatch.setenv("XLA_FLAGS", before)
    for found, wanted in (([], before), (["GPU"], after)):
        monkeypatch.setattr(
            devices.tf.config, "list_physical_devices", lambda _, f=found: f
        )
        devices.avoid_broken_products(dtype)
        assert os.environ["XLA_FLAGS"] == wanted


def test_a_tpu_has_no_float16():
    choice = DeviceChoice(use_tpu=True, dtype="float16")
    with pytest.raises(UserError, match="on a TPU use --dtype=bfloat16"):
        devices.create_strategy(choice)


def test_no_tpu_is_one_clear_line():
    with pytest.raises(UserError, match="no TPU answers as tpu_name='local'"):
        devices.create_strategy(DeviceChoice(use_tpu=True, tpu_name="local"))
