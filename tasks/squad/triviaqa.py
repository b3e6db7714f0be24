"""Read TriviaQA's files into examples to train on, by distant supervision.

The paper fine-tunes on TriviaQA before SQuAD (section 4.2), on the first 400
tokens of each evidence document if they contain one of the answers. TriviaQA
names the answers of a question and the documents that may contain them, not
the places: the first occurrence of an answer or alias is taken as the place.

    wikipedia-train.json  {"Data": [{"QuestionId": ..., "Question": ...,
                            "Answer": {"Value": ..., "Aliases": [...]},
                            "EntityPages": [{"Filename": "A.txt"}, ...],
                            "SearchResults": [{"Filename": "7/7_1.txt"}]}]}
    evidence_dir          wikipedia/A.txt, web/7/7_1.txt
"""

import contextlib
import functools
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system, progress, tables, text_files
from base.errors import UserError

from absl import logging

from tasks.squad.data import Paragraph, SquadData, SquadExample, make_paragraph

# Key under which a question lists documents -> folder of those documents.
_SOURCES = {"EntityPages": "wikipedia", "SearchResults": "web"}

MAX_WORDS = 400  # of a document, as in the paper

_require = functools.partial(tables.require, hint=": not in TriviaQA's format")


def read_triviaqa(files: Sequence[str], evidence_dir: str) -> SquadData:
    """Return one example per question and document that contains an answer.

    Of each document the first MAX_WORDS words are read.
    """
    data, counts = SquadData([], []), Counter()
    for path in files:
        questions = _require(text_files.read_json(path), "Data", list, path)
        with progress.Bar(len(questions), "questions", "Reading") as bar:
            for at, question in enumerate(questions):
                where = f"{path}: Data[{at}]"
                _add_question(data, counts, question, where, evidence_dir)
                bar.update(1)
    logging.info(
        "TriviaQA: %d examples of %d documents; %d have no answer in their "
        "first %d words",
        len(data.examples),
        counts["documents"],
        counts["without"],
        MAX_WORDS,
    )
    if counts["missing"]:
        logging.warning(
            "%d documents are not in %s, or have no Filename",
            counts["missing"],
            evidence_dir,
        )
    if not data.examples:
        raise UserError(
            f"{', '.join(files)}: no document with an answer in its first "
            f"{MAX_WORDS} words ({counts['missing']} of "
            f"{counts['documents']} documents are not in "
            f"--triviaqa_evidence_dir={evidence_dir})"
        )
    return data


def _add_question(
    data: SquadData,
    counts: Counter,
    question: Any,
    where: str,
    evidence_dir: str,
) -> None:
    """Add one question's examples to `data`, and count its documents."""
    text = _require(question, "Question", str, where)
    number = _require(question, "QuestionId", str, where)
    answer = _require(question, "Answer", dict, where)
    pattern = _alias_pattern(answer, f"{where}.Answer")
    for name, document in _documents(question, where, evidence_dir):
        counts["documents"] += 1
        if document is None:
            counts["missing"] += 1
            continue
        _, starts, ends = make_paragraph(document)
        starts, ends = starts[:MAX_WORDS], ends[:MAX_WORDS]
        context = document[: ends[-1]] if len(ends) else ""
        match = pattern.search(context)
        if not match:
            counts["without"] += 1
            continue
        data.paragraphs.append(Paragraph(context, starts, ends))
        data.examples.append(
            SquadExample(
                f"{number}--{name}",
                text,
                len(data.paragraphs) - 1,
                (match.group(),),
                match.span(),
            )
        )


def _alias_pattern(answer: dict, where: str) -> re.Pattern:
    """Return a pattern that matches every form of an answer as whole words.

    Longer forms come first: of "Ann" and "Ann Lee" the pattern finds
    "Ann Lee" where both match at the same place.
    """
    found = [_require(answer, "Value", str, where)]
    if answer.get("Aliases") is not None:
        found += tables.require_strings(answer, "Aliases", where)
    # A pattern takes the first alternative that matches, hence the order.
    forms = sorted({f.strip() for f in found if f.strip()}, key=len)[::-1]
    if not forms:
        raise UserError(f"{where}: Value and Aliases are empty")
    # Any white space matches any other: documents are broken into lines.
    words = [r"\s+".join(map(re.escape, form.split())) for form in forms]
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)


def _documents(
    question: dict, where: str, evidence_dir: str
) -> Iterator[tuple[str, str | None]]:
    """Yield the path inside evidence_dir and the text of each document.

    The text is None where there is no such file. TriviaQA's files contain
    entries without a Filename, too.
    """
    for source, folder in _SOURCES.items():
        if question.get(source) is None:
            continue
        entries = _require(question, source, list, where)
        for number, entry in enumerate(entries):
            place, name, text = f"{where}.{source}[{number}]", "", None
            if not isinstance(entry, dict) or entry.get("Filename"):
                name = _require(entry, "Filename", str, place)
            if ".." in name.split("/"):
                raise UserError(
                    f"{place}.Filename is {name!r}, which leads out of "
                    "--triviaqa_evidence_dir: wanted the path of a file in "
                    f"{folder}/"
                )
            path = f"{os.path.join(evidence_dir, folder)}/{name}"
            # A UserError, or that of open() for "\0" or "\ud800" in a path.
            with (
                contextlib.suppress(ValueError),
                file_system.reading(path) as f,
            ):
                text = f.read().decode("utf-8", "replace")
            yield f"{folder}/{name}", text


def evidence_in(evidence_dir: str) -> dict[str, str]:
    """Return a checksum of the documents' names and sizes in each folder.

    It is part of the fingerprint of the training records: they are made again
    once more documents have been unpacked. Remote files count by name alone,
    since asking for the size of each would take hours.
    """
    found = {}
    for folder in _SOURCES.values():
        files = file_system.files_below(os.path.join(evidence_dir, folder))
        lines = sorted(f"{name} {size}" for name, size in files)
        digest = hashlib.sha256("\n".join(lines).encode("utf-8", "replace"))
        found[folder] = digest.hexdigest()
    return found
