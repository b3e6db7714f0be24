"""How text is normalized, by a tokenizer's files or a vocabulary."""

import json
import logging
from typing import Any

from base.errors import UserError

import casings
import pytest
from paths import GOLDEN
from tiny import SPECIAL

import modeling
import tokenization
from checkpoints import casing
from checkpoints.casing import TokenizerFiles
from checkpoints.checkpoint import write_tokenizer
from checkpoints.model import Checkpoint
from checkpoints.tokenizer_folder import Folder
from tokenization import TokenizerSettings, Vocabulary

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
        found = casing.choose(golden(name), "v.txt", flag, {})
    lower = name == "uncased" if flag is None else flag
    assert found == tokenization.TokenizerSettings.of(lower)
    assert (words or "") in caplog.text and bool(caplog.text) is bool(words)


HINDI = "में यहाँ यह है हैं ##ें ##् और भारत हिन्दी किताबें दिल्ली".split()
KOREAN = "한국 ##어 서울 나라 사람 ##은".split()
GERMAN_WORDS = "für über ##ück schön mädchen straße der das und".split()
FEW_CAPITALS = [*"one two three four five six seven eight".split() * 20, "NBA"]
TWO_IDEOGRAPHS = "北京 大学 中国 ##人民".split()


@pytest.mark.parametrize(
    "tokens, flag, expected, words",
    [
        (HINDI, None, (True, False, True), "strip_accents = False, as many"),
        (HINDI, False, (False, False, True), None),
        ([*HINDI, "NBA"], None, (False, False, True), "looks cased"),
        (HINDI, True, (True, True, True), "v.txt keeps accents (36 of 53"),
        (KOREAN, None, (True, False, True), "strip_accents = False, as many"),
        (KOREAN, False, (False, False, True), None),
        (GERMAN_WORDS, None, (True, False, True), "strip_accents = False"),
        (CHINESE, None, (True, True, True), "looks uncased"),
        (CHINESE, False, (False, False, True), None),
        (FEW_CAPITALS, None, (True, True, True), "9 of 649 tokens of v.txt"),
        (FEW_CAPITALS, False, (False, False, True), None),
        (TWO_IDEOGRAPHS, None, (True, True, False), "chinese_chars = False"),
        ([*CHINESE, *"##北 ##京".split()], True, (True, True, True), None),
    ],
)
def test_tokens_that_no_text_has_decide(tokens, flag, expected, words, caplog):
    """Lower-casing, stripping and splitting would never give many of them."""
    vocab = [*SPECIAL, *tokens * 4]  # the special tokens are few
    with caplog.at_level(logging.INFO):
        found = casing.choose(vocab, "v.txt", flag, {})
    assert found[:3] == expected
    assert (words or "") in caplog.text and bool(caplog.text) is bool(words)


def test_files_say_more_than_tokens():
    found = casing.choose(HINDI * 4, "v.txt", None, {"strip_accents": True})
    assert found[:3] == (True, True, True)


# --- Files of the tokenizer --------------------------------------------------

CONFIG, WHOLE = "tokenizer_config.json", "tokenizer.json"
MAP, PLAIN = "special_tokens_map.json", "vocab.txt"
LONGEST = "max_input_chars_per_word"


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
        "model": {
            "type": "WordPiece",
            "continuing_subword_prefix": "##",
            "vocab": {token: number for number, token in enumerate(SPECIAL)},
        },
    }


def whole_with(part: str, key: str, value) -> dict:
    """Return a tokenizer.json of BERT with another setting."""
    found = whole()
    found[part][key] = value
    return found


def read(folder, files: dict) -> dict[str, Any]:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return dict(Folder(str(folder)).said)


GERMAN = {"do_lower_case": True, "strip_accents": False}

# What BertTokenizer of transformers does without a word in the files.
HUB = {
    "max_input_chars_per_word": 100,
    "special_tokens": tuple(SPECIAL),
    "is_of_hub": True,
}
GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}


