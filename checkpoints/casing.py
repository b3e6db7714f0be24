"""How a model's text is normalized, by its tokenizer's files or its vocabulary.

A wrong casing raises no error anywhere, it only makes a model worse. The
tokenizer_config.json beside a model tells its casing, and so does transformers'
tokenizer.json, if there is one. Without these files the vocabulary decides:
thousands of tokens of a cased model have capitals, but only the special tokens
of an uncased one.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from base import file_system, text_files
from base.errors import UserError

from absl import logging

import tokenization
from tokenization import Normalization

TOKENIZER_CONFIG_NAME = "tokenizer_config.json"
TOKENIZER_NAME = "tokenizer.json"
_MODEL_CONFIG_NAME = "config.json"

# Classes of transformers that split text as BERT's does, without their "Fast".
_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
# Those that do whatever tokenizer.json says.
_ANY_TOKENIZER = ("PreTrainedTokenizerFast", "TokenizersBackend")

# Settings of their tokenizers that change the tokens, and BERT's values.
_FIXED = {
    "do_basic_tokenize": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}
# The same of the parts of tokenizer.json.
_FIXED_PARTS = {
    "normalizer": {"type": "BertNormalizer", "clean_text": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece", "continuing_subword_prefix": "##"},
}

# Fields of Normalization by their names in the normalizer of tokenizer.json.
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


def read(folder: str) -> dict[str, bool]:
    """Return the fields of Normalization that a tokenizer's files tell.

    Raises:
        UserError: the tokenizer is another one than BERT's, or its two files
            contradict each other.
    """
    config = os.path.join(folder, TOKENIZER_CONFIG_NAME)
    whole = os.path.join(folder, TOKENIZER_NAME)
    found = _read_config(config) if file_system.exists(config) else {}
    has_whole = file_system.exists(whole)
    _check_class(folder, has_whole)
    for name, value in (_read_whole(whole) if has_whole else {}).items():
        if found.setdefault(name, value) != value:
            raise UserError(
                f"{config} says {name} = {found[name]}, but {whole} says "
                f"{value}: correct the wrong one, or remove {TOKENIZER_NAME}"
            )
    return found


def _read_config(path: str) -> dict[str, bool]:
    """Return what tokenizer_config.json tells."""
    theirs = text_files.read_json_object(path)
    _check_fixed(theirs, _FIXED, path)
    kept = theirs.get("never_split") or []
    if not isinstance(kept, list) or any(
        token not in tokenization.SPECIAL_TOKENS for token in kept
    ):
        raise UserError(
            f"{path}: never_split is {kept!r}, BERT has special tokens alone"
            + _MEND
        )
    added = theirs.get("added_tokens_decoder")
    _warn_of_added(
        list(added.values()) if isinstance(added, dict) else [], path
    )
    return _fields(theirs, {name: name for name in Normalization._fields}, path)


def _read_whole(path: str) -> dict[str, bool]:
    """Return what tokenizer.json tells."""
    theirs = text_files.read_json_object(path)
    for name, wanted in _FIXED_PARTS.items():
        part = theirs.get(name)
        if not isinstance(part, dict):
            raise UserError(
                f"{path}: {name} is {part!r}, BERT's is of type "
                f"{wanted['type']}{_MEND}"
            )
        _check_fixed(part, wanted, f"{path}: {name}")
    added = theirs.get("added_tokens")
    _warn_of_added(added if isinstance(added, list) else [], path)
    return _fields(theirs["normalizer"], _NORMALIZER_FIELDS, path)


def _warn_of_added(tokens: Sequence[Any], path: str) -> None:
    """Warn of tokens that transformers finds in a text before it is split."""
    words = [
        token.get("content")
        for token in tokens
        if isinstance(token, dict) and token.get("special") is False
    ]
    if words:
        logging.warning(
            "%s adds %d tokens to the vocabulary, such as %r: here they are "
            "split as other text, which gives other ids where a text has them",
            path,
            len(words),
            words[0],
        )


def _check_fixed(
    theirs: Mapping[str, Any], fixed: Mapping[str, Any], place: str
) -> None:
    """Raise an error for a setting whose value is not BERT's."""
    for name, wanted in fixed.items():
        found = theirs.get(name, wanted)
        if found != wanted:
            raise UserError(
                f"{place}: {name} is {found!r}, BERT has {wanted!r}{_MEND}"
            )


def _check_class(folder: str, has_whole: bool) -> None:
    """Raise an error if transformers reads the folder by another class."""
    for name in (TOKENIZER_CONFIG_NAME, _MODEL_CONFIG_NAME):
        path = os.path.join(folder, name)
        if not file_system.exists(path):
            continue
        found = text_files.read_json_object(path).get("tokenizer_class")
        if found is None:
            continue
        if str(found).removesuffix("Fast") in _CLASSES:
            return  # the first file that names one decides
        if found in _ANY_TOKENIZER and has_whole:
            return
        if found in _ANY_TOKENIZER:
            raise UserError(
                f"{path}: tokenizer_class {found} does what {TOKENIZER_NAME} "
                "says, which is missing beside it"
            )
        raise UserError(
            f"{path}: tokenizer_class is {found!r}, BERT's are "
            f"{', '.join(_CLASSES)}{_MEND}"
        )


def _fields(
    theirs: Mapping[str, Any], names: Mapping[str, str], path: str
) -> dict[str, bool]:
    """Return the fields of Normalization that a JSON object has.

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
    # The special tokens have capitals in every vocabulary.
    special = len(tokenization.SPECIAL_TOKENS)
    return _count_capitals(vocab) > _CASED_SHARE * len(vocab) + special


def _count_capitals(vocab: Collection[str]) -> int:
    return sum(token != token.lower() for token in vocab)


def choose(
    vocab: Collection[str], vocab_file: str, do_lower_case: bool | None
) -> bool:
    """Return whether to lower-case: the flag's value, else as the tokens look.

    Logs the choice, or warns where flag and vocabulary contradict each other.
    """
    is_cased = looks_cased(vocab)
    look = "cased" if is_cased else "uncased"
    if do_lower_case is None:
        logging.info(
            "do_lower_case = %s, as %s looks %s", not is_cased, vocab_file, look
        )
        return not is_cased
    if is_cased == do_lower_case:
        logging.warning(
            "%s looks %s (%d of %d tokens have capitals), but --do_lower_case "
            "is %s",
            vocab_file,
            look,
            _count_capitals(vocab),
            len(vocab),
            do_lower_case,
        )
    return do_lower_case


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
    vocab: Collection[str], vocab_file: str, do_lower_case: bool | None
) -> Normalization:
    """Return how text is normalized for a vocabulary that belongs to no model.

    The tokenizer's files beside it decide, else the flag, else its capitals.
    """
    said = read(os.path.dirname(vocab_file))
    trained = said.pop("do_lower_case", None)
    if trained is None:
        trained = choose(vocab, vocab_file, do_lower_case)
    else:
        trained = agreed(do_lower_case, trained, vocab_file)
    return with_others(trained, said)


def with_others(do_lower_case: bool, said: Mapping[str, bool]) -> Normalization:
    """Return the casing with the other fields that files tell; log them."""
    found = Normalization.of(do_lower_case, **said)
    for name, value in list(found.to_dict().items())[1:]:
        logging.info("%s = %s, as the tokenizer's files say", name, value)
    return found
