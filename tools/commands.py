"""Write commands for a shell."""

import shlex
from collections.abc import Sequence

_WIDTH = 80  # characters of a line


def shell_lines(words: Sequence[str]) -> str:
    """Return a command for a shell, broken into lines.

    Args:
        words: interpreter, script, flags. A flag that is longer than a line is
            not broken.
    """
    words = [shlex.quote(word) for word in words]
    lines = [" ".join(words[:3])]  # never a script without a flag
    for word in words[3:]:
        # The end of a line needs two more columns, for " \\".
        if len(lines[-1]) + len(word) + 3 <= _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return " \\\n".join(lines)
