"""Questions a tiny model can learn to answer, for runs of run_swag.py."""

from pathlib import Path

import numpy as np
import tiny

WORDS = ["good", "bad", "film", "book", "the", "a", "was", "very", "not", "he"]
VOCAB = [*tiny.SPECIAL, *WORDS]
CONFIG = tiny.config_of(VOCAB)
LABELED = ",sent1,sent2,ending0,ending1,ending2,label"


def questions(count: int, seed: int) -> list[tuple[str, list[str], int]]:
    """A context, three endings of which one is good, and its number."""
    rng = np.random.default_rng(seed)

    def text(low: int, high: int) -> list[str]:
        return rng.choice(WORDS[2:9], rng.integers(low, high)).tolist()

    rows = []
    for _ in range(count):
        label = int(rng.integers(3))
        endings = [text(1, 12) for _ in range(3)]
        for number, ending in enumerate(endings):
            word = "good" if number == label else "bad"
            ending.insert(rng.integers(len(ending) + 1), word)
        rows.append(
            (" ".join(text(1, 10)), list(map(" ".join, endings)), label)
        )
    return rows


def csv_lines(rows: list, has_labels: bool = True) -> str:
    lines = [LABELED if has_labels else LABELED.removesuffix(",label")]
    for number, (context, endings, label) in enumerate(rows):
        cells = [str(number), context, "he", *endings]
        lines.append(",".join(cells + [str(label)] * has_labels))
    return "\n".join(lines) + "\n"


def write_data(folder: Path) -> Path:
    """Write questions to train on, to score and to answer, as SWAG's files."""
    (folder / "train.csv").write_text(csv_lines(questions(120, 1)))
    (folder / "val.csv").write_text(csv_lines(questions(40, 2)))
    (folder / "test.csv").write_text(csv_lines(questions(21, 3), False))
    return folder


def flags_for(model_dir: Path, data_dir: Path, out: Path, **more) -> dict:
    return {
        **tiny.TRAINING,
        "data_dir": str(data_dir),
        "init_checkpoint": str(model_dir),
        "output_dir": str(out),
        "max_seq_length": 32,
        "learning_rate": 5e-3,
    } | more
