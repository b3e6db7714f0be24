"""How text is normalized, by a tokenizer's files or a vocabulary."""

import json
import logging

from base.errors import UserError

import pytest
from paths import GOLDEN
from tiny import SPECIAL

import tokenization
from checkpoints import casing
from checkpoints.checkpoint import resolve_normalization

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


# --- Files of the tokenizer --------------------------------------------------

CONFIG, WHOLE = "tokenizer_config.json", "tokenizer.json"


def whole(**normalizer) -> dict:
    """Return a tokenizer.json of BERT."""
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    } | normalizer
    return {
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "continuing_subword_prefix": "##"},
    }


def read(folder, files: dict) -> dict[str, bool]:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return casing.read(str(folder))


GERMAN = {"do_lower_case": True, "strip_accents": False}


@pytest.mark.parametrize(
    "files, found",
    [
        ({}, {}),
        ({CONFIG: {}}, {}),
        ({CONFIG: GERMAN}, GERMAN),
        ({WHOLE: whole(strip_accents=False)}, (True, False, True)),
        ({WHOLE: whole(handle_chinese_chars=False)}, (True, True, False)),
        ({WHOLE: whole(lowercase=False)}, (False, False, True)),
        (
            {WHOLE: whole(lowercase=False, strip_accents=True)},
            (False, True, True),
        ),
        # A setting that one file leaves out is the other one's.
        (
            {
                CONFIG: {"do_lower_case": True},
                WHOLE: whole(strip_accents=False),
            },
            (True, False, True),
        ),
        (
            {CONFIG: GERMAN, WHOLE: whole(strip_accents=False)},
            (True, False, True),
        ),
        ({CONFIG: {"strip_accents": None}, WHOLE: whole()}, (True, True, True)),
        (
            {CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast"}}
            | {WHOLE: whole()},
            (True, True, True),
        ),
        ({CONFIG: {"tokenizer_class": "BertTokenizerFast"}}, {}),
        ({CONFIG: {"tokenizer_class": None, "never_split": ["[MASK]"]}}, {}),
        # The first file that names a class decides, as in transformers.
        (
            {CONFIG: {"tokenizer_class": "BertTokenizer"}}
            | {"config.json": {"tokenizer_class": "BertJapaneseTokenizer"}},
            {},
        ),
    ],
)
def test_files_tell_the_normalization(tmp_path, files, found):
    if isinstance(found, tuple):
        found = tokenization.Normalization(*found)._asdict()
    assert read(tmp_path, files) == found


@pytest.mark.parametrize(
    "files, words",
    [
        (
            {CONFIG: {"tokenizer_class": "BertJapaneseTokenizer"}},
            f"{CONFIG}: tokenizer_class is 'BertJapaneseTokenizer'",
        ),
        (
            {"config.json": {"tokenizer_class": "BertJapaneseTokenizer"}},
            "config.json: tokenizer_class is 'BertJapaneseTokenizer'",
        ),
        (
            {CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast"}},
            "does what tokenizer.json says, which is missing",
        ),
        (
            {CONFIG: {"tokenizer_class": ["Bert"]}},
            "tokenizer_class is ['Bert']",
        ),
        ({CONFIG: {"do_basic_tokenize": False}}, "do_basic_tokenize is False"),
        ({CONFIG: {"word_tokenizer_type": "mecab"}}, "word_tokenizer_type is"),
        ({CONFIG: {"never_split": ["C++"]}}, "never_split is ['C++']"),
        ({CONFIG: {"never_split": 5}}, "never_split is 5"),
        ({CONFIG: {"do_lower_case": "no"}}, "do_lower_case is 'no', wanted"),
        ({CONFIG: {"strip_accents": 1}}, "strip_accents is 1, wanted true or"),
        ({WHOLE: whole(clean_text=False)}, "normalizer: clean_text is False"),
        ({WHOLE: whole(type="Lowercase")}, "normalizer: type is 'Lowercase'"),
        ({WHOLE: whole() | {"normalizer": None}}, "normalizer is None"),
        ({WHOLE: whole() | {"model": {"type": "Unigram"}}}, "is 'Unigram'"),
        ({WHOLE: []}, "wanted a JSON object"),
    ],
)
def test_other_tokenizers_are_refused(tmp_path, files, words):
    with pytest.raises(UserError) as error:
        read(tmp_path, files)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_words_that_transformers_adds_are_named_once(tmp_path, caplog):
    """They have ids behind those of vocab.txt; special tokens are no words."""
    tokens = [{"content": "[CLS]", "special": True}]
    files = {WHOLE: whole() | {"added_tokens": tokens}}
    assert read(tmp_path, files) and not caplog.text
    tokens.append({"content": "covid", "special": False})
    config = {"added_tokens_decoder": {"30522": tokens[1]}}
    for files in (
        {CONFIG: config},
        {WHOLE: whole() | {"added_tokens": tokens}},
    ):
        caplog.clear()
        (tmp_path / "vocab.txt").write_text("[UNK]\n")
        for name, content in files.items():
            (tmp_path / name).write_text(json.dumps(content))
        prefix = str(tmp_path / "model.ckpt")
        vocab_file = str(tmp_path / "vocab.txt")
        resolve_normalization(None, prefix, vocab_file)
        assert (
            caplog.text.count("adds 1 tokens to the vocabulary, such as 'cov")
            == 1
        )
        for name in files:
            (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "config, normalizer, name",
    [
        ({"do_lower_case": False}, {}, "do_lower_case"),
        (
            {"do_lower_case": True, "strip_accents": None},
            {"strip_accents": False},
            "strip_accents",
        ),
        ({"tokenize_chinese_chars": False}, {}, "tokenize_chinese_chars"),
    ],
)
def test_files_that_contradict_each_other_are_both_named(
    tmp_path, config, normalizer, name
):
    with pytest.raises(UserError) as error:
        read(tmp_path, {CONFIG: config, WHOLE: whole(**normalizer)})
    line = str(error.value)
    for file in (CONFIG, WHOLE):
        assert str(tmp_path / file) in line
    assert f"says {name} = " in line


def test_a_vocabulary_has_the_settings_beside_it(tmp_path, caplog):
    """As create_pretraining_data.py reads it: also those that no flag has."""
    vocab_file = str(tmp_path / "vocab.txt")
    settings = {"strip_accents": False, "tokenize_chinese_chars": False}
    (tmp_path / CONFIG).write_text(json.dumps(settings))
    with caplog.at_level(logging.INFO):
        found = casing.of_vocabulary(golden("uncased"), vocab_file, None)
    assert found == (True, False, False)
    assert "strip_accents = False, as the tokenizer's files say" in caplog.text
    (tmp_path / CONFIG).write_text(json.dumps(GERMAN))
    assert casing.of_vocabulary({}, vocab_file, True) == (True, False, True)
    with pytest.raises(UserError, match="was trained with True"):
        casing.of_vocabulary({}, vocab_file, False)
