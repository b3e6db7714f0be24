"""Flags that are declared once, as fields of a dataclass.

    @dataclasses.dataclass(frozen=True)
    class Settings:
        learning_rate: float = flag(5e-5, low=0)
        '''Peak learning rate.'''

        freeze_layers: int = flag(0, low=0, needs={"do_train": ""})
        '''Leave this many of the first layers as they are.'''

A field has the name, the type and the default of a flag; the string below it is
the help. `define(Settings)` makes absl's flags of the fields, `check(FLAGS)`
checks what they need and exclude, and `read(Settings, FLAGS)` returns their
values. A script may have other defaults, needs and words in the help.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from base import cluster, file_system
from base.errors import UserError, naming

from absl import flags
from absl.flags import FlagValues

flags.disclaim_key_flags()  # --help of a script shows what is defined here

Value = TypeVar("Value")

# Flags that a flag needs or excludes -> why, or "".
Others = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Declared:
    """What a flag has beside its name, type, default and help.

    Attributes:
        low: the smallest number.
        high: the largest number.
        choices: the values of a string.
        required: whether it needs a value.
        repeated: whether a list is given as a flag for each value.
        needs: flags without which this one does nothing: "do_train", one of
            several ("dev_file or data_dir"), or a value ("dtype=float16").
        excludes: flags, or their values, that contradict this one.
        implies: values of flags that are not given.
        exists: what has to be at the path.
        is_output: whether the script writes there.
        alias: another name.
        resumed: of a run that is resumed: fixed, it may not change; results,
            it may, which changes what the model learns; execution, it may,
            which changes how fast steps are.
        place: the file of the declaration.
    """

    low: float | None = None
    high: float | None = None
    choices: Iterable[str] | None = None
    required: bool = False
    repeated: bool = False
    needs: Others = dataclasses.field(default_factory=dict)
    excludes: Others = dataclasses.field(default_factory=dict)
    implies: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    exists: Literal["file", "directory"] | None = None
    is_output: bool = False
    alias: str | None = None
    resumed: Literal["fixed", "results", "execution"] | None = None
    place: str = ""


def flag(default: Any = None, low=None, high=None, **declared: Any) -> Any:
    """Return the field of a flag; the other arguments are those of Declared."""
    return dataclasses.field(
        default=default, metadata={"flag": Declared(low, high, **declared)}
    )


def define(
    cls: type,
    *only: str,
    without: Iterable[str] = (),
    required: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
    needs: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
) -> None:
    """Define the flags of a dataclass: all, only these, or all without some.

    Args:
        cls: the dataclass.
        only: names of flags.
        without: names of flags.
        required: flags that need a value in this script.
        defaults: {flag: default} that differ in this script.
        needs: {flag: what it needs} besides.
        words: {name: text} for {name} in the help.
    """
    types, helps = typing.get_type_hints(cls), _helps(cls)
    for field in dataclasses.fields(cls):
        name, declared = field.name, field.metadata.get("flag")
        if not declared or name in without or only and name not in only:
            continue
        text = " ".join(helps[name].split())
        known = {"choices": ", ".join(declared.choices or ()), **(words or {})}
        for word, value in known.items():
            text = text.replace(f"{{{word}}}", value)
        default = (defaults or {}).get(name, field.default)
        if isinstance(default, tuple):
            default = list(default)
        _define(name, types[name], default, text, declared)
        more = {needs[name]: ""} if name in (needs or {}) else {}
        owners = (c for c in cls.__mro__ if name in vars(c)["__annotations__"])
        flags.FLAGS[name].declared = declared = dataclasses.replace(
            declared,
            required=declared.required or name in required,
            needs={**declared.needs, **more},
            place=inspect.getfile(next(owners)),
        )
        if alias := declared.alias:
            flags.DEFINE_alias(alias, name)
            flags.FLAGS[alias].declared = Declared(place=declared.place)


@functools.cache
def _helps(cls: type) -> dict[str, str]:
    """Return {field: the string below it}, read from the class' source."""
    found = {}
    for base in reversed(cls.__mro__[:-1]):
        (node,) = ast.parse(inspect.getsource(base)).body
        for field, text in itertools.pairwise(node.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(name)),
                    ast.Expr(value=ast.Constant(str(words))),
                ):
                    found[name] = words
    return found


def _define(
    name: str, kind: Any, default: Any, text: str, declared: Declared
) -> None:
    """Define the flag of absl for a type: int, int | None, tuple[int, ...]."""
    inner = [t for t in typing.get_args(kind) if t not in (type(None), ...)]
    one = inner[0] if inner else kind
    is_list = typing.get_origin(kind) is tuple and not declared.repeated
    if one is bool:
        flags.DEFINE_bool(name, default, text)
        return
    low, high = declared.low, declared.high
    parser = flags.ArgumentParser()
    if declared.choices is not None:
        parser = flags.EnumParser([*declared.choices])
        if not is_list:
            text = f"<{'|'.join(parser.enum_values)}>: {text}"
    elif one is int:
        # TensorFlow takes no larger number.
        most = 2**31 - 1 if is_list else None
        parser = flags.IntegerParser(low, high or most)
    elif one is float:
        parser = flags.FloatParser(low, high)
    serializer = flags.ArgumentSerializer()
    if declared.repeated:
        flags.DEFINE_multi(parser, serializer, name, default, text)
        return
    if is_list:
        parser, serializer = _List(parser), flags.CsvListSerializer(",")
    flags.DEFINE(parser, name, default, text, serializer=serializer)


