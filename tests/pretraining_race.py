r"""Pre-train with this project and with transformers until a perplexity.

    python -m venv /tmp/peer
    /tmp/peer/bin/pip install torch transformers accelerate
    python tests/pretraining_race.py --input_file='text/train/*.txt' \
        --held_out_file='text/dev/*.txt' --output_dir=race --size=mini \
        --budget_hours=3 --seeds=3 --peer_python=/tmp/peer/bin/python

trains one model on one text, one vocabulary and the same records in four ways:

    recipe               run_pretraining.py --recipe=small_budget
    paper                run_pretraining.py with the paper's values: rate 1e-4,
                         warm-up of a hundredth of the steps, dropout 0.1, 128
                         tokens; 32 sequences in a batch instead of 256
    transformers         its Trainer with the defaults of its example
                         run_mlm.py: rate 5e-5, no warm-up, 8 sequences of 512
    transformers_recipe  the same with the recipe's values

Each run first times some steps, and trains for as many as fit into the hours;
its learning rate is scheduled to that number. On the way the masked tokens of
held-out records, the same for all, are predicted 50 times. These have 64
tokens, which is the length that the recipe trains on; the paper's values train
on 128 and the defaults of transformers on 512. Two clocks run from the
beginning of the training, the wall's and that of all cores; they stand still
while it is evaluated.

The same command resumes: a finished run is not made again. --recipe=FILE tries
another recipe. More flags are those of run_pretraining.py for the first two
ways; give them with another --output_dir. race.json has the curves, race.png
shows them, and a table says when each perplexity was reached first.
"""

import argparse
import itertools
import json
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from base import pictures  # noqa: E402

import scripts  # noqa: E402

OURS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "paper": {
        "learning_rate": 1e-4,
        "warmup_proportion": 0.01,
        "train_batch_size": 32,
        "dtype": "auto",  # the recipe's: it is no matter of the race
    },
}
PEERS = ("transformers", "transformers_recipe")
PEER_LENGTH = 512  # of a BERT without other wishes
HELD_OUT_LENGTH, HELD_OUT_PREDICTIONS = 64, 10  # the first that all learn
EVALUATIONS, EVALUATION_BATCH = 50, 64
STYLES = {
    "recipe": (pictures.BLUE, "-"),
    "paper": (pictures.ORANGE, "-"),
    "transformers": (pictures.ORANGE, "--"),
    "transformers_recipe": (pictures.BLUE, "--"),
}


