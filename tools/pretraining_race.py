r"""Pre-train with this project and with transformers, until a perplexity.

    python -m venv /tmp/peer
    /tmp/peer/bin/pip install torch transformers
    python -m tools.pretraining_race --output_dir=race --vocab_file=vocab.txt \
        --input_file='data/train64-*' --eval_input_file='data/dev64-*' \
        --train_hours=0.3 --peer_python=/tmp/peer/bin/python

trains one model on the same records, made by the commands of
docs/small_budgets.md, in the ways that --ways names:

    muon                 run_pretraining.py with the recipe
    adamw                the same with AdamW and a rate of 1e-3
    transformers         BertForMaskedLM in PyTorch with the values of its
                         example run_mlm.py: rate 5e-5, no warm-up, 8 sequences
    transformers_adamw   the same with the recipe's values, AdamW and 1e-3
    transformers_muon    the same with torch.optim.Muon for the encoder and 2e-3

one after the other, each on one core, for as many steps as fit into the hours;
the rate falls to 0 in that time. All are scored on the same masked tokens. The
clock stands still meanwhile. A way that has its file in output_dir is not run
again. race.png shows the curves, and a table on standard output says when each
perplexity was reached. Nothing else should run beside it.
"""

import dataclasses
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from base import file_system, machine, pictures, script
from base.errors import UserError
from base.flags import define, flag

import numpy as np
from absl import flags

import modeling
from records import tfrecord
from training import recipes

FLAGS = flags.FLAGS

OURS = ("adamw", "muon")
PEERS = ("transformers", "transformers_adamw", "transformers_muon")
RECIPE = "small_budget"
ADAMW = {"learning_rate": 1e-3}  # docs/small_budgets.md: the recipe has Muon's
# What run_mlm.py of transformers has, and what the recipe's optimizers have.
EXAMPLE = {
    "train_batch_size": 8,
    "masked_lm_prob": 0.15,
    "learning_rate": 5e-5,
    "warmup_proportion": 0.0,
    "weight_decay": 0.0,
    "epsilon": 1e-8,
    "dropout": 0.1,
    "initializer_range": 0.02,
}
OPTIMIZERS = {"weight_decay": 0.01, "epsilon": 1e-6}
EVAL_RECORDS, EVAL_BATCH_SIZE = 1024, 64
POINTS = 40  # how often a way of transformers is scored

_PEER = Path(__file__).parent / "benchmarks" / "transformers_pretraining.py"


@dataclasses.dataclass(frozen=True)
class Flags:
    """What is raced, on which records, and for how long."""

    output_dir: str = flag(required=True, is_output=True, alias="output")
    """Directory for the runs, their curves and the picture."""

    input_file: str = flag(required=True)
    """Glob of the unmasked records to train on."""

    eval_input_file: str = flag(required=True)
    """Glob of the masked records to score on, of which {records} are used."""

    vocab_file: str = flag(required=True)
    """Vocabulary of the records."""

    size: str = flag("mini", choices=list(modeling.NAMED_SIZES))
    """Size of the model."""

    train_hours: float = flag(0.3, low=0.001)
    """Hours of training of each way."""

    ways: tuple[str, ...] = flag((*OURS, *PEERS), choices=(*OURS, *PEERS))
    """Which to run, in that order."""

    targets: tuple[str, ...] = flag(("60", "40"))
    """Perplexities of the table."""

    eval_steps: int = flag(100, low=1)
    """Steps between two points of this project's curves."""

    seed: int = flag(1, low=0)
    """Random seed of every run."""

    peer_python: str | None = flag()
    """A Python interpreter that has transformers and torch."""


define(Flags, words={"records": f"{EVAL_RECORDS:,}"})

Curve = list[tuple[int, float, float]]  # steps, seconds, perplexity


