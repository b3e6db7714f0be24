"""What each tab shows of one model, as plain data.

A view takes a model and the values of the tab's fields. It raises a UserError
for an input that cannot be shown, and the tab shows the message.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from base.errors import UserError, counted

from tasks.ner import data as ner_data
from tasks.task import Prediction
from tools.page import attention, neighbors
from tools.page.models import PageModel, features_of

NUM_NEIGHBORS = 10

MEAN = "mean"  # of the heads of a layer

NO_ANSWER = "No answer"


class Shown(NamedTuple):
    """A result. What is empty has no place on the page.

    Attributes:
        verdict: the answer in a line, with its probability if it has one.
        marked: a text as (part, its mark) in order. A mark is a kind, whose
            name is shown; a number from -1 to 1, which colors the part by its
            sign and its size; or None.
        notes: sentences.
        headers: of a table.
        rows: cells of each row of the table. A float is a probability, which
            has a bar.
        figure: a figure of Plotly.
    """

    verdict: str = ""
    marked: Sequence[tuple[str, str | float | None]] = ()
    notes: Sequence[str] = ()
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[str | float]] = ()
    figure: dict[str, Any] | None = None


def percent(share: float) -> str:
    """Return a probability as 91%, near the ends as 99.7% or 0.041%."""
    value = 100 * share
    if value < 0.01:
        return "< 0.01%"
    return f"{value:.0f}%" if 1 <= value <= 99 else f"{value:.3g}%"


def _probabilities(
    header: str, pairs: Iterable[tuple[str, float]], *notes: str
) -> Shown:
    """Return probabilities by name, with the likeliest as the verdict."""
    rows = sorted(pairs, key=lambda pair: -pair[1])
    name, share = rows[0]
    return Shown(
        f"{name}, {percent(share)}",
        notes=notes,
        headers=(header, "probability"),
        rows=rows,
    )


def _marked(
    text: str, marks: Iterable[tuple[int, int, str | float]]
) -> list[tuple[str, str | float | None]]:
    """Return a text whose characters from start to end have marks."""
    found: list[tuple[str, str | float | None]] = []
    done = 0
    for start, end, mark in sorted(marks):
        found += [(text[done:start], None), (text[start:end], mark)]
        done = end
    return [*found, (text[done:], None)]


def _spaced(words: Iterable[tuple[str, float]]) -> list[tuple[str, Any]]:
    """Return words and their marks, as a text with spaces."""
    return [part for word in words for part in (word, (" ", None))]


def _cut(is_cut: Any) -> str:
    """Return a note for texts that were cut, else nothing."""
    if not is_cut:
        return ""
    return (
        "This is longer than the model reads. The tab Word pieces shows what "
        "is read of a text."
    )


# --- Heads -------------------------------------------------------------------


def masks(model: PageModel, text: str) -> Shown:
    """Return the likeliest word pieces of every [MASK]."""
    found = model.predict(text=text)
    first, *others = text.split("[MASK]")
    marked: list[tuple[str, str | None]] = [(first, None)]
    rows = []
    pieces = zip(others, found["tokens"], found["scores"], strict=True)
    for place, (other, tokens, scores) in enumerate(pieces, 1):
        name = f"[MASK] {place}"
        marked += [(tokens[0], name), (other, None)]
        for token, score in zip(tokens, scores, strict=True):
            rows.append((name, token, score))
    headers = ("place", "word piece", "probability")
    return Shown(marked=marked, headers=headers, rows=rows)


def scores(model: PageModel, text: str) -> Shown:
    """Return the perplexity of a sentence, and how probable its tokens are."""
    found = model.predict(text=text)
    pairs = zip(found["tokens"], found["token_scores"], strict=True)
    return Shown(
        f"Perplexity {found['perplexity']:.4g}",
        headers=("token", "probability, given all others"),
        rows=[(token, math.exp(score)) for token, score in pairs],
    )


def follows(model: PageModel, text: str, second: str) -> Shown:
    """Return how probable it is that the second text follows the first.

    Raises:
        UserError: the second text has no word.
    """
    row = model.row(text, second)
    if not row.segment_ids.any():
        raise UserError(
            "the second text has no word: write one that may follow"
        )
    names = ("The second text follows", "It is from another document")
    pairs = zip(names, model.next_sentence(row), strict=True)
    return _probabilities("answer", pairs, _cut(row.left_out))


def classes(model: PageModel, *texts: str) -> Shown:
    """Return the probability of every class, or the number of a regression."""
    return _classes_shown(_classified(model, texts))


def _classes_shown(found: Prediction) -> Shown:
    """Return a classifier's prediction."""
    note = _cut(found.get("truncated"))
    if "probabilities" not in found:
        return Shown(f"Predicted {found['value']:.4g}", notes=[note])
    shares = found["probabilities"]
    shown = _probabilities("class", shares.items(), note)
    if "labels" in found:
        named = [f"{name}, {percent(shares[name])}" for name in found["labels"]]
        shown = shown._replace(verdict="; ".join(named) or "No label")
    return shown


