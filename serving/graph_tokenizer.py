"""The tokenizer inside the graph: strings in, tokenization.py's very ids out.

A graph has no `str.lower` and no `unicodedata`, and tensorflow-text's own
BERT tokenizers differ from the original's in many characters. But everything
the original does to a text before WordPiece is, character by character, a
replacement: dropped, a space, spaces around it, its lower-case letters without
accents. So the replacements are computed once, by tokenization.py's own
functions, for every code point, and go into the graph as a table. What is left
needs the neighbours: the final sigma, where a lower-case Greek word ends, and
the order of combining marks.
"""

import functools
import itertools
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf

import tokenization

_CODE_POINTS = 0x110000

_PAGE = 256  # code points of a page of the table; equal pages are kept once

_SELF = -1  # in a replacement: the character itself

_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2

_SPACE = 32

_LONGEST_WORD = 200  # characters; longer ones are unknown, as in the original

# What stands for such a word: no text keeps this character.
_NO_WORD = "\ufffd"


class _Table(NamedTuple):
    """Code point -> replacement, in two levels."""

    pages: np.ndarray  # [code points / _PAGE]: which row of entries
    entries: np.ndarray  # [rows * _PAGE]: which replacement
    starts: np.ndarray  # [replacements]: where in values
    lengths: np.ndarray  # [replacements]
    values: np.ndarray  # code points, or _SELF


def _replacements(do_lower_case: bool) -> Iterator[tuple[int, ...]]:
    """Yield what becomes of each code point, its neighbours unseen.

    Asked of the tokenizer itself, many at a time: what a character between
    two letters comes out as, spaces standing where the pieces are parted.
    """
    basic = tokenization.BasicTokenizer(do_lower_case)
    mark = "zz"
    for first in range(0, _CODE_POINTS, 4096):
        codes = range(first, first + 4096)
        cells = [
            "ab" if 0xD800 <= code < 0xE000 else f"a{chr(code)}b"
            for code in codes  # surrogates are no text
        ]
        pieces = basic.tokenize(f" {mark} ".join(cells))
        parts = " ".join(pieces).split(f" {mark} ")
        for code, part in zip(codes, parts, strict=True):
            if (part[0], part[-1]) != ("a", "b"):
                raise AssertionError(f"U+{code:04X} changes its neighbours")
            yield tuple(
                _SELF if ord(char) == code else ord(char) for char in part[1:-1]
            )


@functools.cache
def _table(do_lower_case: bool) -> _Table:
    """Compute the replacement of every code point, once."""
    numbers: dict[tuple[int, ...], int] = {(_SELF,): 0}
    entries = np.array(
        [
            numbers.setdefault(made, len(numbers))
            for made in _replacements(do_lower_case)
        ],
        np.int32,
    )
    rows, pages = np.unique(
        entries.reshape(-1, _PAGE), axis=0, return_inverse=True
    )
    lengths = np.array([len(made) for made in numbers], np.int32)
    return _Table(
        pages.reshape(-1).astype(np.int32),
        rows.reshape(-1).astype(np.int32),
        (np.cumsum(lengths) - lengths).astype(np.int32),
        lengths,
        np.array([*itertools.chain(*numbers), 0], np.int32),
    )


@functools.cache
def _cases() -> tuple[np.ndarray, np.ndarray]:
    """Return code points that Python skips beside a sigma, and cased ones.

    Asked of `str.lower`, whose rule is Unicode's Final_Sigma: a sigma is
    final after a cased letter and before none, case-ignorable characters
    between them not counting.
    """
    ignorable, cased = [], []
    for code in range(_CODE_POINTS):
        char = chr(code)
        if (char + "\u03a3").lower()[-1] == "\u03c2":
            cased.append(code)
        elif ("a" + char + "\u03a3").lower()[-1] == "\u03c2":
            ignorable.append(code)
    return np.array(ignorable, np.int32), np.array(cased, np.int32)


