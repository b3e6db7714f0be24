"""Logits to n-best lists, spans to texts: goldens, rules, cases."""

import gzip
import itertools
import json

import numpy as np
import pytest
import squad_files
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN

import tokenization
from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import decoding as squad_decoding
from tasks.squad import windows as squad_windows


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_nbest_lists_are_the_originals(version, tokenizer, tmp_path):
    folder, is_version_2 = GOLDEN / f"squad_{version}", version == "v2"
    decoded = squad_files.golden_decoded(version, tokenizer, tmp_path)
    nbest = json.loads(
        gzip.decompress((folder / "nbest_predictions.json.gz").read_bytes())
    )
    assert list(decoded.nbest) == list(nbest)
    for key, entries in nbest.items():
        found = decoded.nbest[key]
        # Where nothing can be an answer, the original answers "empty".
        texts = [e["text"] for e in entries]
        texts = [""] if texts == ["empty"] else texts
        assert [candidate.text for candidate in found] == texts
        for candidate, entry in zip(found, entries, strict=True):
            for name in ("probability", "start_logit", "end_logit"):
                value = getattr(candidate, name)
                assert value == pytest.approx(entry[name], abs=1e-6)
    lists = {k: [c._asdict() for c in v] for k, v in decoded.nbest.items()}
    for entry in itertools.chain(*lists.values()):
        del entry["span"]
    text = squad_answers.nbest_json(decoded.nbest)
    assert text == json.dumps(lists, indent=4)  # to the last byte
    answers = json.loads((folder / "predictions.json").read_text())
    for key, found in decoded.chosen().items():
        wanted = answers[key]
        assert found.text == ("" if wanted == "empty" else wanted)
    if is_version_2:
        odds = json.loads((folder / "null_odds.json").read_text())
        assert decoded.null_odds == pytest.approx(odds, abs=1e-6)


def most_context(*spans: tuple[int, int]) -> list[list[int]]:
    """Return max_context of a question's windows, beside other questions."""
    start, length = (np.tile(x, 3) for x in zip(*spans, strict=True))
    question = np.repeat([0, 2, 3], len(spans))
    flags = squad_decoding.max_context(question, start, length).astype(int)
    first, *others = np.split(flags, 3)
    assert all((other == first).all() for other in others)
    ends = np.cumsum([size for _, size in spans])
    return [part.tolist() for part in np.split(first, ends)[:-1]]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 25))
def test_max_context_token_by_token(length, limit, stride):
    """Against the rule of the original, one token after the other."""
    spans = list(squad_windows.spans(length, limit, stride))
    flags = most_context(*spans)
    for token in range(length):
        scores = {
            number: min(token - start, start + size - 1 - token) + 0.01 * size
            for number, (start, size) in enumerate(spans)
            if start <= token < start + size
        }
        best = max(scores, key=scores.get, default=None)  # first of equals
        for number in scores:
            start = spans[number][0]
            assert flags[number][token - start] == (number == best)


def test_the_example_of_max_context():
    assert most_context((0, 5), (3, 5)) == [[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]]


def windows_on(text: str, tokenizer) -> squad_windows.Windows:
    """Return the only window of a question on a paragraph."""
    data = squad_data.SquadData(
        [squad_data.make_paragraph(text)],
        [squad_data.SquadExample("a", "Who?", 0)],
    )
    lengths = squad_windows.Lengths(64, 16, 8)
    return squad_windows.convert(data, tokenizer, lengths)


def test_padding_takes_no_place_among_the_best(tokenizer):
    """The best spans do not depend on how far a batch was padded."""
    windows = windows_on("Paris is a city.", tokenizer)
    logits = np.full([1, 64], 5.0, np.float32)  # padding looks best
    logits[0, :10] = np.arange(10)[::-1] / 10

    def texts(width: int, ignore: bool) -> list[str]:
        part = logits[:, :width]
        options = squad_decoding.AnswerOptions(
            n_best_size=3, ignore_padding=ignore
        )
        decoded = squad_decoding.decode(windows, part, part, tokenizer, options)
        return [candidate.text for candidate in decoded.nbest["a"]]

    length = int(windows.doc_offset[0] + windows.doc_length[0]) + 1
    assert texts(64, True) == texts(length, True)
    assert texts(64, False) == [""]  # as the original, which says "empty"


# --- Texts of spans ----------------------------------------------------------


def test_the_characters_of_a_span_are_those_of_the_paragraph(tokenizer):
    """Of two equal words the right one, with its white space between."""
    text = "He (Paul),  Paul\u00a0and Paul's\n dog."
    windows = windows_on(text, tokenizer)
    texts = squad_decoding.SpanTexts(windows, tokenizer)
    pieces = [tokenizer.inv_vocab[i] for i in windows.documents[0].tolist()]
    begins = int(windows.doc_offset[0])
    pauls = [at for at, piece in enumerate(pieces) if piece == "paul"]
    found = [texts.find(0, begins + at, begins + at)[1][1:] for at in pauls]
    assert found == [(4, 8), (12, 16), (21, 25)]
    found, (piece, start, end) = texts.find(
        0, begins + pauls[0], begins + pauls[2]
    )
    assert piece == pauls[0]
    assert text[start:end] == "Paul),  Paul\u00a0and Paul"
    assert found == "Paul), Paul and Paul"


@pytest.mark.parametrize(
    "text, piece, wanted",
    [
        ("It ended 7-7", -1, (11, 12)),
        ("The US/us", -1, (7, 9)),
        ("AT&T", -1, (3, 4)),
        ("aab-ab", -1, (4, 6)),
        ("北京大學在北京", -2, (5, 6)),
        # A whole unknown word, Hangul, an accent that is dropped, a lower case
        # of two letters, a character of two code units before the answer.
        ("snow \u2603\u2603, \u2603\u2603", -1, (9, 11)),
        ("b한국 b", -1, (4, 5)),
        ("ete e\u0301te\u0301-e\u0301te\u0301!", -2, (10, 15)),
        ("\u0130b ab\u0130b", -1, (5, 7)),
        ("\U0001f600 ab ab", -1, (5, 7)),
    ],
)
def test_the_characters_of_one_of_several_equal_pieces(
    tmp_path, text, piece, wanted
):
    """Not those of the first piece of the word that looks the same."""
    han = "北京大學在"
    tokens = ["it", "ended", "7", "-", "us", "the", "/", "at", "&", "t", *han]
    tokens += ["ab", "a", "##ab", "##ib", "ete", "!", ",", "b", "i", "##b", "?"]
    vocab = [*tokenization.SPECIAL_TOKENS, "who", "snow", *tokens]
    path = squad_files.write(tmp_path, "\n".join(vocab) + "\n", "vocab.txt")
    tokenizer = tokenization.FullTokenizer(path)
    windows = windows_on(text, tokenizer)
    texts = squad_decoding.SpanTexts(windows, tokenizer)
    end = int(windows.doc_offset[0] + windows.doc_length[0])
    at = end + piece
    found, span = texts.find(0, at, at)
    assert (found, span[1:]) == (text[slice(*wanted)], wanted)
