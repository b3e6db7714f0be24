"""Recipes: files with the values of flags, such as recipes/small_budget.flags.

A line is `--name=value`; lines that begin with # are comments. The lines act as
if they stood in the command, but what the command itself says wins.
"""

from pathlib import Path

from base import logs
from base.errors import UserError, naming
from base.flags import check_number, of

from absl import flags

FOLDER = Path(__file__).parents[1] / "recipes"


def apply(f: flags.FlagValues, recipe: str) -> None:
    """Set the flags that a recipe names, and log them.

    A flag that the command gives keeps its value. So does one that cannot be
    given together with a flag of the command.

    Args:
        f: the flags of a script, parsed.
        recipe: the name of a file in recipes/, or the path of another one.

    Raises:
        UserError: there is no such file, or it has a line that is no flag of
            the script, or a value that the flag does not take.
    """
    path = FOLDER / f"{recipe}.flags"
    if not path.is_file():
        path = Path(recipe)
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in FOLDER.iterdir()))
        raise UserError(
            f"--recipe={recipe}: no such recipe or file; the recipes are "
            f"{names}"
        )
    with naming(f"{path} is no recipe", (flags.Error, UnicodeDecodeError)):
        lines = f.read_flags_from_files([f"--flagfile={path}"])
    # The value tells of a flag that was given by its alias, such as --output.
    given = {n for n in f if f[n].present or f[n].value != f[n].default}
    exclusive = [{n, other} for n in f for other in of(f, n).excludes]
    taken, kept = [], []
    for line in lines:
        name, equals, value = line.removeprefix("--").partition("=")
        if not equals or name not in f:
            raise UserError(
                f"{path}: wanted --name=value with a flag of this script; "
                f"found {line!r}"
            )
        others = [pair for pair in exclusive if name in pair]
        if wins := given & {name, *(n for pair in others for n in pair)}:
            kept += [f[n].serialize() for n in sorted(wins)]
            continue
        with naming(f"{path}: {line}", (flags.Error, ValueError)):
            f[name].parse(value)
            check_number(f[name], f[name].value)
        taken.append(line)
    logs.say("--recipe=%s sets %s", recipe, " ".join(taken))
    if kept:
        logs.say("In the command is %s instead", " ".join(kept))
