"""The serving part of the benchmark, alone and beside a stand-in."""

import json
import sys

from base.errors import UserError

import numpy as np
import pytest
import scripts

from tools.benchmarks import serving as benchmarks_serving
from tools.benchmarks import serving_programs

pytest.importorskip("tensorflow_text")
benchmark = scripts.load("tools.benchmark")

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB += "the a film was good bad long short .".split()
# A stand-in for an interpreter with transformers: answers every question with
# nine seconds and vectors of ones.
FAKE = """#!{python}
import json, sys
cases = json.load(open(sys.argv[4]))
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    rows = sum(
        len(batch.get("text", batch.get("input_ids")))
        for batch in cases[asked["case"]]
    )
    print(json.dumps({{
        "seconds": [9.0] * asked["calls"], "vectors": [[1.0] * 128] * rows
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


def write_python(folder, text):
    """Write a stand-in for an interpreter and return its path."""
    path = folder / "python"
    path.write_text(text)
    path.chmod(0o755)
    return path


def table(capsys, **values):
    """Run --parts=serving as a user would; return the rows by name."""
    scripts.run(
        benchmark, parts="serving", serving_size="tiny", repeats=2, **values
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("| ")
    ]
    return {row[0]: row[1:] for row in rows}


CASES = ("ids, 1 x 4", "ids, 2 x 8", "text, 1 batches of 4 sentences")


def test_an_interpreter_without_transformers_ends_in_a_line(
    small, files, tmp_path, capsys, monkeypatch
):
    python = write_python(tmp_path, "#!/bin/sh\necho no torch >&2\nexit 1\n")
    monkeypatch.setattr(benchmarks_serving, "write_models", lambda *_: 13)
    waits = "import sys, time, json\n"
    monkeypatch.setattr(serving_programs, "SAVED_MODEL", waits)
    for path, message in ((python, "no torch"), ("/no/where", "/no/where")):
        with pytest.raises(UserError, match=f"transformers.*{message}"):
            table(capsys, peer_python=path, servers="savedmodel", **files)


@pytest.mark.nightly
def test_servers_are_compared(small, files, tmp_path, capsys):
    """LiteRT takes ids alone."""
    pytest.importorskip("ai_edge_litert")
    python = write_python(tmp_path, FAKE.format(python=sys.executable))
    rows = table(
        capsys, peer_python=python, servers="savedmodel,litert", **files
    )
    for case in CASES:
        value, note = rows[f"serving tiny, {case}, transformers"]
        assert value == "9 seconds"
        assert float(note.split(", ")[-1].split()[0]) < 0.9  # lowest cosine
        value, note = rows[f"serving tiny, {case}, savedmodel"]
        share = float(value.split()[0]) / 9
        found, words = note.split(", ")[-1].split(" ", 1)
        assert float(found) == pytest.approx(share, rel=1e-2)
        assert words == "share of transformers"
    assert (
        "difference of answers" in rows["serving tiny, ids, 2 x 8, litert"][1]
    )
    assert not any("text" in row and "litert" in row for row in rows)


def test_a_process_that_fails_is_quoted(tmp_path, monkeypatch):
    """At its start, and in a call."""
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps({"one": [{}]}))

    def start(program):
        monkeypatch.setattr(serving_programs, "SAVED_MODEL", program)
        return benchmarks_serving.start("one", sys.executable, tmp_path, cases)

    with pytest.raises(UserError, match="the server one ended: .*no such"):
        start("raise RuntimeError('no such model')")
    program = "import sys, time, json\n\ndef call(batch):\n    1 / 0\n"
    with start(program) as side:
        with pytest.raises(UserError, match="ZeroDivisionError"):
            side.ask({"case": "one", "calls": 1})


def test_a_batch_needs_as_many_sentences(files, capsys):
    with pytest.raises(UserError, match="6 lines with text, wanted at least"):
        table(capsys, servers="savedmodel", **files)


def test_cases_are_full_rows_and_whole_batches():
    texts = [f"text {n}" for n in range(70)]
    *cases, last = benchmarks_serving.make_cases(texts, [5, 6, 7])
    assert [case.rows for case in cases] == [1, 1, 1, 8, 32]
    ids = np.array(cases[4].batches[0]["input_ids"])
    assert ids.shape == (32, 128) and ids.ravel()[:4].tolist() == [5, 6, 7, 5]
    assert np.min(cases[4].batches[0]["input_mask"]) == 1
    assert last.rows == 64
    assert [len(batch["text"]) for batch in last.batches] == [32, 32]
    assert last.batches[1]["text"][0] == "text 32"
    assert cases[0].calls > cases[1].calls > cases[2].calls > 1
    assert cases[3].calls == cases[4].calls == last.calls == 1
