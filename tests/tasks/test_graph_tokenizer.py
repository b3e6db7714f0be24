"""The tokenizer in the graph gives tokenization.py's ids, exactly."""

import itertools
import json
import unicodedata

from base.errors import UserError

import code_points
import numpy as np
import pytest
import tensorflow as tf
import text_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import nightly
from paths import GOLDEN

import tokenization
from tasks import graph_tokenizer

pytest.importorskip("tensorflow_text")

CASINGS = ["uncased", "cased"]


def vocab_file(casing: str) -> str:
    return str(GOLDEN / "vocab" / f"{casing}.txt")


@pytest.fixture(scope="module")
def tokenizers() -> dict:
    """casing -> (in the graph, compiled once; FullTokenizer)."""
    found = {}
    for casing in CASINGS:
        tokenizer = graph_tokenizer.Tokenizer(
            vocab_file(casing), casing == "uncased"
        )
        graph = tf.function(
            tokenizer,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )
        full = tokenization.FullTokenizer(
            vocab_file(casing), casing == "uncased"
        )
        found[casing] = graph, full
    return found


@pytest.fixture(scope="module")
def placing() -> list:
    """Pairs of the tokenizer in the graph, with places, and FullTokenizer."""
    found = []
    special = ("[SEP]", "[MASK]")
    hub = tokenization.TokenizerSettings.of(
        max_input_chars_per_word=100, special_tokens=special, is_of_hub=True
    )
    for casing, own in (("cased", None), ("uncased", hub)):
        arguments = vocab_file(casing), False, own
        graph = tf.function(
            graph_tokenizer.Tokenizer(*arguments).with_offsets,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )
        found.append((graph, tokenization.FullTokenizer(*arguments)))
    return found


def check(tokenizers, casing: str, texts: list[str]) -> None:
    graph, full = tokenizers[casing]
    found = graph(tf.constant(texts)).to_list()
    for text, ids in zip(texts, found, strict=True):
        assert ids == full.text_to_ids(text), ascii(text)


@pytest.mark.parametrize("casing", CASINGS)
def test_spans_cover_the_characters_of_each_piece(casing):
    """Each piece's characters, tokenized alone, spell that piece again."""
    text = (GOLDEN / "tokenization.jsonl").read_text(encoding="utf-8")
    texts = [json.loads(line)["text"] for line in text.split("\n") if line]
    texts += [
        "",
        "caf\u00e9 (1895\u20131943).",
        "x" * 201 + " y",
        "\u4e2d\u6587z",
    ]
    tokenizer = graph_tokenizer.Tokenizer(
        vocab_file(casing), casing == "uncased"
    )
    full = tokenization.FullTokenizer(vocab_file(casing), casing == "uncased")
    basic = full.basic_tokenizer
    pieces = tokenizer.with_offsets(tf.constant(texts))
    columns = (part.to_list() for part in pieces)
    compared = 0
    for text, ids, starts, ends in zip(texts, *columns, strict=True):
        assert ids == full.text_to_ids(text), ascii(text)
        kept = "".join(c for c in text if not "\ud800" <= c <= "\udfff")
        assert full.spans(kept) == [*zip(starts, ends, strict=True)]
        for index, start, end in zip(ids, starts, ends, strict=True):
            assert 0 <= start < end <= len(kept)
            token = full.inv_vocab[index].removeprefix("##")
            if token == "[UNK]" or "\u03a3" in text:  # depends on neighbours
                continue
            found = "".join(basic.tokenize(kept[start:end]))
            # A character may become several, of which a piece is one.
            assert token in found, ascii((text, start, end))
            compared += token == found
    assert compared > 10_000
    long = pieces.ids[-2].numpy().tolist()
    assert full.inv_vocab[long[0]] == "[UNK]"
    assert pieces.ends[-2].numpy().tolist()[0] == 201