def read_flags() -> tuple[argparse.Namespace, dict[str, str]]:
    """Return the values of the command line, and those of run_pretraining."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("input_file", "held_out_file"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--peer_python", default=sys.executable)
    parser.add_argument("--runs", default=",".join((*OURS, *PEERS)))
    parser.add_argument("--recipe", default="small_budget")
    parser.add_argument("--size", default="mini")
    parser.add_argument("--vocab_size", type=int, default=4096)
    parser.add_argument("--budget_hours", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--targets", default="60,40")
    parser.add_argument("--held_out_records", type=int, default=2048)
    flags, more = parser.parse_known_args()
    return flags, dict(m.removeprefix("--").split("=", 1) for m in more)


# --- What all runs share -----------------------------------------------------


def run_script(name: str, **values: Any) -> None:
    """Run a script of the project."""
    command = [sys.executable, str(ROOT / f"{name}.py")]
    command += [f"--{name}={value}" for name, value in values.items()]
    subprocess.run(command, check=True)


def make_records(
    flags: argparse.Namespace, text: str, name: str, length: int, **values: Any
) -> None:
    """Write the records of a text, and their arrays for transformers."""
    from records import tfrecord

    folder = flags.output_dir
    if (folder / f"{name}.npz").exists():
        return
    run_script(
        "create_pretraining_data",
        input_file=text,
        output_file=folder / name,
        vocab_file=folder / "vocab.txt",
        max_seq_length=length,
        dupe_factor=1,
        **values,
    )
    records = tfrecord.read_records(str(folder / name))
    if name == "held_out":
        records = itertools.islice(records, flags.held_out_records)
    found = [*map(tfrecord.decode_example, records)]
    if name == "held_out":  # whole batches, which all ways can score
        found = found[: len(found) // EVALUATION_BATCH * EVALUATION_BATCH]
    arrays = {n: np.stack([row[n] for row in found]) for n in found[0]}
    for feature, values in arrays.items():
        if values.dtype == np.int64:
            arrays[feature] = values.astype(np.int32)
    arrays["lengths"] = arrays["input_mask"].sum(1)
    np.savez(folder / f"{name}.npz", **arrays)


def prepare(flags: argparse.Namespace, lengths: set[int]) -> None:
    """Make the vocabulary, the configuration and the records."""
    from modeling import BertConfig

    folder = flags.output_dir
    folder.mkdir(exist_ok=True)
    if not (folder / "vocab.txt").exists():
        run_script(
            "build_vocab",
            input_file=flags.input_file,
            output_file=folder / "vocab.txt",
            vocab_size=flags.vocab_size,
        )
    size = len((folder / "vocab.txt").read_text("utf-8").splitlines())
    config = BertConfig.from_size(flags.size, size)
    path = folder / f"{flags.size}.json"
    path.write_text(config.to_json_string(), encoding="utf-8")
    for length in sorted(lengths):
        make_records(
            flags, flags.input_file, f"train{length}", length, unmasked=True
        )
    make_records(
        flags,
        flags.held_out_file,
        "held_out",
        HELD_OUT_LENGTH,
        max_predictions_per_seq=HELD_OUT_PREDICTIONS,
    )


# --- The runs ----------------------------------------------------------------


def train_ours(values: dict[str, Any], path: Path) -> None:
    """Run run_pretraining.py in this process; write its curve."""
    script = scripts.load("run_pretraining")
    import tensorflow as tf

    from pretraining import run as pretraining_run

    points = []

    def now() -> np.ndarray:
        return np.array([time.monotonic(), time.process_time()])

    class Timed(pretraining_run.PretrainingRun):
        def train(self, *arguments) -> int:
            steps = self.settings.num_train_steps
            self.settings = self.settings._replace(
                eval_steps=max(1, steps // EVALUATIONS),
                save_checkpoints_steps=steps,
            )
            self.began = now()
            return super().train(*arguments)

        def evaluate(self, step: int) -> None:
            stopped = now()
            perplexity = self.evaluator()["masked_lm_perplexity"]
            points.append((step, *(stopped - self.began), perplexity))
            print(*points[-1], flush=True)
            self.began += now() - stopped

    # Records of another length than the training's.
    held_out = str(path.parent / "held_out")
    num_records = len(np.load(f"{held_out}.npz")["input_ids"])
    script.read_evaluation_data = lambda config, *_: pretraining_run.read_data(
        held_out,
        "held_out_file",
        config,
        HELD_OUT_LENGTH,
        HELD_OUT_PREDICTIONS,
        None,
    )
    pretraining_run.PretrainingRun = Timed
    scripts.run(
        script,
        do_train=True,
        eval_batch_size=EVALUATION_BATCH,
        max_eval_steps=num_records // EVALUATION_BATCH,
        **values,
    )
    settings = Path(values["output_dir"], "training_config.json").read_text()
    found = {
        "dtype": json.loads(settings)["adjustable"]["dtype"],
        "versions": f"TensorFlow {tf.__version__}",
        "points": points,
    }
    path.write_text(json.dumps(found), encoding="utf-8")


def make_curve(
    flags: argparse.Namespace, name: str, seed: int, values: Any
) -> dict[str, Any]:
    """Return the curve of a run, which is made if it is missing.

    `values` are the flags of run_pretraining.py for the run; of a run of
    transformers those of the recipe, which it may take.
    """
    folder = flags.output_dir
    way = name.replace("recipe", Path(flags.recipe).stem)
    run = f"{way}-{flags.size}-{flags.budget_hours:g}h-{seed}"
    path = folder / f"{run}.json"
    if not path.exists() and name in OURS:
        shutil.rmtree(folder / run, ignore_errors=True)  # was interrupted
        arguments = values | {
            "bert_config_file": folder / f"{flags.size}.json",
            "vocab_file": folder / "vocab.txt",
            "input_file": folder / f"train{values['max_seq_length']}",
            "output_dir": folder / run,
            "train_hours": flags.budget_hours,
            "random_seed": seed,
        }
        process = multiprocessing.get_context("spawn").Process(
            target=train_ours, args=(arguments, path)
        )
        process.start()
        process.join()
        shutil.rmtree(folder / run, ignore_errors=True)
    elif not path.exists():
        subprocess.run(
            peer_command(flags, name, seed, values, path), check=True
        )
    if not path.exists():
        sys.exit(f"{run} has failed")
    return json.loads(path.read_text(encoding="utf-8"))


def peer_command(
    flags: argparse.Namespace, name: str, seed: int, recipe: Any, path: Path
) -> list[str]:
    """Return the command of a run of transformers."""
    length = PEER_LENGTH
    command = [
        flags.peer_python,
        str(ROOT / "tests/transformers_pretraining.py"),
    ]
    if name == "transformers_recipe":
        length = recipe["max_seq_length"]
        command += [
            f"--batch_size={recipe['train_batch_size']}",
            f"--learning_rate={recipe['learning_rate']}",
            f"--warmup={recipe['warmup_proportion']}",
            f"--weight_decay={recipe['weight_decay_rate']}",
            f"--dropout={recipe['dropout']}",
            f"--initializer_range={recipe['initializer_range']}",
            "--adam_epsilon=1e-6",
            "--bf16",
        ]
    folder = flags.output_dir
    return command + [
        f"--records={folder / f'train{length}.npz'}",
        f"--held_out={folder / 'held_out.npz'}",
        f"--config={folder / f'{flags.size}.json'}",
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--hours={flags.budget_hours}",
        f"--evaluations={EVALUATIONS}",
        f"--seed={seed}",
        f"--curve={path}",
    ]


# --- What is shown -----------------------------------------------------------


def reached(points: list, target: float) -> tuple[float, float] | None:
    """Return both times of the first evaluation at or below a perplexity."""
    found = [p[1:3] for p in points if p[3] <= target]
    return tuple(found[0]) if found else None


def mean(values: list[float]) -> str:
    """Return the mean, and the deviation of several values."""
    text = f"{statistics.mean(values):,.0f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):,.0f}"
    return text


def table(curves: dict[str, list[dict]], targets: list[float]) -> list[str]:
    """Return a row for each way: times to the targets, and where it ended."""
    head = "| run | type | steps | last perplexity |"
    for target in targets:
        head += f" seconds to {target:g} | core-seconds to {target:g} |"
    lines = [head, "|---" * (4 + 2 * len(targets)) + "|"]
    for name, runs in curves.items():
        last = [run["points"][-1] for run in runs]
        line = f"| {name} | {runs[0]['dtype']} "
        line += f"| {mean([p[0] for p in last])} "
        line += f"| {statistics.mean(p[3] for p in last):.1f} |"
        for target in targets:
            times = [reached(run["points"], target) for run in runs]
            for clock in (0, 1):
                found = [t[clock] for t in times if t]
                some = (
                    "" if len(found) == len(runs) else f" ({len(found)} runs)"
                )
                line += f" {mean(found)}{some} |" if found else " never |"
        lines.append(line)
    return lines


def draw(
    curves: dict[str, list[dict]], targets: list[float], title: str, path: Path
) -> None:
    """Draw perplexity against core-hours, a line for each seed."""
    from matplotlib import ticker

    figure = pictures.new_figure(7, 4.5)
    axes = figure.subplots()
    for name, runs in curves.items():
        colour, line = STYLES[name]
        for number, run in enumerate(runs):
            _, _, seconds, perplexity = zip(*run["points"], strict=True)
            axes.plot(
                np.array(seconds) / 3600,
                perplexity,
                f".{line}",
                markersize=3,
                color=colour,
                label=None if number else name.replace("_", ", "),
            )
    for target in targets:
        axes.axhline(target, color=pictures.LIGHT, linestyle=":", zorder=0)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="processor time of the training, core-hours",
        ylabel="masked LM perplexity, held-out text",
        title=title,
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(ticker.LogFormatter())
    axes.legend()
    pictures.save(figure, str(path))


def main() -> None:
    """Make the runs that are missing; print, write and draw all."""
    flags, more = read_flags()
    script = scripts.load("run_pretraining")
    from training import recipes

    targets = [float(target) for target in flags.targets.split(",")]
    names = flags.runs.split(",")
    given = {name: values | more for name, values in OURS.items()}
    given["recipe"]["recipe"] = flags.recipe
    effective = {}
    for name, values in given.items():
        found = scripts.parse(script, **values)
        if found.recipe:
            recipes.apply(found, found.recipe)
        effective[name] = found.flag_values_dict()
    lengths = {found["max_seq_length"] for found in effective.values()}
    prepare(flags, lengths | {PEER_LENGTH})
    curves: dict[str, list[dict]] = {}
    for seed in range(1, flags.seeds + 1):
        for name in names:
            if name in OURS:
                length = effective[name]["max_seq_length"]
                values = given[name] | {"max_seq_length": length}
            else:
                values = effective["recipe"]
            curve = make_curve(flags, name, seed, values)
            curves.setdefault(name, []).append(curve)
            print(*table(curves, targets), sep="\n", flush=True)
    title = f"{flags.size}, {flags.budget_hours:g} h each"
    draw(curves, targets, title, flags.output_dir / "race.png")
    text = json.dumps({"title": title, "runs": curves}, indent=1)
    (flags.output_dir / "race.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
