"""tokenization.py gives the original's tokens, on its goldens and beyond."""

import doctest
import itertools
import json
import pickle
import shutil
import unicodedata
from pathlib import Path

from base import errors

import code_points
import numpy as np
import one_file_bert
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import nightly
from paths import GOLDEN

import tokenization
from checkpoints import casing
from tokenization import FullTokenizer, TokenizerSettings

CASINGS = ["uncased", "cased"]


def load_tokenizer(casing: str) -> FullTokenizer:
    vocab_file = GOLDEN / "vocab" / f"{casing}.txt"
    return FullTokenizer(str(vocab_file), do_lower_case=casing == "uncased")


TOKENIZERS = {casing: load_tokenizer(casing) for casing in CASINGS}


def reference_tokens(text: str, casing: str) -> list[str]:
    vocab = TOKENIZERS[casing].vocab
    return one_file_bert.tokenize(text, vocab, casing == "uncased")


def reference_ids(text: str, casing: str) -> list[int]:
    vocab = TOKENIZERS[casing].vocab
    return [vocab[token] for token in reference_tokens(text, casing)]


def split_lines(ids: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    bounds = zip(offsets[:-1], offsets[1:], strict=True)
    return [ids[start:end].tolist() for start, end in bounds]


# --- The original's own output -----------------------------------------------


@pytest.fixture(scope="module")
def golden() -> list[dict]:
    """All cases, but for those with a character this Python is too old for.

    What a character is comes from Python's Unicode tables, as it did in the
    original: 3.10 has version 13 and does not know U+2E5D for a hyphen.
    """
    text = (GOLDEN / "tokenization.jsonl").read_text(encoding="utf-8")
    cases = [json.loads(line) for line in text.split("\n") if line]
    assert len(cases) == 1529
    if unicodedata.unidata_version < "14":
        cases = [case for case in cases if "\u2e5d" not in case["text"]]
        assert len(cases) >= 1523
    return cases


@pytest.mark.parametrize("casing", CASINGS)
def test_tokens_are_the_originals(golden, casing):
    tokenizer = load_tokenizer(casing)
    for case in golden:
        text, wanted = case["text"], case[casing]
        assert tokenizer.tokenize(text) == wanted, ascii(text)
        # one_file_bert.py is held to them before it judges the rest.
        assert reference_tokens(text, casing) == wanted, ascii(text)


@pytest.mark.parametrize("casing", CASINGS)
def test_the_two_tokenizers_in_turn_give_the_originals_tokens(golden, casing):
    tokenizer = TOKENIZERS[casing]
    for case in golden:
        tokens = [
            piece
            for word in tokenizer.basic_tokenizer.tokenize(case["text"])
            for piece in tokenizer.wordpiece_tokenizer.tokenize(word)
        ]
        assert tokens == case[casing], ascii(case["text"])


@pytest.mark.parametrize("casing", CASINGS)
def test_ids_are_those_of_the_tokens(golden, casing):
    tokenizer = load_tokenizer(casing)
    wanted = [tokenizer.convert_tokens_to_ids(case[casing]) for case in golden]
    texts = [case["text"] for case in golden]
    assert list(map(tokenizer.text_to_ids, texts)) == wanted
    ids, offsets = load_tokenizer(casing).lines_to_ids(texts)
    assert ids.dtype == np.int32 and offsets.dtype == np.int64
    assert split_lines(ids, offsets) == wanted


# --- All of Unicode ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("step", [16, nightly(1)])
@pytest.mark.parametrize("casing", CASINGS)
def test_assigned_code_points_in_context(casing, step):
    """Each one, or each sixteenth."""
    tokenizer = load_tokenizer(casing)
    compared, different = 0, []
    for chars in code_points.blocks():
        texts = list(map(code_points.put_in_context, chars[::step]))
        found = split_lines(*tokenizer.lines_to_ids(texts))
        for text, ids in zip(texts, found, strict=True):
            compared += step
            if ids != reference_ids(text, casing):
                different.append(ascii(text))
    assert not different and compared > 240_000


@pytest.mark.parametrize("casing", CASINGS)
def test_surrogates_are_unknown_words_as_in_the_original(casing):
    tokenizer = TOKENIZERS[casing]
    assert tokenizer.tokenize("a \ud800b, \udfff") == [
        *["a", "[UNK]", ",", "[UNK]"]
    ]


# Characters that act on their neighbors: kinds of whitespace, controls that
# vanish, marks, ideographs, a final sigma, characters that grow when folded.
TROUBLE = (
    " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2028\u2029\u3000\x00\ufffd\u200b\u200d"
    "\xad\u0301\u0307\u20dd.,$^[]_'\u2019\u3002中\uf900\U0002f800aAΑΣσςİıßẞÅé한\ud800"
)
texts = st.text(
    st.one_of(st.sampled_from(TROUBLE), st.characters(exclude_categories=())),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(text=texts, casing=st.sampled_from(CASINGS))
def test_any_text_equals_reference(text, casing):
    tokenizer = TOKENIZERS[casing]
    assert tokenizer.tokenize(text) == reference_tokens(text, casing)
    assert tokenizer.text_to_ids(text) == reference_ids(text, casing)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(texts, max_size=8), casing=st.sampled_from(CASINGS))
def test_lines_to_ids_equals_text_to_ids(lines, casing):
    tokenizer = TOKENIZERS[casing]
    ids, offsets = tokenizer.lines_to_ids(lines)
    assert split_lines(ids, offsets) == list(map(tokenizer.text_to_ids, lines))
    assert offsets[0] == 0 and offsets[-1] == len(ids)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=60))
