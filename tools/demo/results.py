"""The results of demo.py: scores beside a unigram baseline, learning curves.

The baseline predicts the most frequent token of the training text for every
masked position. It needs no model and reads no context, so what BERT scores
beyond it comes from reading the text around the mask.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from base import pictures

import numpy as np
import tensorflow as tf

from pretraining.data import schema as pretraining_schema
from records import streaming
from training.scalars import Curve


class Baseline(NamedTuple):
    """Scores without a model.

    Attributes:
        loss: mean cross-entropy of the token frequencies, on masked tokens.
        accuracy: share of the most frequent token.
        next_sentence_accuracy: share of the more frequent answer.
        positions: how many masked tokens were scored.
        sequences: how many sequences hold them.
    """

    loss: float
    accuracy: float
    next_sentence_accuracy: float
    positions: int
    sequences: int


def baseline(
    train_ids: np.ndarray,
    held_out_ids: np.ndarray,
    held_out_labels: np.ndarray,
    vocab_size: int,
) -> Baseline:
    """Score what is most frequent on the held-out records.

    Args:
        train_ids: the true tokens at the masked positions of training.
        held_out_ids: the same of the held-out text.
        held_out_labels: its next-sentence labels, 0 or 1.
        vocab_size: number of tokens. Each is counted once more than it occurs
            (add-one smoothing), so that an unseen token has a finite loss.
    """
    counts = np.bincount(train_ids, minlength=vocab_size) + 1
    log_probs = np.log(counts / counts.sum())
    share = held_out_labels.mean()
    return Baseline(
        float(-log_probs[held_out_ids].mean()),
        float((held_out_ids == counts.argmax()).mean()),
        float(max(share, 1 - share)),
        len(held_out_ids),
        len(held_out_labels),
    )


def read_labels(
    path: str, max_seq_length: int, max_predictions_per_seq: int
) -> tuple[np.ndarray, np.ndarray]:
    """Read the labels of a record file.

    Returns:
        ids: [number of masked tokens], the true tokens.
        next_sentence_labels: [number of records].
    """
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


def is_better(scores: Mapping[str, float], baseline: Baseline) -> bool:
    """Return whether the model's scores are all better than the baselines."""
    return (
        scores["masked_lm_loss"] < baseline.loss
        and scores["masked_lm_accuracy"] > baseline.accuracy
        and scores["next_sentence_accuracy"] > baseline.next_sentence_accuracy
    )


def format_table(
    scores: Mapping[str, float], baseline: Baseline, speed: float
) -> str:
    """Return the closing table: the model's scores beside the baselines.

    The speed is in sequences/s of training.
    """
    perplexity = math.exp(baseline.loss)
    rows = [
        ("", "BERT", "unigram"),
        ("masked LM loss", scores["masked_lm_loss"], baseline.loss),
        ("masked LM perplexity", scores["masked_lm_perplexity"], perplexity),
        (
            "masked LM accuracy",
            f"{scores['masked_lm_accuracy']:.1%}",
            f"{baseline.accuracy:.1%}",
        ),
        (
            "next sentence accuracy",
            f"{scores['next_sentence_accuracy']:.1%}",
            f"{baseline.next_sentence_accuracy:.1%} (the more frequent answer)",
        ),
        ("training speed", f"{speed:,.0f} sequences/s", ""),
    ]
    lines = [
        f"Held-out documents, {baseline.sequences:,} sequences, "
        f"{baseline.positions:,} masked tokens:"
    ]
    for row in rows:
        cells = [f"{x:.2f}" if isinstance(x, float) else x for x in row]
        lines.append(f"    {cells[0]:<25}{cells[1]:<17}{cells[2]}".rstrip())
    return "\n".join(lines)


def draw_curves(
    path: str,
    training: Mapping[str, Curve],
    held_out: Mapping[str, Curve],
    baseline: Baseline,
) -> None:
    """Draw loss and next-sentence accuracy over the steps as a PNG file.

    The baseline's scores become horizontal lines.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = pictures.new_figure(10, 4)
    from matplotlib.ticker import PercentFormatter

    left, right = figure.subplots(1, 2)
    # The masked LM loss alone, not the sum of both losses that is minimized:
    # the baseline is a loss of masked tokens.
    _draw_panel(left, "masked_lm_loss", training, held_out)
    left.axhline(baseline.loss, color="0.4", ls="--", label="unigram baseline")
    _draw_panel(right, "next_sentence_accuracy", training, held_out)
    right.axhline(
        baseline.next_sentence_accuracy,
        color="0.4",
        ls="--",
        label="the more frequent answer",
    )
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    for axes in (left, right):
        axes.legend()
    pictures.save(figure, path, dpi=120, in_colour=True)


def _draw_panel(
    axes: Any,
    tag: str,
    training: Mapping[str, Curve],
    held_out: Mapping[str, Curve],
) -> None:
    """Draw one scalar of training and of the evaluations."""
    for curves, label, style in (
        (training, "training", "C0-"),
        (held_out, "held-out", "C1o-"),
    ):
        curve = curves.get(tag, {})
        axes.plot(list(curve), list(curve.values()), style, label=label)
    axes.set(title=tag.replace("_", " "), xlabel="training step")
    axes.grid(alpha=0.3)
