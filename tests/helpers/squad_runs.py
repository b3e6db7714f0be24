"""Paragraphs a tiny model can learn, and runs of run_squad.py on them."""

import json
from pathlib import Path

import numpy as np
import tiny

WORDS = ["good", "bad", "film", "book", "the", "a", "was", "very", "not", "."]
VOCAB = [*tiny.SPECIAL, "how", "?", *WORDS]
CONFIG = tiny.config_of(VOCAB)


def squad(count: int, seed: int, impossible: float = 0.0) -> dict:
    """Paragraphs in which one word is Good or Bad, the answer, or none is."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for number in range(count):
        words = rng.choice(WORDS[2:], rng.integers(3, 60)).tolist()
        answer = ("Good", "Bad")[rng.integers(2)]
        is_impossible = bool(rng.random() < impossible)
        at = rng.integers(len(words))
        if not is_impossible:
            words.insert(at, answer)
        context = "  ".join(words)
        start = len("  ".join([*words[:at], ""]))
        found = (
            [] if is_impossible else [{"text": answer, "answer_start": start}]
        )
        qa = {"id": f"q{seed}-{number}", "question": "How?", "answers": found}
        if impossible:
            qa["is_impossible"] = is_impossible
        paragraphs.append({"context": context, "qas": [qa]})
    return {"data": [{"title": "t", "paragraphs": paragraphs}]}


def write(path: Path, value) -> str:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def read(path: Path):
    return json.loads(path.read_text())


def write_data(folder: Path) -> Path:
    """Write a model, and files to train on and to score of both versions."""
    tiny.write_model(folder / "model", CONFIG, VOCAB)
    for version, impossible in (("1", 0.0), ("2", 0.4)):
        write(folder / f"train{version}.json", squad(150, 1, impossible))
        write(folder / f"dev{version}.json", squad(40, 2, impossible))
    return folder


def flags_for(folder: Path, out: Path, version: str = "1", **more) -> dict:
    return {
        **tiny.TRAINING,
        "train_file": str(folder / f"train{version}.json"),
        "predict_file": str(folder / f"dev{version}.json"),
        "version_2_with_negative": version == "2",
        "init_checkpoint": str(folder / "model"),
        "output_dir": str(out),
        "max_seq_length": 32,
        "doc_stride": 12,
        "max_query_length": 8,
        "max_answer_length": 4,
        "learning_rate": 1e-2,
    } | more
