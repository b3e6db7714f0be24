r"""Pre-train with this project and with transformers until a perplexity.

    python -m venv /tmp/peer
    /tmp/peer/bin/pip install torch transformers accelerate
    python tests/pretraining_race.py --input_file='text/train/*.txt' \
        --held_out_file='text/dev/*.txt' --output_dir=race --size=mini \
        --budget_hours=3 --seeds=3 --peer_python=/tmp/peer/bin/python

trains one model on one text and one vocabulary in four ways:

    recipe               run_pretraining.py --recipe=small_budget
    paper                run_pretraining.py with the paper's values: rate 1e-4,
                         warm-up of a hundredth of the steps, dropout 0.1, 128
                         tokens; 32 sequences in a batch instead of 256
    transformers         its Trainer with the defaults of its example
                         run_mlm.py: rate 5e-5, no warm-up, 8 sequences of 512
    transformers_recipe  the same with the recipe's values

Each run first times some steps, and trains for as many as fit into the hours;
its learning rate is scheduled to that number. It is scored 50 times on the same
masked tokens of held-out records, which have 64 tokens. The clocks of the wall
and of all cores begin with the training and stand still while it is scored.

A run that was made is not made again. --recipe=FILE tries another recipe, and
--seeds repeats the recipe's run; --other_seeds repeats the other ways.
race.json has the curves, race.png shows them, and a table says when each
perplexity was reached first.
"""

import argparse
import dataclasses
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# The modules of the project are imported where they are used, since the
# interpreter of transformers has none of the packages that they need.
ROOT = Path(__file__).resolve().parent.parent

# Of run_pretraining.py. The data type is no matter of the race.
PAPER = {
    "learning_rate": 1e-4,
    "warmup_proportion": 0.01,
    "train_batch_size": 32,
    "dtype": "auto",
}
OURS, PEERS = ("recipe", "paper"), ("transformers", "transformers_recipe")
LABELS = {
    "recipe": "this project, recipe",
    "paper": "this project, paper's values",
    "transformers": "transformers, its example's values",
    "transformers_recipe": "transformers, recipe",
}
PEER_LENGTH = 512  # of a BERT without other wishes
HELD_OUT_LENGTH, HELD_OUT_PREDICTIONS = 64, 10  # the first that all learn
HELD_OUT_RECORDS = 1024
EVALUATIONS, EVALUATION_BATCH = 50, 64
TIMED_SECONDS = 10.0


class Curve:
    """The points of a run: step, seconds of the wall and of cores, perplexity.

    The clocks stand still while the model is scored.
    """

    def __init__(self):
        self.points: list[tuple[int, float, float, float]] = []

    def begin(self) -> None:
        """Start the clocks."""
        self.began = np.array([time.monotonic(), time.process_time()])

    def add(self, step: int, score: Callable[[], float]) -> None:
        """Add a point after a step; `score` returns the perplexity."""
        now = np.array([time.monotonic(), time.process_time()])
        self.points.append((step, *(now - self.began), score()))
        print(*self.points[-1], flush=True)
        self.began += [time.monotonic(), time.process_time()] - now


