"""Text to WordPiece tokens to vocabulary ids, exactly as the original does.

    >>> from tokenization import FullTokenizer
    >>> tokenizer = FullTokenizer("vocab.txt")  # the published uncased one
    >>> tokenizer.tokenize("Unaffable, isn't it?")
    ['una', '##ffa', '##ble', ',', 'isn', "'", 't', 'it', '?']
    >>> tokenizer.text_to_ids("Unaffable, isn't it?")
    [14477, 20961, 3468, 1010, 3475, 1005, 1056, 2009, 1029]

The steps from text to tokens:

1. drop control characters, U+0000 and U+FFFD;
2. put spaces around every CJK ideograph, so that each is a word;
3. split at whitespace;
4. `do_lower_case` only: lower-case each word and drop its accents
   (a `TokenizerSettings` can ask for one of them, or leave out step 2);
5. split off every punctuation mark as a word of its own;
6. WordPiece: cover each word from left to right with the longest pieces that
   the vocabulary has.

Steps 4 to 6 process one whitespace-separated word at a time, and words repeat.
So `FullTokenizer` caches the ids of words: the exact, slow algorithm runs once
per distinct word instead of once per occurrence.

Character classes come from Python's `unicodedata`, as in the original. They
depend on the interpreter's Unicode version.
"""

import dataclasses
import functools
import hashlib
import itertools
import re
import string
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from base import errors, file_system, lazy, text_files

import numpy as np

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# A longer word is [UNK], whatever the vocabulary. Other libraries use 100.
MAX_CHARS_PER_WORD = 200

# The caches of FullTokenizer (of words, and of parts of words) are bounded, as
# new numbers, names and misspellings keep coming. 2**18 words take up to 90 MB;
# 30 MB of novels have fewer. A full cache is emptied: the frequent words are
# back within a few hundred lines. Very long words seldom repeat and are not
# cached.
MAX_CACHED_WORDS = 2**18
MAX_CACHED_CHARS = 64

_ID_BYTES = 4  # int32

__getattr__ = lazy.attributes_of("compat.tokenization")

CJK_RANGES = (
    (0x4E00, 0x9FFF),  # CJK Unified Ideographs
    (0x3400, 0x4DBF),  # Extension A
    (0x20000, 0x2A6DF),  # Extension B
    (0x2A700, 0x2B73F),  # Extension C
    (0x2B740, 0x2B81F),  # Extension D
    (0x2B820, 0x2CEAF),  # Extension E
    (0xF900, 0xFAFF),  # Compatibility Ideographs
    (0x2F800, 0x2FA1F),  # Compatibility Ideographs Supplement
)

# Word characters that their category does not tell: joiners, and letters in
# circles and squares.
_OF_WORDS = re.compile(
    r"[\u200c\u200d\u24b6-\u24e9"
    r"\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189]"
)

# --- Vocabulary files --------------------------------------------------------


