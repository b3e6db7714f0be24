"""Read README.md, CONTRIBUTING.md and docs/: blocks, commands, links, trees.

The functions return lists of problems, one line each with path:line, so that
a test can show all of them at once and prove that a bad page is found.
"""

import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import scripts
from absl import flags
from paths import ROOT

_FENCE = re.compile(r"^ *```(\S*)\s*$")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")
_SCRIPT = re.compile(r"tools\.|.*\.py$")
_SOURCE = re.compile(r"`((?:\w+/)*(?!__init__)\w+\.py)`")
_TEST = re.compile(r"`(test_[a-z0-9]+_\w+)`")  # not the flag test_file
_PLACE = re.compile(r"--\w*(?:dir|dirs|file|input|output|checkpoint)=(.*)")
_NUMBER = re.compile(r"\d[\d,.:]*\d|\d")
_LOG_PREFIX = r"(?:N )?(?:WARNING: )?"  # the time of a masked log line


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    first: int  # number of its first line
    lines: list[str]


class Command(NamedTuple):
    """A command of an sh block, its continued lines joined."""

    line: int
    text: str


def all_pages() -> list[Path]:
    """Return every page whose text the tests check."""
    names = ("README.md", "CONTRIBUTING.md")
    own = [ROOT / name for name in names]
    own += [ROOT / "CHANGELOG.md", ROOT / "tests" / "README.md"]
    return [*own, *sorted((ROOT / "docs").rglob("*.md"))]


def place_of(page: Path, line: int) -> str:
    """Return path:line, the path relative to the checkout if it is in it."""
    if page.is_relative_to(ROOT):
        page = page.relative_to(ROOT)
    return f"{page}:{line}"


# --- Blocks and prose --------------------------------------------------------


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    found: list[Block] = []
    is_open = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and not is_open:
            found.append(Block(fence[1], number + 1, []))
        elif is_open and not fence:
            found[-1].lines.append(line)
        is_open = is_open != bool(fence)
    return found


def prose(page: Path) -> list[tuple[int, str]]:
    """Return (number, line) of every line outside of fenced blocks."""
    lines = page.read_text("utf-8").splitlines()
    fenced = {
        block.first - 1 + offset
        for block in blocks(page)
        for offset in range(len(block.lines) + 2)
    }
    return [
        (number, line)
        for number, line in enumerate(lines, 1)
        if number not in fenced
    ]


# --- Commands ----------------------------------------------------------------


def commands_in(block: Block) -> list[Command]:
    """Join lines that end in a backslash or within quotes."""
    found, begun = [], ""
    first = block.first
    for number, line in enumerate(block.lines, block.first):
        if not begun:
            first = number
        if line.endswith("\\"):
            begun += line[:-1] + " "
            continue
        text = (begun + line).strip()
        begun = f"{text} " if _is_within_quotes(text) else ""
        if begun:
            continue
        if text and not text.startswith("#"):
            found.append(Command(first, text))
    if begun:
        found.append(Command(first, begun.strip().rstrip("\\") + " \\"))
    return found


def _is_within_quotes(text: str) -> bool:
    """Return whether a shell line ends within a quoted string."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def sh_commands(page: Path) -> Iterator[Command]:
    """Yield every command of the page's sh blocks."""
    for block in blocks(page):
        if block.language == "sh":
            yield from commands_in(block)


