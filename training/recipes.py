"""Recipes: files with the values of flags, such as recipes/small_budget.flags.

A line is `--name=value`, as in a file of absl's --flagfile; lines that begin
with # are comments.
"""

from pathlib import Path

from base import errors
from base.errors import UserError

from absl import flags, logging

FOLDER = Path(__file__).parents[1] / "recipes"


def apply(f: flags.FlagValues, recipe: str) -> None:
    """Set the flags that a recipe names, and log them.

    A flag of the command line keeps its value. The others do not count as
    given (`present`), as if the recipe had changed their defaults.

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
        names = ", ".join(sorted(found.stem for found in FOLDER.iterdir()))
        raise UserError(
            f"--recipe={recipe}: no such recipe or file; the recipes are "
            f"{names}"
        )
    try:
        lines = f.read_flags_from_files([f"--flagfile={path}"])
    except (flags.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no recipe: {error}") from error
    taken, kept = [], []
    for line in lines:
        name, _, value = line.removeprefix("--").partition("=")
        if name not in f:
            raise UserError(f"{path}: {line!r} is no flag of this script")
        flag = f[name]
        if flag.present:
            kept.append(flag.serialize())
            continue
        try:
            flag.value = flag.parser.parse(value)
            errors.check_number(flag, flag.value)
        except ValueError as error:
            raise UserError(f"{path}: {line}: {error}") from error
        taken.append(line)
    logging.info("--recipe=%s sets %s", recipe, " ".join(taken))
    if kept:
        logging.info("In the command is %s instead", " ".join(kept))
