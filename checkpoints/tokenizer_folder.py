"""The files of a tokenizer beside a model: checked, and read as settings.

They are the files of transformers; this project writes tokenizer_config.json,
too. What no file sets is as in BertTokenizer, the class of transformers, for
models of the hub, and as in the original for others.
"""

import collections
import functools
import itertools
import os
from collections.abc import Mapping
from typing import Any

from base import file_system, logs, text_files
from base.errors import UserError

import tokenization
from checkpoints.published import (
    ADDED_TOKENS_NAME,
    BERT_CONFIG_NAME,
    CONFIG_NAME,
    SPECIAL_TOKENS_NAME,
    TOKEN_KEYS,
    TOKENIZER_CONFIG_NAME,
    TOKENIZER_NAME,
    VOCAB_NAME,
)
from tokenization import SPECIAL_TOKENS, TokenizerSettings, Vocabulary

# Classes of transformers that split text as BERT's does, without their "Fast".
_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
# Those that do whatever tokenizer.json says.
_ANY_TOKENIZER = ("PreTrainedTokenizerFast", "TokenizersBackend")

# Settings that name more special tokens, one or several.
_MORE_TOKENS = (
    "bos_token",
    "eos_token",
    "additional_special_tokens",
    "extra_special_tokens",
)

# The limit of BertTokenizer, whatever tokenizer.json says.
MAX_CHARS_OF_HUB = 100
_WORD_LENGTH = "max_input_chars_per_word"

# Fields of TokenizerSettings by their names in tokenizer.json's normalizer.
_NORMALIZER_FIELDS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}

_MEND = ": this tokenizer gives other tokens and cannot be used"


