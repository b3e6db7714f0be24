"""Read pairs of texts, their scores or labels, and collections to search.

Rows are those of a .tsv without quotes, a .csv or .jsonl, or the lines of a
.txt. The first text of a row is the anchor, the second its positive, a text of
like meaning; the others are hard negatives. In JSON each of them may be a list,
as in FlagEmbedding's files. Each positive makes a pair with the anchor:

    {"query": "how tall is it", "pos": ["Its height is ...", "330 m"],
     "neg": ["It was built in ...", "It is in ..."]}
"""

import collections
import dataclasses
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import file_system, logs, tables, text_files
from base.errors import UserError, counted
from base.flags import flag

# Names of the first columns of texts, where no flag names them.
_TEXTS = (
    ("anchor", "positive"),
    ("query", "positive"),
    ("query", "pos"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("text_a", "text_b"),
    ("text",),
)

# Names of columns of hard negatives; negative_score is none.
_NEGATIVES = re.compile(r"neg(ative)?s?(_?[0-9]+)?")

# Names of columns that may say which pairs are alike.
_JUDGMENTS = re.compile("label|score|simil|dupl|relat|judg|rating|qual", re.I)

_MOST_LABELS = 20  # a column with more values has no labels


@dataclasses.dataclass(frozen=True)
class Columns:
    """What the columns of a file hold."""

    text_columns: tuple[str, ...] = flag(())
    """Columns of the anchor, its positive and its hard negatives; default:
    anchor or query and positive, query and pos, sentence1 and sentence2,
    question1 and question2, premise and hypothesis, text_a and text_b, or text;
    and neg, negative, negatives, negative_1, negative_2, and so on."""

    score_column: str = flag("score")
    """Column with the score of a pair. Without this column all pairs of a file
    have like meaning, and one that may be a score or a label is an error; empty
    (--score_column=): all have like meaning, whatever other columns say."""

    max_score: float = flag(1.0, low=1e-6)
    """The score that stands for the cosine 1: 5 for STS-B."""

    label_column: str | None = flag(excludes={"score_column": ""})
    """Column with the label of a pair, such as gold_label."""

    positive_label: str = flag("entailment", needs={"label_column": ""})
    """Label of pairs of like meaning."""

    negative_label: str = flag("contradiction", needs={"label_column": ""})
    """Label of pairs whose second text is a hard negative of the first. Pairs
    of other labels are left out."""


class Example(NamedTuple):
    """A row of texts, and the cosine of its first two, if that is given."""

    texts: tuple[str, ...]
    score: float | None = None


class Collection(NamedTuple):
    """Documents to search, by id, and the queries that were judged.

    `relevant` has {id of a document: how relevant, above 0} of each query.
    Documents are in the order in which trec_eval ranks equal scores: that of
    their ids, backwards.
    """

    queries: dict[str, str]
    documents: dict[str, str]
    relevant: dict[str, dict[str, int]]


# --- Rows --------------------------------------------------------------------


def read_examples(
    path: str, columns: Columns, are_pairs: bool = True
) -> list[Example]:
    """Return the examples of a file; if it has labels, those of its positives.

    Without `are_pairs` all texts of a row are an example, without a score.

    Raises:
        UserError: a column is missing, or not read though it may say which
            pairs are alike; or a row is damaged. Names the line.
    """
    found: list[Example] = []
    labels: list[str] = []
    spellings: dict = {}
    for name in ("positive_label", "negative_label"):
        tables.check_spelling(getattr(columns, name), f"--{name}", spellings)
    count, others = 0, collections.defaultdict(set)
    for at, row in tables.rows(path):
        # Of each line: in JSON some may have no hard negatives.
        names = columns.text_columns or _text_columns(at, row)
        parts = [_texts(at, row, *named) for named in enumerate(names)]
        texts = tuple(itertools.chain(*parts))
        score = None
        if columns.label_column:
            if columns.label_column not in row or len(texts) != 2:
                raise UserError(
                    f"{at}: wanted 2 texts and the label "
                    f"{columns.label_column!r}, found the columns "
                    f"{', '.join(map(repr, row))}"
                )
            labels.append(str(row[columns.label_column]))
            tables.check_spelling(labels[-1], at, spellings)
        elif are_pairs and columns.score_column and columns.score_column in row:
            score = _score(row[columns.score_column], columns, at)
            if len(texts) != 2:
                raise UserError(
                    f"{at}: {counted(len(texts), 'text')} and a score, wanted "
                    "2 texts; --score_column= reads no score"
                )
        if found and (score is None) != (found[0].score is None):
            raise UserError(
                f"{at}: wanted a score in every line or in none, as {path} "
                "begins"
            )
        if are_pairs and len(parts) > 1:
            # A text that is both is a positive.
            hard = [x for x in texts[1:] if x not in parts[1]]
            found += [Example((texts[0], x, *hard), score) for x in parts[1]]
        else:
            found.append(Example(texts))
        count += 1
        for name in row:
            if name not in names and len(others[name]) <= _MOST_LABELS:
                others[name].add(str(row[name]))
    if not found:
        raise UserError(f"{path} holds no example")
    if columns.label_column:
        return _of_labels(path, found, labels, columns)
    if are_pairs and found[0].score is None:
        longest = max(len(example.texts) for example in found)
        if longest == 2 and columns.score_column:
            _check_others(path, others, count)
        if others:
            logs.say("%s: not read: %s", path, ", ".join(others))
    return found


def _texts(at: str, row: tables.Row, place: int, name: str) -> list[str]:
    """Return the texts in a column: the anchor, positives, hard negatives."""
    value = row.get(name)
    many = value if isinstance(value, list) else [value]
    is_right = place > 1 or (many if place else len(many) == 1)
    if not is_right or not all(isinstance(x, str) and x.strip() for x in many):
        raise UserError(
            f"{at}: {name!r} is {str(value)[:40]!r}, wanted a text"
            f"{' or a list of texts' * (place > 0)}; the columns are "
            f"{', '.join(map(repr, row))} (--text_columns)"
        )
    return many


def _check_others(path: str, others: Mapping[str, set], count: int) -> None:
    """Raise a UserError if a column that is not read may be a label or score.

    It may be one by its name, or if its values repeat, or if they are numbers
    that are not whole. `others` has first values of the columns of `count`
    rows.
    """
    found = []
    for name, values in others.items():
        are_labels = 1 < len(values) <= min(_MOST_LABELS, count - 1)
        numbers = [re.fullmatch(r"-?\d*(\.?)\d+", one) for one in values]
        are_scores = all(numbers) and any(number[1] for number in numbers)
        if are_scores or are_labels or _JUDGMENTS.search(name):
            found.append(name)
    if found := [*filter(_JUDGMENTS.search, found)] or found:
        raise UserError(
            f"{path}: not read: {', '.join(map(repr, found))}, which may say "
            "what pairs are alike: name it with --score_column, or with "
            "--label_column and --positive_label; or give --score_column= if "
            "all pairs are alike"
        )


def _text_columns(at: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the columns of texts."""
    for names in _TEXTS:
        if all(name in row for name in names):
            return (*names, *filter(_NEGATIVES.fullmatch, row))
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
    hard = {anchor: itertools.cycle(x) for anchor, x in negatives.items()}
    found = []
    for pair, label in zip(pairs, labels, strict=True):
        if label == columns.positive_label:
            # The next one, if the anchor has any.
            more = itertools.islice(hard.get(pair.texts[0], ()), 1)
            found.append(Example((*pair.texts, *more)))
    if not found:
        raise UserError(
            f"{path}: no label in {columns.label_column!r} is "
            f"{columns.positive_label!r}; found "
            f"{', '.join(sorted(set(labels))[:5])} (--positive_label)"
        )
    logs.say(
        "%s: %d of %d pairs are positives (%s), %d with a negative (%s)",
        path,
        *(len(found), len(pairs), columns.positive_label),
        *(sum(len(x.texts) > 2 for x in found), columns.negative_label),
    )
    return found


# --- Collections -------------------------------------------------------------


def read_collection(folder: str, part: str) -> Collection:
    """Return the collection in a folder of BEIR's format.

    That is corpus.jsonl (`_id`, `title`, `text`), queries.jsonl (`_id`, `text`)
    and qrels/PART.tsv. Title and text are one text. Queries without a line in
    the qrels are left out.

    BEIR's qrels have a header and three columns, query, document and relevance,
    separated by tabs; trec_eval's have no header and, after the query, a column
    that nothing reads, separated by any white space. A header is a first line
    whose last column is a word, such as `score`, in place of a number.

    Raises:
        UserError: a file is missing or damaged.
    """
    *texts, path = files_of(folder, part)
    documents, queries = map(_texts_by_id, texts)
    judged: dict[str, dict[str, int]] = {}
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
        query, document, relevance = cells[0], cells[-2], int(cells[-1])
        for name, texts, of in (
            (query, queries, "queries"),
            (document, documents, "corpus"),
        ):
            if name not in texts:
                raise UserError(
                    f"{at}: no text has the id {name!r} in {of}.jsonl"
                )
        own = judged.setdefault(query, {})
        if own.setdefault(document, relevance) != relevance:
            raise UserError(
                f"{at}: the document {document!r} has relevance "
                f"{own[document]} for {query!r} in a line before"
            )
    relevant = {
        query: {name: grade for name, grade in own.items() if grade > 0}
        for query, own in judged.items()
    }
    if not any(relevant.values()):
        raise UserError(f"{path} holds no relevant document")
    return Collection(
        {name: queries[name] for name in relevant},
        dict(sorted(documents.items(), reverse=True)),
        relevant,
    )


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
        # Backwards, so that no positive is before its negatives.
        {name: text for text, name in reversed(documents.items())},
        relevant,
    )


def files_of(path: str, part: str) -> list[str]:
    """Return the files of a data set: itself, or those of a collection."""
    if not file_system.is_directory(path):
        return [path]
    names = ("corpus.jsonl", "queries.jsonl", f"qrels/{part}.tsv")
    return [os.path.join(path, name) for name in names]
