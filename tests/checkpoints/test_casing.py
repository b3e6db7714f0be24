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


@pytest.mark.parametrize("name", ["cased", "uncased"])
def test_published_vocabularies_show_their_casing(name):
    assert casing.looks_cased(golden(name)) is (name == "cased")


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
    "name, do_lower_case, warning",
    [
        ("cased", True, "v.txt looks cased (8371 of 28996 tokens have"),
        ("uncased", False, "v.txt looks uncased (5 of 30522 tokens have"),
        ("cased", False, None),
        ("uncased", True, None),
    ],
)
def test_a_contradiction_gives_a_warning(name, do_lower_case, warning, caplog):
    casing.warn_of_contradiction(golden(name), "v.txt", do_lower_case)
    assert (warning or "") in caplog.text and bool(caplog.text) is bool(warning)


@pytest.mark.parametrize(
    "do_lower_case, words",
    [
        (False, "do_lower_case = False, as the capitals in v.txt show"),
        (True, "do_lower_case = True, as v.txt looks uncased"),
    ],
)
def test_the_log_says_what_decided(do_lower_case, words, caplog):
    with caplog.at_level(logging.INFO):
        casing.log_choice("v.txt", do_lower_case)
    assert words in caplog.text