@pytest.mark.parametrize(
    "files, found",
    [
        ({}, {}),
        ({CONFIG: {}}, {}),
        ({CONFIG: GERMAN}, GERMAN),
        # BertTokenizer has settings of its own where the first file is silent.
        *(
            ({CONFIG: config, WHOLE: whole(**normalizer)}, fields)
            for normalizer, fields in (
                ({"strip_accents": False}, (True, False, True)),
                ({"handle_chinese_chars": False}, (True, True, False)),
                ({"lowercase": False}, (False, False, True)),
                (
                    {"lowercase": False, "strip_accents": True},
                    (False, True, True),
                ),
            )
            for config, fields in ((GENERIC, fields), ({}, (True, True, True)))
        ),
        (
            {CONFIG: {"do_lower_case": False}}
            | {WHOLE: whole(lowercase=False, strip_accents=True)},
            (False, False, True),
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
            HUB,
        ),
    ],
)
def test_files_tell_the_normalization(tmp_path, files, found):
    if isinstance(found, tuple):
        fields = tokenization.TokenizerSettings._fields
        found = dict(zip(fields, found, strict=False)) | HUB
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
        ({CONFIG: {"tokenizer_class": ["A"]}}, "tokenizer_class is ['A']"),
        ({CONFIG: {"do_basic_tokenize": False}}, "do_basic_tokenize is False"),
        ({CONFIG: {"word_tokenizer_type": "mecab"}}, "word_tokenizer_type is"),
        ({CONFIG: {"never_split": ["C++"]}}, "never_split is ['C++']"),
        ({CONFIG: {"never_split": 5}}, "never_split is 5"),
        ({CONFIG: {"do_lower_case": "no"}}, "do_lower_case is 'no', wanted"),
        ({CONFIG: {"strip_accents": 1}}, "strip_accents is 1, wanted true or"),
        ({WHOLE: whole(clean_text=False)}, "normalizer.clean_text is False"),
        ({WHOLE: whole(type="Lowercase")}, "normalizer.type is 'Lowercase'"),
        ({WHOLE: whole() | {"normalizer": None}}, "normalizer is None"),
        ({WHOLE: whole() | {"model": {"type": "Unigram"}}}, "is 'Unigram'"),
        ({WHOLE: []}, "wanted a JSON object"),
    ],
)
def test_other_tokenizers_are_refused(tmp_path, files, words):
    with pytest.raises(UserError) as error:
        read(tmp_path, files)
    assert words in str(error.value) and "\n" not in str(error.value)


# What transformers 5.24 gives for these files: which names its five special
# tokens have, which tokens it finds in a text, and its longest word.
OF_TRANSFORMERS = {
    "split": (
        {CONFIG: {"split_special_tokens": True}, WHOLE: whole()},
        (SPECIAL, [], 100),
    ),
    "names": (
        {
            CONFIG: {
                "cls_token": "<s>",
                "sep_token": {"__type": "AddedToken", "content": "</s>"},
            },
            "config.json": {},
        },
        (
            [*SPECIAL[:2], "<s>", "</s>", "[MASK]"],
            [*SPECIAL[:2], "<s>", "</s>", "[MASK]"],
            100,
        ),
    ),
    # The second file counts before the first, but for this key in the first.
    "names of the map": (
        {
            CONFIG: {"unk_token": "a"},
            MAP: {"unk_token": {"content": "<unk>"}},
            "config.json": {},
        },
        (["[PAD]", "<unk>", *SPECIAL[2:]],) * 2 + (100,),
    ),
    "names beside the map": (
        {
            CONFIG: {"added_tokens_decoder": {}},
            MAP: {"unk_token": "<unk>"},
            "config.json": {},
        },
        (SPECIAL, SPECIAL, 100),
    ),
    "more": (
        {
            CONFIG: {"additional_special_tokens": ["[A]", {"content": "[B]"}]},
            MAP: {"extra_special_tokens": {"c": "[C]"}, "bos_token": "[D]"},
            WHOLE: whole()
            | {
                "added_tokens": [
                    {"id": 5, "content": "[A]", "special": True},
                    {"id": 6, "content": "[B]", "special": True},
                    {"id": 7, "content": "[C]", "special": True},
                    {"id": 8, "content": "[D]", "special": True},
                    {"id": 9, "content": "[E]", "normalized": False},
                ]
            },
        },
        (SPECIAL, [*SPECIAL, "[A]", "[B]", "[D]", "[C]", "[E]"], 100),
    ),
    "long words": (
        {CONFIG: GENERIC, WHOLE: whole_with("model", LONGEST, 7)},
        (SPECIAL, SPECIAL, 7),
    ),
    "long words of a class": (
        {WHOLE: whole_with("model", LONGEST, 7)},
        (SPECIAL, SPECIAL, 100),
    ),
    # Of this project's own folders.
    "ours": ({CONFIG: {}}, (SPECIAL, [], 200)),
    "ours, of the hub": (
        {CONFIG: {"split_special_tokens": False, LONGEST: 100}},
        (SPECIAL, SPECIAL, 100),
    ),
    "from the original": (
        {CONFIG: {"split_special_tokens": True, LONGEST: 200}}
        | {"config.json": {}},
        (SPECIAL, [], 200),
    ),
    "both configurations": (
        {"config.json": {}, "bert_config.json": {}},
        (SPECIAL, [], 200),
    ),
}


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_special_tokens_and_long_words(tmp_path, name):
    files, (names, special, longest) = OF_TRANSFORMERS[name]
    found = TokenizerSettings.of(**read(tmp_path, files))
    assert found.token_names == tuple(names)
    assert found.special_tokens == tuple(special)
    assert found.max_input_chars_per_word == longest


