"""What models give, computed a second time, row by row.

Nothing is padded, batched or compiled. The encoder and the masked LM are those
of one_file_bert.py, which has the original's numbers; other heads are NumPy.
"""

import dataclasses
import functools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import one_file_bert
import tensorflow as tf

# --- Models ------------------------------------------------------------------


class LeftToRight(one_file_bert.Bert):
    """Tokens see those before them alone, and the last one is the row's."""

    def attend(self, name, x, bias, dropout):
        ones = tf.ones([x.shape[1]] * 2)
        later = ones - tf.linalg.band_part(ones, -1, 0)  # [S, S]
        return super().attend(name, x, bias - 10000.0 * later, dropout)

    def encode(self, features, dropout=0.0):
        states, _ = super().encode(features, dropout)
        last = self.dense("bert/pooler/dense", states[-1][:, -1])
        return states, tf.tanh(last)


class Model:
    """The outputs of a checkpoint for single rows of tokens."""

    def __init__(self, folder: Path):
        self.vocab = (folder / "vocab.txt").read_text().split("\n")
        self.settings = json.loads((folder / "bert_config.json").read_text())
        reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
        self.read = functools.cache(reader.get_tensor)
        self.names = reader.get_variable_to_shape_map()
        sizes = [f.name for f in dataclasses.fields(one_file_bert.Config)]
        is_left = self.settings.get("attention_direction") == "left_to_right"
        self.bert = (LeftToRight if is_left else one_file_bert.Bert)(
            one_file_bert.Config(
                **{n: v for n, v in self.settings.items() if n in sizes}
            )
        )
        for name, weight in self.bert.weights.items():
            if name in self.names:
                weight.assign(self.read(name))

    def pieces(self, words: Sequence[str]) -> list[list[str]]:
        """Return the word pieces of each word: itself, or a stem and ##x."""
        stems = [word.lower().rstrip("x") for word in words]
        counts = [len(w) - len(s) for w, s in zip(words, stems, strict=True)]
        return [[s, *["##x"] * n] for s, n in zip(stems, counts, strict=True)]

    def states(self, words: Sequence[str]) -> np.ndarray:
        """Return the last hidden states [S, H] of [CLS], words, [SEP]."""
        return self.encode(["[CLS]", *words, "[SEP]"])[0]

    def encode(
        self, tokens: Sequence[str], segments: Sequence[int] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the last hidden states [S, H] and the pooled vector [H]."""
        states, pooled = self.bert.encode(
            {
                "input_ids": tf.constant([list(map(self.vocab.index, tokens))]),
                "input_mask": tf.constant([[1] * len(tokens)]),
                "segment_ids": tf.constant([segments or [0] * len(tokens)]),
            }
        )
        return states[-1][0].numpy(), pooled[0].numpy()

    def logits(
        self, first: Sequence[str], second: Sequence[str] = ()
    ) -> np.ndarray:
        """Return the outputs of the head: [K], or [S, K] for every token.

        Args:
            first: tokens between [CLS] and [SEP].
            second: tokens between that and a second [SEP].
        """
        tokens = ["[CLS]", *first, "[SEP]"]
        segments = [0] * len(tokens)
        if second:
            tokens += [*second, "[SEP]"]
            segments += [1] * (len(second) + 1)
        x, vector = self.encode(tokens, segments)
        x = x.astype(np.float64)
        for number in range(self.settings.get("bilstm_layers", 0)):
            forward = self._lstm(x, f"bilstm/layer_{number}/forward_lstm")
            backward = self._lstm(
                x[::-1], f"bilstm/layer_{number}/backward_lstm"
            )
            vector = np.concatenate([forward[-1], backward[-1]])
            x = np.concatenate([forward, backward[::-1]], axis=1)
        head = "cls/squad/" if "cls/squad/output_weights" in self.names else ""
        is_tagger = self.settings.get("task") == "token_classification"
        x = x if head or is_tagger else vector
        weights = self.read(f"{head}output_weights")
        return x @ weights.T + self.read(f"{head}output_bias")

    def log_probs(self, tokens: Sequence[str]) -> np.ndarray:
        """Return the masked LM's log-probabilities [S, V] for a row."""
        x = tf.constant(self.encode(tokens)[:1])  # [1, S, H]
        positions = tf.range(len(tokens))[tf.newaxis]  # [1, S]
        x = self.bert.masked_lm_logits(x, positions)[0].numpy()
        size = sum(map(bool, self.vocab))  # a model may have more rows
        return np.log(softmax(x[:, :size]))

    def _lstm(self, x: np.ndarray, name: str) -> np.ndarray:
        """Return the states [S, U] of an LSTM, as Hochreiter and Keras do."""
        kernel, recurrent, bias = (
            self.read(f"{name}/lstm_cell/{part}")
            for part in ("kernel", "recurrent_kernel", "bias")
        )
        state = memory = np.zeros(len(recurrent))
        states = []
        for row in x:
            gates = row @ kernel + state @ recurrent + bias
            take, keep, value, show = np.split(gates, 4)
            memory = _sigmoid(keep) * memory + _sigmoid(take) * np.tanh(value)
            state = _sigmoid(show) * np.tanh(memory)
            states.append(state)
        return np.array(states)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Return probabilities over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- Scores ------------------------------------------------------------------


def classes(
    truths: Sequence,
    found: Sequence,
    shares: Sequence[float],
    confidences: Sequence[float],
) -> dict[str, float]:
    """Return accuracy, macro F1, mean loss and calibration error.

    Args:
        truths: the right class of each example.
        found: the predicted one.
        shares: the probability that was given to the right one.
        confidences: that of the predicted one.
    """
    rows = list(zip(truths, found, strict=True))
    of_classes = []
    for name in set(truths):
        pairs = [(t == name, f == name) for t, f in rows]
        of_classes.append(_f1(Counter(pairs)))
    gaps = Counter()  # of 15 bins: right ones - confidences
    for (truth, name), confidence in zip(rows, confidences, strict=True):
        gaps[math.ceil(15 * confidence)] += (truth == name) - confidence
    return {
        "accuracy": float(np.mean([t == f for t, f in rows])),
        "ece": sum(map(abs, gaps.values())) / len(rows),
        "macro_f1": float(np.mean(of_classes)),
        "loss": float(-np.log(shares).mean()),
    }


def _f1(counts: Counter) -> float:
    """Return F1 of counts of (is it so, is it said)."""
    wrong = counts[True, False] + counts[False, True]
    return 2 * counts[True, True] / max(2 * counts[True, True] + wrong, 1)


def several(
    truths: Sequence[Sequence[str]],
    found: Sequence[Sequence[str]],
    shares: Sequence[dict[str, float]],
) -> dict[str, float]:
    """Return the scores of examples with any number of labels.

    Args:
        truths: the right labels of each example.
        found: the predicted ones.
        shares: the probability of each label.
    """
    of_labels, precisions, losses, total = [], [], [], Counter()
    for name in shares[0]:
        pairs = [
            (name in t, name in f) for t, f in zip(truths, found, strict=True)
        ]
        total.update(pairs)
        of_labels.append(_f1(Counter(pairs)))
        values = np.array([row[name] for row in shares])
        is_right = np.array([right for right, _ in pairs])
        losses.append(-np.log(np.where(is_right, values, 1 - values)))
        # Precision among those at least as likely, at each right one.
        precisions.append(
            np.mean([is_right[values >= v].mean() for v in values[is_right]])
        )
    return {
        "micro_f1": _f1(total),
        "macro_f1": float(np.mean(of_labels)),
        "accuracy": float(
            np.mean(
                [set(t) == set(f) for t, f in zip(truths, found, strict=True)]
            )
        ),
        "mean_average_precision": float(np.mean(precisions)),
        "loss": float(np.mean(losses)),
    }


def numbers(truths: Sequence[float], found: Sequence[float]) -> dict:
    """Return the correlations and the mean squared error."""

    def ranks(values) -> np.ndarray:
        of_pairs = np.subtract.outer(values, values)
        return (of_pairs > 0).sum(1) + (of_pairs == 0).sum(1) / 2

    return {
        "pearson": np.corrcoef(truths, found)[0, 1],
        "spearman": np.corrcoef(ranks(truths), ranks(found))[0, 1],
        "loss": float(np.mean(np.subtract(truths, found) ** 2)),
    }


def answers(truths: Sequence[str], found: Sequence[str]) -> dict[str, float]:
    """Return exact match and F1, in percent; "" is no answer."""
    exact, f1 = [], []
    for truth, answer in zip(truths, found, strict=True):
        right, given = _words(truth), _words(answer)
        exact.append(right == given)
        shared = (Counter(right) & Counter(given)).total()
        total = len(right) + len(given)
        f1.append(2 * shared / total if total else 1.0)
    return {"exact": 100 * np.mean(exact), "f1": 100 * np.mean(f1)}


def _words(answer: str) -> list[str]:
    """Return an answer's words without case, punctuation and articles."""
    words = re.sub(r"[^\w\s]", "", answer.lower()).split()
    return [word for word in words if word not in ("a", "an", "the")]


def tags(truths: list[list[str]], found: list[list[str]]) -> dict[str, float]:
    """Return precision, recall and F1 of the entities, and F1 of each type."""
    right, given = _entities(truths), _entities(found)
    hits = right & given
    scores = {
        "precision": len(hits) / max(len(given), 1),
        "recall": len(hits) / max(len(right), 1),
        "f1": 2 * len(hits) / max(len(right) + len(given), 1),
    }
    for kind in {entity[-1] for entity in right}:
        sizes = [sum(e[-1] == kind for e in s) for s in (hits, right, given)]
        scores[f"{kind}_f1"] = 2 * sizes[0] / (sizes[1] + sizes[2])
    words = zip(sum(truths, []), sum(found, []), strict=True)
    scores["accuracy"] = float(np.mean([t == f for t, f in words]))
    return scores


def _entities(sentences: list[list[str]]) -> set[tuple]:
    """Return (sentence, first word, last word, type) of tags in IOB2."""
    found = set()
    for number, row in enumerate(sentences):
        starts = [i for i, tag in enumerate(row) if tag[0] == "B"]
        for start in starts:
            end = start
            while row[end + 1 : end + 2] == [f"I{row[start][1:]}"]:
                end += 1
            found.add((number, start, end, row[start][2:]))
    return found
