"""tools.benchmark: flags, parts and table."""

import sys
from pathlib import Path

from base.errors import UserError

import pytest
import scripts
from corpora import VOCAB_FILE

import modeling
from tools.benchmarks import measuring, programs, steps
from tools.benchmarks import text as benchmarks_text

benchmark = scripts.load("tools.benchmark")


@pytest.mark.parametrize(
    "values, message",
    [
        (
            {"parts": "train,cooking"},
            "--parts=train,cooking: 'cooking': value should be one of",
        ),
        ({"sizes": ""}, "--sizes is required"),
        ({"lengths": "8,1024"}, "1024 is not an integer in the range [1, 512]"),
        (
            {"parts": "train", "peer_python": "/no/where"},
            "--peer_python=/no/where: [Errno 2] No such file",
        ),
        ({"parts": "reader"}, "--parts=reader needs generator beside it"),
    ],
)
def test_a_mistake_is_one_line(values, message):
    assert message in scripts.error_of(benchmark, **values)


def test_the_script_of_a_part_that_fails_is_quoted():
    with pytest.raises(UserError, match="^build_vocab.py failed: --input_file"):
        measuring.run_script(
            "build_vocab.py", input_file="/no/where", output_file="/no/vocab"
        )


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            measuring.Row(
                "a", {"seconds": 0.123456, "file_bytes": 12.3e6}, "b"
            ),
            "| a | 0.1235 seconds | 12.3 M file bytes, b |",
        ),
        (
            measuring.Row("a", {"rows_per_second": 12345.6}),
            "| a | 12,346 rows per second |  |",
        ),
        (measuring.Row("a", note="failed"), "| a |  | failed |"),
    ],
)
def test_a_row_has_its_first_figure_in_a_column(row, line):
    assert str(row) == line


# In place of transformers_steps.py: what it answers.
_THEIRS = """
import json, sys
print(json.dumps("versions"), flush=True)
for line in sys.stdin:
    found = {"first": 1, "seconds": [0.5, 0.25]}
    if json.loads(line)["compiles"]:
        found = {"error": "out of memory"}
    print(json.dumps(found), flush=True)
"""


@pytest.mark.nightly
def test_every_part_is_measured_and_printed(tmp_path, capsys, monkeypatch):
    measured, measure = [], benchmark.rows

    def noted_rows():
        for row in measure():
            measured.append(row)
            yield row

    monkeypatch.setattr(benchmark, "rows", noted_rows)
    monkeypatch.setattr(benchmarks_text, "_READER_BATCHES", 2)
    theirs = tmp_path / "theirs.py"
    theirs.write_text(_THEIRS)
    monkeypatch.setattr(steps, "_TRANSFORMERS", theirs)
    text = tmp_path / "text.txt"
    documents = [f"The word {n}.\nAnd one more." for n in range(50)]
    text.write_text("\n\n".join(documents))
    scripts.run(
        benchmark,
        parts="tokenizer,generator,reader,train",
        sizes="tiny",
        repeats=2,
        jit_compile=False,  # compiling takes longer than all else
        input_file=text,
        vocab_file=VOCAB_FILE,
        peer_python=sys.executable,
    )
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][1:]
    assert "processor: " in lines[0] and "float32, no XLA" in lines[1]
    figures = {row.what: row.figures for row in measured if row.figures}
    names = [row[0].removeprefix("| ") for row in rows]
    failed = "training step, tiny, 32 x 128, transformers, torch.compile"
    assert names.count(failed) == 1 and failed not in figures
    names.remove(failed)
    assert (
        list(figures)
        == list(dict.fromkeys(names))
        == [
            "matrix product, float32",
            "tokenizer, lines_to_ids",
            "tokenizer, text_to_ids",
            "generator, 1 worker",
            "generator, 2 workers",
            "reader, shuffled and decoded",
            "training step, tiny, 32 x 128, transformers, eager",
            "training step, tiny, 32 x 128",
        ]
    )
    assert all(min(values.values()) >= 0 for values in figures.values())
    assert figures["generator, 1 worker"]["megabytes"] > 10
    step = figures["training step, tiny, 32 x 128"]
    assert step["share_of_eager"] == step["seconds"] / 0.25
    assert (
        rows[-1][1]
        == f"{step['sequences_per_second']:.4g} sequences per second"
    )
    assert (
        f", {step['matmul_peak_share']:.4g} matmul peak share, " in rows[-1][2]
    )


# In place of faiss.
_FAISS = """
import numpy as np
__version__ = "0"

class IndexFlatIP:
    def __init__(self, width):
        self.vectors = np.zeros([0, width], np.float32)
    def add(self, vectors):
        self.vectors = np.concatenate([self.vectors, vectors])
    def search(self, queries, count):
        scores = queries @ self.vectors.T
        rows = np.argsort(-scores, axis=1)[:, :count]
        return np.take_along_axis(scores, rows, 1), rows
"""