def reasons(model: PageModel, *texts: str) -> Shown:
    """Return the words, marked by what they add to the answer's log odds."""
    whole = _classified(model.explaining, texts)
    found = whole["attributions"]
    what = f"Log odds of {found['label']}" if "label" in found else "Predicted"
    notes = [
        "The bold words decided. Blue ones speak for this answer, orange ones "
        "against it."
        if "label" in found
        else "The bold words decided. Blue ones raise the number, orange ones "
        "lower it.",
        f"{what}: {found['value']:.4g}; without the words: "
        f"{found['baseline']:.4g}. The words add the difference.",
        _cut(whole.get("truncated")),
    ]
    if "gap" in found:
        notes.append(
            f"The sum of the words misses the difference by {found['gap']:.0%}."
        )
    words = [pair for name in model.task.text_names for pair in found[name]]
    largest = max((abs(adds) for _, adds in words), default=0) or 1
    by_strength = sorted(words, key=lambda pair: -abs(pair[1]))
    return Shown(
        _classes_shown(whole).verdict,
        _spaced((word, adds / largest) for word, adds in words),
        notes,
        ("word", "adds"),
        [(word, f"{adds:+.3f}") for word, adds in by_strength],
    )


def _classified(model: PageModel, texts: Sequence[str]) -> Prediction:
    """Return a classifier's prediction for its first text or for both."""
    named = zip(model.task.text_names, texts, strict=False)
    return model.predict(**dict(named))


def choices(model: PageModel, context: str, endings: str) -> Shown:
    """Return the probability of every choice, one in each line of `endings`."""
    listed = [line for line in endings.split("\n") if line.strip()]
    found = model.predict(context=context, choices=listed)
    names = [f"{place}. {text}" for place, text in enumerate(listed, 1)]
    pairs = zip(names, found["probabilities"], strict=True)
    return _probabilities("choice", pairs, _cut(found.get("truncated")))


def answers(model: PageModel, question: str, context: str) -> Shown:
    """Return the answer in the context, the likeliest ones, the null odds."""
    found = model.predict(question=question, context=context)
    notes = [_cut(found.get("truncated"))]
    if "null_odds" in found:
        odds, limit = found["null_odds"], model.settings.options.null_threshold
        notes.append(
            f"The null odds are {odds:.4g}. The context has an answer if they "
            f"are {limit:.4g} or less."
        )
    rows = [
        (one["text"] or NO_ANSWER, one["probability"], f"{one['score']:.4g}")
        for one in found["nbest"]
    ]
    verdict = found["answer"] or NO_ANSWER
    shares = [share for answer, share, _ in rows if answer == verdict]
    marks = [(found["start"], found["end"], 1.0)] if found["answer"] else []
    return Shown(
        ", ".join([verdict, *map(percent, shares[:1])]),
        _marked(context, marks),
        notes,
        ("answer", "probability", "score"),
        rows,
    )


def entities(model: PageModel, text: str) -> Shown:
    """Return the text with colored entities, and a table of their scores.

    Tags that name no entities, such as parts of speech, are shown for each
    word instead.
    """
    found = model.predict(text=text)
    if any(map(ner_data.is_entity_tag, model.task.labels or ())):
        headers = ("entity", "type", "score")
        names = ("start", "end", "type", "score")
        marks = [[one[name] for name in names] for one in found["entities"]]
    else:
        headers = ("word", "tag", "score")
        places, tags = found["places"], found["tags"]
        words = zip(places, tags, found["scores"], strict=True)
        marks = [[*place, tag, score] for place, tag, score in words]
    rows = [(text[a:b], kind, score) for a, b, kind, score in marks]
    notes = [] if marks else ["No entity was found."]
    marked = _marked(text, [mark[:3] for mark in marks])
    return Shown("", marked, notes, headers, rows)


# --- Every model -------------------------------------------------------------


def pieces(model: PageModel, text: str, second: str = "") -> Shown:
    """Return the word pieces that are read, with their ids."""
    row = model.row(text, second)
    tokens = model.tokens(row)
    length = model.task.checkpoint.row_length
    notes = [f"{len(tokens):,} of {length:,} places are used."]
    if row.left_out:
        notes.append(
            f"Pieces without a place, which are not read: {row.left_out:,}."
        )
    if unknown := tokens.count("[UNK]"):
        notes.append(f"Words that the vocabulary lacks: {unknown:,}.")
    colors = [-0.3 if segment else 0.3 for segment in row.segment_ids]
    places = [str(place) for place in range(len(tokens))]
    ids = map(str, row.input_ids.tolist())
    return Shown(
        "",
        _spaced(zip(tokens, colors, strict=True)),
        notes,
        ("piece", "place", "id"),
        [*zip(tokens, places, ids, strict=True)],
    )


def attention_of(
    model: PageModel, text: str, second: str, layer: str, head: str
) -> Shown:
    """Return a figure: which tokens attend to which.

    Args:
        model: any model of the page.
        text: the first text.
        second: the second text; blank: there is none.
        layer: a number from 1.
        head: a number from 1; or MEAN of the layer's heads.
    """
    row = model.row(text, second, at_once=True)
    layers = [*attention.attention_heads(model.model, features_of(row))]
    probs = layers[int(layer) - 1]
    chosen = probs.mean(axis=0) if head == MEAN else probs[int(head) - 1]
    figure = attention.heat_map(model.tokens(row), chosen)
    return Shown(notes=[_cut(row.left_out)], figure=figure)


# --- Vectors -----------------------------------------------------------------


def nearest(model: PageModel, text: str, pasted: str = "") -> Shown:
    """Return the sentences that are nearest to a text.

    If the model has none to search, they are those of `pasted`, one in each
    line.
    """
    searched = model.searched or neighbors.Pasted(model, pasted)
    query = model.vectors([text], "query")
    found = next(searched.search(query, NUM_NEIGHBORS))
    rows = [(r["text"], f"{r['score']:.3f}", str(r["id"])) for r in found]
    headers = ("sentence", searched.similarity or "cosine", "line")
    notes = [f"The nearest of {counted(len(searched.vectors), 'sentence')}"]
    return Shown(notes=notes, headers=headers, rows=rows)
