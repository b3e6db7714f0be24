"""The results of demo.py: scores beside a unigram baseline.

The baseline predicts the most frequent token of the training text for every
masked position. It needs no model and reads no context, so what BERT scores
beyond it comes from reading the text around the mask.
"""

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pretraining.data import schema as pretraining_schema
from records import streaming


def baseline(
    train_ids: np.ndarray,
    held_out_ids: np.ndarray,
    held_out_labels: np.ndarray,
    vocab_size: int,
) -> dict[str, float]:
    """Return the scores of what is most frequent, on the held-out records.

    Args:
        train_ids: the true tokens at the masked positions of training.
        held_out_ids: the same for the held-out text.
        held_out_labels: next-sentence labels of that text, 0 or 1.
        vocab_size: number of tokens. Each is counted once more than it occurs
            (add-one smoothing), so that an unseen token has a finite loss.
    """
    counts = np.bincount(train_ids, minlength=vocab_size) + 1
    loss = float(-np.log(counts / counts.sum())[held_out_ids].mean())
    share = float(held_out_labels.mean())
    return {
        "masked_lm_loss": loss,
        "masked_lm_perplexity": math.exp(loss),
        "masked_lm_accuracy": float((held_out_ids == counts.argmax()).mean()),
        "next_sentence_accuracy": max(share, 1 - share),
    }


def read_labels(
    path: str, max_seq_length: int, max_predictions_per_seq: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the true tokens [masked tokens] and labels [records] of a file."""
    schema = pretraining_schema.schema(max_seq_length, max_predictions_per_seq)
    ids, labels = [], []
    for serialized in tf.data.TFRecordDataset(path).batch(1024):
        batch = streaming.parse_batch(serialized, schema)
        is_masked = batch["masked_lm_weights"] > 0
        ids.append(tf.boolean_mask(batch["masked_lm_ids"], is_masked).numpy())
        labels.append(batch["next_sentence_labels"].numpy())
    return np.concatenate(ids), np.concatenate(labels)


def read_scores(path: str) -> dict[str, float]:
    """Read the `key = value` lines of eval_results.txt."""
    with open(path, encoding="utf-8") as file:
        pairs = (line.split(" = ") for line in file if " = " in line)
        return {name: float(value) for name, value in pairs}


def is_better(
    scores: Mapping[str, float], baseline: Mapping[str, float]
) -> bool:
    """Return whether the model's scores are all better than the baselines."""
    return scores["masked_lm_loss"] < baseline["masked_lm_loss"] and all(
        scores[name] > baseline[name]
        for name in ("masked_lm_accuracy", "next_sentence_accuracy")
    )


def format_table(
    scores: Mapping[str, float], baseline: Mapping[str, float], speed: float
) -> str:
    """Return the table of the model's scores beside the baselines.

    The speed is in sequences/s of training.
    """
    lines = [f"    {'':<25}{'BERT':<17}unigram"]
    for name, form, note in (
        ("masked_lm_loss", ".2f", ""),
        ("masked_lm_perplexity", ".2f", ""),
        ("masked_lm_accuracy", ".1%", ""),
        ("next_sentence_accuracy", ".1%", " (the more frequent answer)"),
    ):
        title = name.replace("_", " ").replace("lm", "LM")
        score, base = f"{scores[name]:{form}}", f"{baseline[name]:{form}}"
        lines.append(f"    {title:<25}{score:<17}{base}{note}")
    return "\n".join(
        [*lines, f"    {'training speed':<25}{speed:,.0f} sequences/s"]
    )
