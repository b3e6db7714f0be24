"""Flags that are declared as fields: definition, checks, values."""

import dataclasses

from base import flags as declared_flags
from base.errors import UserError
from base.flags import flag

import pytest
from absl import flags


@dataclasses.dataclass(frozen=True)
class Settings:
    """All kinds of flags."""

    rate: float = flag(0.5, 0, 1, resumed="fixed")
    """Peak {what}."""

    layers: int = flag(0, low=0, needs={"rate": "why"}, resumed="fixed")
    """Number of layers,
    which has two lines."""

    sizes: tuple[int, ...] = flag((), low=1)
    """Sizes."""

    names: tuple[str, ...] = flag(())
    """Names."""

    threshold: float = flag(0.0)
    """Without bounds it may be infinite."""

    kind: str | None = flag(choices=("a", "b"))
    """Kind."""

    cased: bool | None = flag(excludes={"kind=a": "a is uncased"})
    """Case."""

    units: int = flag(8, low=1, needs={"layers or kind=b": ""})
    """Units of a layer."""

    folder: str | None = flag(exists="directory", is_output=True, alias="o")
    """Folder."""

    made: str = "made"


@pytest.fixture
def f(monkeypatch) -> flags.FlagValues:
    """Flags of Settings, with one default of the script's own."""
    values = flags.FlagValues()
    for name in dir(flags):
        if name.startswith("DEFINE"):
            own = getattr(flags, name)

            def define(*args, own=own, **more):
                return own(*args, flag_values=values, **more)

            monkeypatch.setattr(flags, name, define)
    monkeypatch.setattr(flags, "FLAGS", values)
    declared_flags.define(
        Settings,
        required=["rate"],
        defaults={"rate": 0.25},
        words={"what": "rate"},
    )
    values(["script"])
    return values


def test_a_field_is_a_flag(f):
    assert f["rate"].help == "Peak rate." and f.rate == 0.25
    assert f["layers"].help == "Number of layers, which has two lines."
    assert "made" not in f
    f(["x", "--sizes=1,20", "--names=a,b", "--cased", "--kind=b", "--o=p"])
    found = declared_flags.read(Settings, f, made="here")
    assert found == Settings(
        *(0.25, 0, (1, 20), ("a", "b"), 0.0, "b", True),
        folder="p",
        made="here",
    )
    assert declared_flags.of(f, "folder").is_output
    assert declared_flags.of(f, "folder").place == __file__


@pytest.mark.parametrize(
    "argument", ["--rate=2", "--sizes=0", "--sizes=1,x", "--sizes=9999999999"]
)
def test_values_out_of_bounds_are_refused(f, argument):
    with pytest.raises(flags.IllegalFlagValueError, match=argument[:6]):
        f(["x", argument])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--layers=0"], None),  # off
        (["--layers=2"], None),
        (["--layers=2", "--rate=0"], "--layers needs --rate: why"),
        (["--units=8"], "--units needs --layers or --kind=b"),
        (["--units=8", "--kind=b"], None),
        (["--units=8", "--kind=a"], "--layers or --kind=b, found --kind=a"),
        (
            ["--kind=a", "--nocased"],
            "give --cased or --kind=a, not both: a is uncased",
        ),
        (["--rate=0"], "--rate is required"),
        (["--rate=nan"], "flag --rate=nan: wanted a finite number"),
        (["--threshold=nan"], "flag --threshold=nan: wanted a finite number"),
        (["--threshold=-inf"], None),
        (["--folder=/nowhere"], "--folder=/nowhere is not a directory"),
    ],
)
def test_what_flags_need_and_exclude(f, arguments, message):
    f(["x", *arguments])
    if not message:
        declared_flags.check(f)
        return
    with pytest.raises(UserError) as error:
        declared_flags.check(f)
    assert message in str(error.value)


def test_what_a_run_records():
    """An option that is off by default is None."""
    recorded = declared_flags.recorded(Settings(rate=0.0), "fixed")
    assert recorded == {"rate": 0.0, "layers": None}
