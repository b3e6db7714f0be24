"""The demo's corpus: sentences from docstrings and the reference manual."""

import numpy as np
import pytest

from tools import demo_corpus

DOCSTRING = """Return the *first* item.  Raise ``KeyError``, e.g. if empty.

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

    It was written by J. Smith, cf. RFC 2822, i.e. The Standard. And it works.
    """


def test_sentences_of_a_docstring():
    assert list(demo_corpus.sentences(DOCSTRING)) == [
        "Return the first item.",
        "Raise KeyError, e.g. if empty.",
        "The first item of a list is continued here.",
        "See collections.deque for another one.",
        "It was written by J. Smith, cf. RFC 2822, i.e. The Standard.",
        "And it works.",
    ]


def test_docstrings_come_in_the_order_of_the_source():
    source = '"One."\nclass A:\n  "Two."\n  def f():\n    "Three."\n'
    source += 'async def g():\n  "Four."\n'
    found = list(demo_corpus.docstrings(source))
    assert found == ["One.", "Two.", "Three.", "Four."]


@pytest.mark.nightly
def test_corpus_is_large_clean_and_has_no_sentence_twice():
    documents = demo_corpus.documents()
    sentences = [s for text in documents.values() for s in text]
    assert len(documents) > 250
    assert sum(map(len, sentences)) > 1_000_000
    assert len({s.lower() for s in sentences}) == len(sentences)
    for sentence in sentences:
        assert sentence == " ".join(sentence.split())
        assert ">>>" not in sentence and "::=" not in sentence
    assert min(map(len, documents.values())) >= demo_corpus.MIN_SENTENCES
    share = np.mean([demo_corpus.is_held_out(name) for name in documents])
    assert 0.06 < share < 0.15


def test_a_blank_line_ends_a_document(tmp_path):
    path = tmp_path / "corpus.txt"
    demo_corpus.write(str(path), [["A.", "B."], ["C."]])
    assert path.read_text() == "A.\nB.\n\nC.\n\n"
