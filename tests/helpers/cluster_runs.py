"""Clusters of processes that train together, and their ends."""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pretraining_runs
from hosts import Hosts
from paths import ROOT

# A machine that is loaded with other work is no failure.
LIMIT_SECONDS = 300


class Cluster:
    """Processes that train together; a context manager that ends them.

    Args:
        folder: for output_dir `out` and a log of each process.
        size: how many.
        fail: number of a process -> FAIL of cluster_main.py.
        hosts: where they run; None: all on this machine.
        starts: numbers of those that start at once; None: all.
        script: what they run.
        flags: its flags.
    """

    def __init__(
        self,
        folder: Path,
        size: int = 2,
        fail: dict[int, str] | None = None,
        hosts: Hosts | None = None,
        starts: Iterable[int] | None = None,
        script: str = "run_pretraining",
        **flags,
    ):
        folder.mkdir(exist_ok=True)
        self.folder, self.hosts, self.script = folder, hosts, script
        names = hosts.names if hosts else ["127.0.0.1"] * size
        ports = free_ports(size)
        self.addresses = [
            f"{name}:{port}" for name, port in zip(names, ports, strict=True)
        ]
        self.flags = {"output_dir": folder / "out"} | flags
        self.fail = fail or {}
        self.processes: dict[int, subprocess.Popen] = {}
        for number in range(size) if starts is None else starts:
            self.start(number)

    def start(self, number: int, root: Path = ROOT, **changes) -> None:
        """Start a process, with the program in `root` and changed flags."""
        task = {"type": "worker", "index": number}
        config = {"cluster": {"worker": self.addresses}, "task": task}
        program = "import sys; sys.path[:0] = sys.argv[1:3]; del sys.argv[1:3]"
        program += "; import cluster_main"
        flags = self.flags | changes
        command = [
            *(sys.executable, "-c", program, root, root / "tests/helpers"),
            *(f"--{name}={value}" for name, value in flags.items()),
        ]
        if self.hosts:
            command = self.hosts.command(number, *command)
        more = {
            "TF_CONFIG": json.dumps(config),
            "SCRIPT": self.script,
            "FAIL": self.fail.get(number, ""),
            "FAIL_SIGN": str(self.folder / "sign"),
            "TF_CPP_MIN_LOG_LEVEL": "3",  # as base/startup.py sets it
        }
        with self.log_file(number).open("w") as log:
            self.processes[number] = subprocess.Popen(
                command, env=os.environ | more, stdout=log, stderr=log
            )

    def log_file(self, number: int) -> Path:
        return self.folder / f"log{number}"

    def log(self, number: int) -> str:
        return self.log_file(number).read_text()

    def name(self, number: int) -> str:
        return f"worker {number} ({self.addresses[number]})"

    def wait_for(self, number: int, words: str) -> None:
        """Wait until a log has the words."""
        end = time.monotonic() + LIMIT_SECONDS
        while words not in self.log(number):
            assert self.processes[number].poll() is None, self.log(number)
            assert time.monotonic() < end, self.log(number)
            time.sleep(0.02)

    def wait_for_sign(self) -> None:
        """Wait until the checkpoint of FAIL=wait is about to be written."""
        while not (self.folder / "sign").exists():
            assert not any(p.poll() for p in self.processes.values())
            time.sleep(0.02)

    def ends(
        self, *numbers: int, since: float | None = None
    ) -> dict[int, tuple[int, float]]:
        """Wait for processes, all if none is named.

        Returns:
            {number: (exit status, seconds)} since a time, or since the first
            one of all ended.
        """
        began, first = time.monotonic(), since
        found = {}
        waits_for = set(numbers or self.processes)
        while waits_for - found.keys():
            now = time.monotonic()
            assert now < began + LIMIT_SECONDS, {
                n: self.log(n)[-1000:] for n in waits_for - found.keys()
            }
            for number, process in self.processes.items():
                if number not in found and process.poll() is not None:
                    first = first or now
                    found[number] = process.returncode, now - first
            time.sleep(0.02)
        return found

    def last_line(self, number: int) -> str:
        return self.log(number).splitlines()[-1]

    def assert_all_finish(self) -> None:
        for number, (status, _) in self.ends().items():
            assert status == 0, self.log(number)

    def assert_fails(
        self, number: int, words: str, since: float | None = None
    ) -> float:
        """One ended with status 1 and one line that begins with the words.

        Returns:
            The seconds until then, see `ends`.
        """
        status, seconds = self.ends(number, since=since)[number]
        log = self.log(number)
        assert status == 1, log
        assert "Traceback" not in log
        assert self.last_line(number).startswith(f"ERROR: {words}"), log
        assert log.count("ERROR: ") == 1
        return seconds

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *exception) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


# Linux gives none of these to who asks for any free port, and each process of
# pytest begins elsewhere: nobody takes one before the cluster does.
_PORTS = itertools.count(10_000 + os.getpid() % 1_000 * 20)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses; each is returned once."""
    found: list[int] = []
    while len(found) < count:
        port = next(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def pretraining(data: Path, folder: Path, **changes) -> Cluster:
    """Start a cluster on the data of pretraining_runs.write_data."""
    values = {
        "do_eval": True,
        "eval_input_file": data / "dev",
        "eval_batch_size": 4,
        "eval_steps": 4,
        "save_checkpoints_steps": 4,
        "log_steps": 2,
    }
    flags = pretraining_runs.flags_for(data, folder / "out")
    return Cluster(folder, **flags | values | changes)
