"""The task parts of the benchmark, on small data sets."""

import gzip
import re

import pytest
from corpora import VOCAB_FILE
from paths import GOLDEN

from tools.benchmarks import tasks as benchmarks_tasks


@pytest.mark.slow
def test_an_epoch_in_buckets_is_the_sum_over_its_batches(tmp_path):
    lines = [f"x\t1\t\t{'word ' * (10, 20, 30)[n % 3]}" for n in range(96)]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    row, fused = benchmarks_tasks.measure_buckets(
        "cola", str(tmp_path), VOCAB_FILE, "tiny", "float32"
    )
    faster = float(row.value.split()[0])
    first, second = re.findall(r"([\d.]+) (?:against|examples)", row.note)
    assert faster == pytest.approx(float(first) / float(second), rel=0.02)
    assert "22 of 128 tokens" in row.note  # 20 words, two special ones
    assert row.figures["mean_tokens"] == 22
    assert f"{row.figures['ratio']:.2f}" == row.value.split()[0]
    # Three batches of 12, 22 and 32 tokens, which shuffling may mix.
    figures = fused.figures
    assert 2 <= figures["lengths"] <= 3
    assert figures["plain_seconds"] == pytest.approx(
        96 / row.figures["examples_per_second"]
    )
    assert figures["ratio"] == pytest.approx(
        figures["seconds"] / figures["plain_seconds"]
    )


def test_squad_windows_are_counted(tmp_path):
    path = tmp_path / "squad.json"
    golden = GOLDEN / "squad_v2" / "input.json.gz"
    path.write_bytes(gzip.decompress(golden.read_bytes()))
    rows = list(benchmarks_tasks.measure_squad(str(path), VOCAB_FILE))
    assert [row.what for row in rows] == [
        "SQuAD windows and records, 1 worker",
        "SQuAD windows and records, 2 workers",
        "SQuAD decoding",
    ]
    # The number of workers does not change the number of windows.
    windows = [row.note.split()[0] for row in rows[:2]]
    assert windows[0] == windows[1] and int(windows[0]) >= 120


@pytest.mark.slow
def test_features_are_extracted_with_and_without_padding(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("the same few words\n" * 20)
    row = benchmarks_tasks.measure_features(str(path), VOCAB_FILE, "tiny")
    assert row.value.endswith("times padded")
    assert row.figures["sequences_per_second"] > 0
    assert row.figures["padded_sequences_per_second"] > 0
