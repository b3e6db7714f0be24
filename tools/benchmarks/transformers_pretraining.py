"""Pre-train a BERT of transformers in PyTorch, to compare with.

This runs as a process of its own, in an environment that has both: it imports
nothing of this project. Standard input has one JSON object:

- "config": the model's.
- "train", "held_out": .npz files of records, as tools/pretraining_race.py
  writes them; "train" may have the positions that the model begins with.
- "vocab_file".
- "learning_rate", "warmup_proportion", "weight_decay", "epsilon",
  "masked_lm_prob", "train_batch_size", "optimizer" (adamw or muon),
  "bfloat16", "seed".
- "hours": for as many steps as fit into them; "points": how often to score.

Standard output has the versions, and then [step, seconds, perplexity] for each
point, one JSON value a line. The clock stands still while the model is scored.

It does what transformers' Trainer does: DataCollatorForLanguageModeling,
autocast, gradients clipped to a norm of 1, a rate that falls linearly. Muon is
torch.optim.Muon with Adam's scale for the kernels of the encoder's layers.
"""

import json
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import transformers

TIMED_SECONDS = 15.0
SCORED_ROWS = 64


def batches_of(job: dict[str, Any]) -> Iterator[dict[str, torch.Tensor]]:
    """Yield batches without end, shuffled and masked anew in each epoch."""
    collator = transformers.DataCollatorForLanguageModeling(
        transformers.BertTokenizer(job["vocab_file"]),
        mlm_probability=job["masked_lm_prob"],
    )
    with np.load(job["train"]) as arrays:
        ids, segments = arrays["input_ids"], arrays["segment_ids"]
        lengths = arrays["input_mask"].sum(1)
    size = int(job["train_batch_size"])
    while True:
        order = torch.randperm(len(ids)).tolist()
        for at in range(0, len(order) - size + 1, size):
            rows = order[at : at + size]
            yield collator(
                [
                    {
                        "input_ids": ids[row, : lengths[row]],
                        "token_type_ids": segments[row, : lengths[row]],
                        "attention_mask": np.ones(lengths[row], np.int64),
                    }
                    for row in rows
                ]
            )


def optimizers_of(
    model: torch.nn.Module, job: dict[str, Any]
) -> list[torch.optim.Optimizer]:
    """Return AdamW, and Muon for the kernels if the job asks for it."""
    kernels, decayed, others = [], [], []
    for name, weight in model.named_parameters():
        if job["optimizer"] == "muon" and ".layer." in name and weight.ndim > 1:
            kernels.append(weight)
        elif weight.ndim > 1:
            decayed.append(weight)
        else:
            others.append(weight)
    rate, decay = job["learning_rate"], job["weight_decay"]
    groups = [
        {"params": decayed, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]
    found = [torch.optim.AdamW(groups, lr=rate, eps=job["epsilon"], fused=True)]
    if kernels:
        found.append(
            torch.optim.Muon(
                kernels,
                lr=rate,
                weight_decay=decay,
                adjust_lr_fn="match_rms_adamw",
            )
        )
    return found


def autocast(job: dict[str, Any]) -> torch.autocast:
    """Return the context in which products are in the job's type."""
    return torch.autocast("cpu", torch.bfloat16, enabled=job["bfloat16"])


@torch.no_grad()
def perplexity_of(model: torch.nn.Module, job: dict[str, Any]) -> float:
    """Return the perplexity of the masked tokens of the held-out records."""
    model.eval()
    with np.load(job["held_out"]) as arrays:
        held_out = {n: torch.from_numpy(arrays[n]).long() for n in arrays}
    loss = 0.0
    for at in range(0, len(held_out["input_ids"]), SCORED_ROWS):
        batch = {n: v[at : at + SCORED_ROWS] for n, v in held_out.items()}
        with autocast(job):
            hidden = model.bert(
                batch["input_ids"],
                attention_mask=batch["input_mask"],
                token_type_ids=batch["segment_ids"],
            ).last_hidden_state  # [B, S, H]
            rows = torch.arange(len(hidden))[:, None]
            logits = model.cls(hidden[rows, batch["masked_lm_positions"]])
        losses = torch.nn.functional.cross_entropy(
            logits.float().transpose(1, 2),  # [B, V, P]
            batch["masked_lm_ids"],
            reduction="none",
        )
        loss += (losses * batch["masked_lm_weights"]).double().sum().item()
    model.train()
    return math.exp(loss / held_out["masked_lm_weights"].sum().item())


def train(
    job: dict[str, Any], num_steps: int, points: int
) -> Iterator[tuple[int, float, float]]:
    """Train a new model; yield step, seconds, and a perplexity, `points` times.

    Without points nothing is scored, and the training stops after
    TIMED_SECONDS.
    """
    transformers.set_seed(job["seed"])
    model = transformers.BertForMaskedLM._from_config(
        transformers.BertConfig(**job["config"]), attn_implementation="sdpa"
    )
    with np.load(job["train"]) as arrays:
        if "positions" in arrays:
            weight = model.bert.embeddings.position_embeddings.weight
            weight.data.copy_(torch.from_numpy(arrays["positions"]))
    model.train()
    optimizers, batches = optimizers_of(model, job), batches_of(job)
    warmup = round(job["warmup_proportion"] * num_steps)

    def rate_factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 1 - step / num_steps

    schedulers = [
        torch.optim.lr_scheduler.LambdaLR(optimizer, rate_factor)
        for optimizer in optimizers
    ]
    seconds, began = 0.0, time.perf_counter()
    for step in range(1, num_steps + 1):
        with autocast(job):
            loss = model(**next(batches)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one in (*optimizers, *schedulers):
            one.step()
        model.zero_grad()
        passed = seconds + time.perf_counter() - began
        if not points:
            yield step, passed, math.nan
            if step == 5:  # the first steps are slower
                began = time.perf_counter()
            elif step > 10 and passed > TIMED_SECONDS:
                return
        elif step % max(1, num_steps // points) == 0 or step == num_steps:
            yield step, passed, perplexity_of(model, job)
            seconds, began = passed, time.perf_counter()


def main() -> None:
    """Time the steps, and train for as many as fit into the hours."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    job = json.loads(sys.stdin.read())
    versions = f"transformers {transformers.__version__}, "
    print(json.dumps(versions + f"PyTorch {torch.__version__}"), flush=True)
    *_, (steps, seconds, _) = train(job, 10**6, 0)
    num_steps = max(1, round(3600 * job["hours"] * (steps - 5) / seconds))
    for point in train(job, num_steps, job["points"]):
        print(json.dumps(point), flush=True)


if __name__ == "__main__":
    main()