class Folder:
    """The tokenizer's files in a folder, each read once, and checked.

    Attributes:
        path: of the folder.
        plain: vocab.txt; None: no such file.
        config, whole, names: the objects in tokenizer_config.json,
            tokenizer.json and special_tokens_map.json; empty, or None for the
            second: no such file.
        model_config: the object in config.json, not checked; None: no file.
        is_generic: whether transformers does what tokenizer.json says, not
            what its class for BERT does.

    Raises:
        UserError: a file is damaged, or has a setting that BERT lacks.
    """

    def __init__(self, path: str):
        self.path = path
        self.plain, self._theirs = (
            Vocabulary(self.file(name)) if self.has(name) else None
            for name in (VOCAB_NAME, TOKENIZER_NAME)
        )
        self.config = self.read(TOKENIZER_CONFIG_NAME)
        self.whole = self._theirs and self._theirs.json_object
        if self.whole is not None:
            self._check(TOKENIZER_NAME, TOKENIZER_NAME, self.whole)
        self.names = self.read(SPECIAL_TOKENS_NAME)
        self.model_config = None
        if self.has(CONFIG_NAME):
            path = self.file(CONFIG_NAME)
            self.model_config = text_files.read_json_object(path)
        self.is_generic = self._check_class()

    def file(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.path, name)

    def has(self, name: str) -> bool:
        """Whether there is a file."""
        return file_system.exists(self.file(name))

    def read(self, file: str, name: str | None = None) -> dict[str, Any]:
        """Return the object in a file; without the file it is empty.

        known_settings.check checks it, under `name` if the file has another
        name.
        """
        if not self.has(file):
            return {}
        settings = text_files.read_json_object(self.file(file))
        self._check(file, name or file, settings)
        return settings

    def _check(self, file: str, name: str, settings: Mapping[str, Any]) -> None:
        from checkpoints import known_settings  # where a file has settings

        known_settings.check(name, self.file(file), settings)

    def _check_class(self) -> bool:
        """Return whether transformers reads it by a class for any model.

        Raises:
            UserError: that class is for other tokenizers than BERT's.
        """
        for name, said in (
            (TOKENIZER_CONFIG_NAME, self.config),
            (CONFIG_NAME, self.model_config or {}),
        ):
            kind = said.get("tokenizer_class")
            if kind is None:
                continue
            if str(kind).removesuffix("Fast") in _CLASSES:
                return False  # the first file that names one decides
            if kind not in _ANY_TOKENIZER:
                raise UserError(
                    f"{self.file(name)}: tokenizer_class is {kind!r}, BERT's "
                    f"are {', '.join(_CLASSES)}{_MEND}"
                )
            if self.whole is None:
                raise UserError(
                    f"{self.file(name)}: tokenizer_class {kind} does what "
                    f"{TOKENIZER_NAME} says, which is missing beside it"
                )
            return True
        return False

    @functools.cached_property
    def added(self) -> Mapping[str, Any]:
        """The tokens that are added to the vocabulary, by their ids.

        Up to version 4.33 of transformers they have a file of their own.
        """
        added = self.config.get("added_tokens_decoder")
        if added is None and self.has(ADDED_TOKENS_NAME):
            path = self.file(ADDED_TOKENS_NAME)
            old = text_files.read_json_object(path)
            added = {str(i): {"content": name} for name, i in old.items()}
        return added if isinstance(added, dict) else {}

    @functools.cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary: vocab.txt, else tokenizer.json; None: neither.

        tokenizer.json counts, too, if it has the tokens of vocab.txt and more
        behind them. Without tokenizer.json, `added` stand behind vocab.txt's.

        Raises:
            UserError: the two contradict each other.
        """
        if not self._theirs or not self.plain:
            return self._theirs or (self.plain and self._with_added())
        theirs, ours = list(self._theirs.tokens), list(self.plain.tokens)
        different = [
            (number, pair)
            for number, pair in enumerate(zip(ours, theirs, strict=False))
            if pair[0] != pair[1] and f"[blank line {number + 1}]" not in pair
        ]
        if different:
            number, (one, other) = different[0]
            why = (
                f"id {number} is {one!r} in the one and {other!r} in the other"
            )
        elif len(ours) > len(theirs):
            why = f"the one has {len(ours)} tokens, the other {len(theirs)}"
        else:
            return self._theirs if len(theirs) > len(ours) else self.plain
        raise UserError(
            f"{self.plain.path} and {self._theirs.path} contradict each other: "
            f"{why}; remove the one that is not the model's"
        )

    def _with_added(self) -> Vocabulary:
        """Return vocab.txt with the tokens that are added behind it."""
        lines = self.plain.content.decode().split("\n")[:-1]
        count = len(lines)
        while name := _content(self.added.get(str(len(lines)))):
            # A token that cannot stand in a line is a blank one.
            lines.append("" if "\n" in name else name)
        if len(lines) == count:
            return self.plain
        content = "".join(f"{line}\n" for line in lines)
        return Vocabulary(self.plain.path, content.encode())

    @functools.cached_property
    def said(self) -> Mapping[str, Any]:
        """The fields of TokenizerSettings that the files tell.

        Raises:
            UserError: the tokenizer is another one than BERT's, or its files
                contradict each other.
        """
        return _read_settings(self)

    @property
    def reads_end(self) -> bool:
        """Whether the beginning of a text that is too long is left out.

        As in transformers, tokenizer_config.json comes before tokenizer.json.
        """
        cut = (self.whole or {}).get("truncation")
        side = self.config.get("truncation_side")
        if side is None and isinstance(cut, dict):
            side = cut.get("direction")
        return side in ("left", "Left")


def _read_settings(files: Folder) -> dict[str, Any]:
    """Return `Folder.said`."""
    is_of_hub = files.whole is not None or (
        files.has(CONFIG_NAME) and not files.has(BERT_CONFIG_NAME)
    )
    config, config_path = files.config, files.file(TOKENIZER_CONFIG_NAME)
    fields = _fields(
        config,
        {name: name for name in TokenizerSettings._fields[:3]},
        config_path,
    )
    kept = config.get("never_split") or []
    if not isinstance(kept, list) or any(
        token not in SPECIAL_TOKENS for token in kept
    ):
        raise UserError(
            f"{config_path}: never_split is {kept!r}, BERT has special tokens "
            "alone" + _MEND
        )
    names = _token_names(files)
    _check_types(files)
    _ = files.vocabulary  # does vocab.txt contradict it?
    if files.whole is not None:
        path = files.file(TOKENIZER_NAME)
        theirs = _read_whole(files, names)
        if not files.is_generic:
            usual = TokenizerSettings.of(fields.get("do_lower_case", True))
            unread = {
                name: getattr(usual, name)
                for name, value in theirs.items()
                if name not in fields and value != getattr(usual, name)
            }
            if unread:
                logs.warn_once(
                    f"{path}: its normalizer contradicts "
                    f"{', '.join(f'{n} = {x}' for n, x in unread.items())}, "
                    "which BertTokenizer, the class of this tokenizer, has "
                    f"where {TOKENIZER_CONFIG_NAME} does not say it, and "
                    "which is used"
                )
            theirs |= unread
        for name, value in theirs.items():
            if fields.setdefault(name, value) != value:
                raise UserError(
                    f"{config_path} says {name} = {fields[name]}, but {path} "
                    f"says {value}: correct the wrong one, or remove "
                    f"{TOKENIZER_NAME}"
                )
    if tuple(names) != SPECIAL_TOKENS:
        fields["token_names"] = tuple(names)
    if config.get("is_of_hub", is_of_hub):
        fields["is_of_hub"] = True
    is_split = config.get("split_special_tokens", not is_of_hub)
    fields |= _found_tokens(files, names, is_split)
    length = _word_length(files, is_of_hub)
    if length != tokenization.MAX_CHARS_PER_WORD:
        fields[_WORD_LENGTH] = length
    return fields


def _check_types(files: Folder) -> None:
    """Warn if transformers gives both texts of a pair the same segment."""
    config = files.config
    has_types = not files.is_generic and "Distil" not in str(
        config.get("tokenizer_class")
    )
    if not config.get("model_input_names") and not has_types:
        logs.warn_once(
            f"{files.file(TOKENIZER_CONFIG_NAME)}: tokenizer_class "
            f"{config.get('tokenizer_class')} without model_input_names: "
            "transformers gives the second text of a pair segment 0, here it "
            "has 1"
        )


def _token_names(files: Folder) -> list[str]:
    """Return the names of [PAD], [UNK], [CLS], [SEP], [MASK] in a tokenizer.

    special_tokens_map.json is read as in transformers: not at all beside an
    added_tokens_decoder, and before tokenizer_config.json without one.
    """
    said = dict(files.config)
    if "added_tokens_decoder" not in said:
        said |= files.names
    names = [
        _content(said.get(key) or usual)
        for key, usual in zip(TOKEN_KEYS, SPECIAL_TOKENS, strict=True)
    ]
    for number, name in enumerate(names):
        if not name or name in names[:number]:
            raise UserError(
                f"{files.file(TOKENIZER_CONFIG_NAME)} (or "
                f"{SPECIAL_TOKENS_NAME}): {TOKEN_KEYS[number]} is {name!r}, "
                "wanted a name of its own for each special token" + _MEND
            )
    return names


def _content(token: Any) -> str | None:
    """Return the text of a token, a string or {"content": ...}."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _items(tokens: Any) -> list:
    """Return the tokens of a list, of an object's values, or a token alone."""
    if isinstance(tokens, dict) and "content" not in tokens:
        tokens = list(tokens.values())
    return tokens if isinstance(tokens, list) else [tokens]


