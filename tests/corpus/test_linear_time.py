"""One vandalised page must not stop a worker: all of corpus/ takes linear time.

60 kB of one repeated piece take milliseconds in linear time and seconds to
minutes in quadratic time, so the bound is not one of speed.
"""

import importlib
import pkgutil
import re
import time

import pytest

import corpus

LENGTH = 60_000
SECONDS = 1.5
PIECES = (
    " ", "\n", "\n ", "a", "A", "1", "_", "__A", "é", "中", "。", ", ", ", ;",
    " ;", "؛", ",", ".", ". ", "1, ", "1.", '"', '" ', "'", "''", "(", "( ",
    ")", "(a", "[", "]", "[[", "<", "<a", "</", "<!--", "{", "{{", "{|", "-{",
    "|", "=", "&", "&a", "-", "/", "http://", "http://a ", "zh", "\r\n", "e3",
    "Foo (b, ",
)  # fmt: skip
PATTERNS = [
    pytest.param(value, id=f"{name}.{key}")
    for _, name, _ in pkgutil.iter_modules(corpus.__path__, "corpus.")
    for key, value in vars(importlib.import_module(name)).items()
    if isinstance(value, re.Pattern)
]


def pages(piece):
    """Return long texts of a piece, each with a beginning that may match."""
    return [start + piece * (LENGTH // len(piece)) for start in ("", "(", "a ")]


@pytest.mark.nightly
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_expression(pattern):
    for piece in PIECES:
        for text in pages(piece):
            if isinstance(pattern.pattern, bytes):
                text = text.encode()
            begin = time.process_time()
            for _ in pattern.finditer(text):
                pass
            assert time.process_time() - begin < SECONDS, piece
