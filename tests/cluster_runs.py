"""Clusters of run_pretraining.py processes on this machine, and their ends."""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pretraining_runs
from paths import ROOT

# A machine that is loaded with other work is no failure.
LIMIT_SECONDS = 300


class Cluster:
    """Processes that train together; a context manager that ends them.

    Args:
        data: folder of pretraining_runs.write_data.
        folder: for output_dir `out` and a log of each process.
        size: how many.
        fail: number of a process -> FAIL of cluster_main.py.
        changes: flags.
    """

    def __init__(
        self,
        data: Path,
        folder: Path,
        size: int = 2,
        fail: dict[int, str] | None = None,
        **changes,
    ):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.configs = configs_of(size)
        self.addresses = json.loads(self.configs[0])["cluster"]["worker"]
        self.flags = pretraining_runs.flags_for(
            data,
            folder / "out",
            do_eval=True,
            eval_input_file=data / "dev",
            **{
                "eval_batch_size": 4,
                "eval_steps": 4,
                "save_checkpoints_steps": 4,
                "log_steps": 2,
            }
            | changes,
        )
        self.arguments = [f"--{n}={value}" for n, value in self.flags.items()]
        self.processes = {}
        for number in range(size):
            more = {
                "FAIL": (fail or {}).get(number, ""),
                "FAIL_SIGN": str(folder / "sign"),
            }
            self.processes[number] = self._start(number, more)

    def _start(self, number: int, more: dict[str, str]) -> subprocess.Popen:
        program = "import sys; sys.path[:0] = sys.argv[1:3]; del sys.argv[1:3]"
        program += "; import cluster_main"
        with self.log_file(number).open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-c", program, ROOT, ROOT / "tests"]
                + self.arguments,
                env=os.environ | {"TF_CONFIG": self.configs[number]} | more,
                stdout=log,
                stderr=log,
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

    def ends(self, *numbers: int) -> dict[int, tuple[int, float]]:
        """Wait for processes, all if none is named.

        Returns:
            {number: (exit status, seconds)} since the first one of all ended.
        """
        began, first = time.monotonic(), None
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


def configs_of(size: int) -> list[str]:
    """Return TF_CONFIG of each worker of a cluster on this machine."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(size)]}
    return [
        json.dumps(
            {"cluster": cluster, "task": {"type": "worker", "index": index}}
        )
        for index in range(size)
    ]
