"""The printed table and the JSON object after it."""

import json

import numpy as np

from tools.benchmarks import table
from tools.benchmarks.table import Row


def test_rows_are_printed_and_their_figures_collected(capsys):
    rows = [
        Row("step", "5 sequences/s", "best", {"sequences_per_second": 5.0}),
        Row("step", "50% of matmul peak", "", {"matmul_peak_share": 0.5}),
        Row("comparison", "skipped", "not installed"),
    ]
    figures = table.print_rows(rows)
    assert figures == {
        "step": {"sequences_per_second": 5.0, "matmul_peak_share": 0.5}
    }
    assert capsys.readouterr().out.splitlines() == [
        "| what | measured | |",
        "|---|---:|---|",
        "| step | 5 sequences/s | best |",
        "| step | 50% of matmul peak |  |",
        "| comparison | skipped | not installed |",
    ]


def test_json_is_one_line_and_takes_numbers_of_numpy(capsys):
    table.print_json(figures={"a": {"b": np.float32(0.5)}}, dtype="float32")
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last) == {
        "figures": {"a": {"b": 0.5}},
        "dtype": "float32",
    }


def test_the_machine_is_described_in_one_line():
    values = table.machine()
    line = table.describe(values)
    assert f"{values['cores']} cores; Python {values['python']}" in line
    assert f"TensorFlow {values['tensorflow']}" in line
    json.dumps(values)
    values |= {"cores": 8, "gpus": ["/device:GPU:0"]}
    assert "8 cores, /device:GPU:0; Python" in table.describe(values)