class Vocabulary:
    """A vocabulary file, which is read once, when it is first needed.

    A file whose name ends in .json is a tokenizer.json of transformers.

    Args:
        path: of the file.
        content: of the file, if it was read already.
    """

    def __init__(self, path: str, content: bytes | None = None):
        self.path = str(path)
        self._is_json = self.path.endswith(".json")
        if content is not None:
            self._data = content

    @classmethod
    def of(cls, vocab_file: "str | Vocabulary") -> "Vocabulary":
        """Return the vocabulary at a path, or that one."""
        return vocab_file if isinstance(vocab_file, cls) else cls(vocab_file)

    @functools.cached_property
    def tokens(self) -> dict[str, int]:
        """The ids of the tokens; see `load_vocab`."""
        vocab: dict[str, int] = {}
        for index, token in enumerate(self._lines):
            token = token or f"[blank line {index + 1}]"
            first = vocab.setdefault(token, index)
            if first != index:
                raise errors.UserError(
                    f"{self.path}: lines {first + 1} and {index + 1} both hold"
                    f" {token!r}, but a token has one id: put a placeholder"
                    f" such as [duplicate {first + 1}] on line {first + 1}"
                    " (the original BERT used the last of the two)"
                )
        if not vocab:
            raise errors.UserError(
                f"{self.path}: the vocabulary is empty; wanted one token per"
                " line (build_vocab.py writes one)"
            )
        return vocab

    @property
    def content(self) -> bytes:
        """The content of its vocab.txt: UTF-8, each token ended by a \\n."""
        return "".join(f"{line}\n" for line in self._lines).encode()

    @functools.cached_property
    def sha256(self) -> str:
        """The SHA-256 checksum of the file as hexadecimal digits."""
        return hashlib.sha256(self._data).hexdigest()

    @functools.cached_property
    def json_object(self) -> dict[str, Any]:
        """The content of a tokenizer.json."""
        return text_files.json_object(self.path, self._text)

    @functools.cached_property
    def _data(self) -> bytes:
        try:
            if file_system.is_remote(self.path):
                return file_system.gfile().GFile(self.path, "rb").read()
            return Path(self.path).read_bytes()
        except Exception as error:
            raise errors.UserError(
                f"cannot read the vocabulary {self.path!r}: "
                f"{errors.reason(error)}"
            ) from None

    @property
    def _text(self) -> str:
        data = self._data
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise errors.UserError(
                f"{self.path}: line {line} is not UTF-8 text (byte"
                f" 0x{data[error.start]:02x}); is this the vocabulary?"
            ) from None

    @property
    def _lines(self) -> list[str]:
        """The stripped lines of its vocab.txt, without blanks at its end."""
        if self._is_json:
            return _lines_of_tokenizer_json(self.json_object, self.path)
        # Only \n ends a line: splitlines() would also break at U+2028 and
        # others.
        text = self._text.rstrip()
        return [line.strip() for line in text.split("\n")] if text else []


def load_vocab(vocab_file: str | Vocabulary) -> dict[str, int]:
    """Read a vocabulary: one token per line, the first line has id 0.

    A blank line has an id too, though no text gives it. Published vocabularies
    have such lines (the Chinese one has U+2028, a line separator, as a token),
    so they are not an error. Their tokens are "[blank line N]".

    Raises:
        UserError: the file cannot be read, is not UTF-8, is empty or has the
            same token twice.
    """
    return Vocabulary.of(vocab_file).tokens


def _lines_of_tokenizer_json(theirs: Mapping[str, Any], path: str) -> list[str]:
    """Return the tokens of a tokenizer.json by their ids.

    They are the tokens of its model, and its added tokens. The line is blank
    for an id without a token, and for a token that cannot stand in a line.
    """
    model, added = theirs.get("model"), theirs.get("added_tokens") or []
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocab, dict) or not vocab:
        raise errors.UserError(
            f"{path}: model.vocab is {str(vocab)[:50]}, wanted an object of "
            "tokens and their ids, as a WordPiece model has"
        )
    try:
        pairs = [(token["content"], token["id"]) for token in added]
    except (LookupError, TypeError):
        raise errors.UserError(
            f"{path}: added_tokens is {str(added)[:100]}, wanted a list of "
            "objects with content and id"
        ) from None
    pairs = [*vocab.items(), *pairs]
    by_id: dict[int, str] = {}
    for token, index in pairs:
        if type(index) is not int or not 0 <= index < 2 * len(pairs):
            raise errors.UserError(
                f"{path}: the id of {token!r} is {index!r}, wanted a number "
                f"from 0, and few without a token (it has {len(pairs)} tokens)"
            )
        first = by_id.setdefault(index, token)
        if first != token or vocab.get(token, index) != index:
            raise errors.UserError(
                f"{path}: {first!r} and {token!r} have id {index}"
                if first != token
                else f"{path}: {token!r} has the ids {vocab[token]} and {index}"
            )
    lines = [by_id.get(index, "") for index in range(max(by_id) + 1)]
    return ["" if "\n" in line else line.strip() for line in lines]


