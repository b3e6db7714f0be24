"""The fast tokenizer of plain texts gives tokenization.py's ids, exactly."""

import numpy as np
import pytest
import tensorflow as tf
from marks import nightly
from paths import GOLDEN

import tokenization
from tasks import graph_tokenizer, plain_texts
from tokenization import TokenizerSettings

tensorflow_text = pytest.importorskip("tensorflow_text")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

# Among them tokens that no word has: with marks and ideographs inside.
ODD = "don't ##- - a ##a a. ##. ## # ### ##b \u4e2d\u6587 ##\u6587 \u4e2d [ b"
ODD += " \u00e9 ##\u00e9 e ##e b\u2019 ##\u2019s s ##s mask unused0 [unused0]"
ODD += " aaaa ##aab ' \u2013 ##' t don ##\u0439 0"

UNCASED, CASED = TokenizerSettings.of(True), TokenizerSettings.of(False)

FALLBACK = -1  # the id of texts that are not plain


def by_itself(tokens: list[str], settings: TokenizerSettings):
    """Return the tokenizer of plain texts; others have the id FALLBACK."""

    def otherwise(texts):
        row = tf.fill([tf.size(texts), 1], FALLBACK)
        return tf.RaggedTensor.from_tensor(row)

    made = plain_texts.plain_tokenizer(
        tensorflow_text, tokens, settings, otherwise
    )
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(made, input_signature=signature, autograph=False)


def write_vocab(folder, tokens: list[str]) -> str:
    path = folder / "vocab.txt"
    path.write_text("\n".join(tokens), encoding="utf-8")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        UNCASED,
        CASED,
        nightly(TokenizerSettings(True, False, True)),
        nightly(TokenizerSettings(False, True, True)),
        nightly(TokenizerSettings(True, True, False)),
    ],
)
def test_every_plain_character_has_the_ids_of_the_tokenizer(tmp_path, settings):
    """With each one in the vocabulary: [UNK] would hide differences.

    Of the ideographs and Hangul, which are alike, a few.
    """
    codes = plain_texts.plain_characters(tensorflow_text, settings)
    assert len(codes) > 20_000
    codes = [*codes[codes < 0x3400], *codes[codes >= 0x3400][::50]]
    texts = [f"a{chr(code)}b {chr(code) * 2} {chr(code)}" for code in codes]
    basic = tokenization.BasicTokenizer(settings=settings)
    words = basic.tokenize(" ".join(texts).replace("\n", " "))
    letters = sorted({*"".join(words)})
    tokens = SPECIAL + letters + ["##" + letter for letter in letters]
    found = by_itself(tokens, settings)(tf.constant(texts))
    full = tokenization.FullTokenizer(
        write_vocab(tmp_path, tokens), settings=settings
    )
    ids, offsets = full.lines_to_ids(
        [text.replace("\n", " ").replace("\r", " ") for text in texts]
    )
    np.testing.assert_array_equal(found.flat_values, ids)
    np.testing.assert_array_equal(found.row_splits, offsets)
    assert full.vocab["[UNK]"] not in ids


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def odd(request, tmp_path_factory):
    """The whole tokenizer in the graph, and FullTokenizer."""
    vocab = write_vocab(tmp_path_factory.mktemp("odd"), SPECIAL + ODD.split())
    made = graph_tokenizer.Tokenizer(vocab, request.param)
    graph = tf.function(
        made, [tf.TensorSpec([None], tf.string)], autograph=False
    )
    return graph, tokenization.FullTokenizer(vocab, request.param)


def check(tokenizers, texts: list[str]) -> None:
    graph, full = tokenizers
    found = graph(tf.constant(texts, tf.string)).to_list()
    for text, ids in zip(texts, found, strict=True):
        assert ids == full.text_to_ids(text), ascii(text)


# The last four are not plain.
PARTS = [*"abesAE#-.'[] \t0", "##", "don't", "\u2019", "\u00e9", "\u00c9"]
PARTS += ["\u4e2d\u6587", "\u0439", "\u2013", "e\u0301", "[unused0]", "aaaab"]
PARTS += ["\u2026", "\u03a3", "\x07", "\ufffd"]


@pytest.mark.slow
def test_tokens_that_no_word_has_are_not_found(odd):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(PARTS, n % 12)) for n in range(500)]
    texts += ["".join(rng.choice(PARTS[:-4], n % 12)) for n in range(2000)]
    check(odd, texts)


def test_long_words_of_plain_texts(odd):
    letters = ["a", "\u00e9", "\u0439", "x"]
    texts = [
        f"b {letter * length}. a"
        for letter in letters
        for length in (66, 67, 100, 101, 199, 200, 201)
    ]
    check(odd, texts)
    check(odd, ["a " * 300, "", "\u00e9" * 150])


@pytest.mark.parametrize("settings", [UNCASED, CASED])
def test_english_is_plain(settings):
    text = (GOLDEN / "corpus" / "enwiki-10-pages.txt").read_text(
        encoding="utf-8"
    )
    lines = text.splitlines()
    found = by_itself([*SPECIAL, "the"], settings)(tf.constant(lines))
    is_other = [row == [FALLBACK] for row in found.to_list()]
    assert len(lines) > 50 and sum(is_other) < len(lines) / 20


def test_rows_that_are_not_plain_stay_in_their_places():
    texts = ["the", "\u2026", "", "the the", "\u0417" * 201, "\x00"]
    found = by_itself([*SPECIAL, "the"], UNCASED)(tf.constant(texts))
    other = [FALLBACK]
    assert found.to_list() == [[5], other, [], [5, 5], other, other]
