"""The tokenizer as graph operations: strings in, tokenization.py's ids out.

A graph has neither `str.lower` nor `unicodedata`, and the BERT tokenizers of
tensorflow-text treat many characters differently from the original. But what
the original does to a text before WordPiece is, character by character, a
replacement: by nothing, by a space, by the character between spaces, or by its
lower-case letters without accents. For example, lower-casing:

    U+0007 -> nothing     ! -> space ! space     É -> e     İ -> i

The replacements of all code points are a constant table in the graph
(tasks/character_tables.py). Two things depend on the neighbors of a character
and are computed in the graph: the capital sigma, whose lower case is another
letter at the end of a word, and the canonical order of combining marks.

Letters in shapes: n texts, c characters of all texts.
"""

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from base import packages
from base.errors import UserError

import numpy as np
import tensorflow as tf

import tokenization
from checkpoints.checkpoint import Loaded
from checkpoints.trained_for import CUT, HEAD_TAIL, TAIL
from tasks import character_tables, rows
from tasks.character_tables import PAGE, Table
from tasks.plain_texts import plain_tokenizer

_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2  # capital; small, at the end of a word

_SPACE = 32

# Around special tokens in a text. A text that has it itself is split there,
# where FullTokenizer drops the characters.
_MARK = "\0\ufffd\0"

# Replaces longer words. Its id is [UNK]: the tokenizer drops the character from
# every text, and no vocabulary may have it.
_LONG_WORD = "\ufffd"

# --- The tokenizer -----------------------------------------------------------


class TokenSpans(NamedTuple):
    """Word pieces and their places in the texts, three ragged [n, pieces]."""

    ids: tf.RaggedTensor  # int32
    starts: tf.RaggedTensor  # int64, index of the first character
    ends: tf.RaggedTensor  # int64, index after the last character