def test_bytes_are_decoded_leaving_errors_out(data):
    tokenizer = TOKENIZERS["uncased"]
    text = data.decode("utf-8", "ignore")
    assert tokenizer.tokenize(data) == tokenizer.tokenize(text)
    ids, _ = tokenizer.lines_to_ids([data, text])
    assert ids.tolist() == 2 * tokenizer.text_to_ids(text)


# --- Special cases -----------------------------------------------------------


def test_words_over_200_characters_are_unknown():
    tokenizer = TOKENIZERS["cased"]
    assert len(tokenizer.tokenize("a" * 200)) > 1
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]
    # Characters count, not bytes, and they count after punctuation is off.
    assert tokenizer.tokenize("é" * 200)[-1] == "##é"
    assert "[UNK]" not in tokenizer.tokenize("a" * 200 + "," + "a" * 200)


def test_special_tokens_in_text_are_text():
    tokens = TOKENIZERS["uncased"].tokenize("[MASK]")
    assert tokens == ["[", "mask", "]"]


def test_vanishing_controls_join_their_neighbors():
    tokenizer = TOKENIZERS["uncased"]
    assert tokenizer.tokenize("un\x0bwanted") == tokenizer.tokenize("unwanted")
    assert tokenizer.tokenize("the\u2028the") == ["the", "the"]


def test_text_is_str_or_utf8_bytes():
    assert tokenization.convert_to_unicode(b"caf\xc3\xa9 \xff") == "café "
    assert tokenization.whitespace_tokenize("  a \n b ") == ["a", "b"]
    with pytest.raises(ValueError, match="Unsupported string type"):
        tokenization.convert_to_unicode(3)
    with pytest.raises(ValueError, match="Unsupported string type"):
        TOKENIZERS["cased"].text_to_ids(None)


# --- Cached words ------------------------------------------------------------


def test_the_cache_is_bounded_and_emptying_it_changes_no_ids(monkeypatch):
    monkeypatch.setattr(tokenization, "MAX_CACHED_WORDS", 10)
    tokenizer = load_tokenizer("uncased")
    words = list(tokenizer.vocab)[2000:2100]
    lines = [" ".join(words), "x" * 500, "中文。" * 40, " ".join(words[::-1])]
    ids, offsets = tokenizer.lines_to_ids(lines)
    assert split_lines(ids, offsets) == [
        reference_ids(line, "uncased") for line in lines
    ]
    for memo in (tokenizer._word_ids, tokenizer._part_ids):
        assert 0 < len(memo) <= 10
        assert max(map(len, memo)) <= tokenization.MAX_CACHED_CHARS