class _List(flags.ListParser):
    """Parses values that are separated by commas, each with a parser."""

    def __init__(self, one: flags.ArgumentParser):
        super().__init__()
        self._one = one

    def parse(self, argument: Any) -> list:
        found = []
        for text in super().parse(argument):
            try:
                found.append(self._one.parse(text))
            except ValueError as error:
                raise ValueError(f"{text!r}: {error}") from error
        return found


# --- What is given -----------------------------------------------------------


def of(f: FlagValues, name: str) -> Declared:
    """Return what is declared of a flag; nothing if it is absl's own."""
    return getattr(f[name], "declared", Declared())


def is_given(f: FlagValues, name: str) -> bool:
    """Whether a flag is given, and not to leave its feature off (a 0)."""
    value, default = f[name].value, f[name].default
    is_number = isinstance(value, (int, float))
    if not value and (default is not None or not is_number):
        return False
    return f[name].present > 0 or value != default


def check(f: FlagValues) -> None:
    """Check numbers, what is required, needed, excluded, read and written.

    Flags get the values that others imply.

    Raises:
        UserError: names the flags.
    """
    for name in f:
        if is_given(f, name):
            for other, value in of(f, name).implies.items():
                if not is_given(f, other):
                    f[other].value = value
    for name in f:
        declared = of(f, name)
        with naming(f"flag --{name}={f[name].value}", ValueError):
            check_number(f[name], f[name].value)
        if not is_given(f, name):
            continue
        for other, why in declared.excludes.items():
            is_given_too = other in f and is_given(f, other)
            if is_given_too or "=" in other and _has_value(f, other):
                raise UserError(
                    f"give --{name} or --{other}, not both"
                    + (why and f": {why}")
                )
        for wanted, why in declared.needs.items():
            ways = wanted.split(" or ")
            if not any(_has_value(f, way) for way in ways):
                raise UserError(
                    f"--{name} needs --{' or --'.join(ways)}"
                    + "".join(_found(f, ways))
                    + (why and f": {why}")
                )
    for name in f:
        declared, value = of(f, name), f[name].value
        if declared.required and not value:
            raise UserError(f"--{name} is required")
        if declared.exists and is_given(f, name):
            for path in [value] if isinstance(value, str) else value:
                is_folder = file_system.is_directory(path)
                if declared.exists == "directory" and not is_folder:
                    raise UserError(f"--{name}={path} is not a directory")
                if not file_system.exists(path):
                    raise UserError(f"--{name}={path}: no such file")
        # Else it would be found when the work is done.
        if declared.is_output and value and cluster.is_chief():
            file_system.check_writable(value, name)


def check_number(own: flags.Flag, value: object) -> None:
    """Raise a ValueError for a number that no computation can take.

    absl's bounds let NaN pass, and infinity where there is no upper bound. A
    flag with a bound, such as a rate, has to be finite; one without any, such
    as a threshold, may be infinite. A whole number has 32 bits, unless the flag
    has a bound of its own: for most flags TensorFlow takes no larger number.
    """
    if type(value) is int and own.parser.upper_bound is None:
        if abs(value) >= 2**31:
            raise ValueError(f"wanted a whole number below {2**31:,}")
    if not isinstance(value, float) or math.isfinite(value):
        return
    bounds = own.parser.lower_bound, own.parser.upper_bound
    if math.isnan(value) or bounds != (None, None):
        raise ValueError("wanted a finite number")


def _has_value(f: FlagValues, condition: str) -> bool:
    """Whether a flag has a value that is not off, or that of "name=value"."""
    name, equals, wanted = condition.partition("=")
    value = f[name].value if name in f else None
    return str(value).lower() == wanted if equals else bool(value)


def _found(f: FlagValues, ways: Iterable[str]) -> Iterator[str]:
    """Yield what is found of the flags that should have another value."""
    for name in dict.fromkeys(w.partition("=")[0] for w in ways if "=" in w):
        if name in f and f[name].value:
            yield f", found --{name}={f[name].value}"


# --- Values ------------------------------------------------------------------


def read(cls: type[Value], f: FlagValues, **made: Any) -> Value:
    """Return the values of the fields that are flags of the script.

    `made` are values of other fields, or in place of those of flags.
    """
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    values = {x.name: f[x.name].value for x in fields if x.name in f}
    as_tuples = {n: tuple(v) for n, v in values.items() if isinstance(v, list)}
    return cls(**{**values, **as_tuples, **made})


def recorded(values: Any, resumed: str) -> dict[str, Any]:
    """Return {flag: value} of the flags with this `resumed`.

    That of an option that is off, a 0 by default, is None.
    """
    found = {}
    for field in dataclasses.fields(values):
        if field.metadata.get("flag", Declared()).resumed == resumed:
            value = getattr(values, field.name)
            is_off = value == field.default == 0 and value is not False
            found[field.name] = None if is_off else value
    return found
