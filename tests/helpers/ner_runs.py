"""Sentences a tiny model can learn to tag, and runs of run_ner.py on them."""

from pathlib import Path

import numpy as np
import tiny

NAMES = {"PER": ["ann", "bob"], "LOC": ["rome", "oslo"]}
OTHERS = ["the", "a", "was", "in", "saw", "."]
SECOND = {"PER": "jr", "LOC": "city"}
PIECES = [*NAMES["PER"], *NAMES["LOC"], *OTHERS, "##x", *SECOND.values()]
VOCAB = [*tiny.SPECIAL, *PIECES]
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
CONFIG = tiny.config_of(VOCAB)


def sentences(count: int, seed: int) -> list[list[tuple[str, str]]]:
    """Words with tags in IOB1: "annx", "oslo city"; some are long."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        words: list[tuple[str, str]] = []
        for _ in range(rng.integers(1, 6) + 25 * (number % 20 == 19)):
            words += [(str(word), "O") for word in rng.choice(OTHERS, 2)]
            kind = ("PER", "LOC")[rng.integers(2)]
            name = str(rng.choice(NAMES[kind])) + "x" * rng.integers(3)
            words.append((name, f"I-{kind}"))
            if rng.integers(2):
                words.append((SECOND[kind], f"I-{kind}"))
        made.append(words)
    return made


def write_columns(path: Path, rows, with_tags: bool = True) -> None:
    lines = ["-DOCSTART- O", ""] if with_tags else []
    for sentence in rows:
        lines += [
            " ".join(pair if with_tags else pair[:1]) for pair in sentence
        ]
        lines.append("")
    path.write_text("\n".join(lines) + "\n")


def write_data(folder: Path) -> Path:
    """Write columns to train on, to choose by, to tag, and bare words."""
    for name, count, seed in (("train", 160, 1), ("dev", 40, 2)):
        write_columns(folder / f"{name}.txt", sentences(count, seed))
    write_columns(folder / "test.txt", sentences(21, 3))
    write_columns(folder / "words.txt", sentences(21, 3), with_tags=False)
    return folder


def flags_for(model_dir: Path, data_dir: Path, out: Path, **more) -> dict:
    return {
        **tiny.TRAINING,
        "train_file": str(data_dir / "train.txt"),
        "dev_file": str(data_dir / "dev.txt"),
        "test_file": str(data_dir / "test.txt"),
        "init_checkpoint": str(model_dir),
        "output_dir": str(out),
        "max_seq_length": 32,
        "learning_rate": 1e-2,
        # The first updates are larger without it, so few epochs are enough.
        "bias_correction": False,
    } | more


def only(flags: dict, **jobs) -> dict:
    """Do these jobs and no other."""
    return flags | {"do_train": False, "do_eval": False} | jobs
