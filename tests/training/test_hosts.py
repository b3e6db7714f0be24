"""Hosts that train together, and what ends them: `make test-hosts`.

A failure ends in a line within so many seconds, and the same command again
ends with the bits of a run of processes on one machine that did not fail.
"""

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import classifier_runs
import prediction_runs
import pretraining_runs
import pytest
import task_cases
import tiny
import two_devices
from cluster_runs import Cluster, pretraining
from hosts import Hosts, network
from marks import on_hosts
from paths import ROOT


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return pretraining_runs.write_data(tmp_path_factory.mktemp("pretraining"))


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory) -> Path:
    """Folder of a run of two processes on one machine."""
    folder = tmp_path_factory.mktemp("whole")
    with pretraining(data, folder) as cluster:
        cluster.assert_all_finish()
    return folder / "out"


def check_same_bits(found: Path, wanted: Path) -> None:
    for name in ("model.ckpt-12", "bert_model.ckpt"):
        tiny.assert_same(
            *(tiny.weights_of(out / name) for out in (found, wanted))
        )
    assert not list(found.rglob("*tmp*"))


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of so many bytes."""
    folder.mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        check=True,
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


# --- Runs that end well ------------------------------------------------------


@pytest.mark.hosts
def test_a_slow_host_that_starts_late(data, whole, tmp_path):
    """And whose cable is pulled for ten seconds, in which no other is lost."""
    with (
        network(tmp_path, slow=[1]) as hosts,
        pretraining(
            data, tmp_path, fail={0: "wait:8"}, hosts=hosts, starts=[0]
        ) as cluster,
    ):
        time.sleep(60)
        began = time.monotonic()
        cluster.start(1)
        cluster.wait_for_sign()
        hosts.connect(1, "down")
        time.sleep(10)
        hosts.connect(1)
        cluster.assert_all_finish()
        print(f"| slow, late, cut off: {time.monotonic() - began:.0f} s |")
        log = cluster.log(0)
        for seconds in (10, 30):
            line = f"Waiting for {cluster.name(1)}, for {seconds} s"
            assert line in log
    check_same_bits(tmp_path / "out", whole)


CASES = {case.script: case for case in task_cases.CASES}


def _pairs(folder: Path) -> dict:
    """Of an anchor the other texts of the batch on a device are negatives."""
    texts = [text for text, _ in classifier_runs.sentences(160, 5)]
    pairs = [{"anchor": a, "positive": f"{a} {b}"} for a, b in pairwise(texts)]
    lines = prediction_runs.write_lines(folder / "pairs.jsonl", pairs)
    return {"train_file": lines}


@pytest.mark.hosts
@pytest.mark.parametrize(
    "script, more",
    [("run_classifier", lambda folder: {}), ("run_embeddings", _pairs)],
)
def test_a_fine_tuning(script, more, tmp_path):
    """The bits of processes of one machine, the weights of its two devices."""
    flags = CASES[script].write(tmp_path, tmp_path) | more(tmp_path)
    places = ("hosts", "processes", "devices")
    outs = {place: tmp_path / place / "out" for place in places}
    with network(tmp_path) as hosts:
        for place, some in (("hosts", hosts), ("processes", None)):
            flags["output_dir"] = outs[place]
            with Cluster(
                tmp_path / place, hosts=some, script=script, **flags
            ) as cluster:
                cluster.assert_all_finish()
    two_devices.run(script, **flags | {"output_dir": outs["devices"]})
    found = {p: tiny.weights_of(outs[p] / "bert_model.ckpt") for p in places}
    tiny.assert_same(found["hosts"], found["processes"])
    tiny.assert_same(found["hosts"], found["devices"], 1e-4)
    scores, alone = (tiny.results_of(outs[p]) for p in ("hosts", "devices"))
    assert scores == pytest.approx(alone, abs=1e-4)


# --- Failures ----------------------------------------------------------------


class Failure(NamedTuple):
    """What happens to a cluster of two hosts, and how it ends.

    Attributes:
        fail: FAIL of cluster_main.py for host 0 and host 1.
        strike: called with cluster and hosts while checkpoint 8 is written;
            None if `fail` does all.
        words: of the last line of host 0 and of host 1, after the name of the
            other one; None: it is killed, or starts again.
        seconds: the limits from the failure to the end of all.
    """

    fail: dict[int, str]
    strike: Callable | None
    words: tuple[str | None, str | None]
    seconds: tuple[float, float]


def restart(cluster: Cluster, hosts: Hosts) -> None:
    """Start host 1 again, which nobody hears of before the process is there."""
    hosts.connect(1, "down")
    cluster.processes[1].kill()
    cluster.processes[1].wait()
    cluster.start(1)
    time.sleep(15)
    hosts.connect(1)


_ENDED = "has ended (Connection refused) after step "
_SILENT = "has stopped answering after step 8; step "

FAILURES = {
    "the chief is killed": Failure(
        {0: "step:7"}, None, (None, _ENDED), (3, 15)
    ),
    "a worker is killed": Failure({1: "step:7"}, None, (_ENDED, None), (3, 15)),
    "a host is cut off": Failure(
        {0: "wait:8"},
        lambda cluster, hosts: hosts.connect(1, "down"),
        (_SILENT, _SILENT),
        (30, 60),
    ),
    "the chief is cut off": Failure(
        {0: "wait:8"},
        lambda cluster, hosts: hosts.connect(0, "down"),
        (_SILENT, _SILENT),
        (30, 60),
    ),
    "a host is started again": Failure(
        {0: "wait:8"}, restart, ("has ended (", None), (0, 30)
    ),
    "a process is stopped": Failure(
        {0: "wait:8"},
        lambda cluster, hosts: cluster.processes[1].send_signal(signal.SIGSTOP),
        (_SILENT, None),
        (30, 60),
    ),
}


@pytest.mark.hosts
@pytest.mark.parametrize("what", FAILURES)
def test_a_failure(what, data, whole, tmp_path):
    fail, strike, words, (least, most) = FAILURES[what]
    with network(tmp_path) as hosts:
        with pretraining(data, tmp_path, fail=fail, hosts=hosts) as cluster:
            since = None
            if strike:
                cluster.wait_for_sign()
                strike(cluster, hosts)
                since = time.monotonic()
            seconds = max(
                cluster.assert_fails(
                    number, f"{cluster.name(1 - number)} {words[number]}", since
                )
                for number in (0, 1)
                if words[number]
            )
            print(f"| {what} | {seconds:.1f} s |")
            assert least <= seconds <= most
    with network(tmp_path) as hosts:
        with pretraining(data, tmp_path, hosts=hosts) as cluster:
            cluster.assert_all_finish()
    check_same_bits(tmp_path / "out", whole)


@pytest.mark.hosts
def test_sigterm_to_one_host_is_one_to_all(data, whole, tmp_path):
    with network(tmp_path) as hosts:
        with pretraining(
            data, tmp_path, fail={0: "wait:8"}, hosts=hosts
        ) as cluster:
            cluster.wait_for_sign()
            cluster.processes[1].terminate()
            ends = cluster.ends(since=time.monotonic())
            print(f"| SIGTERM | {max(s for _, s in ends.values()):.1f} s |")
            for number, (status, seconds) in ends.items():
                assert status == 1 and seconds < 15
                line = f"WARNING: Stopped by SIGTERM to {cluster.name(1)} after"
                assert line in cluster.log(number)
        with pretraining(data, tmp_path, hosts=hosts) as cluster:
            cluster.assert_all_finish()
    check_same_bits(tmp_path / "out", whole)


@pytest.mark.hosts
def test_each_of_three_hosts_names_the_one_that_is_cut_off(data, tmp_path):
    """The others name it alone, and it names both of them."""
    with (
        network(tmp_path, count=3) as hosts,
        pretraining(
            data,
            tmp_path,
            size=3,
            fail={0: "wait:8"},
            hosts=hosts,
            train_batch_size=6,
            eval_batch_size=6,
        ) as cluster,
    ):
        cluster.wait_for_sign()
        hosts.connect(1, "down")
        since = time.monotonic()
        for number in (0, 2):
            words = f"{cluster.name(1)} {_SILENT}"
            assert cluster.assert_fails(number, words, since) < 60
        words = f"{cluster.name(0)} has stopped answering, {cluster.name(2)} "
        seconds = cluster.assert_fails(1, words, since)
        print(f"| one of three | {seconds:.1f} s |")
        assert seconds < 60


@pytest.mark.hosts
def test_the_disk_of_the_shared_folder_is_full(data, whole, tmp_path):
    out = tmp_path / "out"
    with network(tmp_path) as hosts, small_disk(out, "2m"):
        with pretraining(
            data, tmp_path, fail={0: "wait:8"}, hosts=hosts
        ) as cluster:
            cluster.wait_for_sign()
            filler = out / "filler"
            with contextlib.suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(bytes(4096))
            since = time.monotonic()
            words = f"{cluster.name(0)} has ended (Connection refused) after"
            seconds = max(
                cluster.assert_fails(
                    0,
                    f"{out}/model.ckpt-8 cannot be written: No space left on "
                    "device; ",
                    since,
                ),
                cluster.assert_fails(1, words, since),
            )
            print(f"| the disk is full | {seconds:.1f} s |")
            assert seconds < 20
        with pretraining(data, tmp_path, hosts=hosts, starts=[0]) as cluster:
            cluster.assert_fails(0, f"--output_dir={out} cannot be written in")
        filler.unlink()
        with pretraining(data, tmp_path, hosts=hosts) as cluster:
            cluster.assert_all_finish()
        check_same_bits(out, whole)


def _other_version(folder: Path, data: Path) -> dict:
    """A checkout whose ops/losses.py has one more line."""
    for entry in ROOT.iterdir():
        if entry.name == "ops":
            shutil.copytree(entry, folder / "ops")
        elif not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    with (folder / "ops" / "losses.py").open("a") as file:
        file.write("# Another version.\n")
    return {"root": folder}


def _other_records(folder: Path, data: Path) -> dict:
    shutil.copytree(data, folder, dirs_exist_ok=True)
    pretraining_runs.write_records(folder / "train-1", 41, seed=7)
    return {"input_file": f"{folder}/train-*"}


def _other_heldout_data(folder: Path, data: Path) -> dict:
    pretraining_runs.write_records(folder / "dev", 21, seed=7)
    return {"eval_input_file": folder / "dev"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change, words",
    [
        (_other_version, "another version of this project, or of TensorFlow,"),
        on_hosts(_other_records, "another records"),
        on_hosts(_other_heldout_data, "another heldout_data"),
    ],
)
def test_a_host_that_has_something_else(change, words, data, tmp_path):
    """Both say so at the start, and nothing is trained."""
    other = tmp_path / "other"
    other.mkdir()
    with (
        network(tmp_path) as hosts,
        pretraining(data, tmp_path, hosts=hosts, starts=[0]) as cluster,
    ):
        cluster.start(1, **change(other, data))
        line = f"{cluster.name(1)} has {words} than {cluster.name(0)} (here: "
        for number in (0, 1):
            cluster.assert_fails(number, line)
    assert not list((tmp_path / "out").glob("model.ckpt*"))
