"""benchmark.py: its flags, its table and the JSON object at the end."""

import json

import pytest
import scripts

benchmark = scripts.load("benchmark")


@pytest.mark.parametrize(
    "values, message",
    [
        ({"parts": "train,cooking"}, "--parts=cooking: unknown"),
        ({"parts": ""}, "--parts=: empty; choose from"),
        ({"sizes": ""}, "--sizes=: empty; choose from"),
        ({"sizes": "enormous"}, "--sizes=enormous: unknown"),
        ({"parts": "squad"}, "--parts=squad needs --squad_file"),
        ({"parts": "buckets"}, "--parts=buckets needs --task_name"),
    ],
)
def test_unknown_parts_and_sizes(values, message):
    assert message in scripts.error_of(benchmark, **values)


@pytest.mark.slow
def test_the_last_line_has_the_figures_of_the_table(tmp_path, capsys):
    vocab, text = tmp_path / "vocab.txt", tmp_path / "text.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nword\n.\n")
    text.write_text("A word.\n" * 500)
    scripts.run(
        benchmark,
        parts="tokenizer,train",
        sizes="tiny",
        repeats=2,
        input_file=text,
        vocab_file=vocab,
    )
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][1:]
    found = json.loads(lines[-1])
    assert found["dtype"] == "float32" and found["jit_compile"] is True
    described = found["machine"]
    assert lines[0].endswith(
        f"{described['cores']} cores; Python {described['python']}, TensorFlow "
        f"{described['tensorflow']}, numpy {described['numpy']}"
    )
    figures = found["figures"]
    assert list(figures) == list(
        dict.fromkeys(row[0].removeprefix("| ") for row in rows)
    )
    update = figures["update of the weights alone, tiny"]
    # 4,433,468 weights of 4 bytes, each read or written 7 times.
    moved = update["bytes_per_second"] * update["seconds"]
    assert moved == pytest.approx(4 * 7 * 4_433_468)
    assert update["copy_bytes_per_second"] > 0
    step = figures["training step, tiny, batch 32"]
    assert rows[-1][1] == f"{step['sequences_per_second']:.1f} sequences/s"
    assert rows[-2][1] == f"{step['matmul_peak_share']:.0%} of matmul peak"
