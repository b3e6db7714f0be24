r"""Fine-tune with the choices of docs/fine_tuning.md; print what each brings.

    python tests/fine_tuning_knobs.py --data_dir=glue --output_dir=knobs \
        --model=all-MiniLM-L6-v2 --tasks=RTE,MRPC --dtype=bfloat16

One choice at a time, the same seeds for each; --dtype and its like are those of
run_classifier.py. The same command resumes after an interruption. The table has
mean and sample standard deviation over the seeds, and the mean difference to
the default of the same seed with its standard error.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "run_classifier.py"
SCORES = {
    "RTE": "eval_accuracy",
    "MRPC": "eval_accuracy",
    "CoLA": "matthews_correlation",
    "STS-B": "pearson",
}
OF_CLASSES = ["--label_smoothing=0.1", "--class_weights=balanced"]
CHOICES = [
    "",
    "--layer_decay=0.9",
    "--ema_decay=0.99",
    "--freeze_layers=3",
    "--eval_steps=30 --early_stopping_patience=3",
]


def score_of(run: Path, command: list[str], score: str) -> float:
    """Return the score of a run, which is made if it is missing."""
    results = run / "eval_results.txt"
    if not results.exists():
        command = [sys.executable, str(SCRIPT), *command]
        subprocess.run([*command, f"--output_dir={run}"], check=True)
        for path in run.glob("*model*"):  # hundreds of MB
            path.unlink()
    lines = results.read_text(encoding="utf-8").splitlines()
    return float(dict(line.split(" = ") for line in lines)[score])


def main() -> None:
    """Make the runs that are missing; print a row after each choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data_dir", "output_dir", "model"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--tasks", default=",".join(SCORES))
    parser.add_argument("--seeds", type=int, default=5)
    flags, more = parser.parse_known_args()
    flags.output_dir.mkdir(exist_ok=True)
    print("| task | choice | score | difference |\n|---|---|---|---|")
    for task in flags.tasks.split(","):
        default: list[float] = []
        for choice in CHOICES + OF_CLASSES * (task != "STS-B"):
            command = f"--do_train --do_eval --task_name={task} {choice}"
            command += f" --init_checkpoint={flags.model}"
            command += f" --data_dir={flags.data_dir / task}"
            found = [
                score_of(
                    flags.output_dir / f"{task}{choice}_{seed}",
                    [*command.split(), f"--random_seed={seed}", *more],
                    SCORES[task],
                )
                for seed in range(1, flags.seeds + 1)
            ]
            default = default or found
            pairs = [a - b for a, b in zip(found, default, strict=True)]
            error = statistics.stdev(pairs) / len(pairs) ** 0.5
            print(
                f"| {task} | {choice or 'default'} | "
                f"{statistics.mean(found):.3f} ± {statistics.stdev(found):.3f} "
                f"| {statistics.mean(pairs):+.3f} ± {error:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
