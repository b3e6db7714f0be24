"""A tiny encoder and a text, and runs of extract_features.py on them."""

import json
from pathlib import Path

import tiny

VOCAB = [*tiny.SPECIAL, *"abcdefgh", "é", '"']
CONFIG = tiny.config_of(
    VOCAB,
    vocab_size=len(VOCAB) + 1,
    num_hidden_layers=4,
    max_position_embeddings=40,
    initializer_range=0.5,
)
LINES = [
    "a b c",
    "",
    'é "x" d',
    "a b ||| c d e",
    "a ||| b ||| c",  # the last one parts them
    "||| a",  # no text before it: one sentence
    "a ||| \u200b",  # nothing after it: one sentence
    "a " * 50,
    "a " * 30 + "||| " + "b " * 6,
    "b " * 3 + "||| " + "c " * 60,
    "A\u00a0 b\t c",
    *("h " * (7 * n % 30 + 1) for n in range(60)),
]
LENGTH = 24


def write_model(folder: Path) -> Path:
    """Write an encoder with vocabulary and configuration beside it."""
    settings = {"do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tiny.write_model(folder, CONFIG, VOCAB)


def write_text(folder: Path) -> Path:
    """Write LINES to a file."""
    path = folder / "input.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def flags_for(model_dir: Path, input_file: Path, out: Path, **more) -> dict:
    """Return the flags of a run."""
    return {
        "input_file": str(input_file),
        "output_file": str(out),
        "init_checkpoint": str(model_dir),
        "max_seq_length": LENGTH,
        "batch_size": 8,
    } | more
