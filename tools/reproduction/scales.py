"""Read what a scale means: scales.toml, a user's own file, single values.

Every key of the file is a field of one of the classes below, with the same
name. A key that no class has, a value of another type and a number out of its
bounds end in one line that names the place.
"""

import difflib
import os
import sys
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from base import text_files
from base.errors import UserError

from tools.reproduction import tasks as reproduction_tasks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATH = os.path.join(os.path.dirname(__file__), "scales.toml")

# --- The tables of a scale ---------------------------------------------------


class Corpus(NamedTuple):
    """How text becomes a vocabulary and records."""

    max_mb: float
    held_out_share: float
    vocab_size: int
    do_lower_case: bool
    dupe_factor: int
    held_out_dupe_factor: int
    masked_lm_prob: float
    num_record_files: int


class Size(NamedTuple):
    """The size of an encoder; with a learning rate where it needs its own."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    learning_rate: float = 0.0  # 0: that of pretraining

    @property
    def name(self) -> str:
        """Return "L4_H256_A4"."""
        return (
            f"L{self.num_hidden_layers}_H{self.hidden_size}_"
            f"A{self.num_attention_heads}"
        )


class Model(NamedTuple):
    """The encoder of all tables but Table 6."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    max_position_embeddings: int
    dropout: float
    initializer_range: float

    @property
    def size(self) -> Size:
        """Return layers, width and heads."""
        return Size(*self[:3])


class Phase(NamedTuple):
    """A share of the pre-training steps at one length."""

    max_seq_length: int
    train_batch_size: int
    share: float


class Pretraining(NamedTuple):
    """How every model is pre-trained."""

    num_train_steps: int
    warmup_proportion: float
    learning_rate: float
    bias_correction: bool
    eval_batch_size: int
    max_eval_steps: int
    save_checkpoints_steps: int
    flags: tuple[str, ...]
    phases: tuple[Phase, ...]


class Finetuning(NamedTuple):
    """How models are fine-tuned; a task may have other values.

    doc_stride is for SQuAD, lstm_units for NER-features.
    """

    num_train_epochs: float
    train_batch_size: int
    learning_rates: tuple[float, ...]
    max_seq_length: int
    eval_batch_size: int
    flags: tuple[str, ...]
    doc_stride: int = 128
    lstm_units: int = 768
    bias_correction: bool = True  # as by the scripts' own default


class Bilstm(NamedTuple):
    """The BiLSTM of Table 5's last row."""

    layers: int
    units: int


class Table(NamedTuple):
    """Tasks and runs of Table 5 or 8."""

    tasks: tuple[str, ...]
    restarts: int
    num_train_steps: int = 0  # 0: that of pretraining


class SizeTable(NamedTuple):
    """Tasks, runs and sizes of Table 6."""

    tasks: tuple[str, ...]
    restarts: int
    sizes: tuple[Size, ...]
    num_train_steps: int = 0


class StepFigure(NamedTuple):
    """Tasks, runs and checkpoints of Figure 5."""

    tasks: tuple[str, ...]
    restarts: int
    shares: tuple[float, ...]


class Scale(NamedTuple):
    """Everything that a scale decides; `tasks` has what differs by task."""

    num_seeds: int
    num_parallel: int
    dtype: str
    corpus: Corpus
    model: Model
    pretraining: Pretraining
    finetuning: Finetuning
    tasks: dict[str, dict[str, Any]]
    bilstm: Bilstm
    table5: Table
    table6: SizeTable
    table8: Table
    figure5: StepFigure

    def for_task(self, name: str) -> Finetuning:
        """Return how models are fine-tuned on a task."""
        return self.finetuning._replace(**self.tasks.get(name, {}))

    def steps(self, experiment: str) -> int:
        """Return the pre-training steps of a table's models."""
        own = getattr(self, experiment).num_train_steps
        return own or self.pretraining.num_train_steps


_LARGEST = sys.float_info.max  # not infinity
_ABOVE_0 = sys.float_info.min
# Key -> least and largest value, None for no largest one. Other integers are at
# least 1, other numbers more than 0.
_BOUNDS: dict[str, tuple[float, float | None]] = {
    "num_train_steps": (0, None),
    "max_mb": (0, None),
    "held_out_share": (_ABOVE_0, 0.5),
    "masked_lm_prob": (_ABOVE_0, 1),
    "dropout": (0, 0.99),
    "share": (_ABOVE_0, 1),
    "shares": (_ABOVE_0, 1),
    "warmup_proportion": (0, 1),
    "learning_rate": (0, None),
    "initializer_range": (_ABOVE_0, 0.99),
    "max_seq_length": (5, None),
}
_TYPE_NAMES = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a text in quotes",
}
_QUERY_TOKENS = 64  # of a question, the default of run_squad.py
_MAY_BE_EMPTY = ("tasks", "flags")
_DTYPES = ("float32", "bfloat16", "float16")

