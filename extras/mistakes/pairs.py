"""Pairs furthest off their scores, or queries that found least: errors.tsv."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from extras.mistakes import table
from extras.mistakes.table import ERRORS, Cell, Mistakes, Report
from tasks.embeddings.data import Collection
from tasks.embeddings.job import EmbeddingsJob, has_scores
from tasks.embeddings.scores import DEPTH
from tasks.job import DataSet

FILES = (ERRORS,)


def write(
    job: EmbeddingsJob,
    data: DataSet,
    found: Any,  # similarities; or a collection and the ranked documents
    report: Report,
) -> None:
    """Write errors.tsv of a development set."""
    examples = job.examples(data)
    if has_scores(examples):
        wanted = np.array([example.score for example in examples])
        errors = found - wanted
        if job.similarity:  # of another scale than the scores
            errors = _standard(found) - _standard(wanted)
        wrong = table.worst(
            ("row", "error", "text_a", "text_b"),
            range(len(examples)),
            wanted.tolist(),
            found.tolist(),
            errors.tolist(),
            [example.texts for example in examples],
        )
    else:
        header = ("query", "rank", "text", "relevant", "found_first")
        collection, ranked = found
        wrong = Mistakes(header, _failures(collection, ranked), len(ranked))
    report.errors(wrong)


def _standard(values: np.ndarray) -> np.ndarray:
    """Return values in standard deviations from their mean."""
    return (values - values.mean()) / max(values.std(), 1e-12)


def _failures(
    collection: Collection, ranked: Sequence[Sequence[str]]
) -> list[tuple[Cell, ...]]:
    """Return the queries whose first document is not relevant, worst first.

    The rank is that of the first relevant document, None beyond the depth.
    """
    listed = []
    for (query, text), found in zip(
        collection.queries.items(), ranked, strict=True
    ):
        wanted = collection.relevant[query]
        ranks = [n for n, name in enumerate(found, 1) if name in wanted]
        rank = ranks[0] if ranks else None
        if rank != 1:
            first = collection.documents[found[0]] if found else ""
            best = max(wanted, key=wanted.get)
            right = collection.documents[best]
            listed.append((query, rank, text, right, first))
    return sorted(listed, key=lambda row: -(row[1] or DEPTH + 1))