def test_marks_belong_to_the_piece_before_them():
    """Dropped characters belong to the piece before: answers keep accents."""
    texts = [
        "Cafe\u0301 Zo\u0308e\u0308, ran",  # decomposed
        "\u0643\u0650\u062a\u064e\u0627\u0628\u064c \u0628",  # Arabic vowels
        "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd a",  # Hebrew, out of order
        "a\u0301\u0323 b\u200d",
        "e\u0301",
    ]
    tokenizer = graph_tokenizer.Tokenizer(vocab_file("uncased"), True)
    pieces = tokenizer.with_offsets(tf.constant(texts))
    for text, starts, ends in zip(
        texts, pieces.starts.to_list(), pieces.ends.to_list(), strict=True
    ):
        covered = "".join(
            text[start:end] for start, end in zip(starts, ends, strict=True)
        )
        assert covered == text.replace(" ", ""), ascii(text)
        assert starts[1:] >= ends[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("casing", CASINGS)
def test_ids_of_the_golden_strings(tokenizers, casing):
    text = (GOLDEN / "tokenization.jsonl").read_text(encoding="utf-8")
    cases = [json.loads(line) for line in text.split("\n") if line]
    check(tokenizers, casing, [case["text"] for case in cases])


# Texts with accents, composed and not, in order and not; sigmas; ideographs.
NORMALIZED = [
    "Für Élise Straße İstanbul ΟΔΟΣ. Σ",
    "Cafe\u0301 a\u0301\u0323 \U0001d165\U0001d16d\u302e \u0345Σ",
    "日本語の文、がぎ 中文字，漢字 한국어 Σ中",
    "plain",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "do_lower_case, strip_accents, tokenize_chinese_chars",
    # Every two of them in all four ways.
    [
        (True, True, True),
        nightly(True, False, False),
        nightly(False, True, False),
        nightly(False, False, True),
    ],
)
def test_accents_and_ideographs(
    tmp_path, do_lower_case, strip_accents, tokenize_chinese_chars
):
    """Ids, places and words; every character is in the vocabulary."""
    text = (GOLDEN / "tokenization.jsonl").read_text(encoding="utf-8")
    texts = [json.loads(line)["text"] for line in text.split("\n") if line]
    texts = NORMALIZED + [t.encode(errors="ignore").decode() for t in texts]
    own = tokenization.TokenizerSettings.of(
        do_lower_case, strip_accents, tokenize_chinese_chars
    )
    basic = tokenization.BasicTokenizer(settings=own)
    words = [basic.tokenize(text) for text in texts]
    letters = sorted({*"".join(itertools.chain(*words))} - {"\ufffd"})
    tokens = [*tokenization.SPECIAL_TOKENS, *letters]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*tokens, *("##" + x for x in letters)]) + "\n")
    made = graph_tokenizer.Tokenizer(str(path), settings=own)
    full = tokenization.FullTokenizer(str(path), settings=own)
    check({"": (made, full)}, "", texts)
    pieces = made.with_offsets(tf.constant(texts))
    assert pieces.ids.to_list() == [full.text_to_ids(text) for text in texts]
    for text, starts, ends in zip(
        texts, pieces.starts.to_list(), pieces.ends.to_list(), strict=True
    ):
        spans = [*zip(starts, ends, strict=True)]
        assert full.spans(text) == spans, ascii(text)
        assert all(0 <= start < end <= len(text) for start, end in spans)
    spelled = tokenization.BasicTokenizer(settings=own.spelled())
    found = made.cased_words(tf.constant(texts)).to_list()
    assert [[word.decode() for word in row] for row in found] == [
        spelled.tokenize(text) for text in texts
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("casing", CASINGS)
def test_ids_of_every_assigned_code_point(tokenizers, casing):
    """Without the surrogates, in a word; letters also alone."""
    graph, full = tokenizers[casing]
    count = 0
    for block in code_points.blocks():
        chars = [c for c in block if unicodedata.category(c) != "Cs"]
        texts = list(map(code_points.put_in_context, chars))
        found = graph(tf.constant(texts))
        ids, offsets = full.lines_to_ids(
            [text.replace("\n", " ").replace("\r", " ") for text in texts]
        )
        if not (
            np.array_equal(found.flat_values, ids)
            and np.array_equal(found.row_splits, offsets)
        ):
            check(tokenizers, casing, texts)  # says which
        count += len(chars)
    assert count > 240_000


# Sigmas, what stands around them, marks that are reordered, controls.
HARD = "Σσa1'\u00ad\u0345\u02b0.\u200d \u0301Aß\n\x00\u05bf"
HARD += "\U0001d165\U0001d16d\U0001d15f\u302e\u1734\u4e00é\ufffd\u2028"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(alphabet=HARD, max_size=14), min_size=1, max_size=8))
def test_characters_that_depend_on_their_neighbors(tokenizers, texts):
    for casing in CASINGS:
        check(tokenizers, casing, texts)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=8))
