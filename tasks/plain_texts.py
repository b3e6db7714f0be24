"""A fast tokenizer in the graph, for texts of plain characters alone.

TensorFlow Text has a normalizer, which lower-cases and drops accents, and a
WordPiece that also splits words and punctuation marks. Together they are
several times faster than the operations of graph_tokenizer.py, but they treat
some characters differently from the original: U+2026 becomes three full stops,
a control character becomes a space. A character is plain if both treat it
alike. Almost all English texts, and most texts of other languages, are plain.

The plain characters are found by experiment: each code point goes through
TensorFlow Text and through the table of replacements. In the graph, a regular
expression tells which texts are plain. Texts with special tokens do not count
as plain.

Letters in shapes: n texts.
"""

import functools
from collections.abc import Callable
from types import ModuleType

import numpy as np
import tensorflow as tf

import tokenization
from tasks import character_tables
from tokenization import TokenizerSettings

# Code points behind these are not tried, and count as not plain.
_CODE_POINTS = 0x20000

_SIGMA = 0x3A3  # its lower case depends on its neighbors

_NOT_INLINED = {"_noinline": True}

# --- The tokenizer -----------------------------------------------------------


def plain_tokenizer(
    tensorflow_text: ModuleType,
    tokens: list[str],
    settings: TokenizerSettings,
    otherwise: Callable[[tf.Tensor], tf.RaggedTensor],
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Return a function from texts to ids, fast for those of plain characters.

    It turns strings [n] into ragged int32 [n, pieces]. So does `otherwise`,
    which gets the texts that are not plain, or that have a special token.
    """
    longest_word = settings.max_input_chars_per_word
    normalize = _normalizer(tensorflow_text, settings.of_characters())
    wordpiece = tensorflow_text.FastWordpieceTokenizer(
        vocab=tokens,
        token_out_type=tf.int32,
        unknown_token="[UNK]",
        max_bytes_per_word=longest_word,
    )
    codes = plain_characters(tensorflow_text, settings.of_characters())
    runs = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    ranges = (f"\\x{{{run[0]:x}}}-\\x{{{run[-1]:x}}}" for run in runs)
    pattern = f"[{''.join(ranges)}]*"  # of texts of these characters alone
    special = tokenization.special_pattern(settings.special_tokens)
    with_special = f"(?s).*{special}.*"

    # Not inlined: the operations of a branch that is not taken would cost a
    # text of one sentence more than those that are.
    @tf.function(autograph=False, experimental_attributes=_NOT_INLINED)
    def with_others(texts, ids, sizes, is_plain):
        is_right = is_plain & (tf.reduce_max(sizes, axis=1) <= longest_word)
        rest = otherwise(tf.boolean_mask(texts, ~is_right))
        # Row r of the result is row at[r] of ids, then rest.
        number = tf.cumsum(tf.cast(~is_right, tf.int64), exclusive=True)
        rows = tf.range(ids.nrows())
        at = tf.where(is_right, rows, ids.nrows() + number)
        return tf.gather(tf.concat([ids, rest], axis=0), at)

    def tokenize(texts: tf.Tensor) -> tf.RaggedTensor:
        is_plain = tf.strings.regex_full_match(texts, pattern)  # [n]
        if settings.special_tokens:
            is_plain &= ~tf.strings.regex_full_match(texts, with_special)
        plain = normalize(tf.where(is_plain, texts, ""))
        ids, starts, ends = wordpiece.tokenize_with_offsets(plain)
        # A word with too many bytes is [UNK] here, but only one with too many
        # characters should be.
        sizes = ends.flat_values - starts.flat_values
        sizes = ends.with_flat_values(sizes)  # ragged [n, pieces], bytes
        is_done = tf.reduce_all(is_plain) & tf.reduce_all(
            sizes.flat_values <= longest_word
        )
        return tf.cond(
            is_done,
            lambda: ids,
            lambda: with_others(texts, ids, sizes, is_plain),
        )

    return tokenize


@functools.cache
def _normalizer(
    tensorflow_text: ModuleType, settings: TokenizerSettings
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the function that prepares strings [n] for WordPiece."""
    if not settings.do_lower_case:
        return tf.identity
    if not settings.strip_accents:
        # Of ASCII letters alone: beyond them TensorFlow's lower case depends
        # on the language of the process.
        return tf.strings.lower
    return tensorflow_text.FastBertNormalizer(
        lower_case_nfd_strip_accents=True
    ).normalize


# --- Plain characters --------------------------------------------------------


@functools.cache
def plain_characters(
    tensorflow_text: ModuleType, settings: TokenizerSettings
) -> np.ndarray:
    """Return the code points that are plain, sorted; cached."""
    categories = character_tables.categories()[:_CODE_POINTS]
    # Later versions of Unicode may say what unassigned code points are.
    is_tried = ~np.isin(categories, [b"Cn", b"Co", b"Cs"])
    is_tried[_SIGMA] = False
    codes = np.flatnonzero(is_tried)
    table = character_tables.replacement_table(settings)
    # Each between two letters: "aXa" is one word, two or three.
    ours = [
        " ".join(f"a{text}a".split())
        for text in character_tables.replaced(table, codes)
    ]
    # TensorFlow Text is much faster with one text of them all.
    text = " zz ".join(f"a{chr(code)}a" for code in codes)
    normalized = _normalizer(tensorflow_text, settings)([text]).numpy()[0]
    words = tensorflow_text.FastWordpieceTokenizer(
        vocab=["[UNK]", "a"], token_out_type=tf.string
    )  # each word is one piece
    _, starts, ends = words.tokenize_with_offsets([normalized])
    bounds = zip(starts.values.numpy(), ends.values.numpy(), strict=True)
    theirs = b" ".join(normalized[start:end] for start, end in bounds)
    is_plain = [
        our.encode() == their
        for our, their in zip(ours, theirs.split(b" zz "), strict=True)
    ]
    # Marks that are kept are sorted, which depends on their neighbors.
    *_, kept = character_tables.combining_marks()
    return np.setdiff1d(codes[is_plain], kept)
