"""Records small enough to reason on, and runs of run_pretraining.py on them."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import packed_batches
import tiny

from pretraining.data.schema import InstanceConfig

LENGTH, PREDICTIONS, VOCAB = 16, 3, 50
INSTANCES = InstanceConfig(LENGTH, PREDICTIONS)
CASED = ["the", "The", "Paris", "A", "B"]
CONFIG = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}


def make_features(
    rng: np.random.Generator,
    rows: int,
    length: int = LENGTH,
    predictions: int = PREDICTIONS,
) -> dict:
    """Rows whose masked tokens can be learned: each is its position + 5."""
    ids = rng.integers(5, VOCAB, (rows, length))
    lengths = rng.integers(length // 2, length + 1, rows)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    order = np.argsort(rng.random((rows, length // 2 - 1)), axis=1)
    positions = np.sort(order[:, :predictions] + 1, axis=1)
    used = rng.integers(1, predictions + 1, rows)
    weights = (np.arange(predictions) < used[:, None]).astype(np.float32)
    return {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": ((np.arange(length) > 6) * mask).astype(np.int64),
        "masked_lm_positions": (positions * weights).astype(np.int64),
        "masked_lm_ids": ((positions + 5) * weights).astype(np.int64),
        "masked_lm_weights": weights,
        "next_sentence_labels": rng.integers(0, 2, (rows, 1)),
    }


def write_records(
    path: Path, rows: int, seed: int, compression="", **sizes: int
) -> None:
    features = make_features(np.random.default_rng(seed), rows, **sizes)
    packed_batches.write(path, features, compression)


def write_data(folder: Path) -> Path:
    """Write three files to train on, one to evaluate on, configurations."""
    for number in range(3):
        kind = "GZIP" if number == 2 else ""
        write_records(folder / f"train-{number}", 40 + number, number, kind)
    write_records(folder / "dev", 21, 9)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    no_dropout = json.dumps(CONFIG | tiny.NO_DROPOUT)
    (folder / "no_dropout.json").write_text(no_dropout)
    return folder


def write_vocab(path: Path, words: Sequence[str]) -> str:
    """Write as many tokens as the model has, these words among them."""
    tokens = [*tiny.SPECIAL, *words]
    tokens += [f"[unused{n}]" for n in range(VOCAB - len(tokens))]
    path.write_text("\n".join(tokens) + "\n")
    return str(path)


def flags_for(data: Path, output_dir: Path, **changes) -> dict:
    return {
        "do_train": True,
        "bert_config_file": data / "config.json",
        "input_file": f"{data}/train-*",
        "output_dir": output_dir,
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
        "train_batch_size": 8,
        "learning_rate": 1e-2,
        "num_train_steps": 12,
        "num_warmup_steps": 3,
        "save_checkpoints_steps": 5,
        "log_steps": 4,
        "jit_compile": False,
    } | changes
