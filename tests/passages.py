"""Write passages of novels and the novels that they are from, as tables.

    python tests/passages.py novels/ tables/

`novels/` has plain texts, one novel each, such as Project Gutenberg's. Each
gives 40 passages of 400 words from its first four fifths for training, and 10
from its last fifth for scores. docs/long_texts.md has the scores.
"""

import sys
from pathlib import Path

import numpy as np

WORDS = 400


def passages(words: list[str], count: int) -> list[str]:
    """Return passages from places of equal distance."""
    starts = np.linspace(0, len(words) - WORDS, count).astype(int)
    return [" ".join(words[start : start + WORDS]) for start in starts]


def main(novels: str, tables: str) -> None:
    """Write train.tsv and dev.tsv."""
    rows: dict[str, list[str]] = {"train": [], "dev": []}
    for path in sorted(Path(novels).glob("*.txt")):
        words = path.read_text("utf-8").split()
        # The edges of a file are its publisher's.
        words = words[len(words) // 50 : -(len(words) // 50)]
        border = len(words) * 4 // 5
        for name, part, count in (
            ("train", words[:border], 40),
            ("dev", words[border:], 10),
        ):
            rows[name] += [f"{x}\t{path.stem}" for x in passages(part, count)]
    Path(tables).mkdir(parents=True, exist_ok=True)
    for name, lines in rows.items():
        text = "\n".join(["text\tlabel", *lines]) + "\n"
        (Path(tables) / f"{name}.tsv").write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
