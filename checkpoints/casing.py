"""How a model's text is tokenized, by its tokenizer's files or its vocabulary.

A wrong casing raises no error anywhere, it only makes a model worse. The
tokenizer_config.json beside a model tells its casing, and so does transformers'
tokenizer.json, if there is one. Without these files the vocabulary decides:
thousands of tokens of a cased model have capitals, but only the special tokens
of an uncased one.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from base import logs
from base.errors import UserError, naming

from absl import logging

import tokenization
from checkpoints.published import TOKENIZER_CONFIG_NAME, repository_of
from checkpoints.tokenizer_folder import Folder
from tokenization import FullTokenizer, TokenizerSettings, Vocabulary

# A vocabulary in which more than this share of the tokens has capitals is
# taken for a cased one.
_CASED_SHARE = 0.02

# --- Vocabulary --------------------------------------------------------------


def looks_cased(vocab: Collection[str]) -> bool:
    """Return whether tokens have the capitals of a cased vocabulary.

    A vocabulary in a script without capitals looks uncased.
    """
    return _are_many(_count_changed(vocab, "do_lower_case"), vocab)


def _are_many(changed: int, vocab: Collection[str]) -> bool:
    """Return whether so many tokens change that the setting must be off.

    With it on, no text would ever have the changed tokens.
    """
    # The special tokens have capitals in every vocabulary.
    special = len(tokenization.SPECIAL_TOKENS)
    return changed > _CASED_SHARE * len(vocab) + special


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
    counts = {name: _count_changed(vocab, name) for name in _CHANGES}
    many = {n for n in counts if _are_many(counts[n], vocab)} - said.keys()
    capitals, has_accents = counts["do_lower_case"], "strip_accents" in many
    has_capitals = capitals > len(tokenization.SPECIAL_TOKENS)
    # A cased vocabulary of Hindi has few capitals, an uncased one has none.
    is_cased = "do_lower_case" in many or (has_accents and has_capitals)
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
        and sum(t != t.upper() for t in vocab) > _CASED_SHARE * len(vocab)
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
            counts["strip_accents"],
            len(vocab),
        )
    trained = not is_cased if do_lower_case is None else do_lower_case
    found = with_others(trained, said)
    off = many - {"do_lower_case"}
    if not trained or do_lower_case is not None:
        off.discard("strip_accents")
    for name in sorted(off):
        logging.info("%s = False, as many tokens of %s need", name, vocab_file)
    return found._replace(**dict.fromkeys(off, False))


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


def with_others(
    do_lower_case: bool, said: Mapping[str, Any]
) -> TokenizerSettings:
    """Return the casing with the other fields that files tell; log them."""
    found = TokenizerSettings.of(do_lower_case, **said)
    for name, value in list(found.to_dict().items())[1:]:
        logging.info("%s = %s, as the tokenizer's files say", name, value)
    return found


# --- Names of released models ------------------------------------------------

# Directories of the original, such as its 24 miniatures of 2020, and the same
# weights on the Hugging Face hub.
_SIZES = r"_L-\d+_H-\d+_A-\d+"
_LOWER_CASED_MODELS = (
    rf"(bert_|wwm_)?uncased{_SIZES}|(multilingual|chinese){_SIZES}|"
    r"bert-(base|large)(-multilingual)?-uncased(-whole-word-masking)?"
)
_CASED_MODELS = (
    rf"(wwm_|multi_)?cased{_SIZES}|"
    r"bert-(base|large)(-multilingual)?-cased(-whole-word-masking)?"
)

_MODEL_NAME = re.compile(r"([A-Za-z0-9_-]+)(?:/bert_model\.ckpt.*|/*)$")


def casing_of_checkpoint(init_checkpoint: str | None) -> bool | None:
    """Whether a released model lower-cases its input; None for other models.

    A wrong casing raises no error anywhere, it only makes the model worse. So
    released models are recognized by the name of their directory, in a path
    `<directory>` or `<directory>/bert_model.ckpt`.
    """
    match = _MODEL_NAME.search(init_checkpoint or "")
    if match and re.fullmatch(_LOWER_CASED_MODELS, match[1]):
        return True
    is_cased = match and re.fullmatch(_CASED_MODELS, match[1])
    return False if is_cased else None


# --- The tokenizer of a model ------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """Vocabulary and settings of a model's tokenizer, read once when needed.

    Attributes:
        folder: the files of the model; None: there is no model.
        vocabulary: that of a flag, else the model's; None: neither.
        do_lower_case: value of the flag; None: not given.
        prefix: the model's path, for its name and for messages.
        known: settings that no file has to tell, if any.
    """

    folder: Folder | None = None
    vocabulary: Vocabulary | None = None
    do_lower_case: bool | None = None
    prefix: str = ""
    known: TokenizerSettings | None = None

    @property
    def repository(self) -> str | None:
        """The model's name on the hub; None: it is not from there."""
        return repository_of(self.prefix)

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
            with naming(f"read because it lies beside {place}"):
                said = dict(Folder(beside).said) | said
        vocab = vocabulary.tokens if vocabulary else {}
        names = "special_tokens", "normalized_tokens"
        added = {token for name in names for token in said.get(name, ())}
        lost = added - {*vocab, *tokenization.SPECIAL_TOKENS}
        if vocab and lost:
            logs.warn_once(
                f"{place} has no ids of {len(lost)} tokens that the files of "
                f"its tokenizer add, such as {min(lost)!r}: here they are "
                "split as other text"
            )
        trained = said.pop("do_lower_case", None)
        if trained is not None:
            trained = agreed(flag, trained, self.prefix or place)
            return with_others(trained, said)
        if self.repository and flag is None and not looks_cased(vocab):
            raise UserError(
                f"hf://{self.repository} does not tell its casing (no "
                f"do_lower_case in its {TOKENIZER_CONFIG_NAME}): give "
                "--do_lower_case, or --nodo_lower_case for a cased model"
            )
        if vocab:
            return choose(vocab, place, flag, said)
        return with_others(flag is not False, said)
