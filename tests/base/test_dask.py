"""--runner=beam on a cluster of Dask: a scheduler and workers, each a process.

The bytes are those of the local runner, also if a worker is killed or has no
memory left.
"""

import contextlib
import functools
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from base.errors import UserError

import corpus_runs
import generator_runs
import prediction_runs
import pytest
import scripts
from hosts import network
from paths import ROOT

pytest.importorskip("apache_beam")
distributed = pytest.importorskip("distributed")

build_vocab = scripts.load("build_vocab")


class Cluster(NamedTuple):
    """Flags of runs on it, its workers, and what starts one more."""

    flags: dict[str, str | None]
    workers: list[subprocess.Popen]
    start_worker: Callable[[], None]


def start(
    folder: Path,
    name: str,
    *arguments: str,
    host: str = "127.0.0.1",
    on: Callable[..., list[str]] = lambda *command: [*command],
) -> subprocess.Popen:
    """Start a scheduler or a worker.

    `host` is its address, and `on` makes of a command the one that runs there.
    """
    if name == "worker":
        arguments += ("--nthreads=1", "--no-nanny")
    command = on(
        *(sys.executable, "-m", f"distributed.cli.dask_{name}"),
        *("--host", host, "--no-dashboard"),
        *("--scheduler-file", str(folder / "scheduler.json"), *arguments),
    )
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("dask")
    address = folder / "scheduler.json"
    workers: list[subprocess.Popen] = []

    def start_worker() -> None:
        workers.append(start(folder, "worker"))

    scheduler = start(folder, "scheduler", "--port=0")
    start_worker()
    start_worker()
    with distributed.Client(scheduler_file=str(address)) as client:
        client.wait_for_workers(2, timeout=60)
        options = f"--dask_client_address={client.scheduler.address}"
    flags = {
        "runner": "beam",
        "beam_options": f"--runner=DaskRunner --dask_npartitions=4 {options}",
        "num_workers": None,
    }
    yield Cluster(flags, workers, start_worker)
    for process in (scheduler, *workers):
        process.kill()
        process.wait()


