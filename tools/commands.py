"""Commands as a shell takes them."""

import shlex
from collections.abc import Sequence


def shell_lines(words: Sequence[str], width: int) -> str:
    """Return a command for a shell, broken into lines.

    Args:
        words: interpreter, script, flags. A flag that is longer than a line is
            not broken.
        width: characters of a line.
    """
    first, second, *rest = map(shlex.quote, words)
    lines = [f"{first} {second}"]
    for word in rest:
        # The end of a line needs two more columns, for " \\".
        if len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return " \\\n".join(lines)