def validate_special_tokens(
    vocab: Mapping[str, int],
    names: Iterable[str] = SPECIAL_TOKENS[1:],
    vocab_file: str = "the vocabulary",
) -> None:
    """Raise a UserError that names the special tokens `vocab` lacks.

    By default `names` are what pre-training needs: its padding is 0, without a
    [PAD].
    """
    missing = [name for name in names if name not in vocab]
    if missing:
        raise errors.UserError(
            f"{vocab_file}: {' '.join(missing)} missing among its"
            f" {len(vocab)} tokens; is this a BERT vocabulary, one token per"
            " line with the special tokens in upper case?"
        )


def convert_by_vocab(vocab: Mapping[Any, Any], items: Iterable[Any]) -> list:
    """Return the id of each token, or the token of each id.

    Raises:
        UserError: an item is not in the vocabulary.
    """
    try:
        return [vocab[item] for item in items]
    except KeyError as error:
        item = error.args[0]
        name = f"token {item!r}" if isinstance(item, str) else f"id {item}"
        raise errors.UserError(
            f"{name} is not in the vocabulary of {len(vocab)} entries; does"
            " the vocabulary belong to this data and this model?"
        ) from None


# --- Characters --------------------------------------------------------------


def convert_to_unicode(text: str | bytes) -> str:
    """Return text as str; bytes are decoded as UTF-8, invalid ones dropped."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(f"Unsupported string type: {type(text)}")


def _is_whitespace(char: str) -> bool:
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
    """Whether a character is a control or format character.

    Tab, line feed and carriage return are whitespace instead. Private-use,
    unassigned and surrogate code points are treated as letters; a surrogate
    is in no vocabulary, so its word becomes [UNK].
    """
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def _is_punctuation(char: str) -> bool:
    """Whether a character is punctuation; of symbols ("$") only ASCII's are."""
    category = unicodedata.category(char)
    return char in string.punctuation or category.startswith("P")


def _is_of_word(char: str) -> bool:
    """Whether a character is a letter, mark, digit, joiner or connector.

    These are the word characters of Unicode's regular expressions.
    """
    kind = unicodedata.category(char)
    of_words = kind[0] in "LM" or kind in ("Nd", "Nl", "Pc")
    return of_words or bool(_OF_WORDS.match(char))


def is_cjk(code: int) -> bool:
    """Whether a code point is a CJK ideograph; Hangul and Kana are not."""
    return any(first <= code <= last for first, last in CJK_RANGES)


def _clean_char(
    spaces_cjk: bool, is_of_hub: bool, code: int
) -> str | int | None:
    """Return the replacement of a character in steps 1 and 2; None drops it.

    For the arguments see TokenizerSettings (tokenize_chinese_chars, is_of_hub).
    """
    char = chr(code)
    if code in (0, 0xFFFD) or _is_control(char):
        return None
    if is_of_hub and unicodedata.category(char) == "Co":
        return None
    if spaces_cjk and is_cjk(code):
        return f" {char} "
    return " " if _is_whitespace(char) else code


class _Computed(dict):
    """A dict that computes a missing value from its key.

    With code points as keys it is a table for str.translate.
    """

    def __init__(self, compute: Callable[[Any], Any]):
        super().__init__()
        self._compute = compute

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self._compute(key)
        return value


# By the first two arguments of `_clean_char`.
_CLEAN = {
    key: _Computed(functools.partial(_clean_char, *key))
    for key in itertools.product((False, True), repeat=2)
}

# Characters of European words and their punctuation. Cleaning does not change
# them, nor others, but with these most words need no cleaning.
_SURELY_CLEAN = re.compile(r"[!-~\u00ae-\u05ff\u2010-\u2027]+")

_PUNCTUATION = _Computed(
    lambda code: f" {chr(code)} " if _is_punctuation(chr(code)) else code
)

