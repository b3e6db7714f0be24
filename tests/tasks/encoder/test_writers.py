"""Files of features: numbers as Python prints them, whole or not at all."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.encoder import lines as features_lines
from tasks.rows import make_row

# --- Six decimals ------------------------------------------------------------

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS | st.floats(-2, 2, width=32), min_size=1, max_size=40))
@example([-0.0, 0.0, 1e-9, -1e-9, 1 / 128, -3 / 128, 5e-5, -1.25e-5, 9.95e-5])
@example([998.5, -998.9999, 0.5, 1.0, -10.0, 100.0, 0.1, 1e-4, -1e-4, 1e-6])
@example([999.0, 999.9999, 1000.0, -1e5, 3e38])
def test_rows_are_what_python_prints(values):
    rows = np.array([values, values[::-1]], np.float32)
    wanted = [
        ", ".join(json.dumps(round(float(x), 6)) for x in row) for row in rows
    ]
    assert features_lines.format_rows(rows) == [w.encode() for w in wanted]


def test_ties_and_neighbours():
    """Every m / 128 is a tie in the seventh decimal; and both its sides."""
    ties = (np.arange(-4001, 4001, 2) / 128).astype(np.float32)
    rows = np.stack([np.nextafter(ties, s) for s in (-100, 100)] + [ties])
    rows = rows.astype(np.float32)
    wanted = [
        ", ".join(repr(round(float(x), 6)) for x in row).encode()
        for row in rows
    ]
    assert features_lines.format_rows(rows) == wanted


def test_empty_rows():
    assert features_lines.format_rows(np.zeros([2, 0], np.float32)) == [b""] * 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("output_format", features_lines.FORMATS)
@pytest.mark.parametrize("count", [1, 100])
def test_a_full_disk(tmp_path, scheme, output_format, count, monkeypatch):
    """It shows at the end, or with so many lines in the middle."""
    path = f"{scheme}{tmp_path}/out"
    monkeypatch.setattr("secrets.token_hex", lambda size: "0")
    (tmp_path / f".out.{os.getpid()}-0.tmp").symlink_to("/dev/full")
    values = np.ones([20, 1, 64], np.float32)
    line = features_lines.Line(0, make_row([0] * 20, 20), 1)
    with pytest.raises((OSError, tf.errors.OpError)) as caught:
        features_lines.write(
            path, output_format, [(line, values)] * count, [-1], {0: "a"}
        )
    assert os.listdir(tmp_path) == []
    # base/script.py shows it.
    assert caught.value.file_written.endswith("out")