def test_ids_of_any_text(tokenizers, texts):
    for casing in CASINGS:
        check(tokenizers, casing, texts)


# Without a note that is made of marks: the graph does not sort these among
# those of the text, which matters to an unknown word's end alone.
PLACED = HARD.replace("\U0001d15f", "") + " İk7-\u00a0\ud55c\U0001f600"


@pytest.mark.nightly
@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.text(st.sampled_from(PLACED)) | st.text(max_size=30),
        min_size=1,
        max_size=8,
    )
)
def test_characters_of_pieces_in_the_graph_and_without(placing, texts):
    texts += ["a\u00e9[SEP]b [MASK]c\u0301"]
    for graph, full in placing:
        pieces = graph(tf.constant(texts))
        columns = pieces.starts.to_list(), pieces.ends.to_list()
        for text, starts, ends in zip(texts, *columns, strict=True):
            spans = [*zip(starts, ends, strict=True)]
            assert full.spans(text) == spans, ascii(text)


def test_final_sigma_by_hand(tokenizers):
    """Batches of several rows: a row's end is a word's end."""
    serving_tokenizer = graph_tokenizer.Tokenizer(vocab_file("uncased"))
    texts = ["ΟΔΟΣ", "ΣΟΣ ΑΣ.", "Σ", "ΑΣ'Α", "ΑΣ\u00ad", "", "Α"]
    found = serving_tokenizer.words(tf.constant(texts)).to_list()
    words = [[word.decode() for word in row] for row in found]
    assert words[0] == ["οδος"]
    assert words[1] == ["σος", "ας", "."]
    assert words[2] == ["σ"]
    assert words[3] == ["ασ", "'", "α"]
    assert words[4:] == [["ας"], [], ["α"]]


@pytest.mark.parametrize("length", [199, 200, 201, 900])
def test_words_over_200_characters_are_unknown(tokenizers, length):
    for casing in CASINGS:
        check(tokenizers, casing, ["a" * length, "é" * length, "x " * length])


def test_bytes_that_are_not_utf8_are_dropped(tokenizers):
    graph, full = tokenizers["uncased"]
    data = b"caf\xe9 and \xff\xfe more"
    assert graph(tf.constant([data])).to_list() == [full.text_to_ids(data)]


@given(
    st.integers(0, 30), st.integers(0, 30), st.integers(2, 30), st.booleans()
)
def test_pairs_are_truncated_as_everywhere(a, b, limit, is_of_hub):
    found = tokenization.truncated_lengths(
        tf.constant([a]),
        tf.constant([b]),
        limit,
        tf.minimum,
        tf.maximum,
        is_of_hub,
    )
    wanted = tokenization.truncated_lengths(a, b, limit, is_of_hub=is_of_hub)
    assert tuple(int(x[0]) for x in found) == wanted


SPECIAL = tokenization.SPECIAL_TOKENS


def test_models_of_the_hub():
    """Special tokens in texts, their places, and words of 13 characters.

    [CLS] is called [unused1].
    """
    names = (*SPECIAL[:2], "[unused1]", *SPECIAL[3:])
    special = (*names, "[CLS]", "the")
    hub = tokenization.TokenizerSettings.of(
        max_input_chars_per_word=12,
        special_tokens=special,
        token_names=names,
        is_of_hub=True,
    )
    full = tokenization.FullTokenizer(vocab_file("uncased"), settings=hub)
    graph = graph_tokenizer.Tokenizer(vocab_file("uncased"), settings=hub)
    texts = [
        "caf\u00e9[SEP]The dog [CLS] Unbelievably unbelievables",
        "",
        "[SEP]",
        "[SEP][MASK] a\0b\ufffd [PAD]weather[sep]",
        "\u039f\u0394\u03a3 \ue000x [unused1]\u4e2d\u6587",
        "A dog,\nthe [SEP]\ncat",
    ]
    wanted = [full.text_to_ids(text) for text in texts]
    spec = [tf.TensorSpec([None], tf.string)]
    for way in graph, tf.function(graph, spec, autograph=False):
        assert way(tf.constant(texts)).to_list() == wanted
    ids, *places = (
        part.to_list() for part in graph.with_offsets(tf.constant(texts))
    )
    assert ids == wanted and "[UNK]" == full.inv_vocab[wanted[0][-1]]
    found = [
        [text[start:end] for start, end in zip(*row, strict=True)]
        for text, *row in zip(texts, *places, strict=True)
    ]
    assert found[0][:4] == ["caf\u00e9", "[SEP]", "The", "dog"]
    assert found[1:3] == [[], ["[SEP]"]]
    assert found[3][:2] == ["[SEP]", "[MASK]"]
    assert found[3][-3:] == ["[", "sep", "]"]