# None drops an accent.
_ACCENTS = _Computed(
    lambda code: None if unicodedata.category(chr(code)) == "Mn" else code
)


def without_accents(text: str) -> str:
    """Return a text in NFD without the accents, which are characters there."""
    return unicodedata.normalize("NFD", text).translate(_ACCENTS)


# --- Tokenizers --------------------------------------------------------------


class TokenizerSettings(NamedTuple):
    """The settings of a tokenizer; most have transformers' names.

    The original lower-cases and strips accents, or does neither, and always
    makes words of ideographs. Other models keep the accents of lower-cased
    German, or leave Japanese to WordPiece. In transformers the longest word
    that is not unknown is shorter, and special tokens in a text are found.

    Attributes:
        do_lower_case: words are lower-cased.
        strip_accents: words lose their accents, by NFD.
        tokenize_chinese_chars: every CJK ideograph is a word of its own.
        max_input_chars_per_word: a longer word is [UNK].
        special_tokens: tokens that are found before any other step, where
            their names stand in a text. The original has none: it splits
            "[SEP]" like any text.
        token_names: what the vocabulary calls SPECIAL_TOKENS, in this order.
        is_of_hub: whether it does as transformers where the original differs:
            characters for private use are dropped, a capital sigma has one
            lower case, and of two texts of one length the first one loses more.
        normalized_tokens: tokens that are found after steps 1, 2 and 4, which
            are applied to the text and to their names.
        whole_words: the tokens of both kinds that are found only where they
            are whole words.
    """

    do_lower_case: bool
    strip_accents: bool
    tokenize_chinese_chars: bool
    max_input_chars_per_word: int = MAX_CHARS_PER_WORD
    special_tokens: tuple[str, ...] = ()
    token_names: tuple[str, ...] = SPECIAL_TOKENS
    is_of_hub: bool = False
    normalized_tokens: tuple[str, ...] = ()
    whole_words: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        **others: Any,
    ) -> "TokenizerSettings":
        """Return the settings; strip_accents defaults to do_lower_case.

        Names of tokens may be lists, as JSON has them.
        """
        if strip_accents is None:
            strip_accents = do_lower_case
        for name, value in others.items():
            if isinstance(value, list):
                others[name] = tuple(value)
        return cls(
            do_lower_case, strip_accents, tokenize_chinese_chars, **others
        )

    def our_name(self, token: str) -> str:
        """Return what a token of the vocabulary is called here."""
        if token in self.token_names:
            return SPECIAL_TOKENS[self.token_names.index(token)]
        return f"[not {token}]" if token in SPECIAL_TOKENS else token

    def load_vocab(self, vocabulary: Vocabulary) -> dict[str, int]:
        """Return the ids of tokens; SPECIAL_TOKENS name the special ones."""
        vocab = vocabulary.tokens
        others = [n for n in self.token_names if n not in SPECIAL_TOKENS]
        validate_special_tokens(vocab, others, vocabulary.path)
        return {self.our_name(token): index for token, index in vocab.items()}

    def ids_of(
        self, tokens: Iterable[str], vocab: Mapping[str, int]
    ) -> dict[str, int]:
        """Return the id of each token that is in `load_vocab`'s vocabulary."""
        ids = {token: vocab.get(self.our_name(token)) for token in tokens}
        return {t: index for t, index in ids.items() if index is not None}

    def of_characters(self) -> "TokenizerSettings":
        """Return the settings on which the words of a text depend."""
        return TokenizerSettings(*self[:3], is_of_hub=self.is_of_hub)

    def spelled(self) -> "TokenizerSettings":
        """Return the settings under which words keep their case and accents."""
        return self._replace(do_lower_case=False, strip_accents=False)

    def to_dict(self) -> dict[str, Any]:
        """Return do_lower_case and what differs from the original, for JSON.

        `of` reads it. The original's models have one key, so their files and
        fingerprints are as they were before there were other keys.
        """
        usual = self.of(self.do_lower_case)
        return {
            name: value
            for name, value in self._asdict().items()
            if name == "do_lower_case" or value != getattr(usual, name)
        }