def test_what_one_class_alone_applies_is_warned_of(tmp_path, caplog):
    """BertTokenizer does as BERT does, whatever tokenizer.json says."""
    post = {"type": "TemplateProcessing", "single": [], "pair": []}
    for number, (part, words) in enumerate(
        [
            ({"post_processor": None}, "post_processor is None, BERT has"),
            ({"post_processor": post}, "post_processor is {'single': '', 'pa"),
            (whole_with("model", "unk_token", "a"), "unk_token is a, BERT has"),
            (
                whole_with("model", LONGEST, 9),
                f"model.{LONGEST} is 9, but 100 in BertTokenizer",
            ),
            (whole(lowercase=False), "its normalizer contradicts do_lower"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        caplog.clear()
        assert read(folder, {WHOLE: whole() | part}) and words in caplog.text
        files = {WHOLE: whole() | part, CONFIG: GENERIC}
        if number > 2:
            found = read(folder, files)
            assert (found[LONGEST], found["do_lower_case"]) in (
                (9, True),
                (100, False),
            )
            assert "without model_input_names: transformers g" in caplog.text
            continue
        with pytest.raises(UserError) as error:
            read(folder, files)
        assert words in str(error.value)


@pytest.mark.parametrize(
    "files, is_left",
    [
        ({}, False),
        ({CONFIG: {"truncation_side": "left"}}, True),
        ({WHOLE: whole() | {"truncation": {"direction": "Left"}}}, True),
        (
            {WHOLE: whole() | {"truncation": {"direction": "Left"}}}
            | {CONFIG: {"truncation_side": "right"}},
            False,
        ),
    ],
)
def test_which_end_of_a_text_is_read(tmp_path, files, is_left):
    read(tmp_path, files)
    assert Folder(str(tmp_path)).reads_end is is_left


TOKENS = [*SPECIAL, "the", "cat"]


@pytest.mark.parametrize(
    "plain, whole_ids, found",
    [
        (None, TOKENS, WHOLE),
        (TOKENS, None, PLAIN),
        (TOKENS, TOKENS, PLAIN),
        # The Chinese vocabulary has U+2028, a line that is blank.
        ([*TOKENS, "", "a"], [*TOKENS, "\u2028", "a"], PLAIN),
        (None, None, None),
    ],
)
def test_the_vocabulary_of_a_folder(tmp_path, plain, whole_ids, found):
    write_vocabularies(tmp_path, plain, whole_ids)
    vocabulary = Folder(str(tmp_path)).vocabulary
    assert bool(vocabulary) == bool(found)
    if found:
        assert vocabulary.path == str(tmp_path / found)
        tokens = [*(whole_ids or plain)]
        ids = vocabulary.tokens
        assert list(ids.values()) == list(range(len(tokens)))
        assert [ids[token] for token in TOKENS] == list(range(len(TOKENS)))
        text = vocabulary.content.decode()
        assert text.split() == [x for x in tokens if x.strip()]


def test_tokens_behind_the_vocabulary(tmp_path):
    """tokenizer.json adds one to those of vocab.txt, and leaves an id out."""
    write_vocabularies(tmp_path, TOKENS, TOKENS, [{"content": "x", "id": 8}])
    vocabulary = Folder(str(tmp_path)).vocabulary
    assert vocabulary.path == str(tmp_path / WHOLE)
    vocab = vocabulary.tokens
    assert vocab["x"] == 8 and vocab["[blank line 8]"] == 7
    (tmp_path / "copy.txt").write_bytes(vocabulary.content)
    assert tokenization.load_vocab(str(tmp_path / "copy.txt")) == vocab


@pytest.mark.parametrize(
    "plain, ids, added, words",
    [
        (
            [*SPECIAL, "cat", "the"],
            {},
            [],
            "contradict each other: id 5 is 'cat' in the one and 'the' in",
        ),
        ([*TOKENS, "a"], {}, [], "the one has 8 tokens, the other 7"),
        (None, {"dog": 6}, [], "'cat' and 'dog' have id 6"),
        (None, {"dog": -1}, [], "the id of 'dog' is -1, wanted a number fr"),
        (None, {"dog": 10**9}, [], "the id of 'dog' is 1000000000, wanted"),
        (None, {"dog": "7"}, [], "the id of 'dog' is '7', wanted a number"),
        (None, {}, [{"content": "cat", "id": 9}], "'cat' has the ids 6 and 9"),
        (None, {}, ["cat"], "added_tokens is ['cat'], wanted a list of obje"),
        (None, None, [], "model.vocab is None, wanted an object of tokens"),
    ],
)
def test_vocabularies_that_cannot_be_used(tmp_path, plain, ids, added, words):
    write_vocabularies(tmp_path, plain, TOKENS, added)
    path = tmp_path / WHOLE
    theirs = json.loads(path.read_text())
    if ids is None:
        del theirs["model"]["vocab"]
    else:
        theirs["model"]["vocab"] |= ids
    path.write_text(json.dumps(theirs))
    with pytest.raises(UserError) as error:
        _ = Folder(str(tmp_path)).vocabulary.tokens
    line = str(error.value)
    assert words in line and str(path) in line and "\n" not in line
    assert plain is None or str(tmp_path / PLAIN) in line


def write_vocabularies(folder, plain, whole_tokens, added=()) -> None:
    """Write vocab.txt and tokenizer.json of tokens; None: no file."""
    if plain is not None:
        (folder / PLAIN).write_text("\n".join(plain))
    if whole_tokens is not None:
        ids = {token: number for number, token in enumerate(whole_tokens)}
        content = whole_with("model", "vocab", ids) | {"added_tokens": added}
        (folder / WHOLE).write_text(json.dumps(content))


ADDED = {
    "config": {
        CONFIG: {
            "added_tokens_decoder": {
                "6": {
                    "content": "[NAME]",
                    "single_word": True,
                    "special": True,
                },
                "5": {"content": "Covid", "special": False},
            }
        }
    },
    "whole": {
        WHOLE: whole()
        | {
            "added_tokens": [
                {"content": "[CLS]", "special": True, "id": 2},
                {"content": "Covid", "normalized": True, "id": 5},
                {"content": "[NAME]", "normalized": False}
                | {"single_word": True, "id": 6},
            ]
        }
    },
    "old": {
        "added_tokens.json": {"[NAME]": 6, "Covid": 5},
        "special_tokens_map.json": {"additional_special_tokens": ["[NAME]"]},
    },
}


@pytest.mark.parametrize("name", ADDED)
def test_tokens_that_transformers_adds_are_found(tmp_path, caplog, name):
    """Behind those of vocab.txt, and by their rules; also in what we write."""
    files = ADDED[name] | {"config.json": {}}
    (tmp_path / "vocab.txt").write_text("\r\n".join(SPECIAL))
    for file, content in files.items():
        if file == WHOLE:
            content["model"]["vocab"] = {x: i for i, x in enumerate(SPECIAL)}
        (tmp_path / file).write_text(json.dumps(content))
    folder = Folder(str(tmp_path))
    for place in ("read", "written"):
        settings = TokenizerSettings.of(**{"do_lower_case": True} | folder.said)
        tokenizer = tokenization.FullTokenizer(
            folder.vocabulary, settings=settings
        )
        ids = tokenizer.text_to_ids("[SEP]aCOVID [NAME] [name] x[NAME]")
        found = [i for i in ids if i != tokenizer.vocab["[UNK]"]]
        # The old file has no rules.
        assert found == [3, 5, 6] + [6] * (name == "old"), place
        files = TokenizerFiles(folder, folder.vocabulary, True, str(tmp_path))
        target = tmp_path / "written"
        target.mkdir(exist_ok=True)
        (target / "bert_config.json").write_text("{}")
        write_tokenizer(
            str(target),
            Checkpoint(str(tmp_path), modeling.BertConfig(7), files=files),
        )
        folder = Folder(str(target))
    assert "has no ids" not in caplog.text
    assert settings.normalized_tokens == ("Covid",)
    assert settings.whole_words == ("[NAME]",) * (name != "old")


def test_added_tokens_without_an_id_are_named_once(tmp_path, caplog):
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL))
    token = {"content": "covid", "special": False}
    config = {"added_tokens_decoder": {"30522": token}}
    (tmp_path / CONFIG).write_text(json.dumps(config))
    prefix = str(tmp_path / "model.ckpt")
    for _ in range(2):
        casings.settings_of(None, prefix, str(tmp_path / "vocab.txt"))
    words = "vocab.txt has no ids of 1 tokens that the files of its tokenizer "
    assert caplog.text.count(words + "add, such as 'covid': here") == 1


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
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(golden("uncased")))
    vocabulary = Vocabulary(path)
    settings = {"strip_accents": False, "tokenize_chinese_chars": False}
    (tmp_path / CONFIG).write_text(json.dumps(settings))
    with caplog.at_level(logging.INFO):
        found = TokenizerFiles(None, vocabulary).settings
    assert found == TokenizerSettings(True, False, False)
    assert "strip_accents = False, as the tokenizer's files say" in caplog.text
    (tmp_path / CONFIG).write_text(json.dumps(GERMAN))
    found = TokenizerFiles(None, vocabulary, True).settings
    assert found == TokenizerSettings(True, False, True)
    with pytest.raises(UserError, match="was trained with True"):
        _ = TokenizerFiles(None, vocabulary, False).settings