@functools.cache
def _combining() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the combining marks, their classes, and those not dropped."""
    marks = [c for c in range(_CODE_POINTS) if unicodedata.combining(chr(c))]
    classes = [unicodedata.combining(chr(code)) for code in marks]
    staying = [c for c in marks if unicodedata.category(chr(c)) != "Mn"]
    return tuple(np.array(x, np.int32) for x in (marks, classes, staying))


class Pieces(NamedTuple):
    """Word pieces and where they stand, three ragged [n, pieces]."""

    ids: tf.RaggedTensor  # int32
    starts: tf.RaggedTensor  # int64, first character in the text
    ends: tf.RaggedTensor  # one past the last


class Tokenizer(tf.Module):
    """FullTokenizer as TensorFlow operations, exactly.

    Args:
        vocab_file: the vocabulary.
        do_lower_case: as in FullTokenizer.

    Raises:
        UserError: tensorflow-text is missing, or a special token is.
    """

    def __init__(self, vocab_file: str, do_lower_case: bool = True):
        super().__init__()
        try:
            import tensorflow_text
        except ImportError as error:
            raise UserError(
                "the tokenizer in the graph needs tensorflow-text of "
                f"TensorFlow's version ({error}): pip install -r "
                "requirements.txt"
            ) from error
        vocab = tokenization.load_vocab(vocab_file)
        tokenization.validate_special_tokens(
            vocab, ("[UNK]", "[CLS]", "[SEP]", "[PAD]"), vocab_file
        )
        self.do_lower_case = do_lower_case
        self.tokens = list(vocab)
        special = ("[CLS]", "[SEP]", "[PAD]", "[UNK]")
        self.ids = {name: vocab[name] for name in special}
        self.wordpiece = tensorflow_text.FastWordpieceTokenizer(
            vocab=self.tokens,
            token_out_type=tf.int32,
            unknown_token="[UNK]",
            no_pretokenization=True,
            max_bytes_per_word=4 * _LONGEST_WORD + 1,
        )
        if _NO_WORD in vocab:
            raise UserError(
                f"{vocab_file}: U+FFFD is a token, which no text can hold"
            )
        self._table, self._clean = _table(do_lower_case), _table(False)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of texts [n] as ragged int32 [n, pieces]."""
        words = self.words(texts)  # ragged [n, words]
        length = tf.strings.length(words.flat_values, "UTF8_CHAR")
        words = words.with_flat_values(
            tf.where(length > _LONGEST_WORD, _NO_WORD, words.flat_values)
        )
        return self.wordpiece.tokenize(words).merge_dims(1, 2)

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return what WordPiece gets: ragged strings [n, words]."""
        codes, _ = self._normal(texts)
        replaced, _ = self._replace(codes, self._table)
        return tf.strings.split(tf.strings.unicode_encode(replaced, "UTF-8"))

    def cased_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the words with their case and accents: ragged [n, words].

        Split as by BasicTokenizer(do_lower_case=False).
        """
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        replaced, _ = self._replace(codes, self._clean)
        return tf.strings.split(tf.strings.unicode_encode(replaced, "UTF-8"))

    def with_offsets(self, texts: tf.Tensor) -> "Pieces":
        """Return the ids of texts [n], and where in the text each stands.

        What the tokenizer drops right behind a piece, its accents and other
        marks, belongs to it.
        """
        codes, order = self._normal(texts)
        replaced, of = self._replace(codes, self._table)
        flat, rows = replaced.flat_values, replaced.value_rowids()
        is_char = flat != _SPACE
        same_row = tf.concat([[False], rows[1:] == rows[:-1]], 0)
        after = tf.concat([[False], is_char[:-1]], 0)[: tf.size(flat)]
        begins = is_char & ~(after & same_row[: tf.size(flat)])
        kept = tf.where(is_char)[:, 0]  # [k] characters of words
        word = tf.gather(tf.cumsum(tf.cast(begins, tf.int64)) - 1, kept)
        row_of_word = tf.boolean_mask(rows, begins)
        chars = tf.RaggedTensor.from_value_rowids(
            tf.gather(flat, kept), word, tf.size(row_of_word, tf.int64)
        )  # ragged [words, characters]
        ids, first, last = self._pieces(chars)
        # Back through what was parted, replaced and put in order.
        source = tf.gather(of, kept)  # [k]
        entries = self._entries(codes.flat_values)
        stays = tf.gather(self._table.lengths, entries) > 0  # [c]
        if order is not None:
            source = tf.gather(order, source)
            stays = tf.gather(stays, tf.math.invert_permutation(order))
        source, row = tf.cast(source, tf.int64), tf.gather(rows, kept)
        # Up to the next character that is not dropped, or the text's end.
        others = tf.concat([tf.where(stays)[:, 0], [tf.int64.max]], 0)
        end = tf.gather(others, tf.searchsorted(others, source, "right"))
        end = tf.minimum(end, tf.gather(codes.row_limits(), row))
        starts = tf.gather(codes.row_starts(), row)
        source, end = source - starts, end - starts
        count = replaced.nrows()

        def of_texts(values: tf.RaggedTensor) -> tf.RaggedTensor:
            nested = tf.RaggedTensor.from_value_rowids(
                values, row_of_word, count
            )
            return nested.merge_dims(1, 2)

        return Pieces(
            of_texts(ids),
            of_texts(first.with_values(tf.gather(source, first.values))),
            of_texts(last.with_values(tf.gather(end, last.values))),
        )

    def _pieces(
        self, chars: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Return the ids of words, and each piece's first and last character.

        Args:
            chars: code points [words, characters].

        Returns:
            Three of [words, pieces]; characters are counted over all words.
        """
        is_long = chars.row_lengths() > _LONGEST_WORD
        words = tf.strings.unicode_encode(chars, "UTF-8")
        words = tf.where(is_long, _NO_WORD, words)
        ids, starts, ends = self.wordpiece.tokenize_with_offsets(words)
        flat = chars.values
        size = sum(tf.cast(flat >= n, tf.int64) for n in (0, 128, 2048, 65536))
        places = tf.cumsum(size, exclusive=True)  # byte of each character
        word = ids.value_rowids()
        base = tf.gather(
            tf.concat([places, [0]], 0), tf.gather(chars.row_starts(), word)
        )

        def char_at(byte: tf.Tensor) -> tf.Tensor:
            return tf.searchsorted(places, byte, "right", tf.int64) - 1

        first = char_at(base + tf.cast(starts.values, tf.int64))
        last = char_at(base + tf.cast(ends.values, tf.int64) - 1)
        whole = tf.gather(chars.row_limits(), word) - 1
        last = tf.where(tf.gather(is_long, word), whole, last)
        return ids, ids.with_values(first), ids.with_values(last)

    def _normal(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor | None]:
        """Return code points [n, c] as the table wants them.

        With them, where marks may have changed places, which code point of
        the text each is, flat [c].
        """
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        if not self.do_lower_case:
            return codes, None
        codes = codes.with_flat_values(self._final_sigmas(codes))
        order = self._order(codes)
        return codes.with_flat_values(
            tf.gather(codes.flat_values, order)
        ), order

    def _entries(self, codes: tf.Tensor) -> tf.Tensor:
        return _entries_in(self._table, codes)

    def _replace(
        self, codes: tf.RaggedTensor, table: _Table
    ) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Put every character's replacement in its place.

        Returns:
            Code points [n, new c], and which of `codes` each is of, flat.
        """
        flat = codes.flat_values  # [c]
        entries = _entries_in(table, flat)
        lengths = tf.gather(table.lengths, entries)
        ends = tf.cumsum(lengths)
        of = tf.repeat(tf.range(tf.size(flat)), lengths)  # [new c]
        offset = tf.range(tf.size(of)) - tf.gather(ends - lengths, of)
        starts = tf.gather(table.starts, tf.gather(entries, of))
        values = tf.gather(table.values, starts + offset)
        values = tf.where(values == _SELF, tf.gather(flat, of), values)
        bounds = tf.concat([[0], ends], 0)
        splits = tf.gather(bounds, codes.row_splits)
        return (
            tf.RaggedTensor.from_row_splits(values, tf.cast(splits, tf.int64)),
            of,
        )

    def _final_sigmas(self, codes: tf.RaggedTensor) -> tf.Tensor:
        """Return the code points, sigmas that end a word replaced."""
        flat = codes.flat_values
        return tf.cond(
            tf.reduce_any(flat == _SIGMA),
            lambda: self._with_final_sigmas(codes),
            lambda: flat,
        )

    def _with_final_sigmas(self, codes: tf.RaggedTensor) -> tf.Tensor:
        flat = codes.flat_values
        ignorable, cased = _cases()
        # What is dropped is not there for `str.lower` either; accents, which
        # are dropped after it, are ignorable anyway.
        dropped = tf.gather(self._table.lengths, self._entries(flat)) == 0
        counts = tf.cast(~(_is_in(flat, ignorable) | dropped), tf.int32)
        kept = tf.cast(tf.where(counts > 0)[:, 0], tf.int32)
        done = tf.cumsum(counts)
        row = tf.cast(codes.value_rowids(), tf.int32)
        is_cased = _is_in(flat, cased)

        def cased_at(number: tf.Tensor) -> tf.Tensor:
            """Whether that one of the kept characters is cased, and near."""
            last = tf.size(kept) - 1
            at = tf.gather(kept, tf.clip_by_value(number, 0, last))
            inside = (number >= 0) & (number <= last)
            same = tf.gather(row, at) == row
            return inside & same & tf.gather(is_cased, at)

        is_final = cased_at(done - counts - 1) & ~cased_at(done)
        return tf.where((flat == _SIGMA) & is_final, _FINAL_SIGMA, flat)

    def _order(self, codes: tf.RaggedTensor) -> tf.Tensor:
        """Return the canonical order of the code points, flat [c].

        Combining marks may have to change places. Matters for the few that
        stay when accents are dropped.
        """
        flat = codes.flat_values
        marks, classes, staying = _combining()

        def sort() -> tf.Tensor:
            at = tf.minimum(tf.searchsorted(marks, flat), len(marks) - 1)
            is_mark = tf.gather(marks, at) == flat
            kind = tf.where(is_mark, tf.gather(classes, at), 0)
            # What cleaning drops parts no marks; it goes to the end.
            entry = _entries_in(self._clean, flat)
            dropped = tf.gather(self._clean.lengths, entry) == 0
            row = codes.value_rowids()
            is_first = tf.concat([[True], row[1:] != row[:-1]], 0)
            starts = ((kind == 0) & ~dropped) | is_first
            run = tf.cumsum(tf.cast(starts, tf.int64))
            kind = tf.where(dropped, 255, kind)
            key = run * 256 + tf.cast(kind, tf.int64)
            return tf.argsort(key, stable=True)

        return tf.cond(
            tf.reduce_any(_is_in(flat, staying)),
            sort,
            lambda: tf.range(tf.size(flat)),
        )


def _entries_in(table: _Table, codes: tf.Tensor) -> tf.Tensor:
    """Return which replacement each code point has."""
    page = tf.gather(table.pages, codes // _PAGE)
    return tf.gather(table.entries, page * _PAGE + codes % _PAGE)


def _is_in(values: tf.Tensor, members: np.ndarray) -> tf.Tensor:
    """Whether each value is among sorted members."""
    at = tf.searchsorted(members, values)
    at = tf.minimum(at, len(members) - 1)
    return tf.gather(members, at) == values


# --- Features ---------------------------------------------------------------


def truncated(
    a: tf.Tensor, b: tf.Tensor, limit: tf.Tensor | int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the lengths that popping from the longer side leaves.

    classifier_data.truncated_lengths for tensors: int32 [n] both.
    """
    half = limit // 2
    first = tf.where(a <= half, a, tf.where(b <= half, limit - b, limit - half))
    first = tf.minimum(first, limit)
    fits = a + b <= limit
    return (
        tf.where(fits, a, first),
        tf.where(fits, b, limit - first),
    )


def make_features(
    tokenizer: Tokenizer,
    text_a: tf.Tensor,
    text_b: tf.Tensor | None,
    max_seq_length: int,
) -> dict[str, tf.Tensor]:
    """Return input_ids, input_mask and segment_ids of sentences or pairs.

    [CLS] a [SEP] or [CLS] a [SEP] b [SEP], cut as run_classifier.py cuts and
    padded to the longest of the batch. A second text without any token is
    none, as in the original.

    Args:
        tokenizer: in the graph.
        text_a: strings [n].
        text_b: strings [n], or None.
        max_seq_length: at most so many tokens.

    Returns:
        Three int32 tensors [n, S].
    """
    return add_special_tokens(
        tokenizer.ids,
        tokenizer(text_a),
        None if text_b is None else tokenizer(text_b),
        max_seq_length,
    )


def add_special_tokens(
    special: dict[str, int],
    a: tf.RaggedTensor,
    b: tf.RaggedTensor | None,
    max_seq_length: int,
) -> dict[str, tf.Tensor]:
    """Return the features of ids that are tokenized already.

    Args:
        special: ids of [CLS], [SEP] and [PAD].
        a: ragged int32 [n, pieces].
        b: the same, or None.
        max_seq_length: at most so many tokens.
    """
    size = a.nrows()

    def column(name: str) -> tf.Tensor:
        return tf.fill([size, 1], special[name])

    length_a = tf.cast(a.row_lengths(), tf.int32)
    kept = tf.minimum(length_a, max_seq_length - 2)
    second = []
    if b is not None:
        length_b = tf.cast(b.row_lengths(), tf.int32)
        kept_a, kept_b = truncated(length_a, length_b, max_seq_length - 3)
        is_pair = length_b > 0
        kept = tf.where(is_pair, kept_a, kept)
        end = tf.RaggedTensor.from_tensor(
            column("[SEP]"), lengths=tf.cast(is_pair, tf.int64)
        )
        second = [_cut(b, kept_b), end]
    row = tf.concat(
        [column("[CLS]"), _cut(a, kept), column("[SEP]"), *second], axis=1
    )  # ragged [n, tokens]
    lengths = tf.cast(row.row_lengths(), tf.int32)
    # A row has two tokens at least; a batch without rows is as wide.
    width = tf.maximum(2, tf.reduce_max(lengths))
    place = tf.range(width)[None]  # [1, S]
    mask = place < lengths[:, None]  # [n, S]
    is_second = mask & (place >= kept[:, None] + 2)
    return {
        "input_ids": row.to_tensor(
            special["[PAD]"], shape=tf.stack([-1, width])
        ),
        "input_mask": tf.cast(mask, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
    }


def _cut(ids: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Keep the first `lengths` ids of each row."""
    place = tf.ragged.range(ids.row_lengths())  # ragged [n, pieces]
    keep = place < tf.cast(lengths, tf.int64)[:, None]
    return tf.ragged.boolean_mask(ids, keep)
