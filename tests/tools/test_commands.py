"""Commands as a shell takes them."""

import subprocess

from tools import commands


def test_printed_commands_can_be_pasted_into_a_shell():
    arguments = ["python", "x.py", *(f"--flag_{n}=a b'c" for n in range(20))]
    text = commands.shell_lines(arguments, 100)
    assert text.startswith("python x.py ")
    lines = text.splitlines()
    assert len(lines) > 3 and max(map(len, lines)) <= 100
    command = text.replace("python", r"printf '%s\n'", 1)
    printed = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines() == arguments[1:]
