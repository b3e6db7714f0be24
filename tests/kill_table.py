r"""Kill the processes of a cluster in every way; print what became of it.

    python tests/kill_table.py --sizes=2,4 --trials=3 --folder=/tmp/kills

A trial starts a cluster of run_pretraining.py on this machine, makes one of
its processes fail, waits for the others, and starts the same command again.
The table has the longest time from the failure to the end of the last
survivor, the lines and exit statuses of the survivors, and whether the final
weights and moments are those of an undisturbed run, to the bit.
"""

import re
import shutil
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from base import logs  # noqa: E402, F401  (defines --verbosity)

import conftest  # noqa: E402, F401
import numpy as np  # noqa: E402
from absl import app, flags  # noqa: E402
from cluster_runs import Cluster  # noqa: E402
from pretraining_runs import weights_of, write_data  # noqa: E402

FLAGS = flags.FLAGS

flags.DEFINE_list("sizes", ["2", "4"], "Numbers of processes.")
flags.DEFINE_integer("trials", 3, "Trials of each row.")
flags.DEFINE_string("folder", "/tmp/kills", "Is emptied first.")
flags.DEFINE_list("rows", [], "Names of rows; all if empty.")

# row -> (process that fails, FAIL of cluster_main.py, signal from outside).
# -1 is the last process. A signal without FAIL is sent in the middle of a run.
ROWS = {
    "kill -9 a worker in step 7": (-1, "step:7", None),
    "kill -9 the chief in step 7": (0, "step:7", None),
    "kill -9 the chief while it saves": (0, "files:8", None),
    "kill -9 the chief before the list": (0, "list:8", None),
    "kill -9 a worker while the chief saves": (-1, "wait:8", signal.SIGKILL),
    "kill -9 the chief while it evaluates": (0, "evaluate:3", None),
    "kill -9 a worker while it evaluates": (-1, "evaluate:3", None),
    "SIGTERM to a worker": (-1, "", signal.SIGTERM),
    "SIGTERM to the chief": (0, "", signal.SIGTERM),
    "SIGSTOP a worker": (-1, "", signal.SIGSTOP),
    "kill -9 all": (None, "", signal.SIGKILL),
}


def main(_: list[str]) -> int:
    """Run all trials; return 1 if one of them differs from what it should."""
    folder = Path(FLAGS.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = write_data(folder)
    is_good = True
    for size in map(int, FLAGS.sizes):
        whole = folder / f"whole{size}"
        with Cluster(data, whole, size) as cluster:
            assert not any(s for s, _ in cluster.ends().values())
        for row in FLAGS.rows or ROWS:
            found = [
                trial(data, folder / "trial", whole, size, row)
                for _ in range(FLAGS.trials)
            ]
            seconds = max(found_seconds for found_seconds, *_ in found)
            same = sum(is_same for *_, is_same in found)
            is_good &= same == len(found)
            statuses = sorted({s for _, ss, _, _ in found for s in ss})
            lines = sorted({line for _, _, ls, _ in found for line in ls})
            print(
                f"| {size} | {row} | {seconds:.1f} s | {statuses} | "
                f"{' / '.join(lines)} | {same} of {len(found)} |",
                flush=True,
            )
    return 0 if is_good else 1


def trial(data: Path, folder: Path, whole: Path, size: int, row: str) -> tuple:
    """Return seconds, statuses, lines of the survivors; whether it is same."""
    shutil.rmtree(folder, ignore_errors=True)
    victim, fail, number = ROWS[row]
    victim = size - 1 if victim == -1 else victim
    at = 0 if fail.startswith("wait") else victim
    with Cluster(data, folder, size, {at: fail} if fail else {}) as cluster:
        began = time.monotonic()
        if number:
            strike(cluster, victim, fail, number)
            began = time.monotonic()
        survivors = [n for n in range(size) if n != victim]
        if number == signal.SIGTERM:
            survivors = list(range(size))
        if not number:
            cluster.processes[victim].wait()
            began = time.monotonic()
        ends = cluster.ends(*survivors)
        seconds = time.monotonic() - began
        statuses = [ends[n][0] for n in survivors]
        lines = [cluster.last_line(n) for n in survivors if victim is not None]
        assert not any("Traceback" in cluster.log(n) for n in survivors)
    lines = [re.sub(r"^\d\d:\d\d:\d\d |:\d{5}", "", line) for line in lines]
    with Cluster(data, folder, size) as cluster:
        again = [s for s, _ in cluster.ends().values()]
    same = not any(again)
    for name in ("model.ckpt-12", "bert_model.ckpt"):
        one, two = (weights_of(f / "out" / name) for f in (whole, folder))
        same &= one.keys() == two.keys()
        same &= all(np.array_equal(one[key], two[key]) for key in one)
    left = [p.name for p in (folder / "out").rglob("*tmp*")]
    assert not left, left
    return seconds, statuses, lines, same


def strike(cluster: Cluster, victim: int | None, fail: str, number: int):
    """Send a signal in the middle of the run, to all without a victim."""
    if fail:
        while not (cluster.folder / "sign").exists():
            time.sleep(0.01)
    else:
        cluster.wait_for(0, "model.ckpt-4")
    for process in (
        cluster.processes.values()
        if victim is None
        else [cluster.processes[victim]]
    ):
        process.send_signal(number)


if __name__ == "__main__":
    app.run(main)
