"""Time the pre-training step of transformers and PyTorch, to compare with.

This runs as a process of its own, in an environment that has both: it imports
nothing of this project. Standard input has one JSON object per line, with
"config" (the model's), "batch", "length", "predictions", "dtype", "compiles"
and "repeats". Standard output has one for each: "seconds" of the steps after
the first two, "first" and, on a GPU, the peak "memory" in bytes; or {"error":
the reason}. The first line has the versions.

What their users run: BertForPreTraining with scaled_dot_product_attention,
fused AdamW, gradients clipped to a norm of 1, autocast for a 16-bit type.
"""

import json
import sys
import time
from typing import Any

import torch
import transformers

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def fake_batch(job: dict[str, Any], vocab_size: int) -> dict[str, Any]:
    """Return a batch of random ids without padding."""
    shape = (job["batch"], job["length"])
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocab_size, shape, generator=generator)
    order = torch.rand(shape, generator=generator).argsort(1)
    # -100: no prediction there.
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": ids % 2,
        "labels": torch.where(order < job["predictions"], ids, -100),
        "next_sentence_label": ids[:, 0] % 2,
    }
    return {name: value.to(DEVICE) for name, value in batch.items()}


def timed(job: dict[str, Any]) -> dict[str, Any]:
    """Train for some steps; return their seconds, and the memory."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**job["config"])
    model = transformers.BertForPreTraining._from_config(
        config, attn_implementation="sdpa"
    ).to(DEVICE)
    model.train()
    run = torch.compile(model) if job["compiles"] else model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, weight_decay=0.01, fused=True
    )
    dtype = getattr(torch, job["dtype"])
    scaler = torch.amp.GradScaler(DEVICE, enabled=dtype == torch.float16)
    batch = fake_batch(job, config.vocab_size)
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(2 + job["repeats"]):
        began = time.perf_counter()
        with torch.autocast(DEVICE, dtype, enabled=dtype != torch.float32):
            loss = run(**batch).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    found = {"first": seconds[0], "seconds": seconds[2:]}
    if DEVICE == "cuda":
        found["memory"] = torch.cuda.max_memory_allocated()
    return found


def main() -> None:
    """Answer the jobs."""
    # TensorFlow's float32 products on a GPU are of this kind.
    torch.backends.cuda.matmul.allow_tf32 = True
    versions = f"{transformers.__version__} on PyTorch {torch.__version__}"
    print(json.dumps(versions), flush=True)
    for line in sys.stdin:
        try:
            answer = timed(json.loads(line))
        except Exception as error:  # a batch that does not fit, and others
            answer = {"error": " ".join(str(error).split())[:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