def special_pattern(tokens: Iterable[str]) -> str:
    """Return the regular expression of tokens in a text, a group.

    Of two tokens that begin at one place it finds the longer one.
    """
    by_length = sorted(tokens, key=len, reverse=True)
    return f"({'|'.join(map(re.escape, by_length))})"


class _AddedTokens:
    """Finds tokens in a text before it is split.

    Args:
        rules: the id of each token, and whether no letter, mark or digit may
            touch it.
    """

    def __init__(self, rules: Mapping[str, tuple[int, bool]]):
        self._rules = rules
        self.pattern = re.compile(special_pattern(rules))

    def split(self, text: str) -> Iterator[tuple[int, int, int | None]]:
        """Yield (start, end, id) of each token, and of texts between, id None.

        A token that has to be a whole word, but is not, counts as text, with
        all tokens in it.
        """
        at = 0
        for match in self.pattern.finditer(text):
            start, end = match.span()
            index, is_whole = self._rules[match[0]]
            around = text[max(start - 1, 0) : start] + text[end : end + 1]
            if is_whole and any(map(_is_of_word, around)):
                continue
            yield at, start, None
            yield start, end, index
            at = end
        yield at, len(text), None


def whitespace_tokenize(text: str) -> list[str]:
    """Split at whitespace, Unicode's included."""
    return text.split()


class BasicTokenizer:
    """Splits text into words and punctuation marks (steps 1 to 5).

    Without settings it does what the original does with this casing.
    """

    def __init__(
        self,
        do_lower_case: bool = True,
        settings: TokenizerSettings | None = None,
    ):
        self.settings = settings or TokenizerSettings.of(do_lower_case)
        self.do_lower_case = self.settings.do_lower_case
        self._clean = _CLEAN[
            self.settings.tokenize_chinese_chars, self.settings.is_of_hub
        ]
        self.of_char = _Computed(self._replace_char)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Return the words of a text, normalized."""
        return [
            part
            for word in self.clean(text).split()
            for part in self.split_word(word)
        ]

    def clean(self, text: str | bytes) -> str:
        """Drop control characters, put spaces around ideographs (1, 2)."""
        return convert_to_unicode(text).translate(self._clean)

    def normalize(self, text: str) -> str:
        """Return a cleaned text in lower case and without accents (step 4)."""
        if self.settings.do_lower_case:
            text = self.lower(text)
        if self.settings.strip_accents and not text.isascii():
            text = without_accents(text)
        return text

    def split_word(self, word: str) -> list[str]:
        """Split one whitespace-separated word of cleaned text (steps 4, 5)."""
        return self.normalize(word).translate(_PUNCTUATION).split()

    def words_with_places(
        self, text: str
    ) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield the words of `tokenize` with the places of their characters.

        A place is an index in the text, of what the character was made of:
        the text "It's \u00c9." gives ("it", [0, 1]), ("'", [2]), ("s", [3]),
        ("e", [5]), (".", [6]).
        """
        words, places = self.clean(text).split(), range(len(text))
        if "".join(words) != text:
            places = [
                at
                for at, char in enumerate(text)
                if not char.isspace()
                and self._clean[ord(char)] not in (None, " ")
            ]
        start = 0
        for word in words:
            parts, in_word = self.split_word(word), range(len(word))
            if not word.isascii():
                in_word = self._places_of_split(word, "".join(parts))
            first = 0
            for part in parts:
                last = first + len(part)
                yield part, [places[start + at] for at in in_word[first:last]]
                first = last
            start += len(word)

    def _places_of_split(self, word: str, split: str) -> list[int]:
        """Return the places of the characters that `split_word` returns."""
        alone = [self.of_char[ord(char)] for char in word]
        # Neighbors decide only which of two letters a small sigma is, and the
        # order of marks.
        if "".join(alone).replace("ς", "σ") == split.replace("ς", "σ"):
            return [at for at, new in enumerate(alone) for _ in new]
        marks = [
            (mark, at)
            for at, char in enumerate(word)
            for mark in unicodedata.normalize(
                "NFD", self.lower(char) if self.do_lower_case else char
            )
        ]
        # NFD sorts the marks of a letter by their classes.
        classes = [unicodedata.combining(mark) for mark, _ in marks]
        letters = itertools.accumulate(kind == 0 for kind in classes)
        keys = list(zip(letters, classes, strict=True))
        order = sorted(range(len(marks)), key=keys.__getitem__)
        return [marks[i][1] for i in order if marks[i][0].translate(_ACCENTS)]

    def _replace_char(self, code: int) -> str:
        """Return what is left of a character alone; " " for white space."""
        clean = self.clean(chr(code))
        if clean.isspace():
            return " "
        return "".join(map("".join, map(self.split_word, clean.split())))

    def lower(self, word: str) -> str:
        """Return the lower case of one word.

        In the original the lower case of a capital sigma depends on whether a
        letter follows it, so it cannot be looked up for each character.
        """
        if self.settings.is_of_hub:
            word = word.replace("\u03a3", "\u03c3")
        return word.lower()

    # Single steps by the original's names: programs call these, private or not.

    def _clean_text(self, text: str) -> str:
        return text.translate(_CLEAN[False, False])

    def _tokenize_chinese_chars(self, text: str) -> str:
        return "".join(f" {c} " if is_cjk(ord(c)) else c for c in text)

    def _is_chinese_char(self, cp: int) -> bool:
        return is_cjk(cp)

    def _run_strip_accents(self, text: str) -> str:
        return without_accents(text)

    def _run_split_on_punc(self, text: str) -> list[str]:
        marked = (f"\0{c}\0" if _is_punctuation(c) else c for c in text)
        return [piece for piece in "".join(marked).split("\0") if piece]


