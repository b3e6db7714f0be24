"""Read a scale: from scales.toml, from a user's own file, and single values.

The scale `paper` of scales.toml has every key, and says of what type its value
is. Other scales, a user's file and --set replace some of them. The scripts that
get a value know its bounds.
"""

import contextlib
import difflib
import os
import types
from collections.abc import Sequence
from typing import Any, NamedTuple

from base import text_files
from base.errors import UserError
from base.text_files import tomllib

from tools.reproduction import tasks
from tools.reproduction.paper import PAPER
from tools.reproduction.tasks import SCORED, SQUAD, TRIVIAQA

PATH = os.path.join(os.path.dirname(__file__), "scales.toml")


class Size(NamedTuple):
    """The size of an encoder, and its learning rate if it has its own."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    learning_rate: float = 0.0  # 0: that of pretraining

    @property
    def name(self) -> str:
        """Return "L4_H256_A4"."""
        layers, width, heads, _ = self
        return f"L{layers}_H{width}_A{heads}"


class Phase(NamedTuple):
    """A share of the pre-training steps at one length."""

    max_seq_length: int
    train_batch_size: int
    share: float


# Keys whose values are tables with a type of their own, or lists of them.
_RECORDS = {"size": Size, "sizes": Size, "phases": Phase}


class Scale(types.SimpleNamespace):
    """All values of a scale: scale.pretraining.learning_rate and so on.

    `tasks` alone is a dictionary: name -> values that replace [finetuning].
    """

    def for_task(self, name: str) -> types.SimpleNamespace:
        """Return the values for fine-tuning on a task.

        TriviaQA has the values of SQuAD, but only the first learning rate,
        since no score chooses among several.
        """
        own = self.tasks.get(SQUAD if name == TRIVIAQA else name, {})
        found = types.SimpleNamespace(**{**vars(self.finetuning), **own})
        if name == TRIVIAQA:
            found.learning_rates = found.learning_rates[:1]
        return found

    @property
    def size(self) -> Size:
        """Return the size of the models of all tables but Table 6."""
        return Size(*(getattr(self.model, n) for n in Size._fields[:3]))

    def steps(self, experiment: str) -> int:
        """Return the pre-training steps of a table's models."""
        own = getattr(self, experiment).num_train_steps
        return own or self.pretraining.num_train_steps


def read(name: str, settings: Sequence[str] = ()) -> Scale:
    """Return a scale of scales.toml, or that of the path of a user's file.

    Each setting, such as "table6.num_train_steps=500", replaces one value.

    Raises:
        UserError: names the place of a mistake.
    """
    known = text_files.read_toml(PATH)
    if name not in known and not name.endswith(".toml"):
        raise UserError(
            f"--scale={name}: unknown; choose from {', '.join(known)}, or name "
            "a .toml file of your own"
        )
    schema = known["paper"]
    for experiment in PAPER:
        own = {"restarts": 1, "num_train_steps": 0}
        schema[experiment] = own | schema[experiment]
    del schema["figure5"]["num_train_steps"]  # it has Table 5's
    schema["table8"]["size"] = []  # that of the other tables
    layers = []  # (place, values), the ones that win last
    while True:
        place = f"--scale={name}" if name in known else name
        layer = known.get(name) or text_files.read_toml(name)
        layers.insert(0, (place, layer))
        if name == "paper":
            break
        name = layer.pop("base", "paper")
        if name not in tuple(known):  # a list has no hash
            raise UserError(
                f"{place}: base = {name!r}; choose from {', '.join(known)}"
            )
    layers += [(f"--set={own}", _parsed(own)) for own in settings]
    every_task = dict.fromkeys(SCORED, schema["finetuning"])
    values: dict[str, Any] = {}
    for place, layer in layers:
        values = _merged({**schema, "tasks": every_task}, values, layer, place)
    scale = Scale(
        **{
            key: types.SimpleNamespace(**value)
            if isinstance(value, dict) and key != "tasks"
            else value
            for key, value in values.items()
        }
    )
    total = sum(phase.share for phase in scale.pretraining.phases)
    if abs(total - 1) > 1e-6:
        raise UserError(
            f"{place}: the shares of pretraining.phases add up to {total:g}, "
            "wanted 1"
        )
    names = [size.name for size in scale.table6.sizes]
    if len(names) > len({*names}):
        raise UserError(
            f"{place}: table6.sizes has a size twice; a row is a size. Another "
            "learning rate needs another --work_dir"
        )
    return scale


def _parsed(setting: str) -> dict[str, Any]:
    """Return "table6.num_train_steps=500" as nested tables."""
    key, is_assigned, text = setting.partition("=")
    # The second one is of a text without quotes: bfloat16.
    for line in (setting, f'{key} = "{text.strip()}"') if is_assigned else ():
        with contextlib.suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(line)
    raise UserError(
        f"--set={setting}: wanted key=value, as in "
        "--set=pretraining.num_train_steps=500"
    )


def _merged(schema: Any, below: Any, above: Any, place: str) -> Any:
    """Return two nested tables as one; values of `above` win.

    `schema` has all keys, with values of the types that are wanted. Tasks get
    their usual spelling. Integers are at least 1, or at least 0 where 0 is the
    value of `schema`.
    """
    if isinstance(schema, dict):
        if not isinstance(above, dict):
            raise UserError(f"{place} = {above!r}: wanted a table of keys")
        merged = dict(below)
        for key, value in above.items():
            where = f"{place}: {key}"
            if key not in schema:
                near = difflib.get_close_matches(key, schema, n=3, cutoff=0.5)
                raise UserError(
                    f"{place}: unknown key {key}; known are "
                    f"{', '.join(near or schema)}"
                )
            if key == "tasks" and isinstance(value, list):
                value = [tasks.name_of(name, where) for name in value]
            elif key == "tasks" and isinstance(value, dict):
                value = {tasks.name_of(n, where): v for n, v in value.items()}
            if record := _RECORDS.get(key):
                merged[key] = _records(record, value, where)
            else:
                old = merged.get(key, {})
                merged[key] = _merged(schema[key], old, value, where)
        return merged
    if isinstance(schema, float) and type(above) is int:
        above = float(above)
    if type(above) is not type(schema):
        raise UserError(f"{place} = {above!r}: wanted one such as {schema!r}")
    if isinstance(above, list):
        like = schema[0] if schema else ""
        return [_merged(like, {}, own, place) for own in above]
    if type(above) is int and above < bool(schema):
        least = int(bool(schema))
        raise UserError(f"{place} = {above}: must be at least {least}")
    return above


def _records(kind: type, value: Any, place: str) -> Any:
    """Return a table, or a list of tables, as Size or Phase."""
    if isinstance(value, list):
        return [_records(kind, own, place) for own in value]
    schema = {key: own(1) for key, own in kind.__annotations__.items()}
    wanted = kind._fields[: len(kind._fields) - len(kind._field_defaults)]
    if not isinstance(value, dict) or not {*wanted} <= {*value}:
        raise UserError(
            f"{place} = {value!r}: wanted a table of {', '.join(schema)}"
        )
    return kind(**_merged(schema, {}, value, place))
