"""Sentences a tiny model can learn, and runs of run_classifier.py on them."""

from pathlib import Path

import numpy as np
import tiny

WORDS = ["good", "bad", "film", "book", "the", "a", "was", "very", "not"]
VOCAB = [*tiny.SPECIAL, *WORDS]
CONFIG = tiny.config_of(VOCAB)


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences of any length that are "good" or "bad", and their label."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        words = rng.choice(WORDS[2:], rng.integers(1, 30)).tolist()
        label = ("bad", "good")[rng.integers(2)]
        words.insert(rng.integers(len(words) + 1), label)
        rows.append((" ".join(words), label))
    return rows


def write_data(folder: Path) -> Path:
    """Write sentences to train on, to score, and to predict."""
    for name, count, seed in (("train", 200, 1), ("dev", 50, 2)):
        lines = ["sentence\tlabel"]
        lines += ["\t".join(row) for row in sentences(count, seed)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    lines = ["sentence", *(text for text, _ in sentences(21, 3))]
    (folder / "test.tsv").write_text("\n".join(lines) + "\n")
    return folder


def flags_for(model_dir: Path, data_dir: Path, out: Path, **more) -> dict:
    return {
        **tiny.TRAINING,
        "task_name": "tsv",
        "data_dir": str(data_dir),
        "init_checkpoint": str(model_dir),
        "output_dir": str(out),
        "max_seq_length": 40,
        "learning_rate": 5e-3,
    } | more