@dataclasses.dataclass(eq=False)
class WordpieceTokenizer:
    """Splits words into the longest pieces of a vocabulary (step 6)."""

    vocab: Mapping[str, int]
    unk_token: str = "[UNK]"
    max_input_chars_per_word: int = MAX_CHARS_PER_WORD

    def tokenize(self, text: str | bytes) -> list[str]:
        """Return the pieces of each whitespace-separated word."""
        words = whitespace_tokenize(convert_to_unicode(text))
        return [piece for word in words for piece in self.pieces_of(word)]

    def pieces_of(self, word: str) -> list[str]:
        """Return the pieces of one word; "##" marks all but the first.

        A word that cannot be covered to its end, or that is too long, is one
        unknown token.
        """
        if len(word) > self.max_input_chars_per_word:
            return [self.unk_token]
        pieces = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                piece = prefix + word[start:end]
                if piece in self.vocab:
                    break
            else:
                return [self.unk_token]
            pieces.append(piece)
            start = end
        return pieces


class _Cache(_Computed):
    """A table of ids by words that is emptied when it is full."""

    def __missing__(self, key: str) -> bytes:
        value = self._compute(key)
        if len(key) <= MAX_CACHED_CHARS:
            if len(self) >= MAX_CACHED_WORDS:
                self.clear()
            self[key] = value
        return value