# --- Reading -----------------------------------------------------------------


def read(name: str, settings: Sequence[str] = ()) -> Scale:
    """Return a scale.

    Args:
        name: a scale of scales.toml, or the path of a user's own file.
        settings: "table6.num_train_steps=500", each replaces one value.

    Raises:
        UserError: no such scale, an unknown key, a value that a key does not
            take.
    """
    values, place = _values_of(name)
    for setting in settings:
        _replace(values, setting)
    scale = _record(Scale, _with_task_names(values, place), place)
    _check(scale, place)
    return scale


def _values_of(name: str) -> tuple[dict[str, Any], str]:
    """Return the values of a scale by name or path, and where they stand."""
    known = _load(PATH)
    if name in known:
        return known[name], f"--scale={name}"
    if not name.endswith(".toml"):
        raise UserError(
            f"--scale={name}: unknown; choose from {', '.join(known)}, or name "
            "a .toml file of your own"
        )
    own = _with_task_names(_load(name), name)
    base = own.pop("base", None)
    if base is None:
        return own, name
    if base not in known:
        raise UserError(
            f"{name}: base = {base!r}; choose from {', '.join(known)}"
        )
    return _merged(known[base], own), name


def _with_task_names(values: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the values of a scale, its tasks in their usual spelling.

    scales.toml has that spelling. So the values of a user's `[tasks.squad]`
    replace those of `[tasks.SQuAD]` there one by one.

    Args:
        values: tables of the scale.
        place: where they stand, for messages.

    Raises:
        UserError: a task is unknown, or is there in two spellings.
    """
    if not isinstance(values.get("tasks"), dict):
        return values
    tasks: dict[str, Any] = {}
    for key, own in values["tasks"].items():
        name = reproduction_tasks.name_of(key, f"{place}: tasks")
        if name in tasks:
            raise UserError(
                f"{place}: tasks.{key}: {name} is there in two spellings; put "
                "all its values into one table"
            )
        tasks[name] = own
    return {**values, "tasks": tasks}


def _load(path: str) -> dict[str, Any]:
    """Return the content of a TOML file."""
    text = text_files.read_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from error


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict:
    """Return nested tables, with the values of `above` where it has any."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        is_table = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merged(old, value) if is_table else value
    return merged


def _replace(values: dict[str, Any], setting: str) -> None:
    """Replace one value, as --set gives it: "table.key=value"."""
    path, is_assigned, text = setting.partition("=")
    if not is_assigned:
        raise UserError(
            f"--set={setting}: wanted key=value, as in "
            "--set=pretraining.num_train_steps=500"
        )
    keys = [key.strip() for key in path.split(".")]
    if keys[0] == "tasks" and len(keys) > 1:
        keys[1] = reproduction_tasks.name_of(keys[1], f"--set={setting}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a text without quotes: bfloat16
    for key in keys[:-1]:
        if not isinstance(values.get(key, {}), dict):
            raise UserError(f"--set={setting}: {key} has no keys below it")
        values[key] = dict(values.get(key, {}))
        values = values[key]
    values[keys[-1]] = value


# --- Checking ----------------------------------------------------------------


def _record(cls: type, values: Any, place: str) -> Any:
    """Return the NamedTuple that a table of the file describes."""
    return cls(**_table(cls, values, place, cls._field_defaults.keys()))


def _table(
    cls: type, values: Any, place: str, may_lack: Collection[str]
) -> dict[str, Any]:
    """Return the values of a table, checked as fields of a class.

    Args:
        cls: a NamedTuple.
        values: of the file.
        place: where they stand, for messages.
        may_lack: keys that need not be there.

    Raises:
        UserError: a key is missing or unknown, a value is of another type or
            out of its bounds.
    """
    if not isinstance(values, dict):
        raise UserError(f"{place} = {values!r}: wanted a table of keys")
    hints = typing.get_type_hints(cls)
    for key in values:
        if key not in hints:
            near = difflib.get_close_matches(key, list(hints), n=3, cutoff=0.5)
            known = (
                f"did you mean {' or '.join(near)}?"
                if near
                else (f"known are {', '.join(hints)}")
            )
            raise UserError(f"{place}: unknown key {key}; {known}")
    for key in hints:
        if key not in values and key not in may_lack:
            raise UserError(f"{place}: {key} is missing")
    return {
        key: _value(hints[key], key, value, f"{place}: {key}")
        for key, value in values.items()
    }


def _value(wanted: Any, key: str, value: Any, place: str) -> Any:
    """Return a value of the wanted type, or raise a UserError."""
    if hasattr(wanted, "_fields"):
        return _record(wanted, value, place)
    if typing.get_origin(wanted) is dict:  # tasks
        if not isinstance(value, dict):
            raise UserError(f"{place} = {value!r}: wanted tables, [tasks.MRPC]")
        return {
            name: _table(Finetuning, own, f"{place}.{name}", Finetuning._fields)
            for name, own in value.items()
        }
    if typing.get_origin(wanted) is tuple:
        if not isinstance(value, list):
            raise UserError(f"{place} = {value!r}: wanted a list, [...]")
        if not value and key not in _MAY_BE_EMPTY:
            raise UserError(f"{place} = []: empty, wanted one at least")
        (item, _) = typing.get_args(wanted)
        return tuple(_value(item, key, part, place) for part in value)
    # An integer is a number too; true and false are none.
    taken = (int, float) if wanted is float else wanted
    if not isinstance(value, taken) or (
        isinstance(value, bool) and wanted is not bool
    ):
        raise UserError(f"{place} = {value!r}: wanted {_TYPE_NAMES[wanted]}")
    if wanted in (int, float):
        value = wanted(value)
        low, high = _BOUNDS.get(key, (1 if wanted is int else _ABOVE_0, None))
        if not low <= value <= (_LARGEST if high is None else high):
            least = "more than 0" if 0 < low < 1 else f"at least {low:g}"
            most = "" if high is None else f" and at most {high:g}"
            raise UserError(f"{place} = {value!r}: must be {least}{most}")
    return value


def _check(scale: Scale, place: str) -> None:
    """Check what follows from several values.

    Raises:
        UserError: names the keys.
    """
    if scale.dtype not in _DTYPES:
        raise UserError(
            f"{place}: dtype = {scale.dtype!r}; choose from "
            f"{', '.join(_DTYPES)}"
        )
    phases, positions = (
        scale.pretraining.phases,
        scale.model.max_position_embeddings,
    )
    total = sum(phase.share for phase in phases)
    if abs(total - 1) > 1e-6:
        raise UserError(
            f"{place}: the shares of pretraining.phases add up to {total:g}, "
            "wanted 1"
        )
    for key in ("num_train_steps", "learning_rate"):
        if not getattr(scale.pretraining, key):
            raise UserError(f"{place}: pretraining.{key} = 0: nothing learns")
    names = [size.name for size in scale.table6.sizes]
    for size in (scale.model.size, *scale.table6.sizes):
        if names.count(size.name) > 1:
            raise UserError(
                f"{place}: table6.sizes has {size.name} twice; a row is a "
                "size. Another learning rate needs another --work_dir"
            )
        if size.hidden_size % size.num_attention_heads:
            raise UserError(
                f"{place}: {size.name}: hidden_size = {size.hidden_size} does "
                f"not divide by num_attention_heads = "
                f"{size.num_attention_heads}"
            )
    named = {
        reproduction_tasks.name_of(task, f"{place}: {experiment}.tasks")
        for experiment in ("table5", "table6", "table8", "figure5")
        for task in getattr(scale, experiment).tasks
    }
    # A question, [CLS], two [SEP] and a token of the paragraph.
    squad, least = scale.for_task("SQuAD").max_seq_length, _QUERY_TOKENS + 4
    if "SQuAD" in named and squad < least:
        raise UserError(
            f"{place}: max_seq_length = {squad} of SQuAD: a question has up to "
            f"{_QUERY_TOKENS} tokens, wanted {least} at least"
        )
    lengths = [("a phase", phase.max_seq_length) for phase in phases]
    lengths += [
        (task, scale.for_task(task).max_seq_length)
        for task in reproduction_tasks.TASKS
    ]
    for what, length in lengths:
        if length > positions:
            raise UserError(
                f"{place}: max_seq_length = {length} of {what} exceeds "
                f"model.max_position_embeddings = {positions}"
            )


def as_values(scale: Any) -> Any:
    """Return a scale as nested dicts and lists, for JSON."""
    if hasattr(scale, "_asdict"):
        return {key: as_values(v) for key, v in scale._asdict().items()}
    if isinstance(scale, tuple):
        return [as_values(value) for value in scale]
    return scale


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Return {"table.key": value} of nested dicts."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found
