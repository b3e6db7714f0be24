"""Read a scale of scales.toml, and replace some of its values.

The scale `paper` has every key, and says of what type its value is. The scripts
that get a value know its bounds.
"""

import difflib
import os
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from base import text_files
from base.errors import UserError, check_choice
from base.text_files import tomllib

from tools.reproduction.tasks import SCORED

# The key of a task is one of [finetuning].
_OF_A_TASK = rf"^tasks\.({'|'.join(SCORED)})\."

PATH = os.path.join(os.path.dirname(__file__), "scales.toml")


class Size(NamedTuple):
    """The size of an encoder."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int

    @property
    def name(self) -> str:
        """Return "L4_H256_A4"."""
        return "L{}_H{}_A{}".format(*self)


class Scale(dict[str, Any]):
    """All values of a scale by their keys, such as "corpus.vocab_size".

    Of a task, only those that replace [finetuning] are there.
    """

    def table(self, name: str) -> types.SimpleNamespace:
        """Return the values of a table: `scale.table("corpus").vocab_size`."""
        return types.SimpleNamespace(
            **{
                key.removeprefix(f"{name}."): value
                for key, value in self.items()
                if key.startswith(f"{name}.")
            }
        )

    def for_task(self, name: str) -> types.SimpleNamespace:
        """Return the values for fine-tuning on a task."""
        usual, own = self.table("finetuning"), self.table(f"tasks.{name}")
        return types.SimpleNamespace(**{**vars(usual), **vars(own)})

    @property
    def size(self) -> Size:
        """Return the size of the models of all tables but Table 6."""
        return Size(*(self[f"model.{name}"] for name in Size._fields))


def read(name: str, settings: Sequence[str] = ()) -> Scale:
    """Return a scale of scales.toml.

    Each setting, such as "table6.restarts=2", replaces one value.

    Raises:
        UserError: a setting has an unknown key or a value of another type.
    """
    known = text_files.read_toml(PATH)
    schema = dict(_by_key(known["paper"]))
    schema["table8.size"] = schema["table6.sizes"][0]
    layers = []  # the ones that win last
    while name:
        layers.insert(0, known[name])
        name = known[name].pop("base", "")
    scale = Scale({"table8.size": None})  # that of the other tables
    for layer in layers:
        scale.update(_by_key(layer))
    for setting in settings:
        key, _, text = map(str.strip, setting.partition("="))
        usual = re.sub(_OF_A_TASK, "finetuning.", key)
        if usual not in schema:
            near = difflib.get_close_matches(usual, schema, cutoff=0.5)
            raise UserError(
                f"--set={setting}: unknown key {key}; known are "
                f"{', '.join(near or schema)}"
            )
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:  # a text without quotes: bfloat16
            value = text
        _check(value, schema[usual], f"--set={key}")
        scale[key] = value
        for task in value if key.endswith(".tasks") else ():
            check_choice(f"--set={setting}: unknown task", task, SCORED)
    return scale


def _by_key(
    values: Mapping[str, Any], table: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield ("table.key", value) of nested tables; a size is a value."""
    for key, value in values.items():
        if isinstance(value, dict) and key != "size":
            yield from _by_key(value, f"{table}{key}.")
        else:
            yield table + key, value


def _check(value: Any, like: Any, place: str) -> None:
    """Check that a value is of the type of `like`, a table with its keys.

    Raises:
        UserError: it is not, or an integer is less than 1.
    """
    kinds = (int, float) if type(like) is float else (type(like),)
    if type(value) not in kinds or (
        isinstance(value, dict) and {*value} != {*like}
    ):
        raise UserError(f"{place} = {value!r}: wanted one such as {like!r}")
    if isinstance(value, list):
        for one in value:
            _check(one, like[0] if like else "", place)
    elif isinstance(value, dict):
        for key, one in value.items():
            _check(one, like[key], f"{place}: {key}")
    elif type(like) is int and value < 1:
        raise UserError(f"{place} = {value}: must be at least 1")