def test_tokenizer_can_be_pickled():
    tokenizer = load_tokenizer("uncased")
    wanted = tokenizer.text_to_ids("Unaffable, 中文")
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.text_to_ids("Unaffable, 中文 indeed")[:-1] == wanted


def test_lines_to_ids_of_nothing():
    ids, offsets = TOKENIZERS["cased"].lines_to_ids([])
    assert ids.tolist() == [] and offsets.tolist() == [0]
    ids, offsets = TOKENIZERS["cased"].lines_to_ids(["", " \u200b", "a"])
    assert offsets.tolist() == [0, 0, 0, 1]
    ids[0] = 7  # The array belongs to the caller.


def test_docstring_example(tmp_path, monkeypatch):
    shutil.copy(GOLDEN / "vocab" / "uncased.txt", tmp_path / "vocab.txt")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(tokenization)
    assert result.attempted == 4 and result.failed == 0


# --- Vocabulary files --------------------------------------------------------


def write_vocab(path: Path, *tokens: str) -> str:
    path.write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("casing", "size"), [("uncased", 30522), ("cased", 28996)]
)
def test_published_vocabularies(casing, size):
    tokenizer = TOKENIZERS[casing]
    assert list(tokenizer.vocab.values()) == list(range(size))
    assert len(tokenizer.inv_vocab) == size
    tokenization.validate_special_tokens(tokenizer.vocab)
    tokens = ["[CLS]", "the", "[SEP]"]
    ids = tokenizer.convert_tokens_to_ids(tokens)
    assert tokenizer.convert_ids_to_tokens(np.array(ids)) == tokens


def test_blank_lines_keep_their_ids(tmp_path):
    """The published Chinese vocabulary has U+2028 on a line of its own."""
    tokens = ["[PAD]", "[UNK]", "\u2028", "a", "", "##b", " c\t", "", ""]
    tokenizer = FullTokenizer(write_vocab(tmp_path / "vocab.txt", *tokens))
    assert tokenizer.text_to_ids("ab c \u2028") == [3, 5, 6]
    assert tokenizer.convert_ids_to_tokens([2, 4]) == [
        *["[blank line 3]", "[blank line 5]"]
    ]
    assert len(tokenizer.vocab) == 7


def test_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\ufeff[UNK]\r\nthe\r\n##\u0085x".encode())
    vocab = tokenization.load_vocab(str(path))
    assert vocab == {"[UNK]": 0, "the": 1, "##\u0085x": 2}


def test_duplicate_lines_are_named(tmp_path):
    path = write_vocab(tmp_path / "vocab.txt", "[UNK]", "the", "a", "the ")
    with pytest.raises(errors.UserError, match="lines 2 and 4 both hold 'the'"):
        tokenization.load_vocab(path)


@pytest.mark.parametrize("content", [b"", b"\n \n\n"])
def test_empty_vocabulary(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match="vocab.txt: .* is empty"):
        tokenization.load_vocab(str(path))


def test_vocabulary_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[UNK]\nthe\ncaf\xe9\nend\n")
    with pytest.raises(errors.UserError, match="line 3 is not UTF-8.*0xe9"):
        tokenization.load_vocab(str(path))


@pytest.mark.parametrize("name", ["missing.txt", "", "."])
def test_unreadable_vocabulary(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.UserError, match="cannot read the vocabulary"):
        FullTokenizer(name)


def test_missing_special_tokens_are_named(tmp_path):
    path = write_vocab(tmp_path / "vocab.txt", "[PAD]", "[CLS]", "the")
    with pytest.raises(errors.UserError, match=r"vocab.txt: \[UNK\] missing"):
        FullTokenizer(path)
    vocab = tokenization.load_vocab(path)
    with pytest.raises(errors.UserError, match=r"\[UNK\] \[SEP\] \[MASK\] m"):
        tokenization.validate_special_tokens(vocab)
    tokenization.validate_special_tokens(vocab, ["[PAD]", "[CLS]"])


