"""The demo's corpus, its baseline, and the whole of it in a few steps."""

import re
import subprocess
import sys

import numpy as np
import pytest
import scripts
from paths import ROOT

from pretraining import demo_corpus

demo = scripts.load("demo")


@pytest.fixture(scope="module")
def documents():
    return demo_corpus.documents()


def test_sentences_of_a_docstring():
    text = """Return the *first* item.  Raise ``KeyError``, e.g. if empty.

    Some heading of this text
    -------------------------

    * The first item of a list is
      continued here.
    * See :class:`collections.deque` for another one.

    >>> first([1, 2])
    1

        x = first(y) + 3

    =====  ========
    name   meaning
    =====  ========
    """
    assert list(demo_corpus.sentences(text)) == [
        "Return the first item.",
        "Raise KeyError, e.g. if empty.",
        "The first item of a list is continued here.",
        "See collections.deque for another one.",
    ]


def test_abbreviations_and_initials_do_not_end_a_sentence():
    first = "It was written by J. Smith, cf. RFC 2822, i.e. The Standard."
    found = list(demo_corpus.sentences(first + " And it works well."))
    assert found == [first, "And it works well."]


def test_docstrings_come_in_the_order_of_the_source():
    source = '"One."\nclass A:\n  "Two."\n  def f():\n    "Three."\n'
    source += 'async def g():\n  "Four."\n'
    found = list(demo_corpus.docstrings(source))
    assert found == ["One.", "Two.", "Three.", "Four."]


def test_corpus_is_large_clean_and_has_no_sentence_twice(documents):
    sentences = [s for text in documents.values() for s in text]
    assert len(documents) > 250
    assert sum(map(len, sentences)) > 1_000_000
    assert len({s.lower() for s in sentences}) == len(sentences)
    for sentence in sentences:
        assert sentence == " ".join(sentence.split())
        assert ">>>" not in sentence and "::=" not in sentence
    assert min(map(len, documents.values())) >= demo_corpus.MIN_SENTENCES


def test_held_out_documents_are_about_a_tenth(documents):
    share = np.mean([demo_corpus.is_held_out(name) for name in documents])
    assert 0.06 < share < 0.15


def test_writing_the_same_text_again_leaves_the_file_alone(tmp_path):
    path = tmp_path / "corpus.txt"
    demo_corpus.write(str(path), [["A.", "B."], ["C."]])
    assert path.read_text() == "A.\nB.\n\nC.\n\n"
    before = path.stat()
    demo_corpus.write(str(path), [["A.", "B."], ["C."]])
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    demo_corpus.write(str(path), [["A."]])
    assert path.read_text() == "A.\n\n"


def test_unigram_baseline_by_hand():
    found = demo.unigram_baseline(
        np.array([1, 1, 1, 2]), np.array([1, 2, 0, 1]), vocab_size=4
    )
    # Counts with one added to each: 1, 4, 2, 1 of 8.
    expected = -np.mean(np.log([4 / 8, 2 / 8, 1 / 8, 4 / 8]))
    assert found.loss == pytest.approx(expected)
    assert found.accuracy == 0.5
    assert found.positions == 4


def test_table_shows_both_columns():
    scores = {
        "masked_lm_loss": 5.0,
        "masked_lm_perplexity": 148.4,
        "masked_lm_accuracy": 0.21,
        "next_sentence_accuracy": 0.7,
    }
    table = demo.format_table(
        scores, demo.Baseline(6.0, 0.05, 1234), np.array([0, 0, 1]), 250.0
    )
    assert "3 sequences, 1,234 masked tokens" in table
    assert re.search(r"masked LM loss +5\.00 +6\.00", table)
    assert re.search(r"masked LM accuracy +21\.0% +5\.0%", table)
    assert re.search(r"next sentence accuracy +70\.0% +66\.7%", table)
    assert "250 sequences/s" in table


def test_demo_from_end_to_end(tmp_path):
    command = [sys.executable, "demo.py", "--quick", f"--work_dir={tmp_path}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    for script in ("build_vocab", "create_pretraining_data", "run_pretraining"):
        assert f"$ python {script}.py --" in result.stdout
    assert "masked LM loss" in result.stdout
    for sentence in demo.SENTENCES:
        assert sentence in result.stdout
    assert (tmp_path / "model" / "bert_model.ckpt.index").exists()
