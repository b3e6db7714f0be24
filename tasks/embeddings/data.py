"""Read pairs of texts, their scores or labels, and collections to search.

Rows are those of a .tsv without quotes, a .csv or .jsonl, or the lines of a
.txt. The first text of a row is the anchor, the second its positive, a text of
like meaning; the others, and the items of a list in JSON, are hard negatives:

    {"anchor": "how tall is it", "positive": "Its height is ...",
     "negative": ["It was built in ...", "It is in ..."]}
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system, tables, text_files
from base.errors import UserError, counted
from base.flags import flag

# Names of the first columns of texts, where no flag names them.
_TEXTS = (
    ("anchor", "positive"),
    ("query", "positive"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("text_a", "text_b"),
    ("text",),
)


@dataclasses.dataclass(frozen=True)
class Columns:
    """What the columns of a file hold."""

    text_columns: tuple[str, ...] = flag(())
    """Columns of the anchor, its positive and its hard negatives; default:
    anchor or query and positive, sentence1 and sentence2, question1 and
    question2, premise and hypothesis, text_a and text_b, or text; and all whose
    names begin with negative."""

    score_column: str = flag("score")
    """Column with the score of a pair; without this column, all pairs of a file
    have like meaning."""

    max_score: float = flag(1.0, low=1e-6)
    """The score that stands for the cosine 1: 5 for STS-B."""

    label_column: str | None = flag()
    """Column with the label of a pair, such as gold_label."""

    positive_label: str = flag("entailment")
    """Label of pairs of like meaning."""

    negative_label: str = flag("contradiction")
    """Label of pairs whose second text is a hard negative of the first."""


class Example(NamedTuple):
    """A row of texts, and the cosine of its first two, if that is given."""

    texts: tuple[str, ...]
    score: float | None = None


class Collection(NamedTuple):
    """Documents to search, by id, and the queries that have relevant ones.

    `relevant` has {id of a document: how relevant, above 0} of each query.
    """

    queries: dict[str, str]
    documents: dict[str, str]
    relevant: dict[str, dict[str, int]]


# --- Rows --------------------------------------------------------------------


def read_examples(path: str, columns: Columns) -> list[Example]:
    """Return the examples of a file; if it has labels, those of its positives.

    Raises:
        UserError: a column is missing, or a row is damaged; names the line.
    """
    found: list[Example] = []
    labels: list[str] = []
    spellings: dict = {}
    for name in ("positive_label", "negative_label"):
        tables.check_spelling(getattr(columns, name), f"--{name}", spellings)
    names: tuple[str, ...] = ()
    for at, row in tables.rows(path):
        names = names or columns.text_columns or _text_columns(at, row)
        texts: list[str] = []
        for name in names:
            value = row.get(name)
            many = value if isinstance(value, list) else [value]
            if not all(isinstance(text, str) and text.strip() for text in many):
                raise UserError(
                    f"{at}: {name!r} is {str(value)[:40]!r}, wanted a text; "
                    f"the columns are {', '.join(map(repr, row))} "
                    "(--text_columns)"
                )
            texts += many
        score = None
        if columns.score_column in row:
            score = _score(row[columns.score_column], columns, at)
            if len(texts) != 2:
                raise UserError(
                    f"{at}: {counted(len(texts), 'text')} and a score, wanted "
                    "2 texts"
                )
        if columns.label_column:
            if columns.label_column not in row or len(texts) != 2:
                raise UserError(
                    f"{at}: wanted 2 texts and the label "
                    f"{columns.label_column!r}, found the columns "
                    f"{', '.join(map(repr, row))}"
                )
            labels.append(str(row[columns.label_column]))
            tables.check_spelling(labels[-1], at, spellings)
        elif found and (score is None) != (found[0].score is None):
            raise UserError(
                f"{at}: wanted a score in every line or in none, as {path} "
                "begins"
            )
        found.append(Example(tuple(texts), score))
    if not found:
        raise UserError(f"{path} holds no example")
    if columns.label_column:
        return _of_labels(path, found, labels, columns)
    return found


def _text_columns(at: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns of texts."""
    for names in _TEXTS:
        if all(name in row for name in names):
            more = [name for name in row if name.startswith("negative")]
            return (*names, *more)
    raise UserError(
        f"{at}: which of the columns {', '.join(map(repr, row))} are texts? "
        "Name them with --text_columns"
    )


def _score(value: Any, columns: Columns, at: str) -> float:
    """Return a score as a cosine."""
    try:
        score = float(value) / columns.max_score
    except (TypeError, ValueError):
        score = float("nan")
    if not -1 <= score <= 1:
        raise UserError(
            f"{at}: {columns.score_column} is {value!r}, wanted a number from "
            f"-{columns.max_score:g} to {columns.max_score:g} (--max_score)"
        )
    return score


