"""Scores of a retrieval by sentence vectors."""

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
    rows = [
        _query_scores(found, wanted)
        for found, wanted in zip(ranked, relevant, strict=True)
    ]
    return {
        name: float(np.mean([row[name] for row in rows])) for name in rows[0]
    }


def _query_scores(
    found: Sequence[str], wanted: Mapping[str, int]
) -> dict[str, float]:
    gains = np.array([wanted.get(name, 0) for name in found[:DEPTH]], float)
    hits = gains > 0
    ranks, count = np.flatnonzero(hits) + 1.0, max(len(wanted), 1)
    scores = {
        f"recall_at_{k}": float(hits[:k].sum()) / count for k in (1, 10, 100)
    }
    ideal = np.sort(list(wanted.values()))[::-1][:10]
    precisions = np.arange(1, len(ranks) + 1) / ranks
    return scores | {
        "mrr_at_10": float(1 / ranks[0]) if (ranks <= 10).any() else 0.0,
        "ndcg_at_10": _discounted(gains[:10]) / (_discounted(ideal) or 1.0),
        "map_at_100": float(precisions.sum()) / count,
    }


def _discounted(gains: np.ndarray) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())