class Tokenizer(tf.Module):
    """FullTokenizer as TensorFlow operations: same arguments, same ids.

    Raises:
        UserError: tensorflow-text is not installed, or the vocabulary lacks a
            special token, has U+FFFD or tokens that a graph cannot find.
    """

    def __init__(
        self,
        vocab_file: str | tokenization.Vocabulary,
        do_lower_case: bool = True,
        settings: tokenization.TokenizerSettings | None = None,
    ):
        super().__init__()
        tensorflow_text = packages.load(
            "tensorflow_text",
            "the tokenizer in the graph",
            "tensorflow-text of TensorFlow's version",
        )
        self.settings = settings or tokenization.TokenizerSettings.of(
            do_lower_case
        )
        vocabulary = tokenization.Vocabulary.of(vocab_file)
        vocab = self.settings.load_vocab(vocabulary)
        special = ("[UNK]", "[CLS]", "[SEP]", "[PAD]")
        tokenization.validate_special_tokens(vocab, special, vocabulary.path)
        self.ids = {name: vocab[name] for name in special}
        self.special_ids = self.settings.ids_of(
            self.settings.special_tokens, vocab
        )
        rules = self.settings.normalized_tokens, self.settings.whole_words
        if others := self.settings.ids_of(itertools.chain(*rules), vocab):
            raise UserError(
                f"{vocabulary.path}: {next(iter(others))!r} is a token to be "
                "found in normalized text, or as a single_word, which a graph "
                "cannot: use batch_predict.py, or --format=onnx and own ids"
            )
        self._longest_word = self.settings.max_input_chars_per_word
        # No word has white space or U+0000. The library's WordPiece takes no
        # U+0000, and would find parts of a token with a space: with "new york"
        # in the vocabulary, "new new" was [UNK]. The replacements have U+FFFD,
        # which no text has after cleaning.
        matchable = [
            f"{_LONG_WORD}{number}" if re.search(r"[\s\0]", token) else token
            for number, token in enumerate(vocab)
        ]
        self.wordpiece = tensorflow_text.FastWordpieceTokenizer(
            vocab=matchable,
            token_out_type=tf.int32,
            unknown_token="[UNK]",
            no_pretokenization=True,
            max_bytes_per_word=4 * self._longest_word + 1,
        )
        if _LONG_WORD in vocab:
            raise UserError(
                f"{vocabulary.path}: U+FFFD is a token, but no text has it "
                "after cleaning; put a placeholder on its line"
            )
        characters = self.settings.of_characters()
        self._table = character_tables.replacement_table(characters)
        self._clean = character_tables.replacement_table(characters.spelled())

        @functools.cache
        def plain() -> Callable[[tf.Tensor], tf.RaggedTensor]:
            with tf.init_scope():  # not in the graph that asks first
                return plain_tokenizer(
                    tensorflow_text, matchable, self.settings, self._ids
                )

        self._plain = plain

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of texts, strings [n], as ragged int32 [n, pieces]."""
        # The way of plain texts takes half a second to make. Only a graph is
        # faster with it.
        ids_of = self._ids if tf.executing_eagerly() else self._plain()
        return ids_of(texts)

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of any texts [n], ragged int32 [n, pieces]."""
        if not self.special_ids:
            return self._ids_between(texts)
        parts, special, between = self._parts(texts)
        ids = self._ids_between(between)
        return _of_texts(parts, special, special, ids)

    def _parts(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Split texts at special tokens.

        Returns:
            The parts, ragged strings [n, parts]; the id of each that is a
            special token, else -1, flat; and the others, flat, with "" for
            special tokens.
        """
        pattern = tokenization.special_pattern(self.special_ids)
        marked = tf.strings.regex_replace(texts, pattern, rf"{_MARK}\1{_MARK}")
        parts = tf.strings.split(marked, _MARK)
        flat = parts.flat_values
        special = tf.fill(tf.shape(flat), -1)
        for token, index in self.special_ids.items():
            special = tf.where(flat == token, index, special)
        return parts, special, tf.where(special < 0, flat, "")

    def _ids_between(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids [n, pieces] of texts [n] without special tokens."""
        words = self.words(texts)  # ragged [n, words]
        length = tf.strings.length(words.flat_values, "UTF8_CHAR")
        words = words.with_flat_values(
            tf.where(length > self._longest_word, _LONG_WORD, words.flat_values)
        )
        return self.wordpiece.tokenize(words).merge_dims(1, 2)

    def features(
        self,
        a: tf.RaggedTensor,
        b: tf.RaggedTensor | None = None,
        *,
        max_seq_length: int,
        how: str = CUT,
    ) -> dict[str, tf.Tensor]:
        """Return input_ids, input_mask and segment_ids [n, S] of texts.

        They are [CLS] a [SEP] or [CLS] a [SEP] b [SEP], truncated to
        max_seq_length as in run_classifier.py and padded to the longest of the
        batch. A second text without any token counts as none, as in the
        original. a and b are ids, ragged [n, pieces]; `how` is LongTexts.how.
        """
        length_a = tf.cast(a.row_lengths(), tf.int32)
        kept = tf.minimum(length_a, max_seq_length - 2)  # [n]
        lengths = kept + 2  # [n], of the rows with [CLS] and [SEP]
        second = tf.constant([], a.dtype)
        if b is not None:
            length_b = tf.cast(b.row_lengths(), tf.int32)
            kept_a, kept_b = tokenization.truncated_lengths(
                length_a,
                length_b,
                max_seq_length - 3,
                tf.minimum,
                tf.maximum,
                self.settings.is_of_hub,
            )  # [n] both
            is_pair = length_b > 0
            kept = tf.where(is_pair, kept_a, kept)
            lengths = tf.where(is_pair, kept_a + kept_b + 3, lengths)
            second = b.flat_values
        # Every row has at least two tokens. A batch of no rows gets width 2
        # too.
        width = tf.maximum(2, tf.reduce_max(lengths))
        # Each token is one of `values`: `at` has its index.
        names = ("[PAD]", "[CLS]", "[SEP]")
        special = [self.ids[name] for name in names]
        values = tf.concat([special, a.flat_values, second], axis=0)
        place = tf.range(width)[None]  # [1, S]
        kept, lengths = kept[:, None], lengths[:, None]  # [n, 1]
        at = tf.cast(a.row_starts(), tf.int32)[:, None] + place + 2  # [n, S]
        has_tail = how in (HEAD_TAIL, TAIL)
        if has_tail:
            is_tail = place - 1 >= rows.head_length(kept, how)
            at += tf.where(is_tail, length_a[:, None] - kept, 0)
        is_second = place >= kept + 2  # [n, S], or padding
        if b is not None:
            begin = tf.size(a.flat_values) + tf.cast(b.row_starts(), tf.int32)
            at_b = begin[:, None] + place + 1 - kept
            if has_tail:
                kept_b = kept_b[:, None]
                is_tail = place - kept - 2 >= rows.head_length(kept_b, how)
                at_b += tf.where(is_tail, length_b[:, None] - kept_b, 0)
            at = tf.where(is_second, at_b, at)
        at = tf.where((place == kept + 1) | (place == lengths - 1), 2, at)
        at = tf.where(place == 0, 1, at)
        mask = place < lengths  # [n, S]
        return {
            "input_ids": tf.gather(values, tf.where(mask, at, 0)),
            "input_mask": tf.cast(mask, tf.int32),
            "segment_ids": tf.cast(mask & is_second, tf.int32),
        }

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the words before WordPiece: ragged strings [n, words]."""
        codes, _ = self._decode(texts)
        replaced, _ = self._replace(codes, self._table)
        return tf.strings.split(tf.strings.unicode_encode(replaced, "UTF-8"))

    def cased_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the words with their case and accents.

        Ragged strings [n, words], those of TokenizerSettings.spelled().
        """
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        replaced, _ = self._replace(codes, self._clean)
        return tf.strings.split(tf.strings.unicode_encode(replaced, "UTF-8"))

    def with_offsets(self, texts: tf.Tensor) -> TokenSpans:
        """Return the ids of texts [n] with their places in the texts.

        Characters that are dropped, such as accents, belong to the piece
        before them: in "Cafe\u0301!" the piece "cafe" has 5 characters.
        """
        if not self.special_ids:
            return self._offsets(texts)
        parts, special, between = self._parts(texts)
        ids, starts, ends = self._offsets(between)
        length = tf.strings.length(parts.flat_values, "UTF8_CHAR")
        length = tf.cast(length, tf.int64)
        # Characters of the same text before each part.
        before = tf.cumsum(length, exclusive=True)
        of_row = tf.gather(
            before, tf.gather(parts.row_starts(), parts.value_rowids())
        )
        before -= of_row

        def moved(places: tf.RaggedTensor) -> tf.RaggedTensor:
            start = tf.gather(before, places.value_rowids())
            return places.with_values(places.values + start)

        return TokenSpans(
            _of_texts(parts, special, special, ids),
            _of_texts(parts, special, before, moved(starts)),
            _of_texts(parts, special, before + length, moved(ends)),
        )

    def _offsets(self, texts: tf.Tensor) -> TokenSpans:
        """Return `with_offsets` of texts without special tokens."""
        codes, order = self._decode(texts)
        replaced, source = self._replace(codes, self._table)
        # Words: runs of characters of one text without a space.
        flat, rows = replaced.flat_values, replaced.value_rowids()
        is_char = flat != _SPACE
        # The cuts to the size of flat are for a batch without a character.
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
        # The place of each word character in the text, before characters were
        # split, replaced and sorted.
        source = tf.gather(source, kept)  # [k]
        numbers = _replacement_numbers(self._table, codes.flat_values)
        stays = tf.gather(self._table.lengths, numbers) > 0  # [c]
        if order is not None:
            source = tf.gather(order, source)
            stays = tf.gather(stays, tf.math.invert_permutation(order))
        source, row = tf.cast(source, tf.int64), tf.gather(rows, kept)
        # Its end: the next character that is not dropped, or the text's end.
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

        return TokenSpans(
            of_texts(ids),
            of_texts(first.with_values(tf.gather(source, first.values))),
            of_texts(last.with_values(tf.gather(end, last.values))),
        )

    def _pieces(
        self, chars: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Return the ids of words, and each piece's first and last character.

        Returns:
            Three ragged [words, pieces]: ids, and indices into chars.values.
        """
        is_long = chars.row_lengths() > self._longest_word
        words = tf.strings.unicode_encode(chars, "UTF-8")
        words = tf.where(is_long, _LONG_WORD, words)
        ids, starts, ends = self.wordpiece.tokenize_with_offsets(words)
        flat = chars.values
        # WordPiece counts bytes: UTF-8 has 1 to 4 per character.
        size = sum(tf.cast(flat >= n, tf.int64) for n in (0, 128, 2048, 65536))
        places = tf.cumsum(size, exclusive=True)  # first byte of each character
        word = ids.value_rowids()
        base = tf.gather(
            tf.concat([places, [0]], 0), tf.gather(chars.row_starts(), word)
        )

        def char_at(byte: tf.Tensor) -> tf.Tensor:
            return tf.searchsorted(places, byte, "right", tf.int64) - 1

        first = char_at(base + tf.cast(starts.values, tf.int64))
        last = char_at(base + tf.cast(ends.values, tf.int64) - 1)
        # A long word was replaced: its [UNK] is all of it.
        whole = tf.gather(chars.row_limits(), word) - 1
        last = tf.where(tf.gather(is_long, word), whole, last)
        return ids, ids.with_values(first), ids.with_values(last)

    def _decode(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor | None]:
        """Return the code points of texts, ready for the table.

        Final sigmas are replaced and marks are sorted.

        Returns:
            Code points, ragged [n, characters]; and the index in the texts of
            each, flat [c], None if nothing is sorted.
        """
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        has_final = not self.settings.is_of_hub
        if self.settings.do_lower_case and has_final:
            codes = codes.with_flat_values(self._final_sigmas(codes))
        if not self.settings.strip_accents:
            return codes, None
        order = self._order(codes)
        return codes.with_flat_values(
            tf.gather(codes.flat_values, order)
        ), order

    def _replace(
        self, codes: tf.RaggedTensor, table: Table
    ) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Replace every character by its entry of the table.

        Returns:
            Code points, ragged [n, new characters]; and the index in `codes`
            that each comes from, flat.
        """
        flat = codes.flat_values  # [c]
        numbers = _replacement_numbers(table, flat)  # [c]
        lengths = tf.gather(table.lengths, numbers)  # [c]
        ends = tf.cumsum(lengths)  # [c]
        source = tf.repeat(tf.range(tf.size(flat)), lengths)  # [new c]
        offset = tf.range(tf.size(source)) - tf.gather(ends - lengths, source)
        starts = tf.gather(table.starts, tf.gather(numbers, source))
        values = tf.gather(table.values, starts + offset)  # [new c]
        values = tf.where(
            values == character_tables.SELF, tf.gather(flat, source), values
        )
        bounds = tf.concat([[0], ends], 0)
        splits = tf.cast(tf.gather(bounds, codes.row_splits), tf.int64)
        replaced = tf.RaggedTensor.from_row_splits(
            values, splits, validate=False
        )
        return replaced, source

    def _final_sigmas(self, codes: tf.RaggedTensor) -> tf.Tensor:
        """Return the code points [c] with final sigmas at the end of words."""
        flat = codes.flat_values
        ignorable, cased = character_tables.case_classes()

        def replaced() -> tf.Tensor:
            # The original drops characters before `str.lower`, so they do not
            # count as neighbors. It drops accents after; these are ignorable
            # anyway.
            numbers = _replacement_numbers(self._table, flat)
            dropped = tf.gather(self._table.lengths, numbers) == 0
            # The k characters that count, and how many of them precede each of
            # the c: those before and after a sigma are its neighbors.
            counts = tf.cast(~(_is_in(flat, ignorable) | dropped), tf.int32)
            kept = tf.cast(tf.where(counts > 0)[:, 0], tf.int32)  # [k]
            preceding = tf.cumsum(counts, exclusive=True)  # [c]
            row = tf.cast(codes.value_rowids(), tf.int32)  # [c]
            is_cased = _is_in(flat, cased)  # [c]

            def cased_at(number: tf.Tensor) -> tf.Tensor:
                """Whether character `number` is cased, in the same text."""
                last = tf.size(kept) - 1
                at = tf.gather(kept, tf.clip_by_value(number, 0, last))
                inside = (number >= 0) & (number <= last)
                same = tf.gather(row, at) == row
                return inside & same & tf.gather(is_cased, at)

            is_final = cased_at(preceding - 1) & ~cased_at(preceding + counts)
            return tf.where((flat == _SIGMA) & is_final, _FINAL_SIGMA, flat)

        has_sigma = tf.reduce_any(flat == _SIGMA)
        return tf.cond(has_sigma, replaced, lambda: flat)

    def _order(self, codes: tf.RaggedTensor) -> tf.Tensor:
        """Return the canonical order of the code points as indices [c].

        NFD sorts the combining marks of a letter by their class. This matters
        only for the few marks that are not dropped with the accents.
        """
        flat = codes.flat_values
        marks, classes, kept = character_tables.combining_marks()

        def sort() -> tf.Tensor:
            at = tf.minimum(tf.searchsorted(marks, flat), len(marks) - 1)
            is_mark = tf.gather(marks, at) == flat
            kind = tf.where(is_mark, tf.gather(classes, at), 0)
            # Characters that cleaning drops do not separate marks: they are
            # sorted behind the marks, as if of class 255.
            numbers = _replacement_numbers(self._clean, flat)
            dropped = tf.gather(self._clean.lengths, numbers) == 0
            # A run is a letter with its marks, in one text.
            row = codes.value_rowids()
            is_first = tf.concat([[True], row[1:] != row[:-1]], 0)
            starts = ((kind == 0) & ~dropped) | is_first
            run = tf.cumsum(tf.cast(starts, tf.int64))
            kind = tf.where(dropped, 255, kind)
            key = run * 256 + tf.cast(kind, tf.int64)
            return tf.argsort(key, stable=True)

        return tf.cond(
            tf.reduce_any(_is_in(flat, kept)),
            sort,
            lambda: tf.range(tf.size(flat)),
        )


def _of_texts(
    parts: tf.RaggedTensor,
    special: tf.Tensor,
    values: tf.Tensor,
    between: tf.RaggedTensor,
) -> tf.RaggedTensor:
    """Return one value for each token of texts, ragged [n, tokens].

    Args:
        parts, special: see Tokenizer._parts.
        values: flat, that of each special token.
        between: ragged [all parts, tokens], those of the other parts.
    """
    is_special = special >= 0
    own = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(values, is_special),
        tf.cast(is_special, tf.int64),
        validate=False,
    )
    merged = tf.concat([own, between], axis=1)
    return parts.with_values(merged).merge_dims(1, 2)


def _replacement_numbers(table: Table, codes: tf.Tensor) -> tf.Tensor:
    """Return the number of the replacement of each code point."""
    page = tf.gather(table.pages, codes // PAGE)
    return tf.gather(table.entries, page * PAGE + codes % PAGE)


def _is_in(values: tf.Tensor, members: np.ndarray) -> tf.Tensor:
    """Return whether each value is one of `members`, which are sorted."""
    at = tf.searchsorted(members, values)
    at = tf.minimum(at, len(members) - 1)
    return tf.gather(members, at) == values


# --- Features ----------------------------------------------------------------


def batch_encoder(
    loaded: Loaded, max_seq_length: int = 128
) -> Callable[..., Any]:
    """Return a function from batches of texts to those of a model's features.

        encode = batch_encoder(checkpoints.load("uncased_L-12_H-768_A-12"))
        data = tf.data.Dataset.from_tensor_slices((texts, labels))
        data = data.shuffle(10_000).batch(32).map(encode)

    The function takes strings [n], or a tuple of two such for pairs of texts,
    and returns the features of `Tokenizer.features`. Labels and weights of the
    data set follow unchanged.

    Raises:
        UserError: the model has fewer positions than max_seq_length.
    """
    longest = loaded.config.max_position_embeddings
    if not 3 <= max_seq_length <= longest:
        raise UserError(
            f"max_seq_length={max_seq_length}: choose 3 to {longest}, the "
            "model's max_position_embeddings"
        )
    tokenizer = Tokenizer(
        loaded.tokenizer.vocabulary, settings=loaded.tokenizer.settings
    )

    def encode(texts: Any, *rest: Any) -> Any:
        pair = texts if isinstance(texts, tuple) else (texts,)
        pair = [tf.convert_to_tensor(text) for text in pair]
        for text in pair:
            if text.dtype != tf.string or text.shape.rank != 1:
                raise UserError(
                    f"texts must be a batch of strings [n], found "
                    f"{text.dtype.name} {text.shape}; batch the data set first"
                )
        if any(value.dtype == tf.string for value in tf.nest.flatten(rest)):
            raise UserError(
                "strings follow the texts; wanted (texts, labels), or "
                "((texts, texts), labels) for pairs, and numbers as labels"
            )
        features = tokenizer.features(
            *map(tokenizer, pair), max_seq_length=max_seq_length
        )
        return (features, *rest) if rest else features

    return encode
