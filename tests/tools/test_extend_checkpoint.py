"""Which words are chosen, where they go, and what they change."""

from base.errors import UserError

import pytest
import scripts

import tokenization

vocabulary = scripts.load("tools.extend_checkpoint")

VOCAB = (
    "[PAD] [unused1] [UNK] [CLS] [SEP] [MASK] the cat cardio ##logy ##gram "
    "##s c ##a ##r 1 ##9"
)


@pytest.fixture
def tokenizer(tmp_path) -> tokenization.FullTokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB.split()) + "\n")
    return tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))


def test_a_list(tokenizer, tmp_path):
    lines = (
        *("cardiology", "", "  Cardiogram ", "car", "the", "cardiology"),
        *("CARDIOLOGY", "heart attack", "covid-19", "##gram", "[MASK]"),
        *("xylem", "\u00ad", "c" * 201),
    )
    path = tmp_path / "words"
    path.write_text("\n".join(lines))
    found, left_out = vocabulary.read_list(str(path), tokenizer, {"car": 7})
    assert found == [
        ("cardiology", ("cardio", "##logy"), 0),
        ("cardiogram", ("cardio", "##gram"), 0),
        ("car", ("c", "##a", "##r"), 7),
        ("xylem", ("[UNK]",), 0),
    ]
    assert [*left_out.values()] == [
        ["the"],
        ["cardiology", "CARDIOLOGY"],
        ["heart attack"],
        ["covid-19", "##gram", "[MASK]"],
        ["\u00ad"],
        ["c" * 201],
    ]
    cased = tokenization.FullTokenizer(tokenizer.vocab_file, False)
    path.write_text("Cats\ncats\nCats")
    found, _ = vocabulary.read_list(str(path), cased, {})
    assert [word.word for word in found] == ["Cats", "cats"]
    path.write_text("the\nCat\nheart attack")
    with pytest.raises(UserError, match=r"none of its 3 .* tokens already \(2"):
        vocabulary.read_list(str(path), tokenizer, {})


def test_the_words_that_cost_most(tokenizer):
    counts = {
        "the": 100,  # one piece
        "cats": 8,  # 2 pieces, 8 saved
        "cardiograms": 5,  # 3 pieces, 10 saved
        "cardiology": 8,  # 2 pieces, 8 saved, first by the alphabet
        "xylem": 99,  # [UNK]
        "cars": 1,  # too rare
        "199": 50,  # no letter
    }
    found, left_out = vocabulary.choose_from_text(counts, tokenizer, 9, 2)
    assert [(word.word, word.count, len(word.pieces)) for word in found] == [
        ("cardiograms", 5, 3),
        ("cardiology", 8, 2),
        ("cats", 8, 2),
    ]
    assert sorted(left_out.values()) == [["199"], ["cars"], ["xylem"]]
    two, _ = vocabulary.choose_from_text(counts, tokenizer, 2, 2)
    assert two == found[:2]
    with pytest.raises(UserError, match="none of the 2 different words"):
        vocabulary.choose_from_text({"the": 9, "cat": 9}, tokenizer, 5, 1)


def test_unused_tokens_are_replaced_then_words_are_appended(tmp_path):
    path = tmp_path / "vocab.txt"
    # A line of U+2028 alone, as in the Chinese vocabulary, is a blank one.
    before = ["[PAD]", "[unused7]", "\u2028", "[unused1]", "a"]
    path.write_text("\n".join(before) + "\n\u3000\n\n")
    before[2] = ""
    words = [vocabulary.NewWord(text, ("a", "##b"), 0) for text in "xyz"]
    found = vocabulary.extend(tokenization.Vocabulary(path), words)
    assert found == (
        ["[PAD]", "x", "", "y", "a", "z"],
        [1, 3, 5],
    )
    assert vocabulary.extend(tokenization.Vocabulary(path), []) == (before, [])


def test_what_changes_in_a_text():
    """The longest match is greedy: "abc" leaves a rest that needs two."""
    before = "[UNK] inform ##ation ##al in ##for ##m ab ##cde ##d ##e"
    # "informs" is unknown before and after; "informm" is 2 pieces.
    counts = {"informal": 2, "infor": 1, "informalation": 3, "informs": 9}
    counts |= {"information": 4, "abcde": 1}
    found = []
    for words in (before, f"{before} informal infor abc"):
        ids = {token: number for number, token in enumerate(words.split())}
        tokenizer = tokenization.WordpieceTokenizer(ids)
        found.append(vocabulary.pieces_per_word(counts, tokenizer))
    # 2 * 2 + 1 * 2 + 3 * 3 + 9 * 1 + 4 * 2 + 2, and
    # 2 * 1 + 1 * 1 + 3 * 2 + 9 * 1 + 4 * 2 + 3
    assert found == [34 / 20, 29 / 20]