def train_ours(values: dict[str, Any]) -> dict[str, Any]:
    """Train with run_pretraining.py; return the curve, type and version."""
    from base import file_system

    import scripts
    import tensorflow as tf

    from pretraining import records
    from pretraining.data.schema import InstanceConfig

    script, curve = scripts.load("run_pretraining"), Curve()

    # The held-out records are not of the training's length.
    held_out = values.pop("held_out")
    held_out_files = file_system.find_files(held_out, "held_out_file")
    instances = InstanceConfig(HELD_OUT_LENGTH, HELD_OUT_PREDICTIONS)

    class Timed(script.PretrainingRun):
        def __post_init__(self) -> None:
            self.eval_data = records.find_data(
                held_out_files, self.config, instances
            )
            super().__post_init__()

        def train(self) -> int:
            steps = self.settings.num_train_steps
            self.settings = dataclasses.replace(
                self.settings,
                eval_steps=max(1, steps // EVALUATIONS),
                save_checkpoints_steps=steps,
            )
            curve.begin()
            return super().train()

        def evaluate(self, step: int) -> None:
            curve.add(step, lambda: self.evaluator()["masked_lm_perplexity"])

    script.PretrainingRun = Timed
    with tempfile.TemporaryDirectory() as folder:
        status = scripts.run(
            script,
            do_train=True,
            output_dir=folder,
            eval_batch_size=EVALUATION_BATCH,
            max_eval_steps=HELD_OUT_RECORDS // EVALUATION_BATCH,
            **values,
        )
        if status:  # it was interrupted: half a curve is none
            sys.exit(status)
        settings = Path(folder, "training_config.json").read_text("utf-8")
    return {
        "dtype": json.loads(settings)["adjustable"]["dtype"],
        "versions": f"TensorFlow {tf.__version__}",
        "points": curve.points,
    }


def train_peer(values: dict[str, Any]) -> dict[str, Any]:
    """Train with transformers' Trainer; return the curve, type and versions.

    The defaults of TrainingArguments are those of the example run_mlm.py.
    """
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    arguments, masks = {"seed": values["random_seed"]}, {}
    config = json.loads(Path(values["bert_config_file"]).read_text("utf-8"))
    recipe = values.get("recipe")
    if recipe:
        masks = {"mlm_probability": recipe["masked_lm_prob"]}
        arguments |= {
            "per_device_train_batch_size": recipe["train_batch_size"],
            "learning_rate": recipe["learning_rate"],
            "weight_decay": recipe["weight_decay_rate"],
            "adam_epsilon": 1e-6,
        }
        of_config = {
            "hidden_dropout_prob": recipe["dropout"],
            "attention_probs_dropout_prob": recipe["dropout"],
            "initializer_range": recipe["initializer_range"],
        }
        config |= {k: v for k, v in of_config.items() if v is not None}
    collator = transformers.DataCollatorForLanguageModeling(
        transformers.BertTokenizer(values["vocab_file"]), **masks
    )
    with np.load(f"{values['input_file']}.npz") as arrays:
        ids, segments = arrays["input_ids"], arrays["segment_ids"]
        lengths = arrays["input_mask"].sum(1).tolist()

    class Records(torch.utils.data.Dataset):  # without padding and masks
        def __len__(self) -> int:
            return len(lengths)

        def __getitem__(self, row: int) -> dict[str, list[int]]:
            length = lengths[row]
            return {
                "input_ids": ids[row, :length].tolist(),
                "token_type_ids": segments[row, :length].tolist(),
                "attention_mask": [1] * length,
            }

    with np.load(f"{values['held_out']}.npz") as arrays:
        held_out = {name: torch.from_numpy(arrays[name]) for name in arrays}

    @torch.no_grad()
    def perplexity_of(model, bf16: bool) -> float:
        model.eval()
        loss = 0.0
        for at in range(0, len(held_out["input_ids"]), EVALUATION_BATCH):
            batch = {n: v[at:][:EVALUATION_BATCH] for n, v in held_out.items()}
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                hidden = model.bert(
                    batch["input_ids"],
                    attention_mask=batch["input_mask"],
                    token_type_ids=batch["segment_ids"],
                ).last_hidden_state
                rows = torch.arange(len(hidden))[:, None]
                logits = model.cls(hidden[rows, batch["masked_lm_positions"]])
            losses = torch.nn.functional.cross_entropy(
                logits.float().transpose(1, 2),  # [B, vocabulary, predictions]
                batch["masked_lm_ids"],
                reduction="none",
            )
            loss += (losses * batch["masked_lm_weights"]).double().sum().item()
        model.train()
        return math.exp(loss / held_out["masked_lm_weights"].sum().item())

    class StepTimer(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_) -> None:
            if state.global_step == 1:
                self.began = time.monotonic()
            seconds = time.monotonic() - self.began
            if state.global_step > 5 and seconds > TIMED_SECONDS:
                self.seconds_per_step = seconds / (state.global_step - 1)
                control.should_training_stop = True

    class Scorer(transformers.TrainerCallback):
        def on_train_begin(self, args, state, control, **_) -> None:
            curve.begin()

        def on_step_end(self, args, state, control, model=None, **_) -> None:
            step, last = state.global_step, state.max_steps
            if step % max(1, last // EVALUATIONS) == 0 or step == last:
                curve.add(step, lambda: perplexity_of(model, bf16))

    def train(steps: int, bf16: bool, callback: Any) -> None:
        transformers.set_seed(values["random_seed"])
        warmup = recipe["warmup_proportion"] if recipe else 0.0
        with tempfile.TemporaryDirectory() as folder:
            options = transformers.TrainingArguments(
                output_dir=folder,
                max_steps=steps,
                warmup_steps=round(warmup * steps),
                bf16=bf16,
                use_cpu=True,
                dataloader_pin_memory=False,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
                **arguments,
            )
            model = transformers.BertForMaskedLM(
                transformers.BertConfig(**config)
            )
            if recipe and recipe["sinusoidal_positions"]:
                positions = np.load(values["positions"])
                with torch.no_grad():
                    model.bert.embeddings.position_embeddings.weight.copy_(
                        torch.from_numpy(positions)
                    )
            transformers.Trainer(
                model,
                options,
                data_collator=collator,
                train_dataset=Records(),
                callbacks=[callback],
            ).train()

    curve, seconds = Curve(), {}
    for bf16 in {False, bool(recipe)}:  # autocast, where it is faster
        timer = StepTimer()
        train(10**6, bf16, timer)
        seconds[bf16] = timer.seconds_per_step
    bf16 = min(seconds, key=seconds.get)
    steps = max(1, round(3600 * values["train_hours"] / seconds[bf16]))
    train(steps, bf16, Scorer())
    return {
        "dtype": "bfloat16" if bf16 else "float32",
        "versions": f"transformers {transformers.__version__}, "
        f"torch {torch.__version__}",
        "points": curve.points,
    }


def prepare(flags: argparse.Namespace, lengths: set[int]) -> None:
    """Make the vocabulary, the configuration, records, and their arrays."""
    import scripts

    from modeling import BertConfig
    from records import tfrecord

    folder = flags.output_dir
    folder.mkdir(exist_ok=True)
    vocab_file = folder / "vocab.txt"
    if not vocab_file.exists():
        scripts.run(
            scripts.load("build_vocab"),
            input_file=flags.input_file,
            output_file=vocab_file,
            vocab_size=flags.vocab_size,
        )
    size = len(vocab_file.read_text("utf-8").splitlines())
    config = BertConfig.from_size(flags.size, size).to_json_string()
    (folder / f"{flags.size}.json").write_text(config, encoding="utf-8")
    texts = {f"train{n}": (flags.input_file, n) for n in sorted(lengths)}
    texts["held_out"] = flags.held_out_file, HELD_OUT_LENGTH
    for name, (text, length) in texts.items():
        path, is_held_out = str(folder / name), name == "held_out"
        if Path(f"{path}.npz").exists():
            continue
        scripts.run(
            scripts.load("create_pretraining_data"),
            input_file=text,
            output_file=path,
            vocab_file=vocab_file,
            max_seq_length=length,
            max_predictions_per_seq=HELD_OUT_PREDICTIONS
            if is_held_out
            else None,
            unmasked=not is_held_out,
            dupe_factor=1,
        )
        found = [*map(tfrecord.decode_example, tfrecord.read_records(path))]
        if is_held_out:
            found = found[:HELD_OUT_RECORDS]
        arrays = {n: np.stack([row[n] for row in found]) for n in found[0]}
        np.savez(f"{path}.npz", **arrays)


def make_curve(
    flags: argparse.Namespace, name: str, seed: int, found: dict[str, Any]
) -> dict[str, Any]:
    """Return the curve of a run, which is made if it is missing.

    `found` has the flags of run_pretraining.py for the run; for a run of
    transformers those of the recipe.
    """
    way = name.replace("recipe", Path(flags.recipe).stem)
    folder = flags.output_dir
    run = f"{way}-{flags.size}-{flags.budget_hours:g}h-{seed}"
    path = folder / f"{run}.json"
    if not path.exists():
        own = {
            "recipe": {"recipe": flags.recipe},
            "paper": PAPER,
            "transformers": {},
            "transformers_recipe": {
                "recipe": found,
                "positions": f"{folder}/positions.npy",
            },
        }[name]
        length = found["max_seq_length"]
        values = {
            "bert_config_file": f"{folder / flags.size}.json",
            "vocab_file": f"{folder}/vocab.txt",
            "input_file": f"{folder}/train{length if own else PEER_LENGTH}",
            "held_out": f"{folder}/held_out",
            "train_hours": flags.budget_hours,
            "random_seed": seed,
            **own,
        }
        python = flags.peer_python if name in PEERS else sys.executable
        text = json.dumps(values, default=str)
        subprocess.run([python, __file__, name, path, text], check=True)
    return json.loads(path.read_text(encoding="utf-8"))


def mean(values: np.ndarray) -> str:
    """Return the mean, and the deviation of several values."""
    text = f"{np.mean(values):,.0f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):,.0f}"
    return text


def table(curves: dict[str, list[dict]], targets: list[float]) -> str:
    """Return a row for each way: where it ended, times to the perplexities."""
    from tools.reproduction import tables

    header = ["run", "type", "steps", "last perplexity"]
    for target in targets:
        header += [f"seconds to {target:g}", f"core-seconds to {target:g}"]
    rows = []
    for name, runs in curves.items():
        # [evaluations, 4] each: step, both times in seconds, perplexity.
        points = [np.array(run["points"]) for run in runs]
        steps, _, _, last = zip(*[p[-1] for p in points], strict=True)
        row = [name, runs[0]["dtype"], mean(steps), f"{np.mean(last):.1f}"]
        for target in targets:
            reached = [p[p[:, 3] <= target][:1, 1:3] for p in points]
            times = np.concatenate(reached)  # [runs that reached it, 2]
            some = f" ({len(times)} runs)" if len(times) < len(runs) else ""
            row += [
                mean(own) + some if len(own) else "never" for own in times.T
            ]
        rows.append(row)
    return tables.markdown(header, rows)


def draw(
    curves: dict[str, list[dict]], targets: list[float], title: str, path: Path
) -> None:
    """Draw perplexity against core-hours, a line for each seed."""
    from base import pictures

    from matplotlib import ticker

    figure = pictures.new_figure(7, 4.5)
    axes = figure.subplots()
    for name, runs in curves.items():
        for number, run in enumerate(runs):
            _, _, seconds, perplexity = np.array(run["points"]).T
            axes.plot(
                seconds / 3600,
                perplexity,
                color=pictures.BLUE if "recipe" in name else pictures.ORANGE,
                ls="--" if name in PEERS else "-",
                marker=".",
                markersize=3,
                label=None if number else LABELS[name],
            )
    for target in targets:
        axes.axhline(target, color=pictures.LIGHT, ls=":", zorder=0)
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


def race(flags: argparse.Namespace) -> None:
    """Make the runs that are missing; print, write and draw all."""
    import scripts

    from modeling import BertConfig, sinusoids
    from training import recipes

    script = scripts.load("run_pretraining")
    paper = scripts.parse(script, **PAPER).flag_values_dict()
    found = scripts.parse(script, recipe=flags.recipe)
    recipes.apply(found, flags.recipe)
    recipe = found.flag_values_dict()
    prepare(
        flags, {recipe["max_seq_length"], paper["max_seq_length"], PEER_LENGTH}
    )
    config = BertConfig.from_json_file(f"{flags.output_dir / flags.size}.json")
    positions = sinusoids(config.max_position_embeddings, config.hidden_size)
    positions *= recipe["sinusoidal_positions"] or 0.0
    np.save(flags.output_dir / "positions.npy", positions)
    targets = [float(target) for target in flags.targets.split(",")]
    curves: dict[str, list[dict]] = {}
    for seed in range(1, flags.seeds + 1):
        for name in flags.runs.split(","):
            if name != "recipe" and seed > flags.other_seeds:
                continue
            own = paper if name == "paper" else recipe
            curve = make_curve(flags, name, seed, own)
            curves.setdefault(name, []).append(curve)
            print(table(curves, targets), flush=True)
    title = f"{flags.size}, {flags.budget_hours:g} h each"
    draw(curves, targets, title, flags.output_dir / "race.png")
    text = json.dumps({"title": title, "runs": curves}, indent=1)
    (flags.output_dir / "race.json").write_text(text, encoding="utf-8")


def main() -> None:
    """Race, or make one run of the race: arguments of make_curve."""
    name, *arguments = sys.argv[1:] or [""]
    if name not in PEERS:
        sys.path[:0] = [str(ROOT)]
    if name in OURS + PEERS:
        path, values = arguments
        train = train_peer if name in PEERS else train_ours
        found = train(json.loads(values))
        Path(path).write_text(json.dumps(found), encoding="utf-8")
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--held_out_file", required=True)
    parser.add_argument("--output_dir", required=True, type=Path)
    for name, default in {
        "peer_python": sys.executable,
        "runs": ",".join(OURS + PEERS),
        "recipe": "small_budget",
        "size": "mini",
        "vocab_size": 4096,
        "budget_hours": 1.0,
        "seeds": 1,
        "other_seeds": 1,
        "targets": "60,40",
    }.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    race(parser.parse_args())


if __name__ == "__main__":
    main()