def recipe() -> dict[str, float]:
    """Return the values of the recipe's flags that are numbers."""
    text = (recipes.FOLDER / f"{RECIPE}.flags").read_text(encoding="utf-8")
    found = re.findall(r"^--(\w+)=([\d.e-]+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def train_ours(optimizer: str, folder: Path) -> Curve:
    """Train with run_pretraining.py."""
    values = {
        "recipe": RECIPE,
        "optimizer": optimizer,
        "do_train": True,
        "do_eval": True,
        "output_dir": folder,
        "input_file": FLAGS.input_file,
        "eval_input_file": FLAGS.eval_input_file,
        "vocab_file": FLAGS.vocab_file,
        "size": FLAGS.size,
        "train_hours": FLAGS.train_hours,
        "eval_steps": FLAGS.eval_steps,
        "eval_batch_size": EVAL_BATCH_SIZE,
        "max_eval_steps": EVAL_RECORDS // EVAL_BATCH_SIZE,
        "random_seed": FLAGS.seed,
    }
    values |= ADAMW if optimizer == "adamw" else {}
    flags_given = [f"--{name}={value}" for name, value in values.items()]
    root = Path(__file__).parents[1]
    program = [sys.executable, root / "run_pretraining.py", *flags_given]
    subprocess.run(machine.on_one_core(program), check=True)

    seconds, passed = {}, 0.0
    for row in _rows(folder / "scalars.jsonl"):
        # The first step, which compiles, has no speed.
        if speed := row.get("sequences_per_second"):
            passed += row["steps"] * recipe()["train_batch_size"] / speed
        seconds[row["step"]] = passed
    return [
        (row["step"], seconds[row["step"]], row["masked_lm_perplexity"])
        for row in _rows(folder / "eval" / "scalars.jsonl")
    ]


def train_peer(way: str, folder: Path) -> Curve:
    """Train with transformers."""
    folder.mkdir(exist_ok=True)
    values = EXAMPLE
    if way != "transformers":
        values = recipe() | OPTIMIZERS
    if way == "transformers_adamw":
        values |= ADAMW
    size = len(Path(FLAGS.vocab_file).read_text("utf-8").splitlines())
    config = modeling.BertConfig.from_size(FLAGS.size, size)
    arrays = {
        "train": _arrays(FLAGS.input_file),
        "held_out": _arrays(FLAGS.eval_input_file, EVAL_RECORDS),
    }
    if scale := values.get("sinusoidal_positions"):
        sinusoids = modeling.sinusoids(
            config.max_position_embeddings, config.hidden_size
        )
        arrays["train"]["positions"] = np.float32(scale * sinusoids)
    config.hidden_dropout_prob = values["dropout"]
    config.attention_probs_dropout_prob = values["dropout"]
    config.initializer_range = values["initializer_range"]
    job = values | {
        "config": config.to_dict(),
        "vocab_file": FLAGS.vocab_file,
        "train": f"{folder}/train.npz",
        "held_out": f"{folder}/held_out.npz",
        "optimizer": "muon" if way.endswith("muon") else "adamw",
        "bfloat16": way != "transformers",
        "seed": FLAGS.seed,
        "hours": FLAGS.train_hours,
        "points": POINTS,
    }
    for name, columns in arrays.items():
        np.savez(folder / f"{name}.npz", **columns)
    result = subprocess.run(
        machine.on_one_core([FLAGS.peer_python, _PEER]),
        input=json.dumps(job),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    versions, *points = map(json.loads, result.stdout.splitlines())
    print(f"{way}: {versions}", flush=True)
    return [tuple(point) for point in points]


def _arrays(
    pattern: str, most: int | None = None
) -> dict[str, np.ndarray | list]:
    """Return the first records of some files, a matrix for each feature."""
    files = file_system.find_files(pattern, "input_file")
    records = itertools.chain.from_iterable(map(tfrecord.read_records, files))
    rows = [*map(tfrecord.decode_example, itertools.islice(records, most))]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [*map(json.loads, path.read_text(encoding="utf-8").splitlines())]


def table(curves: dict[str, Curve], targets: list[float]) -> str:
    """Return a row for each way: where it ended, seconds to the targets."""
    names = ["seconds of a step", *(f"seconds to {t:g}" for t in targets)]
    lines = ["| way | steps | last perplexity | " + " | ".join(names) + " |"]
    lines.append("|---" * (3 + len(names)) + "|")
    for way, curve in curves.items():
        steps, seconds, last = curve[-1]
        cells = [way, f"{steps:,}", f"{last:.1f}", f"{seconds / steps:.3f}"]
        for target in targets:
            times = [s for _, s, perplexity in curve if perplexity <= target]
            cells.append(f"{times[0]:,.0f}" if times else "never")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(curves: dict[str, Curve], targets: list[float], path: str) -> None:
    """Draw perplexity over minutes."""
    from matplotlib import ticker

    figure = pictures.new_figure(7, 4.5)
    axes = figure.subplots()
    for way, curve in curves.items():
        _, seconds, perplexity = np.array(curve).T
        axes.plot(
            seconds / 60,
            perplexity,
            color=pictures.BLUE if "muon" in way else pictures.ORANGE,
            ls="-" if way in OURS else ":" if way == PEERS[0] else "--",
            marker=".",
            markersize=3,
            label=("" if way in PEERS else "this project, ")
            + way.replace("_", ", "),
        )
    for target in targets:
        axes.axhline(target, color=pictures.LIGHT, ls=":", zorder=0)
    axes.set(
        yscale="log",
        xlabel="minutes of training on one core",
        ylabel="masked LM perplexity, held-out text",
    )
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(ticker.LogFormatter())
    axes.legend()
    pictures.save(figure, path)


def main(_: list[str]) -> None:
    """Make the runs that are missing; print the table and draw the curves."""
    if {*FLAGS.ways} & {*PEERS} and not FLAGS.peer_python:
        raise UserError("--ways: those of transformers need --peer_python")
    targets = [float(target) for target in FLAGS.targets]
    folder = Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    curves: dict[str, Curve] = {}
    for way in FLAGS.ways:
        path = folder / f"{way}.json"
        if not path.exists():
            train = train_ours if way in OURS else train_peer
            text = json.dumps(train(way, folder / way))
            path.write_text(text, encoding="utf-8")
        curves[way] = json.loads(path.read_text(encoding="utf-8"))
        print(table(curves, targets), flush=True)
    draw(curves, targets, f"{folder}/race.png")


if __name__ == "__main__":
    script.run(main)
