"""One device, several, several machines, a TPU that is not there."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from base.errors import UserError

import pytest
import scripts
import tensorflow as tf
from paths import ROOT
from pretraining_runs import assert_same, flags_for, weights_of, write_data
from tiny import results_of

from records import streaming
from training import devices

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


def train_in_processes(values: dict, environments: list[dict]) -> None:
    program = "import sys; sys.path[:0] = sys.argv[1:3]; import devices_main"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(ROOT), str(ROOT / "tests")]
            + [f"--{name}={value}" for name, value in values.items()],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for environment in environments
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output[-3000:]


@pytest.fixture(scope="module")
def one_device(data, tmp_path_factory) -> Path:
    output_dir = tmp_path_factory.mktemp("one_device")
    scripts.run(run_pretraining, **several_devices_flags(data, output_dir))
    return output_dir


def several_devices_flags(data: Path, output_dir: Path) -> dict:
    return flags_for(
        data,
        output_dir,
        bert_config_file=data / "no_dropout.json",
        do_eval=True,
        eval_input_file=data / "dev",
        eval_batch_size=4,
        gradient_accumulation_steps=2,
    )


def assert_like_one_device(one_device: Path, output_dir: Path) -> None:
    assert_same(
        weights_of(one_device / "bert_model.ckpt"),
        weights_of(output_dir / "bert_model.ckpt"),
        1e-5,
    )
    expected, found = results_of(one_device), results_of(output_dir)
    assert found == pytest.approx(expected, abs=1e-5, rel=1e-5)


@pytest.mark.slow
def test_two_logical_devices(data, one_device, tmp_path):
    values = several_devices_flags(data, tmp_path) | {"recompute": "layers"}
    train_in_processes(values, [{"LOGICAL_CPUS": "2"}])
    assert_like_one_device(one_device, tmp_path)


@pytest.mark.slow
def test_two_processes(data, one_device, tmp_path):
    ports = [free_port(), free_port()]
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    environments = [
        {
            "TF_CONFIG": json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": i}}
            )
        }
        for i in range(2)
    ]
    values = several_devices_flags(data, tmp_path)
    train_in_processes(values, environments)
    assert_like_one_device(one_device, tmp_path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_batch_has_to_divide_among_devices(tmp_path):
    context = tf.distribute.InputContext(1, 0, 3)
    with pytest.raises(UserError, match="8 does not divide among 3 devices"):
        streaming.split_among_replicas(tf.data.Dataset.range(1), context, 8)


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

    monkeypatch.setattr(devices, "_reports_amx", lambda: True)
    monkeypatch.setattr(devices.subprocess, "run", run)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    devices.avoid_broken_amx("float32")
    assert not probes
    devices.avoid_broken_amx("bfloat16")
    assert len(probes) == 1
    assert os.environ.pop("ONEDNN_MAX_CPU_ISA", None) == wanted


def test_no_tpu_is_one_clear_line():
    with pytest.raises(UserError, match="no TPU answers as tpu_name='local'"):
        devices.create_strategy(
            devices.DeviceChoice(use_tpu=True, tpu_name="local")
        )