def test_unknown_token_or_id_names_itself():
    tokenizer = TOKENIZERS["uncased"]
    with pytest.raises(
        errors.UserError, match="token 'Zebra' is not in .*30522"
    ):
        tokenizer.convert_tokens_to_ids(["the", "Zebra"])
    with pytest.raises(errors.UserError, match="id 30522 is not in"):
        tokenizer.convert_ids_to_tokens(np.array([1996, 30522]))


# --- Casing of released models -----------------------------------------------


@pytest.mark.parametrize(
    "path", ["{}/bert_model.ckpt", "/x/{}/bert_model.ckpt", "gs://b/{}", "{}/"]
)
@pytest.mark.parametrize(
    "names, lower",
    [
        (
            "uncased_L-12_H-768_A-12 uncased_L-24_H-1024_A-16 "
            "uncased_L-2_H-128_A-2 uncased_L-10_H-512_A-8 "
            "multilingual_L-12_H-768_A-12 chinese_L-12_H-768_A-12 "
            "wwm_uncased_L-24_H-1024_A-16 bert_uncased_L-4_H-256_A-4 "
            "bert-base-uncased",
            True,
        ),
        (
            "cased_L-12_H-768_A-12 cased_L-24_H-1024_A-16 "
            "multi_cased_L-12_H-768_A-12 wwm_cased_L-24_H-1024_A-16 "
            "bert-base-cased",
            False,
        ),
        ("my_cased model-1", None),
    ],
)
def test_casing_of_released_models_is_known(path, names, lower):
    for name in names.split():
        found = casing.casing_of_checkpoint(path.format(name))
        assert found is lower, name


@pytest.mark.parametrize("checkpoint", [None, "", "bert_model.ckpt"])
def test_casing_of_a_model_without_a_name_is_unknown(checkpoint):
    assert casing.casing_of_checkpoint(checkpoint) is None


# --- Pairs -------------------------------------------------------------------


def pop_from_the_longer(a: int, b: int, limit: int) -> tuple[int, int]:
    """Return the lengths after popping as the original does."""
    while a + b > limit:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return a, b


def test_truncated_lengths_are_those_of_popping_from_the_longer_text():
    sizes = np.arange(45)
    first, second = (x.ravel() for x in np.meshgrid(sizes, sizes))
    for limit in (0, 1, 2, 5, 6, 13, 20, 60, 100):
        wanted = [
            pop_from_the_longer(a, b, limit)
            for a, b in zip(first.tolist(), second.tolist(), strict=True)
        ]
        found = [
            tokenization.truncated_lengths(a, b, limit)
            for a, b in zip(first.tolist(), second.tolist(), strict=True)
        ]
        assert found == wanted
        arrays = tokenization.truncated_lengths(
            first, second, limit, np.minimum, np.maximum
        )
        np.testing.assert_array_equal(np.stack(arrays, axis=1), wanted)


# --- Accents and ideographs --------------------------------------------------

NORMALIZATIONS = [
    TokenizerSettings(*values)
    for values in itertools.product([True, False], repeat=3)
]


def is_alike(text: str) -> bool:
    """Whether the package `tokenizers` treats a text as the original does.

    It drops characters for private use and unassigned ones, has no final
    sigma, keeps special tokens, and words are [UNK] from 101 characters on.
    U+1ACB is an accent to Unicode 14 alone.
    """
    return (
        not any(
            unicodedata.category(char) in ("Co", "Cn", "Cs")
            or char in "\u03a3\u1acb"
            for char in text
        )
        and not any(token in text for token in tokenization.SPECIAL_TOKENS)
        and all(len(word) <= 100 for word in text.split())
    )


