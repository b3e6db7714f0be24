"""Spans of pieces back to the text and the characters of the paragraph."""

import pytest

import tokenization
from tasks.squad import data as squad_data
from tasks.squad import texts as squad_texts
from tasks.squad import windows as squad_windows


@pytest.mark.parametrize(
    "pieces, text, wanted",
    [
        ("steve jobs", "(Steve Jobs)", "Steve Jobs"),
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("1895", "(1895-1943).", "1895"),
        ("beyonce", "Beyoncé's", "Beyoncé"),
        ("[UNK]", "some ☃☃", None),
        ("x", "x한", None),  # 2 characters, then 4
        ("i", "İstanbul", "İ"),
        ("a b", "x(a b)y", "a b"),
    ],
)
def test_final_place(pieces, text, wanted):
    """A part of the words; None where that fails."""
    basic = tokenization.BasicTokenizer()

    def normal(word: str) -> str:
        return " ".join(basic.tokenize(word))

    found = squad_texts.final_place(pieces, text.split(), normal)
    assert (found and text[slice(*found)]) == wanted


def test_the_characters_of_a_span_are_those_of_the_paragraph(tokenizer):
    """Of two equal words the right one, with its white space between."""
    text = "He (Paul),  Paul\u00a0and Paul's\n dog."
    data = squad_data.SquadData(
        [squad_data.make_paragraph(text)],
        [squad_data.SquadExample("a", "Who?", 0)],
    )
    lengths = squad_windows.Lengths(64, 16, 8)
    windows = squad_windows.convert(data, tokenizer, lengths)
    texts = squad_texts.SpanTexts(data, windows, tokenizer)
    pieces = [tokenizer.inv_vocab[i] for i in windows.doc_ids.tolist()]
    begins = int(windows.query_length()[0]) + 2
    pauls = [at for at, piece in enumerate(pieces) if piece == "paul"]
    found = [texts.characters(0, begins + at, begins + at) for at in pauls]
    assert found == [(4, 8), (12, 16), (21, 25)]
    span = (0, begins + pauls[0], begins + pauls[2])
    start, end = texts.characters(*span)
    assert text[start:end] == "Paul),  Paul\u00a0and Paul"
    assert texts.text(*span) == "Paul), Paul and Paul"
