"""Scores of a retrieval by sentence vectors."""

import collections
from collections.abc import Mapping, Sequence

import numpy as np

DEPTH = 100  # documents of each query that are ranked


def retrieval(
    ranked: Sequence[Sequence[str]], relevant: Sequence[Mapping[str, int]]
) -> dict[str, float]:
    """Return the mean scores of queries, as trec_eval defines them.

    recall_at_k: share of the relevant documents among the first k. mrr_at_10:
    1 / rank of the first relevant one, 0 beyond 10. ndcg_at_10: the sum of
    relevance / log2(1 + rank) of the first 10, divided by the largest possible
    one. map_at_100: the mean, over the relevant documents, of the precision at
    the rank of each, 0 beyond 100. All are 0 for a query without any.

    Args:
        ranked: ids of the documents found for each query, the nearest first.
        relevant: {id: relevance above 0} of each query.
    """
    scores: dict[str, list[float]] = collections.defaultdict(list)
    for names, wanted in zip(ranked, relevant, strict=True):
        gains = np.array([wanted.get(name, 0) for name in names[:DEPTH]], float)
        hits = gains > 0
        ranks, count = np.flatnonzero(hits) + 1.0, max(len(wanted), 1)
        for k in (1, 10, 100):
            scores[f"recall_at_{k}"].append(float(hits[:k].sum()) / count)
        is_early = (ranks <= 10).any()
        scores["mrr_at_10"].append(float(1 / ranks[0]) if is_early else 0.0)
        ideal = _discounted(np.sort(list(wanted.values()))[::-1][:10])
        scores["ndcg_at_10"].append(_discounted(gains[:10]) / (ideal or 1.0))
        precisions = np.arange(1, len(ranks) + 1) / ranks
        scores["map_at_100"].append(float(precisions.sum()) / count)
    return {name: float(np.mean(values)) for name, values in scores.items()}


def _discounted(gains: np.ndarray) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())
