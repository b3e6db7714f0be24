"""What this project does with each setting in the files of a published model.

The files are those of transformers and sentence-transformers. A setting that
changes what a model computes is applied, or refused or warned of by name, and
so is a key that the table lacks.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from base import file_system, logs, text_files
from base.errors import UserError

from checkpoints import published
from checkpoints.trained_for import TrainedFor

APPLIED, REFUSED, WARNED = "applied", "refused", "warned of"


class Refused(UserError):
    """Raised for a setting with which a model computes something else."""


class Setting(NamedTuple):
    """What is done with a setting.

    Attributes:
        treatment: one of the constants above, or "changes nothing".
        why: where it is applied, why it changes nothing, or what else the
            model computes.
        harmless: values of a setting that is refused or warned of that are
            applied or change nothing, beside null.
    """

    treatment: str
    why: str
    harmless: tuple = ()


def _read() -> dict[str, dict[str, Setting]]:
    """Return the settings of each file, with those that this project adds."""
    path = os.path.join(os.path.dirname(__file__), "known_settings.toml")
    found = {
        file: {
            name: Setting(treatment, why, tuple(harmless))
            for treatment, why, names, *harmless in rows
            for name in names.split()
        }
        for file, rows in text_files.read_toml(path).items()
    }
    own = dict.fromkeys(
        TrainedFor._fields, Setting(APPLIED, "written by this project")
    )
    found["config.json"] = own | found["config.json"]
    name = "tokenizer_config.json"
    return found | {name: found["special_tokens_map.json"] | found[name]}


# Name of a file in a model's folder -> key -> what is done with it.
SETTINGS: Mapping[str, Mapping[str, Setting]] = _read()

# The key for the files themselves, and those that tell of something unread.
FILES = "files of the folder"
TELLING = tuple(
    name
    for name, found in SETTINGS[FILES].items()
    if found.treatment in (REFUSED, WARNED)
)


# What is read of a model beside the weights of its encoder, as patterns.
MODEL_FILES = (
    published.VOCAB_NAME,
    published.ADDED_TOKENS_NAME,
    *(name for name in SETTINGS if name != FILES),
    *(f"*_{kind}/{published.WEIGHTS_NAME}" for kind in ("Dense", "LayerNorm")),
)


def check_files(directory: str) -> None:
    """Check that no file in a folder changes what its model computes.

    Raises:
        Refused: there is one that cannot be read; of others it is warned.
    """
    for name in TELLING:
        if file_system.exists(os.path.join(directory, name)):
            treatment, why, _ = SETTINGS[FILES][name]
            words = f"{directory} has {name}: {why}"
            if treatment == REFUSED:
                raise Refused(words)
            logs.warn_once(words)


def check(name: str, path: str, found: Mapping[str, Any]) -> None:
    """Check the settings that a file has against the table.

    A setting that is warned of gets a warning, and all keys that the table
    lacks get one together.

    Args:
        name: name of the file in SETTINGS.
        path: the file.
        found: its JSON object.

    Raises:
        Refused: a setting has a value that is refused.
    """
    known = SETTINGS[name]
    unknown = []
    for key, value in _flat(known, found):
        if value is None:
            continue
        if key not in known:
            unknown.append(key)
            continue
        treatment, why, harmless = known[key]
        if treatment not in (REFUSED, WARNED) or value in harmless:
            continue
        wanted = " or ".join(map(repr, harmless)) or "null"
        words = (
            f"{path}: {key} is {repr(value)[:100]}, here it has to be "
            f"{wanted}: {why}"
        )
        if treatment == REFUSED:
            raise Refused(words)
        logs.warn_once(words)
    if unknown:
        logs.warn_once(
            f"{path}: unknown settings, which are not applied: "
            f"{', '.join(map(repr, unknown))}; the model may compute something "
            "else"
        )


def _flat(
    known: Mapping[str, Setting], found: Mapping[str, Any], start: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of each setting.

    The table has some objects key by key, as object.key: of these, what they
    hold is yielded in place of them.
    """
    for name, value in found.items():
        key = start + name
        if isinstance(value, dict) and any(
            one.startswith(key + ".") for one in known
        ):
            yield from _flat(known, value, key + ".")
        else:
            yield key, value
