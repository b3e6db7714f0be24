"""TriviaQA's own files to SquadExamples: training by distant supervision.

The paper fine-tunes on TriviaQA before SQuAD (section 4.2): of each evidence
document the first 400 tokens, where they contain one of the answers. Nobody
marked answers there; the first place where an alias stands is taken for one.
"""

import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system
from base.errors import UserError

import tqdm
from absl import logging

from squad.data import SquadData, SquadExample, item, make_paragraph, read_json

# Where a question lists its documents, and in which folder those are.
_SOURCES = {"EntityPages": "wikipedia", "SearchResults": "web"}

_item = functools.partial(item, of="TriviaQA")


def read_triviaqa(
    files: Sequence[str], evidence_dir: str, max_tokens: int = 400
) -> SquadData:
    """Read questions with their documents; one example per document.

    Args:
        files: `wikipedia-train.json` and the like.
        evidence_dir: holds `wikipedia/` and `web/`, texts as unpacked.
        max_tokens: words of a document that are read.

    Raises:
        UserError: not TriviaQA's format, or no document has an answer.
    """
    data = SquadData([], [])
    counts = dict.fromkeys(("documents", "missing", "without"), 0)
    for path in files:
        questions = _item(read_json(path), "Data", list, path)
        bar = tqdm.tqdm(questions, unit=" questions", disable=None)
        for at, question in enumerate(bar):
            _add(
                data,
                counts,
                question,
                f"{path}: Data[{at}]",
                evidence_dir,
                max_tokens,
            )
    logging.info(
        "TriviaQA: %d examples of %d documents; %d have no answer in their "
        "first %d words",
        len(data.examples),
        counts["documents"],
        counts["without"],
        max_tokens,
    )
    if counts["missing"]:
        logging.warning(
            "%d documents are not in %s, or name no file",
            counts["missing"],
            evidence_dir,
        )
    if not data.examples:
        raise UserError(
            f"{', '.join(files)}: no document with an answer in its first "
            f"{max_tokens} words ({counts['missing']} of "
            f"{counts['documents']} documents are not in "
            f"--triviaqa_evidence_dir={evidence_dir})"
        )
    return data


def _add(
    data: SquadData,
    counts: dict[str, int],
    question: Any,
    where: str,
    evidence_dir: str,
    max_tokens: int,
) -> None:
    """Add one question's examples."""
    text = _item(question, "Question", str, where)
    number = _item(question, "QuestionId", str, where)
    answer = _item(question, "Answer", dict, where)
    pattern = _aliases(answer, f"{where}.Answer")
    for place in _documents(question, where):
        counts["documents"] += 1
        document = place and _read(f"{evidence_dir.rstrip('/')}/{place}")
        if document is None:
            counts["missing"] += 1
            continue
        example = find_answer(document, pattern, max_tokens)
        if example is None:
            counts["without"] += 1
            continue
        context, answer = example
        paragraph = make_paragraph(context)
        ends = [answer.start(), answer.end() - 1]
        words = paragraph.starts.searchsorted(ends, "right") - 1
        data.paragraphs.append(paragraph)
        data.examples.append(
            SquadExample(
                f"{number}--{place}",
                text,
                len(data.paragraphs) - 1,
                (answer.group(),),
                answer.group(),
                *words.tolist(),
            )
        )


def _aliases(answer: dict, where: str) -> re.Pattern:
    """Return a pattern of all forms of an answer, longer ones first."""
    aliases = []
    if answer.get("Aliases") is not None:
        aliases = _item(answer, "Aliases", list, where)
    found = [_item(answer, "Value", str, where), *aliases]
    for alias in found:
        if not isinstance(alias, str):
            raise UserError(f"{where}.Aliases holds {alias!r}, wanted texts")
    forms = sorted({f.strip() for f in found if f.strip()}, key=len)[::-1]
    if not forms:
        raise UserError(f"{where}: neither Value nor Aliases say anything")
    words = [r"\s+".join(map(re.escape, form.split())) for form in forms]
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)


def _documents(question: dict, where: str) -> Iterator[str | None]:
    """Yield the question's documents as paths inside of evidence_dir.

    Some entries name no file: None.
    """
    for source, folder in _SOURCES.items():
        if question.get(source) is None:
            continue
        documents = _item(question, source, list, where)
        for number, document in enumerate(documents):
            place = f"{where}.{source}[{number}]"
            name = None
            if not isinstance(document, dict) or document.get("Filename"):
                name = _item(document, "Filename", str, place)
            yield f"{folder}/{name}" if name and "\0" not in name else None


def find_answer(
    document: str, pattern: re.Pattern, max_tokens: int
) -> tuple[str, re.Match] | None:
    """Return a document's beginning and where its first answer stands."""
    words = make_paragraph(document)
    if not len(words.starts):
        return None
    last = min(max_tokens, len(words.starts)) - 1
    context = document[: words.ends[last]]
    match = pattern.search(context)
    return (context, match) if match else None


def evidence_in(evidence_dir: str) -> dict[str, str]:
    """Return a checksum of the documents' names in each folder, and sizes.

    So that records made of half of the evidence are not taken for those of
    all of it. Remote files are known by their names alone: asking each for
    its size would take hours.
    """
    found = {}
    for folder in _SOURCES.values():
        path = f"{evidence_dir.rstrip('/')}/{folder}"
        lines = sorted(
            f"{name} {size}" for name, size in file_system.files_below(path)
        )
        digest = hashlib.sha256("\n".join(lines).encode("utf-8", "replace"))
        found[folder] = digest.hexdigest()
    return found


def _read(path: str) -> str | None:
    """Return a document's text, None where there is none."""
    try:
        with file_system.open_for_reading(path) as file:
            return file.read().decode("utf-8", "replace")
    except UserError:
        return None
