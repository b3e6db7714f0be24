"""Time queries to an index of random vectors, and to faiss if installed."""

import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from serving.search.index import OFFSETS, TEXTS, VECTORS, Index
from tools.benchmarks import measuring
from tools.benchmarks.measuring import Row

NUM_VECTORS, WIDTH = 1_000_000, 384

_TOP_K = 10

_QUERIES = (1, 100)  # asked together


def random_vectors(count: int, seed: int) -> np.ndarray:
    """Return vectors of length 1 in random directions, float32 [n, WIDTH]."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal([count, WIDTH], np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def measure() -> Iterator[Row]:
    """Time an exact search."""
    with tempfile.TemporaryDirectory(prefix="benchmark") as folder:
        np.save(os.path.join(folder, VECTORS), random_vectors(NUM_VECTORS, 0))
        # All vectors have one text.
        offsets = np.broadcast_to(np.int64(0), [NUM_VECTORS + 1])
        np.save(os.path.join(folder, OFFSETS), offsets)
        with open(os.path.join(folder, TEXTS), "wb"):
            pass
        index = Index(folder)
        yield from _rows(
            "exact",
            lambda few: list(index.nearest(few, _TOP_K)),
            os.path.getsize(os.path.join(folder, VECTORS)),
        )
        if importlib.util.find_spec("faiss"):
            import faiss

            flat = faiss.IndexFlatIP(WIDTH)
            flat.add(np.ascontiguousarray(index.vectors))
            yield from _rows(
                "faiss.IndexFlatIP",
                lambda few: flat.search(few, _TOP_K),
                index.vectors.nbytes,
            )


def _rows(
    name: str, search: Callable[[np.ndarray], object], size: int
) -> Iterator[Row]:
    queries = random_vectors(max(_QUERIES), 1)
    for count in _QUERIES:
        few = queries[:count]
        seconds = measuring.best_seconds(lambda few=few: search(few))
        yield Row(
            f"search, {name}, queries at once: {count}",
            f"{seconds:.3f} s",
            f"{NUM_VECTORS:,} vectors of {WIDTH}, {size / 1e6:,.0f} MB",
            {"seconds": seconds},
        )
