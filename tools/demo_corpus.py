"""Make a small corpus of the English text in every Python installation.

The text is the reference manual (`pydoc_data.topics`) and the docstrings of
the standard library, without code, tables and markup. A topic or a module is a
document. The files have the form that create_pretraining_data.py reads: one
sentence per line, a blank line between documents.

Modules are parsed and never imported, since importing all of them would run
their code. The text differs a little between Python versions; one installation
always gives the same.
"""

import ast
import hashlib
import os
import pathlib
import re
import sysconfig
from collections.abc import Iterator, Sequence

from base import file_system
from base.errors import UserError

# Shorter documents are left out: next-sentence pairs need several sentences.
MIN_SENTENCES = 5

MIN_WORDS = 4  # in a sentence

HELD_OUT_SHARE = 10  # one document in so many is for evaluation only

# Folders with programs, tests or tables of codecs instead of documented
# modules, and installed packages.
_SKIPPED = re.compile(
    r"(site|dist)-packages|tests?$|idlelib|lib2to3|turtledemo|encodings"
    r"|ensurepip|__pycache__|config-|lib-dynload|pydoc_data"
)

# "* item", "- item", "3. item", "(a) item"
_BULLET = re.compile(r"^\s*([*+•-]|\(?[0-9a-z]{1,2}[.)])\s+")

# "-----" below a heading
_UNDERLINE = re.compile(r"^\s*([=\-~*^#+_.\"'`])\1{2,}[\s=+-]*$")

# "+----+", "| cell |", "===== ====="
_TABLE = re.compile(r"^\s*(\+[-=]|\||={3,}\s)")

# ">>> f(x)", "... more", ".. directive::", "$ command", "@decorator",
# ":param x:", and the "::=" of a grammar
_CODE = re.compile(r"^\s*(>>> ?|\.\.\. |\.\. |\$ |% |@\w|:\w+ ?\w*:)|::=")

# Signatures and definitions: "x = 1", "f(a, b) -> c", "name -- text"
_NOT_A_SENTENCE = re.compile(r"=|->|--|:|\(.*,.*\)")

# ":class:`collections.deque`" and ":func:`text <target>`"
_ROLE = re.compile(r":[\w:]+:`[~!]?([^`<]*)(?:<[^`]*>)?`")

# ``code``, *emphasis*, **strong**; not the * of a product
_MARKUP = re.compile(r"``?|(?<!\w)\*\*?(?=\w)|(?<=[\w.:])\*\*?(?!\w)")

# The end of a sentence: a mark before a capital, digit, opening quote or
# bracket, but not the period of an abbreviation or of an initial ("J. Smith").
_SENTENCE_END = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bcf)(?<!\bvs)(?<!\b[A-Z])"
    r"[.!?:][\"”')\]]*\s+(?=[\"“(\[]?[A-Z0-9_])"
)

_WORD = re.compile(r"[A-Za-z]{2,}|\b[aAI]\b")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the prose in a docstring or a manual page.

    A paragraph that reads like code, a table or a heading yields nothing.
    """
    for paragraph in filter(_is_prose, _paragraphs(text)):
        for sentence in _SENTENCE_END.sub("\\g<0>\n", paragraph).split("\n"):
            yield sentence.strip()


def _paragraphs(text: str) -> Iterator[str]:
    """Yield each paragraph and list item as one line without markup.

    Headings are left out, and paragraphs with code or tables.
    """
    lines: list[str] = []
    for line in [*text.expandtabs().splitlines(), ""]:
        is_heading = _UNDERLINE.match(line)  # it underlines
        is_break = not line.strip() or is_heading
        if is_break or _BULLET.match(line):
            if lines and not is_heading and not any(map(_is_code, lines)):
                joined = " ".join([_BULLET.sub("", lines[0]), *lines[1:]])
                joined = _MARKUP.sub("", _ROLE.sub(r"\1", joined))
                yield " ".join(joined.split())
            lines = []
        if not is_break:
            lines.append(line)


def _is_code(line: str) -> bool:
    return bool(_CODE.search(line) or _TABLE.match(line))


def _is_prose(paragraph: str) -> bool:
    """Return whether a paragraph is mostly words and ends like a sentence."""
    words = _WORD.findall(paragraph)
    share = sum(map(len, words)) / max(1, len(paragraph.replace(" ", "")))
    if len(words) < MIN_WORDS or share < 0.6:
        return False
    if paragraph.rstrip("\"”')]")[-1:] in (".", "!", "?", ":"):
        return True
    # Many one-line docstrings lack the period.
    return (
        share > 0.75
        and len(words) > MIN_WORDS
        and paragraph[0].isupper()
        and paragraph[-1].isalnum()
        and not _NOT_A_SENTENCE.search(paragraph)
    )


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings in a module's source, in their order."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, kinds)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    yield from filter(None, map(ast.get_docstring, nodes))


def _raw_documents() -> Iterator[tuple[str, list[str]]]:
    """Yield (name, texts) for every topic and every module."""
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise UserError(
            "this Python has no pydoc_data.topics, the demo's corpus; install "
            "the full Python (Debian: python3, not python3-minimal)"
        ) from error
    for name in sorted(topics):
        yield f"manual:{name}", [topics[name]]
    root = sysconfig.get_paths()["stdlib"]
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not _SKIPPED.search(f))
        for file in sorted(f for f in files if f.endswith(".py")):
            path = os.path.join(folder, file)
            name = os.path.relpath(path, root)[:-3].replace(os.sep, ".")
            try:
                texts = list(docstrings(pathlib.Path(path).read_text("utf-8")))
            except (UnicodeDecodeError, SyntaxError):
                continue  # a template or a test of the parser
            yield name.removesuffix(".__init__"), texts


def documents() -> dict[str, list[str]]:
    """Return {name: sentences} of every document.

    A sentence is kept only once in the whole corpus, regardless of case:
    docstrings are copied from class to class, and a held-out sentence that is
    also in a training document would be easier than an unseen one.
    """
    seen: set[str] = set()
    result = {}
    for name, texts in _raw_documents():
        kept = []
        for sentence in (s for text in texts for s in sentences(text)):
            key = sentence.lower()
            if len(_WORD.findall(sentence)) >= MIN_WORDS and key not in seen:
                seen.add(key)
                kept.append(sentence)
        if len(kept) >= MIN_SENTENCES:
            result[name] = kept
    return result


def is_held_out(name: str) -> bool:
    """Return whether a document is for evaluation: one in HELD_OUT_SHARE.

    The choice depends on the name alone, so that a document stays on its side
    when others are added.
    """
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT_SHARE == 0


def write(path: str, texts: Sequence[Sequence[str]]) -> None:
    """Write documents in the form that create_pretraining_data.py reads."""
    content = "".join("\n".join(text) + "\n\n" for text in texts)
    file_system.write_text(path, content)