def _found_tokens(
    files: Folder, names: list[str], is_split: bool
) -> dict[str, tuple[str, ...]]:
    """Return the fields of TokenizerSettings of tokens found in a text.

    `names` stand for SPECIAL_TOKENS; `is_split`: special ones are not found.
    """
    config, listed = files.config, list(files.added.values())
    if files.is_generic or "added_tokens_decoder" not in config:
        # Of two tokens of one name the later one counts.
        listed = _items((files.whole or {}).get("added_tokens")) + listed
    special = list(names)
    for said, key in itertools.product((config, files.names), _MORE_TOKENS):
        special += _items(said.get(key))
    tokens = {
        _content(token): token if isinstance(token, dict) else {}
        for token in (*special, *listed)
    }
    tokens.pop(None, None)
    fields = collections.defaultdict(list)
    special = {*map(_content, special)}
    for name, token in tokens.items():
        is_special = name in special or token.get("special")
        if is_special and is_split:
            continue
        is_changed = token.get("normalized", not is_special)
        field = "normalized_tokens" if is_changed else "special_tokens"
        fields[field].append(name)
        if token.get("single_word"):
            fields["whole_words"].append(name)
    return {field: tuple(tokens) for field, tokens in fields.items()}


def _word_length(files: Folder, is_of_hub: bool) -> int:
    """Return how many characters a word may have before it is [UNK]."""
    usual = MAX_CHARS_OF_HUB if is_of_hub else tokenization.MAX_CHARS_PER_WORD
    cap = files.config.get(_WORD_LENGTH)
    said = cap or (files.whole or {}).get("model", {}).get(_WORD_LENGTH, usual)
    if type(said) is not int or said < 1:
        raise UserError(
            f"{files.file(TOKENIZER_NAME)}: {_WORD_LENGTH} is {said!r}, "
            "wanted a number of at least 1"
        )
    if cap or files.is_generic or said == usual:
        return said
    logs.warn_once(
        f"{files.file(TOKENIZER_NAME)}: model.{_WORD_LENGTH} is {said}, but "
        f"{usual} in BertTokenizer, the class of this tokenizer, which is used"
    )
    return usual


