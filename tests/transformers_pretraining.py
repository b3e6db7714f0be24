r"""Pre-train with transformers, for the comparison of pretraining_race.py.

    python -m venv /tmp/peer
    /tmp/peer/bin/pip install torch transformers accelerate

and pretraining_race.py --peer_python=/tmp/peer/bin/python runs this: Trainer
with DataCollatorForLanguageModeling, on a BertForMaskedLM with new weights. The
defaults are those of transformers' example run_mlm.py. None of the project's
code is used.
"""

import argparse
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers

TIMED_SECONDS = 10.0
EVALUATION_BATCH = 64


def read_flags() -> argparse.Namespace:
    """Return the values of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("records", "held_out", "config", "vocab_file", "curve"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--evaluations", type=int, required=True)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--warmup", type=float, default=0.0, help="share")
    parser.add_argument("--weight_decay", type=float, default=0.0)
    parser.add_argument("--adam_epsilon", type=float, default=1e-8)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--initializer_range", type=float)
    parser.add_argument(
        "--bf16", action="store_true", help="autocast, where it is faster"
    )
    return parser.parse_args()


class Records(torch.utils.data.Dataset):
    """Sequences without padding and masks."""

    def __init__(self, path: Path):
        found = np.load(path)
        self.ids, self.segments = found["input_ids"], found["segment_ids"]
        self.lengths = found["lengths"]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        length = self.lengths[index]
        ids = self.ids[index, :length]
        return {
            "input_ids": ids.tolist(),
            "token_type_ids": self.segments[index, :length].tolist(),
            "attention_mask": [1] * length,
        }


@torch.no_grad()
def perplexity_of(model, records: dict[str, torch.Tensor], bf16: bool) -> float:
    """Return the perplexity of the masked tokens of the held-out records."""
    model.eval()
    loss = torch.zeros([], dtype=torch.float64)
    for at in range(0, len(records["input_ids"]), EVALUATION_BATCH):
        batch = {n: v[at : at + EVALUATION_BATCH] for n, v in records.items()}
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            hidden = model.bert(
                batch["input_ids"],
                attention_mask=batch["input_mask"],
                token_type_ids=batch["segment_ids"],
            ).last_hidden_state
            rows = torch.arange(len(hidden))[:, None]
            logits = model.cls(hidden[rows, batch["masked_lm_positions"]])
        losses = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1),
            batch["masked_lm_ids"].flatten(),
            reduction="none",
        )
        loss += (losses * batch["masked_lm_weights"].flatten()).double().sum()
    model.train()
    return math.exp(loss / records["masked_lm_weights"].sum())


class StepTimer(transformers.TrainerCallback):
    """Stops the training when some steps have taken long enough."""

    def on_step_end(self, args, state, control, **_):
        """Count from the end of the first step."""
        if state.global_step == 1:
            self.began = time.monotonic()
        seconds = time.monotonic() - self.began
        if state.global_step > 5 and seconds > TIMED_SECONDS:
            self.seconds_per_step = seconds / (state.global_step - 1)
            control.should_training_stop = True


class Curve(transformers.TrainerCallback):
    """Evaluates every so many steps, and stops the clocks meanwhile."""

    def __init__(self, every: int, evaluate):
        self.every, self.evaluate, self.points = every, evaluate, []

    @staticmethod
    def now() -> np.ndarray:
        """Return seconds of the wall clock and of all cores."""
        return np.array([time.monotonic(), time.process_time()])

    def on_train_begin(self, args, state, control, **_):
        """Start the clocks."""
        self.began = self.now()

    def on_step_end(self, args, state, control, model=None, **_):
        """Add a point: step, both times, perplexity."""
        step = state.global_step
        if step % self.every == 0 or step == state.max_steps:
            stopped = self.now()
            perplexity = self.evaluate(model)
            self.points.append((step, *(stopped - self.began), perplexity))
            print(*self.points[-1], flush=True)
            self.began += self.now() - stopped


def main() -> None:
    """Time some steps, train for as many as fit, write the curve."""
    flags = read_flags()
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.BertTokenizer(str(flags.vocab_file))
    collator = transformers.DataCollatorForLanguageModeling(tokenizer)
    data = Records(flags.records)
    with np.load(flags.held_out) as arrays:
        held_out = {
            name: torch.from_numpy(
                value if value.dtype.kind == "f" else value.astype(np.int64)
            )
            for name, value in arrays.items()
        }
    config = transformers.BertConfig.from_json_file(flags.config)
    if flags.dropout is not None:
        config.hidden_dropout_prob = flags.dropout
        config.attention_probs_dropout_prob = flags.dropout
    if flags.initializer_range is not None:
        config.initializer_range = flags.initializer_range

    def train(steps: int, bf16: bool, callback) -> None:
        transformers.set_seed(flags.seed)
        model = transformers.BertForMaskedLM(config)
        with tempfile.TemporaryDirectory() as folder:
            options = transformers.TrainingArguments(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=flags.batch_size,
                learning_rate=flags.learning_rate,
                warmup_steps=round(flags.warmup * steps),
                weight_decay=flags.weight_decay,
                adam_epsilon=flags.adam_epsilon,
                seed=flags.seed,
                bf16=bf16,
                use_cpu=True,
                dataloader_pin_memory=False,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
            )
            transformers.Trainer(
                model,
                options,
                data_collator=collator,
                train_dataset=data,
                callbacks=[callback],
            ).train()

    seconds = {}
    for bf16 in {False, flags.bf16}:
        timer = StepTimer()
        train(10**6, bf16, timer)
        seconds[bf16] = timer.seconds_per_step
    bf16 = min(seconds, key=seconds.get)
    steps = max(1, round(3600 * flags.hours / seconds[bf16]))
    curve = Curve(
        max(1, steps // flags.evaluations),
        lambda model: perplexity_of(model, held_out, bf16),
    )
    train(steps, bf16, curve)
    found = {
        "dtype": "bfloat16" if bf16 else "float32",
        "versions": f"transformers {transformers.__version__}, "
        f"torch {torch.__version__}",
        "points": curve.points,
    }
    flags.curve.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
