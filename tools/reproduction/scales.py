"""Read a scale: from scales.toml, from a user's own file, and single values.

Every key of a file is a field of a class below, with the same name. The type of
the field has the bounds of the value. A mistake ends in one line that names the
place.
"""

import dataclasses
import difflib
import os
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from base import text_files
from base.errors import UserError
from base.text_files import tomllib

from tools.reproduction import tasks
from tools.reproduction.paper import PAPER
from tools.reproduction.tasks import SQUAD, TRIVIAQA

PATH = os.path.join(os.path.dirname(__file__), "scales.toml")

# An annotation has the least and the largest value. Without one, an integer is
# at least 1, and another number is more than 0.
_LARGEST = sys.float_info.max  # not infinity
_ABOVE_0 = sys.float_info.min
NotNegative = Annotated[float, (0, _LARGEST)]
Share = Annotated[float, (_ABOVE_0, 1)]
Length = Annotated[int, (5, _LARGEST)]
Count = Annotated[int, (0, _LARGEST)]

_record = dataclasses.dataclass(frozen=True)


@_record
class Corpus:
    """How text becomes a vocabulary and records."""

    max_mb: NotNegative
    held_out_share: Annotated[float, (_ABOVE_0, 0.5)]
    vocab_size: int
    do_lower_case: bool
    dupe_factor: int
    held_out_dupe_factor: int
    masked_lm_prob: Share
    num_record_files: int


@_record
class Size:
    """The size of an encoder, and its learning rate if it has its own."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    learning_rate: NotNegative = 0.0  # 0: that of pretraining

    @property
    def name(self) -> str:
        """Return "L4_H256_A4"."""
        return (
            f"L{self.num_hidden_layers}_H{self.hidden_size}_"
            f"A{self.num_attention_heads}"
        )


@_record
class Model:
    """The encoder of all tables but Table 6."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    max_position_embeddings: int
    dropout: Annotated[float, (0, 0.99)]
    initializer_range: Annotated[float, (_ABOVE_0, 0.99)]

    @property
    def size(self) -> Size:
        """Return layers, width and heads."""
        return Size(
            self.num_hidden_layers, self.hidden_size, self.num_attention_heads
        )


@_record
class Phase:
    """A share of the pre-training steps at one length."""

    max_seq_length: Length
    train_batch_size: int
    share: Share


@_record
class Pretraining:
    """How every model is pre-trained."""

    num_train_steps: int
    warmup_proportion: Annotated[float, (0, 1)]
    learning_rate: float
    bias_correction: bool
    eval_batch_size: int
    max_eval_steps: int
    save_checkpoints_steps: int
    flags: tuple[str, ...]
    phases: tuple[Phase, ...]


@_record
class Finetuning:
    """Values for fine-tuning, where a task has none of its own.

    doc_stride is for both versions of SQuAD, lstm_units for NER-features.
    """

    num_train_epochs: float
    train_batch_size: int
    learning_rates: tuple[float, ...]
    max_seq_length: Length
    eval_batch_size: int
    flags: tuple[str, ...]
    doc_stride: int = 128
    lstm_units: int = 768
    bias_correction: bool = True  # as by the scripts' own default


@_record
class Bilstm:
    """The BiLSTM of Table 5's last row."""

    layers: int
    units: int


@_record
class Tasks:
    """Tasks and runs of an experiment."""

    tasks: tuple[str, ...]
    restarts: int = 1  # fine-tuning runs of each pre-trained model


@_record
class Table(Tasks):
    """Tasks and runs of a table, and how long its models are pre-trained."""

    num_train_steps: Count = 0  # 0: that of pretraining


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeTable(Table):
    """Table 6, and the sizes of its models."""

    sizes: tuple[Size, ...]


@_record
class MaskingTable(Table):
    """Tasks, runs and steps of Table 8, and the size of its models."""

    size: Size | None = None  # that of the other tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepFigure(Tasks):
    """Figure 5: `shares` of Table 5's steps after which models are scored."""

    shares: tuple[Share, ...]


@_record
class Scale:
    """All values of a scale; `tasks` has those of single tasks."""

    num_seeds: int
    num_parallel: int
    dtype: str
    corpus: Corpus
    model: Model
    pretraining: Pretraining
    finetuning: Finetuning
    tasks: dict[str, dict[str, Any]]
    bilstm: Bilstm
    table1: Table
    table2: Table
    table3: Table
    table4: Table
    table5: Table
    table6: SizeTable
    table7: Table
    table8: MaskingTable
    figure5: StepFigure
    sentence_order: Table
    two_directions: Table

    def for_task(self, name: str) -> Finetuning:
        """Return the values for fine-tuning on a task.

        TriviaQA has the values of SQuAD, but only the first learning rate,
        since no score chooses among several.
        """
        if name == TRIVIAQA:
            squad = self.for_task(SQUAD)
            first = squad.learning_rates[:1]
            return dataclasses.replace(squad, learning_rates=first)
        return dataclasses.replace(self.finetuning, **self.tasks.get(name, {}))

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
    if name in known:
        place, values = f"--scale={name}", known[name]
    elif name.endswith(".toml"):
        place, values = name, text_files.read_toml(name)
    else:
        raise UserError(
            f"--scale={name}: unknown; choose from {', '.join(known)}, or name "
            "a .toml file of your own"
        )
    while "base" in values:  # those of scales.toml have one too
        base = values.pop("base")
        if base not in tuple(known):  # a list has no hash
            raise UserError(
                f"{name}: base = {base!r}; choose from {', '.join(known)}"
            )
        values = _merged(known[base], values, place)
    for setting in settings:
        path, is_assigned, text = setting.partition("=")
        if not is_assigned:
            raise UserError(
                f"--set={setting}: wanted key=value, as in "
                "--set=pretraining.num_train_steps=500"
            )
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()  # a text without quotes: bfloat16
        for key in reversed(path.split(".")):
            value = {key.strip(): value}
        values = _merged(values, value, f"--set={setting}")
    scale = _checked(Scale, _merged({}, values, place), place)
    _check(scale, place)
    return scale


