"""Make pre-training instances the slow way: one at a time, token by token.

Written from the description of the original algorithm, with plain lists and
`random.Random`, to compare distributions with pretraining/data/instances.py and
masking.py. The two draw their random numbers differently, so only
distributions can be compared, not single instances.
"""

import random
from collections.abc import Sequence

import numpy as np

CLS, SEP, MASK = -1, -2, -3
Document = Sequence[Sequence[int]]


def make_instances(
    documents: Sequence[Document],
    rng: random.Random,
    max_seq_length: int = 128,
    short_seq_prob: float = 0.1,
    short_draw_per_document: bool = False,
) -> list[tuple[list[int], list[int], bool]]:
    """Return (A, B, is_random_next) of one pass over the documents.

    Args:
        documents: document -> sentence -> ids.
        rng: source of random numbers.
        max_seq_length: with [CLS] and [SEP].
        short_seq_prob: probability of a shorter target.
        short_draw_per_document: draw the target once per document, as the
            original does, to reproduce its statistics.
    """
    instances = []
    max_tokens = max_seq_length - 3
    for index, document in enumerate(documents):
        target = _draw_target(max_tokens, short_seq_prob, rng)
        chunk, i = [], 0
        while i < len(document):
            if not chunk and not short_draw_per_document:
                target = _draw_target(max_tokens, short_seq_prob, rng)
            chunk.append(document[i])
            if i == len(document) - 1 or sum(map(len, chunk)) >= target:
                cut = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
                a = _join(chunk[:cut])
                is_random = len(chunk) == 1 or rng.random() < 0.5
                if is_random:
                    other = index
                    while other == index:
                        other = rng.randrange(len(documents))
                    b = _random_next(documents[other], target - len(a), rng)
                    i -= len(chunk) - cut
                else:
                    b = _join(chunk[cut:])
                truncate(a, b, max_tokens, rng)
                instances.append((a, b, is_random))
                chunk = []
            i += 1
    return instances


def _draw_target(
    max_tokens: int, short_seq_prob: float, rng: random.Random
) -> int:
    is_short = rng.random() < short_seq_prob
    return rng.randint(2, max_tokens) if is_short else max_tokens


def _join(sentences: Sequence[Sequence[int]]) -> list[int]:
    return [token for sentence in sentences for token in sentence]


def _random_next(
    document: Document, wanted: int, rng: random.Random
) -> list[int]:
    b = []
    for sentence in document[rng.randrange(len(document)) :]:
        b.extend(sentence)
        if len(b) >= wanted:
            break
    return b


def truncate(a: list, b: list, max_tokens: int, rng: random.Random) -> None:
    """Remove tokens from either end of the longer list until both fit."""
    while len(a) + len(b) > max_tokens:
        longer = a if len(a) > len(b) else b
        del longer[0 if rng.random() < 0.5 else -1]


def mask(
    a: list[int],
    b: list[int],
    continues: Sequence[bool] | None,
    rng: random.Random,
    max_predictions_per_seq: int = 20,
    masked_lm_prob: float = 0.15,
) -> tuple[list[int], list[str]]:
    """Return the positions to predict and how each is replaced.

    Args:
        a: ids of A.
        b: ids of B.
        continues: whether an id is a "##" token, for whole word masking; None
            masks single tokens.
        rng: source of random numbers.
        max_predictions_per_seq: the most positions.
        masked_lm_prob: share of the tokens.

    Returns:
        Positions, and "mask", "same" or "random" for each.
    """
    tokens = [CLS, *a, SEP, *b, SEP]
    words = []
    for position, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        is_inner = tokens[position - 1] not in (CLS, SEP)
        if continues is not None and is_inner and continues[token]:
            words[-1].append(position)
        else:
            words.append([position])
    rng.shuffle(words)
    budget = max(1, round(len(tokens) * masked_lm_prob))
    budget = min(budget, max_predictions_per_seq)
    chosen = []
    for word in words:
        if len(chosen) + len(word) <= budget:
            chosen += word
    if not chosen:
        chosen = min(words, key=len)[:max_predictions_per_seq]
    draws = [rng.random() for _ in chosen]
    shown = [
        "mask" if u < 0.8 else "same" if u < 0.9 else "random" for u in draws
    ]
    return sorted(chosen), shown


def statistics(
    documents: Sequence[Document],
    continues: Sequence[bool] | None,
    seed: int,
    dupe_factor: int = 10,
    max_seq_length: int = 128,
    max_predictions_per_seq: int = 20,
    short_draw_per_document: bool = False,
) -> dict[str, float | np.ndarray]:
    """Return `statistics_of` the instances made the slow way."""
    rng = random.Random(seed)
    lengths, b_lengths, is_random, num_predictions = [], [], [], []
    shown = []
    for _ in range(dupe_factor):
        for a, b, random_next in make_instances(
            documents,
            rng,
            max_seq_length,
            short_draw_per_document=short_draw_per_document,
        ):
            positions, how = mask(a, b, continues, rng, max_predictions_per_seq)
            lengths.append(len(a) + len(b) + 3)
            b_lengths.append(len(b) + 1)
            is_random.append(random_next)
            num_predictions.append(len(positions))
            shown += how
    return statistics_of(
        np.array(lengths),
        np.array(b_lengths),
        np.array(is_random),
        np.array(num_predictions),
        np.mean([how == "mask" for how in shown]),
        np.mean([how == "same" for how in shown]),
    )


def statistics_of(
    length: np.ndarray,
    b_length: np.ndarray,
    is_random: np.ndarray,
    num_predictions: np.ndarray,
    mask_fraction: float,
    kept_fraction: float,
) -> dict[str, float | np.ndarray]:
    """Return the statistics that tests/golden has of the original."""
    return {
        "instances": len(length),
        "mean_length": length.mean(),
        "length_deciles": np.percentile(length, range(0, 101, 10)),
        "mean_segment_b": b_length.mean(),
        "random_next": is_random.mean(),
        "predictions_mean": num_predictions.mean(),
        "mask_fraction": mask_fraction,
        "kept_fraction": kept_fraction,
        "prediction_rate": (num_predictions / length).mean(),
        "mean_len_random": length[is_random].mean(),
        "mean_len_next": length[~is_random].mean(),
        "mean_b_random": b_length[is_random].mean(),
        "mean_b_next": b_length[~is_random].mean(),
    }