def _read_whole(files: Folder, names: list[str]) -> dict[str, bool]:
    """Return the fields that tokenizer.json tells, and check the rest.

    `names` stand for SPECIAL_TOKENS.
    """
    theirs, path = files.whole, files.file(TOKENIZER_NAME)
    for name in ("normalizer", "pre_tokenizer", "model"):
        if not isinstance(theirs.get(name), dict):
            raise UserError(f"{path}: {name} is {theirs.get(name)!r}{_MEND}")
    unknown, usual = names[1], _usual_template(*names[2:4])
    for name, said, wanted in (
        ("model.unk_token", theirs["model"].get("unk_token", unknown), unknown),
        (
            "post_processor",
            _template(theirs.get("post_processor", usual)),
            usual,
        ),
    ):
        if said == wanted:
            continue
        words = f"{path}: {name} is {str(said)[:100]}, BERT has {wanted}"
        if files.is_generic:
            raise UserError(words + _MEND)
        logs.warn_once(
            f"{words}, which is used, as in BertTokenizer, the class of this "
            "tokenizer"
        )
    return _fields(theirs["normalizer"], _NORMALIZER_FIELDS, path)


def _usual_template(first: str, last: str) -> dict[str, str]:
    """Return BERT's `_template`, of the names of [CLS] and [SEP]."""
    single = f"{first}:0 A:0 {last}:0"
    return {"single": single, "pair": f"{single} B:1 {last}:1"}


def _template(theirs: Any) -> Any:
    """Return a post-processor as {"single": "[CLS]:0 A:0 ...", "pair": ...}.

    A post-processor of another kind is returned as it is.
    """
    try:
        if theirs["type"] == "BertProcessing":
            return _usual_template(theirs["cls"][0], theirs["sep"][0])
        if theirs["type"] != "TemplateProcessing":
            return theirs
        return {
            key: " ".join(
                f"{part['id']}:{part['type_id']}"
                for item in theirs[key]
                for part in item.values()
            )
            for key in ("single", "pair")
        }
    except (LookupError, TypeError, AttributeError):
        return theirs


def _fields(
    theirs: Mapping[str, Any], names: Mapping[str, str], path: str
) -> dict[str, bool]:
    """Return the fields of TokenizerSettings that a JSON object has.

    `names` has our name for each of theirs.
    """
    fields = {}
    for theirs_name, name in names.items():
        value = theirs.get(theirs_name)
        if isinstance(value, bool):
            fields[name] = value
        elif value is not None:
            raise UserError(
                f"{path}: {theirs_name} is {value!r}, wanted true or false"
            )
    # null: as do_lower_case. A file without the key says nothing.
    lower = fields.get("do_lower_case")
    if "strip_accents" in theirs and lower is not None:
        fields.setdefault("strip_accents", lower)
    return fields
