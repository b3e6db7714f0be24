r"""Fine-tune with transformers' defaults, to compare run_classifier.py with.

    python -m venv /tmp/transformers
    /tmp/transformers/bin/pip install torch transformers scikit-learn scipy
    /tmp/transformers/bin/python tests/transformers_finetuning.py \
        --task=RTE --data_dir=glue/RTE --model=all-MiniLM-L6-v2 --seed=1

prints one line: the time of the whole process without its imports, that of
training alone, the scores. Optimizer, schedule and clipping are the defaults of
transformers' Trainer: AdamW with betas 0.9 and 0.999, epsilon 1e-8, bias
correction and no weight decay; a learning rate that falls linearly from step 0
without warm-up; gradients clipped to a norm of 1. Batches are padded to their
longest row. None of the project's code is used.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from scipy import stats
from sklearn import metrics

# Columns of the texts and of the label, and whether the file has a header.
COLUMNS = {
    "RTE": ((1, 2), 3, True),
    "MRPC": ((3, 4), 0, True),
    "SST-2": ((0,), 1, True),
    "CoLA": ((3,), 1, False),
    "STS-B": ((7, 8), 9, True),
}


def read_flags() -> argparse.Namespace:
    """Return the values of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=sorted(COLUMNS), required=True)
    parser.add_argument("--data_dir", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_length", type=int, default=128)
    parser.add_argument("--warmup", type=float, default=0.0)
    return parser.parse_args()


def read_examples(
    path: Path, task: str
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the texts, one or two each, and the labels of a GLUE file."""
    texts, label, has_header = COLUMNS[task]
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = rows[has_header:]
    return [tuple(r[c] for c in texts) for r in rows], [r[label] for r in rows]


def batches_of(tokenizer, texts, labels, rows, flags):
    """Yield padded batches of some rows."""
    for at in range(0, len(rows), flags.batch_size):
        part = rows[at : at + flags.batch_size]
        pairs = (texts[row] for row in part)
        columns = [list(column) for column in zip(*pairs, strict=True)]
        batch = tokenizer(
            *columns,
            truncation=True,
            max_length=flags.max_length,
            padding=True,
            return_tensors="pt",
        )
        batch["labels"] = labels[part]
        yield batch


def train(model, tokenizer, texts, labels, flags) -> float:
    """Fine-tune; return the mean loss of the last tenth of the steps."""
    order = torch.Generator().manual_seed(flags.seed)
    per_epoch = -(-len(texts) // flags.batch_size)
    steps = per_epoch * flags.epochs
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=flags.learning_rate, weight_decay=0.0
    )
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(flags.warmup * steps), steps
    )
    model.train()
    losses = []
    for _ in range(flags.epochs):
        rows = torch.randperm(len(texts), generator=order).tolist()
        for batch in batches_of(tokenizer, texts, labels, rows, flags):
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return float(np.mean(losses[-max(1, steps // 10) :]))


@torch.no_grad()
def scores_of(model, tokenizer, texts, labels, flags) -> dict[str, float]:
    """Return the scores of the task on the development set."""
    model.eval()
    rows = list(range(len(texts)))
    logits = np.concatenate(
        [
            model(**batch).logits.numpy()
            for batch in batches_of(tokenizer, texts, labels, rows, flags)
        ]
    )
    gold = labels.numpy()
    if flags.task == "STS-B":
        given = logits[:, 0]
        return {
            "pearson": float(stats.pearsonr(given, gold)[0]),
            "spearman": float(stats.spearmanr(given, gold)[0]),
            "deviation": float(given.std() / gold.std()),
        }
    given = logits.argmax(-1)
    share = float(np.bincount(given).max() / len(given))
    scores = {"accuracy": metrics.accuracy_score(gold, given)}
    if flags.task == "MRPC":
        scores["f1"] = metrics.f1_score(gold, given)
    if flags.task == "CoLA":
        scores["matthews"] = metrics.matthews_corrcoef(gold, given)
    return {**scores, "most_frequent_prediction": share}


def main() -> None:
    """Train, score, print one line."""
    flags = read_flags()
    began = time.monotonic()
    transformers.set_seed(flags.seed)
    transformers.logging.set_verbosity_error()
    texts, train_labels = read_examples(
        flags.data_dir / "train.tsv", flags.task
    )
    dev_texts, dev_labels = read_examples(
        flags.data_dir / "dev.tsv", flags.task
    )
    if flags.task == "STS-B":
        count = 1
        ids = [
            torch.tensor([float(y) for y in ys])
            for ys in (train_labels, dev_labels)
        ]
    else:
        names = sorted(set(train_labels))
        count = len(names)
        ids = [
            torch.tensor([names.index(y) for y in ys])
            for ys in (train_labels, dev_labels)
        ]
    tokenizer = transformers.AutoTokenizer.from_pretrained(flags.model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        flags.model, num_labels=count, dtype=torch.float32
    )
    training = time.monotonic()
    loss = train(model, tokenizer, texts, ids[0], flags)
    training = time.monotonic() - training
    scores = scores_of(model, tokenizer, dev_texts, ids[1], flags)
    cells = " ".join(f"{name} = {value:.4f}" for name, value in scores.items())
    print(
        f"{flags.task} lr={flags.learning_rate:g} transformers "
        f"seed={flags.seed} {time.monotonic() - began:.0f}s "
        f"training={training:.0f}s {cells} "
        f"last_losses = {loss:.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
