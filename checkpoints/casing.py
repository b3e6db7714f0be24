"""How a model's text is tokenized, by its tokenizer's files or its vocabulary.

A wrong casing raises no error anywhere, it only makes a model worse. The
tokenizer_config.json beside a model tells its casing, and so does transformers'
tokenizer.json, if there is one. Without these files the vocabulary decides:
thousands of tokens of a cased model have capitals, but only the special tokens
of an uncased one.

Some settings are not in files: those of BertTokenizer, the class of
transformers, for the models of the hub, and the original's for others.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from base import file_system, logs, text_files
from base.errors import UserError

from absl import logging

import tokenization
from tokenization import (
    SPECIAL_TOKENS,
    FullTokenizer,
    TokenizerSettings,
    Vocabulary,
)

VOCAB_NAME = "vocab.txt"
TOKENIZER_CONFIG_NAME = "tokenizer_config.json"
TOKENIZER_NAME = "tokenizer.json"
SPECIAL_TOKENS_NAME = "special_tokens_map.json"
_MODEL_CONFIG_NAME = "config.json"
_OUR_CONFIG_NAME = "bert_config.json"

# Classes of transformers that split text as BERT's does, without their "Fast".
_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
# Those that do whatever tokenizer.json says.
_ANY_TOKENIZER = ("PreTrainedTokenizerFast", "TokenizersBackend")

# Their names of SPECIAL_TOKENS, in this order.
TOKEN_KEYS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
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

# A vocabulary in which more than this share of the tokens has capitals is
# taken for a cased one.
_CASED_SHARE = 0.02

# --- Files of the tokenizer --------------------------------------------------


class Folder:
    """The tokenizer's files in a folder, each read once, and checked.

    Attributes:
        path: of the folder.
        paths: name of a file -> its path.
        plain: vocab.txt; None: no such file.
        config, whole, names: the objects in tokenizer_config.json,
            tokenizer.json and special_tokens_map.json; None: no such file.
        model_config: the object in config.json, not checked; None: no file.
        is_generic: whether transformers does what tokenizer.json says, not
            what its class for BERT does.

    Raises:
        UserError: a file is damaged, or has a setting that BERT lacks.
    """

    def __init__(self, path: str):
        files = (
            VOCAB_NAME,
            TOKENIZER_NAME,
            TOKENIZER_CONFIG_NAME,
            SPECIAL_TOKENS_NAME,
        )
        self.path, self.model_config = path, None
        self.paths = {name: os.path.join(path, name) for name in files}
        self.plain, self._theirs = (
            Vocabulary(self.paths[name])
            if file_system.exists(self.paths[name])
            else None
            for name in files[:2]
        )
        self.config = self._read(TOKENIZER_CONFIG_NAME)
        self.whole = self._theirs and self._theirs.json_object
        if self.whole is not None:
            self._check(TOKENIZER_NAME, self.whole)
        self.names = self._read(SPECIAL_TOKENS_NAME)
        self.is_generic = self._check_class()

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.paths[name]
        if not file_system.exists(path):
            return None
        found = text_files.read_json_object(path)
        self._check(name, found)
        return found

    def _check(self, name: str, found: Mapping[str, Any]) -> None:
        from checkpoints import known_settings  # where a file has settings

        known_settings.check(name, self.paths[name], found)

    def _check_class(self) -> bool:
        """Return whether transformers reads it by a class for any model.

        Raises:
            UserError: it does by a class for other tokenizers than BERT's.
        """
        path = os.path.join(self.path, _MODEL_CONFIG_NAME)
        if file_system.exists(path):
            self.model_config = text_files.read_json_object(path)
        places = (
            (self.paths[TOKENIZER_CONFIG_NAME], self.config),
            (path, self.model_config),
        )
        for path, said in places:
            found = (said or {}).get("tokenizer_class")
            if found is None:
                continue
            if str(found).removesuffix("Fast") in _CLASSES:
                return False  # the first file that names one decides
            if found in _ANY_TOKENIZER and self.whole is not None:
                return True
            if found in _ANY_TOKENIZER:
                raise UserError(
                    f"{path}: tokenizer_class {found} does what "
                    f"{TOKENIZER_NAME} says, which is missing beside it"
                )
            raise UserError(
                f"{path}: tokenizer_class is {found!r}, BERT's are "
                f"{', '.join(_CLASSES)}{_MEND}"
            )
        return False

    @functools.cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary: vocab.txt, else tokenizer.json; None: neither.

        It is tokenizer.json too where that adds tokens behind those of
        vocab.txt.

        Raises:
            UserError: the two contradict each other.
        """
        if not self._theirs or not self.plain:
            return self._theirs or self.plain
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
        side = (self.config or {}).get("truncation_side")
        if side is None and isinstance(cut, dict):
            side = cut.get("direction")
        if side not in (None, "left", "right", "Left", "Right"):
            raise UserError(
                f"{self.paths[TOKENIZER_CONFIG_NAME]}: truncation_side is "
                f"{side!r}, wanted left or right"
            )
        return str(side).lower() == "left"


