"""Where new words go in a vocabulary, and what they change."""

import tokenization
from tools.extending import vocabulary
from tools.extending.words import NewWord


def word(text: str) -> NewWord:
    return NewWord(text, ("a", "##b"), 0)


def test_unused_tokens_are_replaced_then_words_are_appended(tmp_path):
    path = tmp_path / "vocab.txt"
    # A line of U+2028 alone, as in the Chinese vocabulary, stays what it is.
    before = ["[PAD]", "[unused7]", "\u2028", "[unused1]", "a", "##b"]
    path.write_text("\n".join(before) + "\n")
    found = vocabulary.extend(str(path), [word("x"), word("y"), word("z")])
    assert found == (
        ["[PAD]", "x", "\u2028", "y", "a", "##b", "z"],
        [1, 3, 6],
        2,
    )
    path.write_text("".join(f"{line}\n" for line in found.lines))
    ids = tokenization.load_vocab(str(path))
    assert [ids[name] for name in ("[PAD]", "a", "##b", "z")] == [0, 4, 5, 6]
    fewer = vocabulary.extend(str(path), [])
    assert fewer == (found.lines, [], 0)


def test_a_last_token_of_white_space_stays(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\na\n\u3000\n\n")
    found = vocabulary.extend(str(path), [word("x")])
    assert found == (["[PAD]", "a", "\u3000", "x"], [3], 0)


def test_what_changes_in_a_text():
    tokens = ["[UNK]", "inform", "##ation", "##al", "in", "##for", "##m"]
    new = [NewWord("informal", ("inform", "##al"), 2)]
    new += [NewWord("infor", ("in", "##for"), 1)]
    before = {token: number for number, token in enumerate(tokens)}
    # "informs" is unknown before and after; "informm" is 2 pieces.
    counts = {"informal": 2, "infor": 1, "informalation": 3, "informs": 9}
    counts |= {"information": 4}
    after = before | {"informal": 7, "infor": 8}
    found = vocabulary.compare(
        counts,
        tokenization.WordpieceTokenizer(before),
        tokenization.WordpieceTokenizer(after),
        new,
    )
    # 2 * 2 + 1 * 2 + 3 * 3 + 9 * 1 + 4 * 2, and 2 + 1 + 3 * 2 + 9 + 4 * 2
    assert found == (19, 32, 26, ["informalation"], [])


def test_a_word_may_have_more_pieces_than_before():
    """The longest match is greedy: "abc" leaves a rest that needs two."""
    before = {
        t: i for i, t in enumerate(["[UNK]", "ab", "##cde", "##d", "##e"])
    }
    after = before | {"abc": 5}
    found = vocabulary.compare(
        {"abcde": 2},
        tokenization.WordpieceTokenizer(before),
        tokenization.WordpieceTokenizer(after),
        [NewWord("abc", ("[UNK]",), 0)],
    )
    assert found == (2, 4, 6, ["abcde"], ["abcde"])


def test_used_ids():
    vocab = {"[PAD]": 0, "[unused1]": 1, "a": 2, "[unused]": 3}
    assert vocabulary.used_ids(vocab) == [0, 2, 3]