class FullTokenizer:
    """Converts text to tokens and to ids, with one vocabulary (all steps).

    Without settings it does what the original does with this casing.

    Attributes:
        vocabulary: the file.
        vocab: token -> id. Not to be changed, since ids of words are cached.
        inv_vocab: id -> token.
    """

    def __init__(
        self,
        vocab_file: str | Vocabulary,
        do_lower_case: bool = True,
        settings: TokenizerSettings | None = None,
    ):
        self.vocabulary = Vocabulary.of(vocab_file)
        self.vocab_file = self.vocabulary.path
        self.basic_tokenizer = BasicTokenizer(do_lower_case, settings)
        self.settings = self.basic_tokenizer.settings
        self.vocab = self.settings.load_vocab(self.vocabulary)
        self.inv_vocab = {index: token for token, index in self.vocab.items()}
        validate_special_tokens(self.vocab, ["[UNK]"], self.vocab_file)
        self.wordpiece_tokenizer = WordpieceTokenizer(
            self.vocab,
            max_input_chars_per_word=self.settings.max_input_chars_per_word,
        )
        basic = self.basic_tokenizer
        # A text, or a character of one, after steps 1, 2 and 4.
        self._normal = _Computed(lambda x: basic.normalize(basic.clean(x)))
        # Tokens to find in a text as it is, and in its normalized form.
        self._special, self._normalized = map(
            self._added,
            (str, self._normal.__getitem__),
            (self.settings.special_tokens, self.settings.normalized_tokens),
        )
        # Ids are cached as bytes of int32: joining bytes is one copy of memory,
        # while a list has an object per id.
        self._word_ids = _Cache(self._compute_word)
        self._part_ids = _Cache(self._compute_part)

    def __reduce__(self) -> tuple:
        """Pickle the vocabulary and the settings, without ids of words."""
        return type(self), (self.vocabulary, True, self.settings)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Return the WordPiece tokens of a text.

        Special tokens written in the text are split like any text, "[MASK]"
        into "[", "mask", "]" (uncased), but for the settings' special_tokens.
        """
        return [self.inv_vocab[index] for index in self.text_to_ids(text)]

    def text_to_ids(self, text: str | bytes) -> list[int]:
        """Return `convert_tokens_to_ids(tokenize(text))`, but faster."""
        return memoryview(self._encode(text)).cast("i").tolist()

    def lines_to_ids(
        self, lines: Iterable[str | bytes]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize many texts, each on its own, into flat arrays.

        Returns:
            ids: int32, of all lines, concatenated.
            offsets: int64 [lines + 1]; line i is ids[offsets[i]:offsets[i+1]].
        """
        encoded = list(map(self._encode, lines))
        offsets = np.zeros(len(encoded) + 1, np.int64)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        np.cumsum(lengths // _ID_BYTES, out=offsets[1:])
        # A bytearray, unlike bytes, gives an array that can be written to.
        return np.frombuffer(bytearray().join(encoded), np.int32), offsets

    def _encode(self, text: str | bytes) -> bytes:
        """Return the ids of a text as int32 bytes."""
        text = convert_to_unicode(text)
        special = self._special
        if not self._normalized and not (
            special and special.pattern.search(text)
        ):
            return self._encode_text(text)
        return b"".join(
            self._encode_text(part)
            if index is None
            else array("i", [index]).tobytes()
            for part, index, _ in self._parts(text)
        )

    def _added(
        self, spelled: Callable[[str], str], tokens: Sequence[str]
    ) -> _AddedTokens | None:
        """Return tokens to find as they are `spelled`; None: there are none."""
        ids = self.settings.ids_of(tokens, self.vocab)
        # Of two that are spelled alike the first one counts.
        rules = {
            spelled(token): (ids[token], token in self.settings.whole_words)
            for token in reversed(ids)
        }
        rules.pop("", None)
        return _AddedTokens(rules) if rules else None

    def _parts(
        self, text: str
    ) -> Iterator[tuple[str, int | None, Sequence[int]]]:
        """Yield the tokens in a text, and the texts between.

        Each comes with its id, None for a text, and with places in the whole
        text: of each of its characters, and of its end. A text is normalized
        only if there are tokens to find in normalized texts.
        """
        whole = [(0, len(text), None)]
        for start, end, index in (
            self._special.split(text) if self._special else whole
        ):
            part, places = text[start:end], range(start, end + 1)
            if index is not None or not self._normalized:
                yield part, index, places
                continue
            spelled = [self._normal[char] for char in part]
            places = [
                at
                for at, chars in zip(places, spelled, strict=False)
                for _ in chars
            ]
            part, places = "".join(spelled), [*places, end]
            for first, last, index in self._normalized.split(part):
                yield part[first:last], index, places[first : last + 1]

    def _encode_text(self, text: str) -> bytes:
        """Return the ids of a text without special tokens as int32 bytes."""
        # Split at the space only. Words that are not in the cache are split at
        # other whitespace later. str.split() would also split at some control
        # characters; these are dropped, and their neighbors form one word.
        words = text.strip().split(" ")
        return b"".join(map(self._word_ids.__getitem__, words))

    def _compute_word(self, word: str) -> bytes:
        """Return the ids of the text between two spaces, uncleaned."""
        if not _SURELY_CLEAN.fullmatch(word):
            words = self.basic_tokenizer.clean(word).split()
            if words != [word]:
                # A line of Chinese has no spaces and never repeats, but the
                # ideographs that cleaning splits it into do: look these up.
                return b"".join(map(self._word_ids.__getitem__, words))
        parts = self.basic_tokenizer.split_word(word)
        return b"".join(map(self._part_ids.__getitem__, parts))

    def _compute_part(self, part: str) -> bytes:
        """Return the ids of a word without punctuation, or of one mark."""
        pieces = self.wordpiece_tokenizer.pieces_of(part)
        return array("i", [self.vocab[p] for p in pieces]).tobytes()

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the characters [start, end) of each piece of `text_to_ids`.

        An unknown token is all of its word. Characters that are dropped, such
        as accents, belong to the piece before them: in "Cafe\u0301!" the piece
        "cafe" has 5 characters.
        """
        spans = []
        for part, index, places in self._parts(text):
            inner = self._spans(part) if index is None else [(0, len(part))]
            spans += [
                (places[first], max(places[last], places[last - 1] + 1))
                for first, last in inner
            ]
        return spans

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return `spans` of a text without special tokens."""
        basic, spans = self.basic_tokenizer, []
        for part, places in basic.words_with_places(text):
            ids = memoryview(self._part_ids[part]).cast("i")
            first = 0
            for index in ids:
                # "##" marks all pieces of a word but the first. An unknown
                # token is the only one of its word.
                size = len(self.inv_vocab[index]) - 2 * (first > 0)
                last = first + size if len(ids) > 1 else len(part)
                end = places[last - 1] + 1
                while end < len(text) and not basic.of_char[ord(text[end])]:
                    end += 1
                spans.append((places[first], end))
                first = last
        return spans

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the id of each token; an unknown token is a UserError."""
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id; an unknown id is a UserError."""
        return convert_by_vocab(self.inv_vocab, ids)


# --- Pairs -------------------------------------------------------------------


def truncated_lengths(
    a: Any,
    b: Any,
    limit: Any,
    minimum: Callable = min,
    maximum: Callable = max,
    is_of_hub: bool = False,
) -> tuple[Any, Any]:
    """Return the lengths to which a pair of texts is cut to fit a limit.

    The original removes the last token of the longer text, of the second one
    if both are equally long, until a + b <= limit. So a text that is shorter
    than half of the limit stays whole, and two longer ones get a half each.
    The first text gets the larger half of an odd limit:

        a   b  limit
        3   9     10    ->  3 7     only b is longer than half
        9   3     10    ->  7 3
        9   9     10    ->  5 5
        9   9     11    ->  6 5

    In transformers the first text gets it only if it is longer:

        9   9     11    ->  5 6

    Args:
        a: number of tokens of the first text.
        b: number of tokens of the second text.
        limit: the largest sum, at least 0.
        minimum: np.minimum or tf.minimum if a and b are arrays or tensors.
        maximum: likewise.
        is_of_hub: see TokenizerSettings.
    """
    half = limit // 2  # of the second text
    if is_of_hub:
        half += limit % 2 * minimum(1, maximum(0, b - a + 1))
    return (
        minimum(a, maximum(limit - half, limit - b)),
        minimum(b, maximum(half, limit - a)),
    )
