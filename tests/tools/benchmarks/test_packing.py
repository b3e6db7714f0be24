"""The comparison of packed with unpacked records."""

import pytest
from corpora import VOCAB_FILE, manual, write

from tools.benchmarks import packing


@pytest.mark.slow
def test_a_text_has_a_row_of_fills_and_one_of_speed(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "LENGTHS", {128: (20, 4)})
    path = write(tmp_path / "text.txt", manual(20))
    fills, speed = packing.measure(
        "manual", [path], VOCAB_FILE, tmp_path, ["tiny"], 2, "float32", False
    )
    assert fills.what == speed.what == "packing, manual, 128"
    before, after = fills.figures.values()
    assert before < after <= 1
    assert fills.value.startswith(f"fill {before:.2%} to {after:.2%}, ")
    assert speed.figures["tiny_ratio"] > 0
    assert speed.value == (
        f"tiny: {speed.figures['tiny_ratio']:.3f} times the real tokens/s"
    )


def test_each_pattern_is_a_text(tmp_path):
    for name in ("a1", "a2", "b"):
        (tmp_path / name).write_text("x")
    found = packing.find_texts(f"{tmp_path}/a*,{tmp_path}/b")
    assert found == {
        f"{tmp_path}/a*": [f"{tmp_path}/a1", f"{tmp_path}/a2"],
        f"{tmp_path}/b": [f"{tmp_path}/b"],
    }