def _merged(
    below: Mapping[str, Any], above: Mapping[str, Any], place: str
) -> dict[str, Any]:
    """Return two nested tables as one; values of `above` win.

    Tasks get their usual spelling, so that a user's `[tasks.squad]` changes
    single values of SQuAD.
    """
    merged = dict(below)
    for key, value in above.items():
        if key == "tasks" and isinstance(value, dict):
            by_name: dict[str, Any] = {}
            for spelling, own in value.items():
                name = tasks.name_of(spelling, f"{place}: tasks")
                by_name = _merged(by_name, {name: own}, place)
            value = by_name
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            value = _merged(merged[key], value, place)
        merged[key] = value
    return merged


_TYPE_NAMES = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a text in quotes",
    dict: "a table of keys",
    tuple: "a list, [...]",
}
_MAY_BE_EMPTY = ("tasks", "flags")
_DTYPES = ("float32", "bfloat16", "float16")


def _checked(wanted: Any, value: Any, place: str) -> Any:
    """Return a value of a file, converted to the type of its field."""
    low = high = None
    if types.NoneType in typing.get_args(wanted):  # it may be left out
        (wanted, _) = typing.get_args(wanted)
    if typing.get_origin(wanted) is Annotated:
        wanted, (low, high) = typing.get_args(wanted)
    is_record = dataclasses.is_dataclass(wanted)
    kind = dict if is_record else typing.get_origin(wanted) or wanted
    # A tuple is a list of TOML, an integer a number too, true and false none.
    taken = {tuple: (list, tuple), float: (int, float)}.get(kind, kind)
    if not isinstance(value, taken) or (
        isinstance(value, bool) and kind is not bool
    ):
        raise UserError(f"{place} = {value!r}: wanted {_TYPE_NAMES[kind]}")
    if is_record:
        hints = typing.get_type_hints(wanted, include_extras=True)
        for key in value:
            if key not in hints:
                near = difflib.get_close_matches(key, hints, n=3, cutoff=0.5)
                raise UserError(
                    f"{place}: unknown key {key}; known are "
                    f"{', '.join(near or hints)}"
                )
        for field in dataclasses.fields(wanted):
            is_optional = field.default is not dataclasses.MISSING
            if field.name not in value and not is_optional:
                raise UserError(f"{place}: {field.name} is missing")
        return wanted(
            **{
                key: _checked(hints[key], own, f"{place}: {key}")
                for key, own in value.items()
            }
        )
    if kind is tuple:
        if not value and not place.endswith(_MAY_BE_EMPTY):
            raise UserError(f"{place} = []: empty, wanted one at least")
        (item, _) = typing.get_args(wanted)
        return tuple(_checked(item, part, place) for part in value)
    if kind in (int, float):
        value = kind(value)
        if low is None:
            low, high = 1 if kind is int else _ABOVE_0, _LARGEST
        if not low <= value <= high:
            least = "more than 0" if 0 < low < 1 else f"at least {low:g}"
            most = "" if high == _LARGEST else f" and at most {high:g}"
            raise UserError(f"{place} = {value!r}: must be {least}{most}")
    return value


def _check(scale: Scale, place: str) -> None:
    """Check the values that depend on each other."""
    if scale.dtype not in _DTYPES:
        raise UserError(
            f"{place}: dtype = {scale.dtype!r}; choose from "
            f"{', '.join(_DTYPES)}"
        )
    for name, own in scale.tasks.items():
        where = f"{place}: tasks.{name}"
        own = _checked(dict, own, where)
        _checked(Finetuning, vars(scale.finetuning) | own, where)
    total = sum(phase.share for phase in scale.pretraining.phases)
    if abs(total - 1) > 1e-6:
        raise UserError(
            f"{place}: the shares of pretraining.phases add up to {total:g}, "
            "wanted 1"
        )
    names = [size.name for size in scale.table6.sizes]
    of_table8 = [scale.table8.size] if scale.table8.size else []
    for size in (scale.model.size, *scale.table6.sizes, *of_table8):
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
    for experiment in PAPER:
        for task in getattr(scale, experiment).tasks:
            tasks.name_of(task, f"{place}: {experiment}.tasks")