@pytest.mark.nightly
def test_programs_and_queries_are_timed(tmp_path, capsys, monkeypatch):
    """Beside this interpreter with a stand-in for faiss, no transformers."""
    for package in "openvino", "onnx", "ai_edge_litert":
        pytest.importorskip(package)
    peer, text = tmp_path / "python", tmp_path / "text.txt"
    (tmp_path / "faiss.py").write_text(_FAISS)
    run = f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"'
    peer.write_text(f"#!/bin/sh\n{run}\n")
    peer.chmod(0o755)
    text.write_text("One two.\nThree.\n" * 20)
    monkeypatch.setattr(programs, "SEARCHES", {1000: (1, 20)})
    scripts.run(
        benchmark,
        parts="programs,search,vectors,classifier",
        serving_size="tiny",
        repeats=2,
        input_file=text,
        vocab_file=VOCAB_FILE,
        peer_python=peer,
    )
    lines = capsys.readouterr().out.splitlines()
    rows = dict(line.strip("| ").split(" | ", 1) for line in lines[5:])
    found = [name.partition(", ")[2] for name in rows if "prog" in name]
    many = "40 sentences"
    assert found == [
        "import tensorflow, tensorflow_text",
        "--help",
        "from_texts",
        "export_saved_model.py, saved_model",
        "export_saved_model.py, litert",
        "export_saved_model.py, onnx",
        "batch_predict.py, one text",
        f"batch_predict.py, {many}",
        "litert_model.py, one text",
        f"litert_model.py, {many}",
        "build_vocab.py",
        "build_vocab.py, tokenizers",
        f"litert_model.py, {many}, ONNX",
        f"litert_model.py, {many}, ONNX, openvino",
        "run_classifier.py, transformers",  # at once, since it fails
        "run_classifier.py",
        "run_classifier.py, bfloat16",
        "run_classifier.py, sweep of 2e-5",
        "run_classifier.py, sweep of 2e-5,3e-5,5e-5",
        "each further run of a sweep",
    ]
    for count in 1, 20:
        row = rows[f"search, {count} queries, 1,000 x 384"]
        assert "share of faiss, 1 share of equal answers" in row
    assert "share of tokenizers" in rows["program tiny, build_vocab.py"]
    missing = rows["program tiny, run_classifier.py, transformers"]
    assert "No module named 'transformers'" in missing
    cosine = rows["vectors tiny, both"].split()[0]
    assert 0.999 < float(cosine) <= 1


@pytest.mark.nightly
def test_without_files_the_text_is_that_of_the_demo(monkeypatch):
    documents = {"a": ["One two.", "Three."], "b": ["Four five six."]}
    monkeypatch.setattr(
        benchmarks_text.demo_corpus, "documents", lambda: documents
    )
    with benchmarks_text.prepared_text(None, None) as found:
        lines = [line for line in found.lines() if line]
        assert lines == sum(documents.values(), [])
        assert "##x" in Path(found.vocab_file).read_text().split()
        folder = found.folder
    assert not folder.exists(), "the temporary folder is removed"


@pytest.mark.parametrize("objective", ["mlm_nsp", "mlm", "ltr"])
def test_operations_of_a_step(objective):
    config = modeling.BertConfig.from_size("tiny", 50)
    # Two operations per multiplication and addition, forward and twice
    # backward: 6 per product. By hand: those of two layers, query, key, value
    # and output 4 H^2, intermediate and back 2 * 4 H^2, scores and contexts
    # 2 * 128 H, for each of 128 tokens; the head's of each word that is
    # predicted; the pooler.
    layers = 128 * 2 * (12 * 128**2 + 2 * 128 * 128)
    words = 128 if objective == "ltr" else 20
    head = words * 128 * (128 + 50)
    pooled = 128 * (128 + 2) if objective == "mlm_nsp" else 0
    expected = 6 * 4 * (layers + head + pooled)
    program = steps.Program(objective, "tiny", 128, 4, "float32")
    assert steps.training_flops(config, program) == expected


def test_fake_batch_is_what_the_step_takes():
    program = steps.Program("mlm_nsp", "tiny", 128, 3, "float32")
    batch = {k: v.numpy() for k, v in steps.fake_batch(program).items()}
    names = ("input_ids", "input_mask", "segment_ids", "next_sentence_labels")
    positions = ("positions", "ids", "weights")
    assert {*batch} == {*names, *(f"masked_lm_{name}" for name in positions)}
    assert batch["input_ids"].shape == batch["input_mask"].shape == (3, 128)
    assert 1000 < batch["input_ids"].max() < steps.VOCAB_SIZE
    assert batch["masked_lm_positions"].max() < 128
    assert batch["masked_lm_weights"].sum() == 60