@pytest.mark.parametrize(
    "do_lower_case, tokenize_chinese_chars, strip_accents",
    [
        row
        if row in ((True, True, None), (False, False, True))
        else nightly(*row)
        for row in itertools.product(
            [True, False], [True, False], [None, True, False]
        )
    ],
)
def test_accents_and_ideographs_are_as_in_transformers(
    golden, tmp_path, do_lower_case, strip_accents, tokenize_chinese_chars
):
    """With every character in the vocabulary: [UNK] would hide differences."""
    texts = [case["text"] for case in golden]
    texts += [
        "Für Élise, Straße, İstanbul ı ǅ x\u0345 \u1e9e",
        "Cafe\u0301 ÀÉÎõü a\u0323\u0301 Ångström \ufb01 Ⅷ",
        "日本語の文、コンピュータ がぎ 中文字，漢字 한국어 ＡＢ",
    ]
    texts = list(filter(is_alike, texts))
    assert len(texts) > 900
    forms = [(text, text.lower()) for text in texts]
    letters = {*"".join(itertools.chain(*forms))}
    letters |= {*unicodedata.normalize("NFD", "".join(letters))}
    letters = sorted(x for x in letters if x.strip())
    path = tmp_path / "vocab.txt"
    tokens = [*tokenization.SPECIAL_TOKENS, *letters]
    tokens += ["##" + letter for letter in letters]
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    theirs = tokenizers.BertWordPieceTokenizer(
        str(path),
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=do_lower_case,
    )
    ours = FullTokenizer(
        str(path),
        settings=TokenizerSettings.of(
            do_lower_case, strip_accents, tokenize_chinese_chars
        ),
    )
    for text in texts:
        wanted = theirs.encode(text, add_special_tokens=False).ids
        assert ours.text_to_ids(text) == wanted, ascii(text)
        assert ours.vocab["[UNK]"] not in wanted


@pytest.mark.parametrize("casing", CASINGS)
def test_models_of_the_hub_are_tokenized_as_in_transformers(golden, casing):
    """Special tokens, long words, capital sigmas, characters for private use.

    The package `tokenizers` has Unicode 8: newer characters may differ.
    """
    path = str(GOLDEN / "vocab" / f"{casing}.txt")
    is_uncased = casing == "uncased"
    theirs = tokenizers.BertWordPieceTokenizer(path, lowercase=is_uncased)
    hub = TokenizerSettings.of(
        is_uncased,
        max_input_chars_per_word=100,
        special_tokens=tokenization.SPECIAL_TOKENS,
        is_of_hub=True,
    )
    ours = FullTokenizer(path, settings=hub)
    assert ours.text_to_ids("title[SEP]x") == [
        *ours.text_to_ids("title"),
        ours.vocab["[SEP]"],
        *ours.text_to_ids("x"),
    ]
    assert ours.tokenize("[sep]" + "é" * 101)[-1] == "[UNK]"
    texts = [
        "BERT: Pre-training[SEP]We introduce [MASK] [sep]",
        "[CLS][PAD]a[UNK]\t[SEP ] [[SEP]]",
        "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ ΑΣ. ΑΣ1 'ΑΣ'",
        "a\ue000b \uf8ff \U000f0000x",
        *(f"{'x' * n} is {'é' * n}" for n in (99, 100, 101, 199, 200, 201)),
    ]
    texts += [case["text"] for case in golden]
    newer = [
        text
        for text in texts
        if any(unicodedata.category(c) in ("Cn", "Cs") for c in text)
    ]
    differ = [
        text
        for text in texts
        if text not in newer
        and ours.text_to_ids(text)
        != theirs.encode(text, add_special_tokens=False).ids
    ]
    assert len(texts) - len(newer) > 900
    assert all(set(text) & set("\u08dc\u1acb\u2e5d") for text in differ)
    assert len(differ) <= 3


def test_special_tokens_of_other_names(tmp_path):
    """The usual names stand for them, and mean nothing themselves."""
    names = ("<pad>", "[UNK]", "<s>", "</s>", "[MASK]")
    tokens = ["<pad>", "[UNK]", "<s>", "</s>", "[MASK]", "[CLS]", "the"]
    path = write_vocab(tmp_path / "vocab.txt", *tokens)
    special = (*names, "[CLS]")
    hub = TokenizerSettings.of(special_tokens=special, token_names=names)
    tokenizer = FullTokenizer(path, settings=hub)
    found = tokenizer.convert_tokens_to_ids(tokenization.SPECIAL_TOKENS)
    assert found == [0, 1, 2, 3, 4]
    assert tokenizer.text_to_ids("the<s>[CLS]</s> the [SEP]") == [
        *(6, 2, 5, 3, 6),
        *[1] * 3,
    ]
    assert TokenizerSettings.of(**hub.to_dict()) == hub
    with pytest.raises(errors.UserError, match="<eos> missing among its 7"):
        FullTokenizer(
            path, settings=hub._replace(token_names=("<eos>", *names[1:]))
        )