def _read_settings(files: Folder) -> dict[str, Any]:
    """Return `Folder.said`."""
    has_config, is_ours = (
        file_system.exists(os.path.join(files.path, name))
        for name in (_MODEL_CONFIG_NAME, _OUR_CONFIG_NAME)
    )
    is_of_hub = files.whole is not None or (has_config and not is_ours)
    config, config_path = files.config or {}, files.paths[TOKENIZER_CONFIG_NAME]
    found = _fields(
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
    vocabulary = files.vocabulary  # does vocab.txt contradict it?
    if files.whole is not None:
        path = files.paths[TOKENIZER_NAME]
        theirs = _read_whole(files, names)
        if not files.is_generic:
            usual = TokenizerSettings.of(found.get("do_lower_case", True))
            unread = {
                name: getattr(usual, name)
                for name, value in theirs.items()
                if name not in found and value != getattr(usual, name)
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
            if found.setdefault(name, value) != value:
                raise UserError(
                    f"{config_path} says {name} = {found[name]}, but {path} "
                    f"says {value}: correct the wrong one, or remove "
                    f"{TOKENIZER_NAME}"
                )
    if tuple(names) != SPECIAL_TOKENS:
        found["token_names"] = tuple(names)
    more = _more_tokens(files, vocabulary.tokens if vocabulary else {})
    if config.get("is_of_hub", is_of_hub):
        found["is_of_hub"] = True
    if not config.get("split_special_tokens", not is_of_hub):
        found["special_tokens"] = tuple(dict.fromkeys([*names, *more]))
    length = _word_length(files, is_of_hub)
    if length != tokenization.MAX_CHARS_PER_WORD:
        found[_WORD_LENGTH] = length
    return found


def _check_types(files: Folder) -> None:
    """Warn if transformers gives both texts of a pair the same segment."""
    config = files.config or {}
    has_types = not files.is_generic and "Distil" not in str(
        config.get("tokenizer_class")
    )
    if not config.get("model_input_names") and not has_types:
        logs.warn_once(
            f"{files.paths[TOKENIZER_CONFIG_NAME]}: tokenizer_class "
            f"{config.get('tokenizer_class')} without model_input_names: "
            "transformers gives the second text of a pair segment 0, here it "
            "has 1"
        )


def _token_names(files: Folder) -> list[str]:
    """Return the names of [PAD], [UNK], [CLS], [SEP], [MASK] in a tokenizer.

    special_tokens_map.json is read as in transformers: not at all beside an
    added_tokens_decoder, and before tokenizer_config.json without one.
    """
    said = dict(files.config or {})
    if "added_tokens_decoder" not in said:
        said |= files.names or {}
    names = [
        _content(said.get(key) or usual)
        for key, usual in zip(TOKEN_KEYS, SPECIAL_TOKENS, strict=True)
    ]
    for number, name in enumerate(names):
        if not name or name in names[:number]:
            raise UserError(
                f"{files.paths[TOKENIZER_CONFIG_NAME]} (or "
                f"{SPECIAL_TOKENS_NAME}): {TOKEN_KEYS[number]} is {name!r}, "
                "wanted a name of its own for each special token" + _MEND
            )
    return names


def _content(token: Any) -> str | None:
    """Return the text of a token, a string or {"content": ...}."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _more_tokens(files: Folder, vocab: Collection[str]) -> list[str]:
    """Return the special tokens beside the usual ones.

    Warns of other tokens that transformers finds in a text before it is split.
    """
    found = []
    for said in (files.config or {}, files.names or {}):
        for key in _MORE_TOKENS:
            value = said.get(key) or []
            if isinstance(value, dict) and "content" not in value:
                value = list(value.values())
            found += value if isinstance(value, list) else [value]
    special = [content for token in found if (content := _content(token))]
    words, place = [], TOKENIZER_CONFIG_NAME
    decoder = (files.config or {}).get("added_tokens_decoder")
    for name, tokens in (
        (TOKENIZER_CONFIG_NAME, decoder),
        (TOKENIZER_NAME, (files.whole or {}).get("added_tokens")),
    ):
        if isinstance(tokens, dict):
            tokens = list(tokens.values())
        for token in tokens if isinstance(tokens, list) else []:
            if not isinstance(token, dict) or not _content(token):
                continue
            is_changed = token.get("normalized", not token.get("special"))
            if not is_changed and not token.get("single_word"):
                special.append(token["content"])
            elif token["content"] not in words:
                words.append(token["content"])
                place = name
    if vocab:
        known = {*vocab, *SPECIAL_TOKENS}
        words += [token for token in special if token not in known]
    if words:
        logs.warn_once(
            f"{files.paths[place]} adds {len(words)} tokens to the vocabulary, "
            f"such as {words[0]!r}: here they are split as other text, which "
            "gives other ids where a text has them"
        )
    return special


def _word_length(files: Folder, is_of_hub: bool) -> int:
    """Return max_input_chars_per_word."""
    usual = MAX_CHARS_OF_HUB if is_of_hub else tokenization.MAX_CHARS_PER_WORD
    own = (files.config or {}).get(_WORD_LENGTH)
    said = own or (files.whole or {}).get("model", {}).get(_WORD_LENGTH, usual)
    if type(said) is not int or said < 1:
        raise UserError(
            f"{files.paths[TOKENIZER_NAME]}: {_WORD_LENGTH} is {said!r}, "
            "wanted a number of at least 1"
        )
    if own or files.is_generic or said == usual:
        return said
    logs.warn_once(
        f"{files.paths[TOKENIZER_NAME]}: model.{_WORD_LENGTH} is {said}, but "
        f"{usual} in BertTokenizer, the class of this tokenizer, which is used"
    )
    return usual


def _read_whole(files: Folder, names: list[str]) -> dict[str, bool]:
    """Return the fields that tokenizer.json tells, and check the rest.

    `names` are those of SPECIAL_TOKENS.
    """
    theirs, path = files.whole, files.paths[TOKENIZER_NAME]
    for name in ("normalizer", "pre_tokenizer", "model"):
        if not isinstance(theirs.get(name), dict):
            raise UserError(f"{path}: {name} is {theirs.get(name)!r}{_MEND}")
    unknown = theirs["model"].get("unk_token", names[1])
    for name, said, wanted in (
        ("model.unk_token", unknown, names[1]),
        (
            "post_processor",
            _template(theirs.get("post_processor"), names[2:4]),
            _usual_template(*names[2:4]),
        ),
    ):
        if said == wanted or (name not in theirs and name == "post_processor"):
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


def _template(theirs: Any, names: list[str]) -> Any:
    """Return a post-processor as {"single": "[CLS]:0 A:0 ...", "pair": ...}.

    What it cannot be told of is returned as it is.
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
    found = {}
    for theirs_name, name in names.items():
        value = theirs.get(theirs_name)
        if isinstance(value, bool):
            found[name] = value
        elif value is not None:
            raise UserError(
                f"{path}: {theirs_name} is {value!r}, wanted true or false"
            )
    # null: as do_lower_case. A file without the key says nothing.
    lower = found.get("do_lower_case")
    if "strip_accents" in theirs and lower is not None:
        found.setdefault("strip_accents", lower)
    return found


# --- Vocabulary --------------------------------------------------------------


def looks_cased(vocab: Collection[str]) -> bool:
    """Return whether tokens have the capitals of a cased vocabulary.

    A vocabulary in a script without capitals looks uncased.
    """
    return _has_many(vocab, "do_lower_case")


def _has_many(vocab: Collection[str], setting: str) -> bool:
    """Return whether a text never has many of the tokens with a setting on."""
    # The special tokens have capitals in every vocabulary.
    special = len(tokenization.SPECIAL_TOKENS)
    return _count_changed(vocab, setting) > _CASED_SHARE * len(vocab) + special


def _count_changed(vocab: Collection[str], setting: str) -> int:
    """Return how many tokens a tokenizer's setting changes if it is on."""
    changes = _CHANGES[setting]
    return sum(changes(token.removeprefix("##")) for token in vocab)


_CHANGES: dict[str, Callable[[str], bool]] = {
    "do_lower_case": lambda token: token != token.lower(),
    # NFD also takes Korean syllables apart.
    "strip_accents": lambda token: (
        not token.isascii() and tokenization.without_accents(token) != token
    ),
    "tokenize_chinese_chars": lambda token: (
        len(token) > 1 and any(tokenization.is_cjk(ord(c)) for c in token)
    ),
}


def choose(
    vocab: Collection[str],
    vocab_file: str,
    do_lower_case: bool | None,
    said: Mapping[str, Any],
) -> TokenizerSettings:
    """Return how to normalize text: by the flag, else as the tokens look.

    What files say of the other fields is in `said`. Without a word there,
    accents stay and ideographs are no words of their own if many tokens could
    not be found in a text otherwise. Logs the choice, or warns where flag and
    vocabulary contradict each other.
    """
    has_accents = "strip_accents" not in said and _has_many(
        vocab, "strip_accents"
    )
    capitals = _count_changed(vocab, "do_lower_case")
    has_capitals = capitals > len(tokenization.SPECIAL_TOKENS)
    # A cased vocabulary of Hindi has few capitals, an uncased one has none.
    is_cased = looks_cased(vocab) or (has_accents and has_capitals)
    look = "cased" if is_cased else "uncased"
    if has_accents and not is_cased:
        look += ", with accents"
    if do_lower_case is None:
        logging.info(
            "do_lower_case = %s, as %s looks %s", not is_cased, vocab_file, look
        )
        if has_capitals and not is_cased:
            logging.warning(
                "%d of %d tokens of %s have capitals, and no text gives them: "
                "if it is cased, give --do_lower_case=False",
                capitals,
                len(vocab),
                vocab_file,
            )
    elif do_lower_case == is_cased and (
        # Without letters that have capitals, both values do the same.
        is_cased
        or not has_accents
        and not has_capitals
        and _has_letters_with_case(vocab)
    ):
        logging.warning(
            "%s looks %s (%d of %d tokens have capitals), but --do_lower_case "
            "is %s",
            vocab_file,
            look,
            capitals,
            len(vocab),
            do_lower_case,
        )
    elif do_lower_case and has_accents:
        logging.warning(
            "%s keeps accents (%d of %d tokens have them), but --do_lower_case "
            "takes them away: leave the flag out",
            vocab_file,
            _count_changed(vocab, "strip_accents"),
            len(vocab),
        )
    trained = not is_cased if do_lower_case is None else do_lower_case
    found = with_others(trained, said)
    kept = {}
    if has_accents and trained and do_lower_case is None:
        kept["strip_accents"] = False
    if "tokenize_chinese_chars" not in said and _has_many(
        vocab, "tokenize_chinese_chars"
    ):
        kept["tokenize_chinese_chars"] = False
    for name in kept:
        logging.info("%s = False, as many tokens of %s need", name, vocab_file)
    return found._replace(**kept)


def _has_letters_with_case(vocab: Collection[str]) -> bool:
    cased = sum(token != token.upper() for token in vocab)
    return cased > _CASED_SHARE * len(vocab)


def agreed(flag: bool | None, trained: bool, model: str) -> bool:
    """Return the casing a model was trained with; log it.

    Raises:
        UserError: --do_lower_case is another one.
    """
    if flag is None:
        logging.info("do_lower_case = %s, as %s was trained", trained, model)
    elif trained != flag:
        raise UserError(
            f"--do_lower_case={flag}, but {model} was trained with {trained}: "
            f"leave the flag out, or correct {TOKENIZER_CONFIG_NAME} beside it"
        )
    return trained


def of_vocabulary(
    vocabulary: Vocabulary, do_lower_case: bool | None
) -> TokenizerSettings:
    """Return how text is normalized for a vocabulary that belongs to no model.

    The tokenizer's files beside it decide, else the flag, else its tokens.
    """
    said = dict(Folder(os.path.dirname(vocabulary.path)).said)
    trained = said.pop("do_lower_case", None)
    if trained is None:
        return choose(vocabulary.tokens, vocabulary.path, do_lower_case, said)
    trained = agreed(do_lower_case, trained, vocabulary.path)
    return with_others(trained, said)


def with_others(
    do_lower_case: bool, said: Mapping[str, Any]
) -> TokenizerSettings:
    """Return the casing with the other fields that files tell; log them."""
    found = TokenizerSettings.of(do_lower_case, **said)
    for name, value in list(found.to_dict().items())[1:]:
        logging.info("%s = %s, as the tokenizer's files say", name, value)
    return found


# --- Names of released models ------------------------------------------------

# The 24 miniatures of 2020, BERT-Base among them, are all uncased.
_MINIATURES = [
    f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"
    for layers in (2, 4, 6, 8, 10, 12)
    for hidden in (128, 256, 512, 768)
]

_LOWER_CASED_MODELS = {
    *_MINIATURES,
    "uncased_L-24_H-1024_A-16",
    "wwm_uncased_L-24_H-1024_A-16",
    "multilingual_L-12_H-768_A-12",
    "chinese_L-12_H-768_A-12",
    # The same weights under the names of the Hugging Face hub.
    *(f"bert_{name}" for name in _MINIATURES),
    "bert-base-uncased",
    "bert-large-uncased",
    "bert-large-uncased-whole-word-masking",
    "bert-base-multilingual-uncased",
}

_CASED_MODELS = {
    "cased_L-12_H-768_A-12",
    "cased_L-24_H-1024_A-16",
    "wwm_cased_L-24_H-1024_A-16",
    "multi_cased_L-12_H-768_A-12",
    "bert-base-cased",
    "bert-large-cased",
    "bert-large-cased-whole-word-masking",
    "bert-base-multilingual-cased",
}

_MODEL_NAME = re.compile(r"([A-Za-z0-9_-]+)(?:/bert_model\.ckpt.*|/*)$")


def casing_of_checkpoint(init_checkpoint: str | None) -> bool | None:
    """Whether a released model lower-cases its input; None for other models.

    A wrong casing raises no error anywhere, it only makes the model worse. So
    released models are recognized by the name of their directory, in a path
    `<directory>` or `<directory>/bert_model.ckpt`.
    """
    match = _MODEL_NAME.search(init_checkpoint or "")
    if not match:
        return None
    if match.group(1) in _LOWER_CASED_MODELS:
        return True
    return False if match.group(1) in _CASED_MODELS else None


# --- The tokenizer of a model ------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """Vocabulary and settings of a model's tokenizer, read once when needed.

    Attributes:
        folder: the files of the model; None: there is no model.
        vocabulary: that of a flag, else the model's; None: neither.
        do_lower_case: value of the flag; None: not given.
        prefix: the model's path, for its name and for messages.
        repository: its name on the hub; None: it is not from there.
        known: settings that no file has to tell, if any.
    """

    folder: Folder | None = None
    vocabulary: Vocabulary | None = None
    do_lower_case: bool | None = None
    prefix: str = ""
    repository: str | None = None
    known: TokenizerSettings | None = None

    @functools.cached_property
    def tokenizer(self) -> FullTokenizer:
        """The tokenizer; there has to be a vocabulary."""
        return FullTokenizer(self.vocabulary, settings=self.settings)

    @property
    def said(self) -> dict[str, Any]:
        """The fields of TokenizerSettings that the model's files or name tell.

        They are in the tokenizer_config.json beside a checkpoint, or in the
        tokenizer.json of transformers. The released checkpoints have no such
        file; their casing follows from the name of their directory
        (uncased_L-12_H-768_A-12), or of their repository on the hub.
        """
        found = dict(self.folder.said) if self.folder else {}
        if "do_lower_case" not in found:
            trained = casing_of_checkpoint(self.repository or self.prefix)
            if trained is not None:
                found["do_lower_case"] = trained
        return found

    @functools.cached_property
    def settings(self) -> TokenizerSettings:
        """How to normalize text, by the flag or by the model; logs it.

        If neither the files of a checkpoint nor its name tell its casing, the
        files beside the vocabulary do, then the vocabulary itself: with
        capitals it is cased. In all other cases text is lower-cased, as by the
        original, except for models of the hub, most of which are not the
        original's: they need the flag.

        Raises:
            UserError: the flag contradicts the files, or is needed.
        """
        if self.known:
            return self.known
        said, flag, vocabulary = self.said, self.do_lower_case, self.vocabulary
        place = vocabulary.path if vocabulary else None
        beside = os.path.dirname(place or "")
        if place and not (self.folder and beside == self.folder.path):
            try:
                said = dict(Folder(beside).said) | said
            except UserError as error:
                raise UserError(
                    f"{error} (read because it lies beside {place})"
                ) from error
        trained = said.pop("do_lower_case", None)
        if trained is not None:
            trained = agreed(flag, trained, self.prefix or place)
        elif flag is False:
            # A vocabulary without capitals may be of a script that has none,
            # whose accents are to stay: no contradiction.
            trained = False
        else:
            vocab = vocabulary.tokens if vocabulary else {}
            is_told = flag is not None or looks_cased(vocab)
            if self.repository and not is_told:
                raise UserError(
                    f"hf://{self.repository} does not tell its casing (no "
                    f"do_lower_case in its {TOKENIZER_CONFIG_NAME}): give "
                    "--do_lower_case, or --nodo_lower_case for a cased model"
                )
            trained = True
            if vocab:
                return choose(vocab, place, flag, said)
        return with_others(trained, said)
