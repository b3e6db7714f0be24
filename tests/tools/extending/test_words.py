"""Which words are chosen from a list and from text."""

from pathlib import Path

from base.errors import UserError

import pytest

import tokenization
from tools.extending import words

VOCAB = (
    "[PAD] [unused1] [UNK] [CLS] [SEP] [MASK] the cat cardio ##logy ##gram "
    "##s c ##a ##r"
)


@pytest.fixture
def tokenizer(tmp_path) -> tokenization.FullTokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB.split()) + "\n")
    return tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))


def read(tokenizer, tmp_path: Path, text: str, **counts) -> words.Chosen:
    (tmp_path / "words").write_text(text)
    return words.read_list(str(tmp_path / "words"), tokenizer, counts)


def test_a_list(tokenizer, tmp_path):
    lines = (
        *("cardiology", "", "  Cardiogram ", "car", "the", "cardiology"),
        *("CARDIOLOGY", "heart attack", "covid-19", "##gram", "[MASK]"),
        *("xylem", "\u00ad", "c" * 201),
    )
    chosen = read(tokenizer, tmp_path, "\n".join(lines), car=7)
    assert chosen.words == [
        ("cardiology", ("cardio", "##logy"), 0),
        ("cardiogram", ("cardio", "##gram"), 0),
        ("car", ("c", "##a", "##r"), 7),
        ("xylem", ("[UNK]",), 0),
    ]
    assert chosen.notes == {
        words.CHANGED: 1,
        words.KNOWN: 1,
        words.TWICE: 2,
        words.SPACES: 1,
        words.PUNCTUATION: 3,
        words.UNKNOWN: 1,
        words.EMPTY: 1,
        words.TOO_LONG: 1,
    }
    assert chosen.examples[words.TWICE] == "cardiology"
    assert chosen.examples[words.CHANGED] == "Cardiogram"


def test_casing_is_kept_in_a_cased_vocabulary(tokenizer, tmp_path):
    cased = tokenization.FullTokenizer(tokenizer.vocab_file, False)
    chosen = read(cased, tmp_path, "Cats\ncats\nCats")
    assert [word.word for word in chosen.words] == ["Cats", "cats"]
    assert chosen.notes == {words.UNKNOWN: 1, words.TWICE: 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n \n", "is empty: wanted one word per line"),
        (
            "the\nCat\nheart attack",
            "none of its 3 words can be added: that are tokens already: 2; that"
            " contain spaces, and a token is one word: 1",
        ),
    ],
)
def test_lists_without_a_new_word(tokenizer, tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(tokenizer, tmp_path, text)


COUNTS = {
    "the": 100,  # one piece
    "cats": 8,  # 2 pieces, 8 saved
    "cardiograms": 5,  # 3 pieces, 10 saved
    "cardiology": 8,  # 2 pieces, 8 saved, first by the alphabet
    "xylem": 99,  # [UNK]
    "cars": 1,  # too rare
}


def test_the_words_that_cost_most(tokenizer):
    chosen = words.choose_from_text(COUNTS, tokenizer, 9, min_frequency=2)
    assert [(w.word, w.cost) for w in chosen.words] == [
        ("cardiograms", 10),
        ("cardiology", 8),
        ("cats", 8),
    ]
    assert sorted(chosen.notes.values()) == [1, 1]
    assert set(chosen.examples.values()) == {"xylem", "cars"}
    two = words.choose_from_text(COUNTS, tokenizer, 2, min_frequency=2)
    assert two.words == chosen.words[:2]


def test_words_without_a_letter_are_left_out(tmp_path):
    vocab = ["[UNK]", "1", "##9", "a"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab))
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    counts = {"199": 50, "a9": 2}
    chosen = words.choose_from_text(counts, tokenizer, 9, 1)
    assert [word.word for word in chosen.words] == ["a9"]
    assert chosen.notes == {"are split and have no letter": 1}


def test_a_text_without_a_new_word(tokenizer):
    with pytest.raises(UserError, match="of 2 different words none is split"):
        words.choose_from_text({"the": 9, "cat": 9}, tokenizer, 5, 1)
