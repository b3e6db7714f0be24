#!/usr/bin/env bash
# usearch keeps float32 vectors in 16 bits unless it is told otherwise, and its
# exact search is exact only for what it has kept.
#
# One would guess that an index to which float32 vectors are added, and that
# gives float32 vectors back, holds float32; and that search(exact=True) returns
# the distances that numpy computes.
# What happens: the type of a new index is bfloat16. A vector's distance to itself is off by up to some
# 0.0005, and neighbours whose scores differ by less change places. With
# dtype="f32" the vectors are kept.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  numpy==2.2.6 usearch==2.26.6
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from usearch.index import Index

print("usearch", version("usearch"))
rng = np.random.default_rng(0)
vectors = rng.standard_normal((2000, 384)).astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
true = 1 - np.einsum("ij,ij->i", vectors, vectors)
for options in ({}, {"dtype": "f32"}):
    index = Index(ndim=384, metric="ip", **options)
    index.add(np.arange(len(vectors)), vectors)
    got = np.array([index.get(i) for i in range(10)])
    kept = np.abs(got - vectors[:10]).max()
    found = index.search(vectors, 1, exact=True).distances[:, 0]
    error = np.abs(found - true).max()
    print(options, index.dtype, got.dtype, f"vectors {kept:.1e}", end=" ")
    print(f"distances to themselves {error:.1e}")
    if options:
        assert kept == 0 and error < 1e-5, "float32 is rounded now"
    else:
        assert kept > 1e-4 and error > 1e-4, "float32 is kept now"
PYTHON
echo "As described."
