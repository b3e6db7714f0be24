"""The memory benchmark: figures of a step, and what a row says of them."""

import pytest

from tools.benchmarks import memory


def test_a_row_compares_with_the_first_choice():
    first = {
        "estimate": 900e6,
        "before": 400e6,
        "peak": 1000e6,
        "seconds": 2.0,
        "processor_seconds": 4.0,
    }
    found = first | {"estimate": 700e6, "peak": 700e6, "seconds": 3.0}
    shape = memory.parse_shape("tiny:2x16")
    row = memory._row(shape, "layers", found, first)
    assert row.what == "memory of a step, tiny:2x16, --recompute=layers"
    assert row.value == "700 MB"
    assert row.note == (
        "estimate 700 MB; 300 MB more than before the first step, 0.50 times; "
        "3.00 s, 1.50 times (processor time 1.00 times)"
    )
    assert row.figures["step_bytes"] == 300e6


@pytest.mark.slow
def test_a_step_is_measured_in_a_process_of_its_own():
    (row,) = memory.measure(
        ["tiny:2x16"], ["none"], 2, "float32", False, "mlm_nsp"
    )
    figures = row.figures
    # 4.4 million weights, gradients and slots: 70 MB beside TensorFlow's own.
    assert figures["estimate_bytes"] > 1_020_000_000
    assert figures["peak_bytes"] == pytest.approx(
        figures["estimate_bytes"], rel=0.3
    )
    assert 0 < figures["step_bytes"] < figures["peak_bytes"]
    assert figures["seconds"] > 0