@pytest.mark.parametrize("how", ["cut", nightly("head_tail"), nightly("tail")])
@pytest.mark.parametrize("is_pair", [False, True])
def test_features_are_those_of_run_classifier(tokenizers, is_pair, how):
    rng = np.random.default_rng(0)
    words = ["the", "Unbelievable", "cafés", "don't", "x" * 30, "ΟΔΟΣ", "日本"]
    texts = [
        " ".join(rng.choice(words, rng.integers(0, 12))) for _ in range(80)
    ]
    a, b = texts[:40], texts[40:] if is_pair else None
    _, full = tokenizers["uncased"]
    hub = tokenization.TokenizerSettings.of(is_of_hub=how == "tail")
    if hub.is_of_hub:
        full = tokenization.FullTokenizer(vocab_file("uncased"), settings=hub)
    pairs = [(a[i], b[i] if is_pair else None) for i in range(40)]
    wanted, left_out = text_rows.features(pairs, 24, full, how)
    assert 5 < np.count_nonzero(left_out) < 35
    graph = graph_tokenizer.Tokenizer(vocab_file("uncased"), settings=hub)
    texts = [tf.constant(some) for some in ([a, b] if is_pair else [a])]
    found = graph.features(*map(graph, texts), max_seq_length=24, how=how)
    length = found["input_ids"].shape[1]
    for name, value in found.items():
        np.testing.assert_array_equal(value, wanted[name][:, :length])
        assert not wanted[name][:, length:].any()


def test_unusable_vocabularies_are_errors(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\na\n")
    with pytest.raises(UserError, match=r"\[CLS\]"):
        graph_tokenizer.Tokenizer(str(path))
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n\ufffd\n", encoding="utf-8")
    with pytest.raises(UserError, match="U\\+FFFD"):
        graph_tokenizer.Tokenizer(str(path))


@pytest.mark.parametrize("rule", ["normalized_tokens", "whole_words"])
def test_tokens_that_a_graph_cannot_find_are_named(rule):
    """Unless the vocabulary lacks them."""
    own = tokenization.TokenizerSettings.of(special_tokens=["the", "[SEP]"])
    graph_tokenizer.Tokenizer(
        vocab_file("uncased"), settings=own._replace(**{rule: ("[NAME]",)})
    )
    with pytest.raises(UserError, match="uncased.txt: 'the' is a token to be"):
        graph_tokenizer.Tokenizer(
            vocab_file("uncased"), settings=own._replace(**{rule: ("the",)})
        )


@pytest.mark.parametrize("casing", CASINGS)
def test_tokens_that_no_word_has_do_not_count(casing, tmp_path):
    """Such as "new york", or one with U+0000, in an unused token's place."""
    tokens = open(vocab_file(casing), encoding="utf-8").read().split("\n")
    tokens[2:6] = ["new york", "the cat", "##ed the", "c\0at"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokens), encoding="utf-8")
    texts = ["New new york", "new york new", "the cats walked the", "the the"]
    texts += ["n\u00e9w york", "the\u3000cat"]  # not plain characters
    texts += ["the c\0at", "\0"]
    is_uncased = casing == "uncased"
    full = tokenization.FullTokenizer(str(path), is_uncased)
    graph = graph_tokenizer.Tokenizer(str(path), is_uncased)
    found = graph(tf.constant(texts)).to_list()
    assert found == [full.text_to_ids(text) for text in texts]