@contextlib.contextmanager
def one_killed(
    cluster: Cluster, condition: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Kill a worker that holds values of the run inside, on a condition."""
    worker = cluster.workers.pop(0)
    address = cluster.flags["beam_options"].rpartition("=")[2]
    ended = threading.Event()
    with distributed.Client(address, set_as_default=False) as client:
        found = client.run(os.getpid)
        (name,) = (name for name, pid in found.items() if pid == worker.pid)

        def kill() -> None:
            while not ended.wait(0.001):
                if client.has_what().get(name) and condition():
                    worker.kill()
                    return

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield
            assert worker.wait(1) == -signal.SIGKILL
        finally:
            ended.set()
            thread.join()
            worker.kill()
            cluster.start_worker()


@pytest.fixture(autouse=True)
def _closed_clients() -> Iterator[None]:
    """Each run leaves a client, which the end of a script closes."""
    yield
    with contextlib.suppress(ValueError):  # there is none left
        while True:
            distributed.default_client().close()


def test_vocabulary_is_that_of_the_local_runner_if_a_worker_is_killed(
    cluster, tmp_path, caplog
):
    text = generator_runs.write_corpus(tmp_path)
    flags = {"input_file": text, "vocab_size": 2000}
    scripts.run(build_vocab, output_file=f"{tmp_path}/local", **flags)
    with one_killed(cluster):
        scripts.run(
            build_vocab,
            output_file=f"{tmp_path}/dask",
            **flags | cluster.flags,
        )
    found = (tmp_path / "dask").read_bytes()
    assert found == (tmp_path / "local").read_bytes()
    assert "has no option" not in caplog.text


@pytest.mark.nightly
def test_records_are_those_of_the_local_runner_if_a_worker_is_killed(
    cluster, tmp_path
):
    """It has made a bucket, and holds values of others."""
    corpus = generator_runs.write_corpus(tmp_path)
    generator_runs.run(corpus, tmp_path / "local" / "x@8")
    scratch = tmp_path / "dask" / ".x.scratch"
    with one_killed(cluster, lambda: any(scratch.glob("bucket-*"))):
        generator_runs.run(corpus, tmp_path / "dask" / "x@8", **cluster.flags)
    found, wanted = (
        generator_runs.bytes_of(tmp_path / name) for name in ("dask", "local")
    )
    assert found == wanted and len(found) == 8


@pytest.mark.nightly
def test_a_worker_without_memory_ends_in_one_line_or_is_done_without(
    cluster, tmp_path
):
    corpus = generator_runs.write_corpus(tmp_path)
    generator_runs.run(corpus, tmp_path / "local" / "x@8")
    output = tmp_path / "dask" / "x@8"
    poor = cluster.workers.pop()
    pages = int(Path(f"/proc/{poor.pid}/statm").read_text().split()[0])
    limit = (pages + 256) * resource.getpagesize()
    resource.prlimit(poor.pid, resource.RLIMIT_AS, (limit, limit))
    try:
        generator_runs.run(corpus, output, **cluster.flags)
    except UserError as error:
        assert "\n" not in str(error)
    finally:
        poor.kill()
        cluster.start_worker()
    generator_runs.run(corpus, output, **cluster.flags)
    found, wanted = (
        generator_runs.bytes_of(tmp_path / name) for name in ("dask", "local")
    )
    assert found == wanted and len(found) == 8


@pytest.mark.nightly
def test_text_is_that_of_the_local_runner_if_a_worker_is_killed(
    cluster, tmp_path
):
    corpus_runs.run(corpus_runs.ENGLISH, tmp_path / "local")
    with one_killed(cluster):
        corpus_runs.run(corpus_runs.ENGLISH, tmp_path / "dask", **cluster.flags)
    wanted, found = (
        corpus_runs.bytes_of(tmp_path / name) for name in ("local", "dask")
    )
    assert found == wanted and "corpus.json" in found


@pytest.mark.nightly
def test_predictions_are_those_of_the_local_runner_if_a_worker_is_killed(
    cluster, tmp_path
):
    prediction_runs.write_classifier(tmp_path)
    inputs = [{"text": f"a good film {n}"} for n in range(30)] + [{"no": 1}]
    for name in ("a", "b"):
        prediction_runs.write_lines(tmp_path / f"{name}.jsonl", inputs)
    flags = {k: v for k, v in cluster.flags.items() if k != "num_workers"}
    arguments = tmp_path / "model", f"{tmp_path}/?.jsonl"
    prediction_runs.predict(*arguments, tmp_path / "local")
    with one_killed(cluster):
        prediction_runs.predict(*arguments, tmp_path / "dask", **flags)
    wanted, found = (
        generator_runs.bytes_of(tmp_path / name) for name in ("local", "dask")
    )
    assert found == wanted
    assert len(found) == 3 and found["errors.jsonl"].count(b"\n") == 2


@pytest.mark.hosts
def test_records_of_hosts_are_those_of_the_local_runner(tmp_path):
    """Scheduler and script are on one host, each worker is on another one."""
    corpus = generator_runs.write_corpus(tmp_path)
    generator_runs.run(corpus, tmp_path / "local" / "x@8")
    flags = {
        "runner": "beam",
        "beam_options": "--runner=DaskRunner --dask_npartitions=4 "
        "--dask_client_address=tcp://host0:8786",
    }
    flags = generator_runs.flags_for(corpus, tmp_path / "dask" / "x@8", **flags)
    del flags["num_workers"]
    with network(tmp_path, count=3) as hosts, contextlib.ExitStack() as stack:
        for number, name in enumerate(hosts.names):
            on = functools.partial(hosts.command, number)
            what = "worker" if number else "scheduler"
            port = () if number else ("--port=8786",)
            process = start(tmp_path, what, *port, host=name, on=on)
            stack.callback(process.wait)
            stack.callback(process.kill)
        command = hosts.command(0, *generator_runs.command(flags))
        subprocess.run(command, check=True, timeout=300)
    found, wanted = (
        generator_runs.bytes_of(tmp_path / name) for name in ("dask", "local")
    )
    assert found == wanted and len(found) == 8
    assert (tmp_path / "worker.log").read_text().count("Registered to:") == 2