def simple_commands(text: str) -> list[list[str]]:
    """Split a shell line into the argument lists of its commands."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found: list[list[str]] = [[]]
    for token in lexer:
        if set(token) <= set("|&;<>"):
            found.append([])
        else:
            found[-1].append(token)
    return [arguments for arguments in found if arguments]


def command_problems(page: Path) -> list[str]:
    """Return what is wrong with the commands of a page."""
    found = []
    for command in sh_commands(page):
        place = place_of(page, command.line)
        if command.text.endswith("\\"):
            found.append(
                f"{place}: the last line ends in a backslash or within quotes"
            )
            continue
        for arguments in simple_commands(command.text):
            problem = _problem_of(arguments)
            if problem:
                found.append(f"{place}: {problem}")
    return found


def _problem_of(arguments: Sequence[str]) -> str | None:
    """Check one command: a python script with its flags, or a make target."""
    while arguments and re.match(r"[A-Z_]+=", arguments[0]):
        arguments = arguments[1:]  # variables set for this command
    if arguments[:1] == ["make"]:
        targets = re.findall(
            r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M
        )
        wrong = [a for a in arguments[1:] if "=" not in a and a not in targets]
        return f"make has no target {wrong[0]}" if wrong else None
    if not arguments or Path(arguments[0]).name != "python":
        return None
    script = next((a for a in arguments[1:] if _SCRIPT.match(a)), None)
    if script is None:
        return None  # python -m pytest, python -c
    name = script.removesuffix(".py")
    if not (ROOT / scripts.path_of(name)).is_file():
        return f"there is no {script}"
    if name not in scripts.names():
        return None  # it has no flags
    arguments = arguments[arguments.index(script) + 1 :]
    return flag_problem(name, arguments) or _folder_problem(arguments)


def _folder_problem(arguments: Sequence[str]) -> str | None:
    """Refuse data in a package: `--output_dir=squad` would fill squad/."""
    for place in filter(None, map(_PLACE.fullmatch, arguments)):
        for path in place[1].split(","):
            first = path.split("/")[0]
            if (ROOT / first / "__init__.py").exists():
                return f"{place[0]} is in the package {first}/"
    return None


def flag_problem(name: str, arguments: Sequence[str]) -> str | None:
    """Parse a script's arguments as absl does; return its complaint."""
    own = scripts.load(name).FLAGS
    # absl's own, such as --verbosity, are in the registry of the process.
    shared = {f"--{flag}" for flag in flags.FLAGS} | {"--help", "--helpfull"}
    mine = [a for a in arguments if a.split("=")[0] not in shared]
    try:
        left = own([name, *mine])[1:]
    except flags.Error as error:
        return f"{name}.py: {' '.join(str(error).split())}"
    finally:
        own.unparse_flags()
        for flag in own:
            own[flag].unparse()
    return f"{name}.py: unexpected argument {left[0]!r}" if left else None


# --- Links, names, trees -----------------------------------------------------


def anchor_of(heading: str) -> str:
    """Return the anchor GitHub gives to a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


@functools.cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    return {
        anchor_of(line.lstrip("#"))
        for _, line in prose(page)
        if line.startswith("#")
    }


def link_problems(page: Path) -> list[str]:
    """Return relative links and anchors that lead nowhere."""
    found = []
    for number, line in prose(page):
        for target in _LINK.findall(_CODE.sub("``", line)):
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, anchor = target.partition("#")
            other = (page.parent / path).resolve() if path else page
            if not other.exists():
                problem = "does not exist"
            elif anchor and anchor not in anchors(other):
                problem = "has no such heading"
            else:
                continue
            found.append(f"{place_of(page, number)}: {target} {problem}")
    return found


def name_problems(page: Path, names: set[str]) -> list[str]:
    """Return source files and tests a page names that do not exist.

    Args:
        page: `package/module.py` and `test_behaviour` are looked for in it.
        names: of all tests.
    """
    found = []
    for number, line in prose(page):
        place = place_of(page, number)
        for path in _SOURCE.findall(line):
            if not (ROOT / path).is_file():
                found.append(f"{place}: there is no {path}")
        for name in _TEST.findall(line):
            if name not in names:
                found.append(f"{place}: there is no test {name}")
    return found


@functools.cache
def test_names() -> set[str]:
    """Return the names of all tests of the project."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"^ *def (test_\w+)", path.read_text(), re.M))
    return found


def tree_entries(page: Path) -> dict[str, int]:
    """Return {name: level} of the lines of a page's tree block.

    A line is a level, a name (a folder ends in a slash), and what it owns.
    """
    found = {}
    for block in blocks(page):
        if block.language == "tree":
            for line in block.lines:
                match = re.match(r"(\d)  (\S+)\s{2,}\S", line)
                if match:
                    found[match[2]] = int(match[1])
    return found


# --- What commands print -----------------------------------------------------


def masked(line: str) -> str:
    """Replace numbers by N and runs of spaces by one, to compare outputs.

    "step 1,200/9,000 (13.3%)   loss 5.33" is "step N/N (N%) loss N".
    """
    return " ".join(_NUMBER.sub("N", line).split())


def unprinted(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Return the lines a page shows that a command did not print in order.

    Numbers and the prefix of log lines may differ; "..." stands for any text,
    alone for any lines.
    """
    left = iter([masked(line) for line in printed])
    missing = []
    for line in shown:
        wanted = masked(line)
        if wanted in ("", "..."):
            continue
        pattern = ".*".join(map(re.escape, wanted.split("...")))
        pattern = _LOG_PREFIX + pattern
        rest = list(left)
        place = next(
            (i for i, text in enumerate(rest) if re.fullmatch(pattern, text)),
            None,
        )
        if place is None:
            missing.append(line)
            left = iter(rest)
        else:
            left = iter(rest[place + 1 :])
    return missing
