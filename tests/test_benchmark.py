"""benchmark.py's own arithmetic; what it times is tested elsewhere."""

import gzip
import re

import numpy as np
import pytest
import scripts
from corpora import VOCAB_FILE
from paths import GOLDEN

import modeling
from benchmarks import tasks as benchmarks_tasks
from training import reporting

benchmark = scripts.load("benchmark")


def test_training_flops_of_tiny_by_hand():
    config = modeling.BertConfig.from_size("tiny", benchmark.VOCAB_SIZE)
    # Two operations per multiplication and addition, forward and twice
    # backward: 6 per product. Two layers of 128 tokens: query, key, value and
    # output 4 * 128 * 128, intermediate and back 2 * 128 * 512, scores and
    # contexts 2 * 128 * 128.
    layers = 2 * 128 * (4 * 128**2 + 2 * 128 * 512 + 2 * 128 * 128)
    # 20 predictions: transform and vocabulary; pooler and two logits.
    after = 20 * (128**2 + 128 * 30522) + 128**2 + 2 * 128
    expected = 6 * 32 * (layers + after)
    assert reporting.training_flops(config, 32, 128, 20) == expected
    assert expected == 26_342_572_032


def test_training_flops_of_base_against_six_times_the_weights():
    config = modeling.BertConfig.from_size("base", benchmark.VOCAB_SIZE)
    # 85 million weights in the layers, each used once per token.
    rough = 6 * 8 * 128 * 85e6 + 6 * 8 * 20 * 768 * 30522
    found = reporting.training_flops(config, 8, 128, 20)
    assert found == pytest.approx(rough, rel=0.04)


def test_fake_batch_is_what_the_step_takes():
    config = modeling.BertConfig.from_size("tiny", vocab_size=50)
    batch = {k: v.numpy() for k, v in benchmark.fake_batch(3, config).items()}
    assert batch["input_ids"].shape == (3, 128)
    assert batch["input_ids"].max() < 50
    positions = batch["masked_lm_positions"]
    assert positions.shape == (3, 20)
    assert (np.diff(positions) > 0).all(), "positions are different ones"
    assert batch["masked_lm_weights"].sum() == 60


def test_numbers_are_read_from_a_log():
    log = "I0 Took 3.5 s\nI0 Wrote 1,234 total instances\n"
    assert benchmark.told(log, "Took ", " s") == 3.5
    assert benchmark.told(log, "Wrote ", " total instances") == 1234


def test_parts_that_want_data(tmp_path):
    """An epoch in buckets is the sum over its batches; windows are counted."""
    lines = [f"x\t1\t\t{'word ' * (10, 20, 30)[n % 3]}" for n in range(96)]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    ((_, value, note),) = benchmarks_tasks.measure_buckets(
        "cola", str(tmp_path), VOCAB_FILE, "tiny"
    )
    faster = float(value.split()[0])
    first, second = re.findall(r"([\d.]+) (?:against|examples)", note)
    assert faster == pytest.approx(float(first) / float(second), rel=0.02)
    assert "22 of 128 tokens" in note  # 20 words, two special ones
    path = tmp_path / "squad.json"
    golden = GOLDEN / "squad_v2" / "input.json.gz"
    path.write_bytes(gzip.decompress(golden.read_bytes()))
    rows = list(benchmarks_tasks.measure_squad(str(path), VOCAB_FILE))
    assert [row[0] for row in rows][-1] == "SQuAD decoding"
    windows = [row[2].split()[0] for row in rows[:2]]  # of any workers
    assert windows[0] == windows[1] and int(windows[0]) >= 120


@pytest.mark.parametrize(
    "values, message",
    [
        ({"parts": "train,cooking"}, "--parts=cooking: unknown"),
        ({"sizes": "enormous"}, "--sizes=enormous: unknown"),
        ({"parts": "squad"}, "--parts=squad needs --squad_file"),
        ({"parts": "buckets"}, "--parts=buckets needs --task_name"),
    ],
)
def test_unknown_parts_and_sizes(values, message):
    assert message in scripts.error_of(benchmark, **values)


@pytest.mark.parametrize("size", ["tiny", "base"])
def test_products_of_a_step_are_what_its_operations_count(size):
    config = modeling.BertConfig.from_size(size, benchmark.VOCAB_SIZE)
    total = 0
    for count, left, right, is_tied in benchmark.step_products(config, 4):
        inner, outer = right[-2:][::-1] if is_tied else right[-2:]
        assert left[-1] == inner and left[:-2] == right[:-2]
        total += 2 * count * np.prod(left, dtype=int) * outer
    # Backward has two products of the same size for each.
    assert 3 * total == reporting.training_flops(config, 4, 128, 20)
    assert (
        benchmark.products_seconds(
            modeling.BertConfig.from_size("tiny", 50), 1, "float32"
        )
        > 0
    )
