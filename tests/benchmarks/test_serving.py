"""The serving part of the benchmark, alone and beside a stand-in."""

import json
import sys

from base.errors import UserError

import numpy as np
import pytest
import scripts

from benchmarks import serving as benchmarks_serving
from serving import graph_tokenizer

pytest.importorskip("tensorflow_text")
benchmark = scripts.load("benchmark")

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB += "the a film was good bad long short .".split()
# A stand-in for an interpreter with transformers: answers every question with
# nine seconds and a pooled output of zeros.
FAKE = """#!{python}
import json, sys
if "import torch, transformers" == sys.argv[2]:
    sys.exit()
cases = json.load(open(sys.argv[4]))
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    rows = sum(
        len(batch.get("text", batch.get("input_ids")))
        for batch in cases[asked["case"]]
    )
    print(json.dumps({{
        "seconds": [9.0] * asked["calls"], "pooled": [[0.0] * 128] * rows
    }}), flush=True)
"""


@pytest.fixture
def small(monkeypatch):
    """Shapes and batches that are computed in a moment."""
    monkeypatch.setattr(benchmarks_serving, "SHAPES", ((1, 4), (2, 8)))
    monkeypatch.setattr(benchmarks_serving, "SENTENCES_PER_BATCH", 4)


@pytest.fixture
def files(tmp_path):
    """A vocabulary and six sentences."""
    vocab, text = tmp_path / "vocab.txt", tmp_path / "text.txt"
    vocab.write_text("\n".join(VOCAB) + "\n")
    text.write_text("The film was good .\n\nBad .\n" * 3)
    return {"vocab_file": str(vocab), "input_file": str(text)}


def table(capsys, **values):
    """Run --parts=serving as a user would; return the rows by name."""
    scripts.run(
        benchmark,
        parts="serving",
        serving_size="tiny",
        repeats=2,
        **values,
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("| ")
    ]
    return {row[0]: row[1:] for row in rows}


class Answering:
    """Answers each call with half a second and a pooled output of zeros."""

    def __init__(self, *_):
        pass

    def ask(self, case, calls):
        return {"seconds": [0.5] * calls, "pooled": [[0.0]]}

    def close(self):
        pass


def test_without_transformers_the_comparison_is_skipped(
    small, files, tmp_path, capsys, monkeypatch
):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    tokenizer = graph_tokenizer.Tokenizer(files["vocab_file"])
    for name, value in (
        ("write_models", lambda *_: tokenizer),
        ("Side", Answering),
        ("padding_share", lambda *_: 0.25),
    ):
        monkeypatch.setattr(benchmarks_serving, name, value)
    rows = table(capsys, transformers_python=python, **files)
    value, note = rows["serving against transformers"]
    assert value == "skipped" and str(python) in note
    assert "--transformers_python" in note
    value, note = rows["serving tiny, text, 1 batches of 4 sentences"]
    assert value == "8.0 rows/s"
    assert "25% of the batches is padding" in note
    assert {"serving tiny, ids, 1 x 4", "serving tiny, ids, 2 x 8"} < set(rows)


@pytest.mark.slow
def test_both_sides_are_compared(small, files, tmp_path, capsys):
    python = tmp_path / "python"
    python.write_text(FAKE.format(python=sys.executable))
    python.chmod(0o755)
    rows = table(capsys, transformers_python=python, **files)
    assert "serving against transformers" not in rows
    for name in ("ids, 1 x 4", "ids, 2 x 8", "text, 1 batches of 4 sentences"):
        value, note = rows[f"serving tiny, {name}"]
        assert value.endswith("times transformers")
        assert float(value.split()[0]) > 1  # nine seconds
        assert "transformers 9000.0 ms, median 9000.0" in note
        difference = float(note.split("answers within ")[1].split(";")[0])
        assert 1e-3 < difference <= 1  # of a tanh and the fake's zeros
    # Four sentences of 7, 4, 7 and 4 tokens.
    assert "21% of the batches is padding" in note


def test_a_process_that_fails_at_its_start_is_quoted(tmp_path):
    cases = tmp_path / "cases.json"
    cases.write_text("{}")
    program = "raise RuntimeError('no such model')"
    with pytest.raises(UserError, match="no such model"):
        benchmarks_serving.Side(sys.executable, program, tmp_path, cases)


def test_a_process_that_fails_in_a_call_is_quoted(tmp_path):
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps({"one": [{}]}))
    program = "import sys, time, json\n\ndef call(batch):\n    1 / 0\n"
    side = benchmarks_serving.Side(
        sys.executable, program + benchmarks_serving._LOOP, tmp_path, cases
    )
    with pytest.raises(UserError, match="ZeroDivisionError"):
        side.ask("one", 1)
    side.close()


def test_an_interpreter_that_cannot_be_run_is_refused():
    with pytest.raises(UserError, match="--transformers_python=/no/where"):
        benchmarks_serving.has_transformers("/no/where")


def test_sentences_of_a_tsv_are_found_by_their_header(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks_serving, "SENTENCES_PER_BATCH", 4)
    path = tmp_path / "dev.tsv"
    path.write_text(
        "\ufeffQuality\t#1 ID\t#1 String\t#2 String\n"
        "1\t7\tone\ttwo \n0\t8\tthree\tfour\n",
        encoding="utf-8",
    )
    found = benchmarks_serving.read_sentences(str(path))
    assert found == ["one", "two", "three", "four"]


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("short.txt", "one line\n", "1 sentences"),
        ("empty.tsv", "", "no column"),
        ("other.tsv", "id\tlabel\n1\t2\n", "found 'id, label'"),
        ("latin.txt", b"caf\xe9\n", "utf-8"),
        ("missing.txt", None, "No such file"),
    ],
)
def test_files_without_enough_sentences_are_refused(
    tmp_path, name, content, words
):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    with pytest.raises(UserError, match=words) as caught:
        benchmarks_serving.read_sentences(str(path))
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_cases_are_full_rows_and_whole_batches():
    texts = [f"text {n}" for n in range(70)]
    cases = benchmarks_serving.make_cases(texts, 50)
    assert [case.rows for case in cases] == [1, 1, 32, 64]
    assert np.shape(cases[2].batches[0]["input_ids"]) == (32, 128)
    assert np.min(cases[2].batches[0]["input_mask"]) == 1
    assert [len(batch["text"]) for batch in cases[3].batches] == [32, 32]
    assert cases[3].batches[1]["text"][0] == "text 32"
    assert cases[0].calls > cases[1].calls > cases[2].calls == 1


def test_rates_and_notes_hold_best_and_median():
    case = benchmarks_serving.Case("x", [], 1, 64)
    alone = benchmarks_serving.Result(case, [0.5, 1.0], [], 0.0)
    assert alone.rates() == "128.0 rows/s"
    assert alone.note() == "500.0 ms, median 750.0"
    both = benchmarks_serving.Result(
        case, [0.5, 1.0, 2.0], [1.0, 4.0, 4.0], 2e-6
    )
    assert both.rates() == "2.00 times transformers"
    assert "medians 4.00 times; answers within 2e-06" in both.note()