def _of_labels(
    path: str, pairs: Sequence[Example], labels: list[str], columns: Columns
) -> list[Example]:
    """Return the positives, each with a hard negative of the same anchor.

    As for NLI in Reimers and Gurevych 2019 (arXiv:1908.10084) and in Gao et al.
    2021 (arXiv:2104.08821). Positive number k of an anchor gets its negative
    number k, again from the first where there are fewer.
    """
    negatives: dict[str, list[str]] = {}
    for pair, label in zip(pairs, labels, strict=True):
        if label == columns.negative_label:
            negatives.setdefault(pair.texts[0], []).append(pair.texts[1])
    found, used = [], dict.fromkeys(negatives, 0)
    for pair, label in zip(pairs, labels, strict=True):
        if label != columns.positive_label:
            continue
        texts, anchor = pair.texts, pair.texts[0]
        if anchor in negatives:
            others = negatives[anchor]
            texts = (*texts, others[used[anchor] % len(others)])
            used[anchor] += 1
        found.append(Example(texts))
    if not found:
        raise UserError(
            f"{path}: no label in {columns.label_column!r} is "
            f"{columns.positive_label!r}; found "
            f"{', '.join(sorted(set(labels))[:5])} (--positive_label)"
        )
    return found


# --- Collections -------------------------------------------------------------


def read_collection(folder: str, part: str) -> Collection:
    """Return the collection in a folder of BEIR's format.

    That is corpus.jsonl (`_id`, `title`, `text`), queries.jsonl (`_id`, `text`)
    and qrels/PART.tsv (see `_qrels`). Title and text are one text. Queries
    without a relevant document are left out.

    Raises:
        UserError: a file is missing or damaged.
    """
    *texts, path = files_of(folder, part)
    documents, queries = map(_texts_by_id, texts)
    relevant: dict[str, dict[str, int]] = {}
    for at, query, document, relevance in _qrels(path):
        for name, texts, of in (
            (query, queries, "queries"),
            (document, documents, "corpus"),
        ):
            if name not in texts:
                raise UserError(
                    f"{at}: no text has the id {name!r} in {of}.jsonl"
                )
        if relevance > 0:
            relevant.setdefault(query, {})[document] = relevance
    if not relevant:
        raise UserError(f"{path} holds no relevant document")
    return Collection(
        {name: queries[name] for name in relevant}, documents, relevant
    )


def _qrels(path: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield ("file, line n", query, document, relevance) of each line.

    BEIR's files have a header and the three columns, separated by tabs;
    trec_eval's have no header and, after the query, a column that nothing
    reads, separated by any white space. A header is a first line whose last
    column is a word, such as `score`, in place of a number.
    """
    lines = text_files.read_text(path).split("\n")
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
    for place, (number, line) in enumerate(numbered):
        at = f"{path}, line {number}"
        cells = line.split("\t" if "\t" in line else None)
        cells = [*map(str.strip, cells)]
        if not place and re.match(r"[^\W\d]", cells[-1]):
            continue
        if len(cells) not in (3, 4) or not re.fullmatch("-?[0-9]+", cells[-1]):
            raise UserError(
                f"{at}: wanted the ids of a query and a document, and how "
                "relevant it is, a whole number"
            )
        yield at, cells[0], cells[-2], int(cells[-1])


def _texts_by_id(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for at, row in tables.rows(path, ["_id", "text"]):
        row.setdefault("title", "")
        name, title, text = (
            tables.require(row, key, str, at)
            for key in ("_id", "title", "text")
        )
        if name in found:
            raise UserError(f"{at}: the id {name!r} is there twice")
        found[name] = f"{title} {text}".strip()
    return found


def collection_of(examples: Sequence[Example]) -> Collection:
    """Return anchors as queries, and all other texts as documents.

    The positives of an anchor are relevant for it.
    """
    queries: dict[str, str] = {}  # text -> id
    documents: dict[str, str] = {}
    relevant: dict[str, dict[str, int]] = {}
    for anchor, *others in (example.texts for example in examples):
        query = queries.setdefault(anchor, f"q{len(queries)}")
        for text in others:
            documents.setdefault(text, f"d{len(documents)}")
        relevant.setdefault(query, {})[documents[others[0]]] = 1
    return Collection(
        {name: text for text, name in queries.items()},
        {name: text for text, name in documents.items()},
        relevant,
    )


def files_of(path: str, part: str) -> list[str]:
    """Return the files of a data set: itself, or those of a collection."""
    if not file_system.is_directory(path):
        return [path]
    names = ("corpus.jsonl", "queries.jsonl", f"qrels/{part}.tsv")
    return [os.path.join(path, name) for name in names]
