"""Small dumps and texts, and runs of prepare_corpus.py on them."""

import collections
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

import scripts
from paths import GOLDEN

from corpus import documents, reading
from corpus.documents import Document
from corpus.items import CorpusFlags, Item, Problem, Unusable

ENGLISH = GOLDEN / "corpus" / "enwiki-10-pages.xml.bz2"
CHINESE = GOLDEN / "corpus" / "zhwiki-1-page.xml.bz2"

script = scripts.load("prepare_corpus")

HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-{version}/"
 version="{version}" xml:lang="{language}">
  <siteinfo><sitename>Wikipedia</sitename><namespaces>
    <namespace key="-1" case="first-letter">Spezial</namespace>
    <namespace key="0" case="first-letter" />
    <namespace key="6" case="first-letter">Datei</namespace>
  </namespaces></siteinfo>
"""


def page(title: str, text: str, namespace: int = 0, more: str = "") -> str:
    """Return the XML of a page; `text` is XML too."""
    return (
        f"  <page><title>{title}</title><ns>{namespace}</ns><id>7</id>{more}"
        f"<revision><id>8</id><text>{text}</text></revision></page>\n"
    )


def dump(
    pages: Iterable[str], language: str = "en", version: str = "0.11"
) -> str:
    """Return the XML of a dump."""
    header = HEADER.format(language=language, version=version)
    return header + "".join(pages) + "</mediawiki>\n"


def article(number: int) -> str:
    """Return the text of an article that no other number has."""
    return (
        f"The river number {number} flows through the valley of the town. "
        f"It is {number} miles long and has many bridges."
    )


def dump_of(number: int) -> str:
    """Return the XML of a dump of articles."""
    return dump(page(f"River {n}", article(n)) for n in range(1, number + 1))


def settings(**more) -> CorpusFlags:
    """Return settings of English text; `more` are replaced."""
    return CorpusFlags(**{"language": "en"} | more)


def items_of(path: pathlib.Path, **more) -> list[Item]:
    """Return the items of a file."""
    return [i for i, _ in reading.read_items(str(path), settings(**more))]


class Outcome(NamedTuple):
    """What becomes of an item: a document, what is counted, a problem."""

    document: Document | None
    counts: collections.Counter[str]
    problem: Problem | None = None


def outcome_of(item: Item, flags: CorpusFlags) -> Outcome:
    """Return what becomes of an item."""
    counts, problem = collections.Counter(), item.problem
    try:
        if not problem:
            document = documents.make_document(item, flags, counts)
            return Outcome(document, counts)
    except Unusable as error:
        problem = item.unusable(*error.args).problem
    return Outcome(None, counts, problem)


def outcomes_of(path: pathlib.Path, **more) -> list[Outcome]:
    """Return what becomes of the items of a file."""
    flags = settings(**more)
    return [outcome_of(item, flags) for item in items_of(path, **more)]


def texts_of(path: pathlib.Path, **more) -> list[str]:
    """Return the texts of the documents of a file, in its order."""
    found = [outcome.document for outcome in outcomes_of(path, **more)]
    return [document.text.decode() for document in found if document]


def problems_of(path: pathlib.Path, **more) -> list[str]:
    """Return the lines of a file's problems, with "F" for its path."""
    found = [outcome.problem for outcome in outcomes_of(path, **more)]
    return [p.line().replace(str(path), "F") for p in found if p]


def flags_for(inputs, output: pathlib.Path, **more) -> dict:
    """Return flags of a short run; `more` are added or replaced."""
    return {
        "input_file": str(inputs),
        "output_dir": str(output),
        "num_shards": 2,
        "num_workers": 1,
        **more,
    }


def run(inputs, output: pathlib.Path, **more) -> int | None:
    """Run the script in this process."""
    return scripts.run(script, **flags_for(inputs, output, **more))


def error_of(inputs, output: pathlib.Path, **more) -> str:
    """Run with bad flags or input and return the error line."""
    return scripts.error_of(script, **flags_for(inputs, output, **more))


def bytes_of(folder: pathlib.Path) -> dict[str, bytes]:
    """Return relative path -> content of the text files and corpus.json."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
