"""The casing that a vocabulary shows."""

import logging

import pytest
from paths import GOLDEN
from tiny import SPECIAL

import tokenization
from checkpoints import casing

CHINESE = [chr(0x4E00 + number) for number in range(200)]


def golden(name: str) -> dict[str, int]:
    return tokenization.load_vocab(str(GOLDEN / "vocab" / f"{name}.txt"))


@pytest.mark.parametrize(
    "tokens, is_cased",
    [
        (CHINESE, False),
        ([*CHINESE, "A", "B", "NBA"], False),
        (["the", "The", "A"], True),
        (["the"], False),
        ([], False),
    ],
    ids=["chinese", "chinese with acronyms", "cased", "uncased", "empty"],
)
def test_a_vocabulary_with_capitals_is_a_cased_one(tokens, is_cased):
    assert casing.looks_cased([*SPECIAL, *tokens]) is is_cased


@pytest.mark.parametrize(
    "name, flag, words",
    [
        ("cased", True, "v.txt looks cased (8371 of 28996 tokens have"),
        ("uncased", False, "v.txt looks uncased (5 of 30522 tokens have"),
        ("cased", None, "do_lower_case = False, as v.txt looks cased"),
        ("uncased", None, "do_lower_case = True, as v.txt looks uncased"),
        ("cased", False, None),
        ("uncased", True, None),
    ],
)
def test_the_flag_or_the_vocabulary_decides(name, flag, words, caplog):
    with caplog.at_level(logging.INFO):
        found = casing.choose(golden(name), "v.txt", flag)
    assert found is (name == "uncased" if flag is None else flag)
    assert (words or "") in caplog.text and bool(caplog.text) is bool(words)