RULES = {
    "[NAME]": {"single_word": True},
    "[name]": {"normalized": True},
    "Covid": {"normalized": True, "single_word": True},
    "covid-19": {"normalized": True, "lstrip": True, "rstrip": True},
    "É\u4e2d": {"normalized": True},
    "[SEP]": {"special": True, "lstrip": True},
    "[SEP]]": {"single_word": True, "rstrip": True},
    "EP": {},
    "각": {"normalized": True},
}

added_text = st.lists(
    st.sampled_from(
        [*RULES, *map(str.lower, RULES), *map(str.upper, RULES), "가", "각"]
        + list(" x1_-.\u0301\u200d\u24b6\u00bd\u4e2d\u0007\t\u203f")
    ),
    max_size=9,
).map("".join)


@pytest.fixture(scope="module", params=[True, False])
def with_added_tokens(request, tmp_path_factory):
    """Tokenizers with tokens that have rules: the package's and ours."""
    letters = [chr(code) for code in range(33, 127)]
    letters += ["é", "\u4e2d", "\u24d0", "\u24b6", "½", "‿", "\u0301", "\u200d"]
    letters += [*unicodedata.normalize("NFD", "각"), "가", "각", "É"]
    tokens = [*tokenization.SPECIAL_TOKENS, *letters]
    tokens += [f"##{letter}" for letter in letters] + list(RULES)
    tokens = list(dict.fromkeys(tokens))
    path = tmp_path_factory.mktemp("added") / "vocab.txt"
    path.write_text("\n".join(tokens), encoding="utf-8")
    theirs = tokenizers.BertWordPieceTokenizer(
        str(path), lowercase=request.param
    )
    theirs.add_tokens(
        [
            tokenizers.AddedToken(token, **{"normalized": False} | rules)
            for token, rules in RULES.items()
        ]
    )
    rules = {
        rule: tuple(token for token in RULES if RULES[token].get(rule))
        for rule in ("normalized", "single_word")
    }
    special = [token for token in RULES if token not in rules["normalized"]]
    own = TokenizerSettings.of(
        request.param,
        special_tokens=list(
            dict.fromkeys([*tokenization.SPECIAL_TOKENS, *special])
        ),
        normalized_tokens=rules["normalized"],
        whole_words=rules["single_word"],
        max_input_chars_per_word=100,
        is_of_hub=True,
    )
    return theirs, FullTokenizer(str(path), settings=own)


@given(text=added_text)
@settings(max_examples=300, deadline=None)
def test_added_tokens_are_found_as_by_the_package(with_added_tokens, text):
    theirs, ours = with_added_tokens
    wanted = theirs.encode(text, add_special_tokens=False).ids
    assert ours.text_to_ids(text) == wanted
    spans = ours.spans(text)
    assert len(spans) == len(wanted)
    for index, (start, end) in zip(wanted, spans, strict=True):
        assert 0 <= start < end <= len(text)
        token = ours.inv_vocab[index]
        if token in ours.settings.special_tokens:
            assert text[start:end] == token


def test_rules_of_added_tokens_go_through_json(with_added_tokens):
    """As they do in an export, whose reader is `TokenizerSettings.of`."""
    own = with_added_tokens[1].settings
    found = json.loads(json.dumps(own.to_dict()))
    assert TokenizerSettings.of(**found) == own


def test_settings_of_the_original_have_one_key():
    """Fingerprints and files of earlier versions stay valid."""
    for lower in (True, False):
        assert TokenizerSettings.of(lower).to_dict() == {"do_lower_case": lower}
    for each in NORMALIZATIONS:
        assert TokenizerSettings.of(**each.to_dict()) == each
