"""What each tab shows of one model, as HTML.

A view takes a model and the values of the tab's fields. It raises UserError
for an input that cannot be shown; the tab shows the message.
"""

from collections.abc import Sequence
from typing import Any

from base.errors import UserError, counted

from serving.search.build import task_for, vectors_of
from tools.page import attention, neighbors, plots, rows
from tools.page.markup import bars, marked, note, number, shaded, share, table
from tools.page.models import PageModel
from tools.page.predictions import next_sentence, parsed, predict

NUM_ANSWERS = 5

NUM_NEIGHBORS = 10

MAX_COLUMNS = 10  # of the table of similarities

_AROUND = 600  # characters of a context that are shown around an answer

# Choices of the attention tab.
HEAT_MAP, LINES = "heat map", "lines"
MEAN = "mean"


# --- Heads -------------------------------------------------------------------


def masks(model: PageModel, text: str) -> str:
    """Return the likeliest tokens of every [MASK]."""
    found = predict(model, text=text)
    first, *others = text.split("[MASK]")
    parts: list[tuple[str, str | None]] = [(first, None)]
    shown, kinds = [], []
    masks = zip(others, found["tokens"], found["scores"], strict=True)
    for place, (other, tokens, scores) in enumerate(masks, 1):
        kinds.append(f"[MASK] {place}")
        parts += [(tokens[0], kinds[-1]), (other, None)]
        shown.append(
            bars(kinds[-1], "word piece", [*zip(tokens, scores, strict=True)])
        )
    return marked("With the likeliest word pieces", parts, kinds) + "".join(
        shown
    )


def scores(model: PageModel, text: str) -> str:
    """Return the perplexity of a sentence, and log P of its tokens."""
    found = predict(model, text=text)
    pairs = zip(found["tokens"], found["token_scores"], strict=True)
    listed = [[token, f"{score:.2f}"] for token, score in pairs]
    return number("Perplexity", found["perplexity"]) + table(
        "Tokens", ("token", "log P of it, given all others"), listed
    )


def follows(model: PageModel, text: str, second: str) -> str:
    """Return how probable it is that the second text follows the first.

    Raises:
        UserError: the second text has no word.
    """
    row = rows.row_of(rows.pieces_of(model, text, second))
    if not row.segment_ids.any():
        raise UserError(
            "the second text has no word: write one that may follow"
        )
    shares = next_sentence(model, rows.features_of(row)).tolist()
    names = ("the second text follows", "it is of another document")
    pairs = [*zip(names, shares, strict=True)]
    return bars("Next sentence", "answer", pairs) + _cut(model, text, second)


def classes(model: PageModel, text: str, second: str = "") -> str:
    """Return the probability of every class, or the number of a regression."""
    texts, shown = _texts(model, text, second)
    found = predict(model, **texts)
    if "value" in found:
        shown += number("Predicted", found["value"])
    else:
        pairs = [*found["probabilities"].items()]
        if model.settings.task == "classifier":
            pairs.sort(key=lambda pair: -pair[1])
        shown += bars("Classes", "class", pairs)
    if "truncated" in found:
        shown += _cut(model, *texts.values())
    return shown


def reasons(model: PageModel, text: str, second: str = "") -> str:
    """Return the words, colored by what they add to the answer's log odds."""
    texts, shown = _texts(model, text, second)
    found = predict(model.explaining, **texts)
    own = found["attributions"]
    what = "Predicted"
    if "label" in own:
        what = f"Log odds of {own['label']}"
    shown += number(what, own["value"])
    shown += number("The same without the words", own["baseline"])
    shown += note(
        "The words add the difference: orange ones raise the first number, "
        "blue ones lower it. The strongest word has the full color."
    )
    if "gap" in own:
        shown += note(f"The sum of the words misses it by {own['gap']:.0%}.")
    words = {name: own[name] for name in texts}
    largest = max((abs(x) for w in words.values() for _, x in w), default=0)
    for name, pairs in words.items():
        parts = [(word, adds / (largest or 1)) for word, adds in pairs]
        shown += shaded(name.replace("_", " "), parts)
    listed = [
        [word, f"{x:+.3f}"] for pairs in words.values() for word, x in pairs
    ]
    shown += table("What each word adds", ("word", "adds"), listed)
    if "truncated" in found:
        shown += _cut(model, *texts.values())
    return shown


def _texts(
    model: PageModel, text: str, second: str
) -> tuple[dict[str, str], str]:
    """Return the texts that a classifier reads, and a note of an unused one."""
    if model.settings.sentence_pairs:
        return {"text_a": text, "text_b": second}, ""
    if not second.strip():
        return {"text": text}, ""
    unused = note("This model reads one text: the second is unused.")
    return {"text": text}, unused


def choices(model: PageModel, context: str, endings: str) -> str:
    """Return the probability of every choice, one in each line of `endings`."""
    listed = [line for line in endings.split("\n") if line.strip()]
    found = predict(model, context=context, choices=listed)
    names = [f"{place}. {text}" for place, text in enumerate(listed, 1)]
    pairs = [*zip(names, found["probabilities"], strict=True)]
    shown = bars("Choices", "choice", pairs)
    if "truncated" in found:
        for place, text in enumerate(listed, 1):
            shown += _cut(model, context, text, f"Choice {place}")
    return shown


def answers(model: PageModel, question: str, context: str) -> str:
    """Return the answer in the context, the n best, and the null odds."""
    found = predict(model, question=question, context=context)
    shown = ""
    if found["answer"]:
        start, end = found["start"], found["end"]
        likely = share(found["probability"])
        parts = [
            ("… " if start > _AROUND else "", None),
            (context[max(0, start - _AROUND) : start], None),
            (context[start:end], likely),
            (context[end : end + _AROUND], None),
            (" …" if len(context) > end + _AROUND else "", None),
        ]
        shown += marked("The answer in the context", parts, [likely])
    else:
        shown += note("The context has no answer.")
    listed = [
        [
            candidate["text"] or "(no answer)",
            share(candidate["probability"]),
            f"{candidate['score']:.4g}",
        ]
        for candidate in found["nbest"]
    ]
    shown += table(
        "The likeliest answers",
        ("answer", "probability", "score"),
        listed,
        [candidate["probability"] for candidate in found["nbest"]],
    )
    if "null_odds" in found:
        odds, limit = found["null_odds"], model.settings.null_threshold
        is_none = odds > limit
        shown += note(
            f"Null odds {odds:.4g} {'>' if is_none else '≤'} {limit:.4g}, "
            f"the threshold: {'no' if is_none else 'an'} answer."
        )
    if "truncated" in found:
        limit = model.task.settings.max_query_length
        pieces = model.task.tokenizer.tokenize(question)
        parts = [
            (piece, _KINDS[0] if place < limit else _KINDS[2])
            for place, piece in enumerate(pieces)
        ]
        shown += note(
            f"The model reads the first {limit} tokens of the question."
        )
        shown += marked("Question", parts, _KINDS, is_named=False)
    return shown


def entities(model: PageModel, text: str) -> str:
    """Return the text with colored entities, and a table of their scores."""
    found = predict(model, text=text)["entities"]
    labels = model.settings.trained_for.labels or ()
    types = sorted({label[2:] for label in labels if label[1:2] == "-"})
    parts: list[tuple[str, str | None]] = []
    at = 0
    for entity in found:
        start, end = entity["start"], entity["end"]
        parts += [(text[at:start], None), (text[start:end], entity["type"])]
        at = end
    parts.append((text[at:], None))
    shown = marked("Entities", parts, types)
    if not found:
        return note("No entity was found.") + shown
    listed = [[e["text"], e["type"], share(e["score"])] for e in found]
    scores = [e["score"] for e in found]
    headers = ("entity", "type", "score")
    return shown + table("Entities and their scores", headers, listed, scores)


# --- Every model -------------------------------------------------------------

_KINDS = ("first text", "second text", "not read")  # of pieces


def pieces(model: PageModel, text: str, second: str = "") -> str:
    """Return the word pieces with their ids."""
    found = rows.pieces_of(model, text, second)
    cut = sum(piece.is_cut for piece in found)
    unknown = sum(piece.token == "[UNK]" for piece in found)
    limit = model.settings.row_length
    message = f"{len(found) - cut:,} of {counted(limit, 'token')} are used"
    if cut:
        message += f"; {cut:,} more have no place and are not read"
    if unknown:
        message += f"; {unknown:,} are unknown to the vocabulary"
    listed = [
        [piece.token, str(place), str(piece.id)]
        for place, piece in enumerate(found)
        if not piece.is_cut
    ]
    return (
        note(f"{message}.")
        + _piece_text("Word pieces", found)
        + table("Their ids", ("piece", "place", "id"), listed)
    )


def _cut(
    model: PageModel, text: str, second: str = "", label: str = "Word pieces"
) -> str:
    """Return the pieces of a row; nothing if the model reads all of them."""
    found = rows.pieces_of(model, text, second)
    cut = sum(piece.is_cut for piece in found)
    if not cut:
        return ""
    limit = model.settings.row_length
    return note(
        f"{label}: the model reads {limit:,} tokens, {cut:,} are not read."
    ) + _piece_text(label, found)


def _piece_text(label: str, found: Sequence[rows.Piece]) -> str:
    parts = [
        (piece.token, _KINDS[2] if piece.is_cut else _KINDS[piece.segment])
        for piece in found
    ]
    return marked(label, parts, _KINDS, is_named=False)


def attention_of(
    model: PageModel,
    text: str,
    second: str,
    kind: str,
    layer: str,
    head: str,
) -> tuple[str, dict[str, Any] | None]:
    """Return which tokens attend to which: all heads, and one of them.

    Args:
        model: any.
        text: the first text.
        second: the second text; blank: there is none.
        kind: HEAT_MAP, a figure; or LINES.
        layer: a number from 1.
        head: a number from 1; or MEAN of the layer's heads.

    Raises:
        UserError: another model of the page has more layers or heads.
    """
    config = model.model.config
    for what, value, most in (
        ("layer", layer, config.num_hidden_layers),
        ("head", head, config.num_attention_heads),
    ):
        if value != MEAN and int(value) > most:
            raise UserError(f"the model has {most} {what}s, and no {value}")
    found = rows.pieces_of(model, text, second, at_once=True)
    seen = [piece.token for piece in found if not piece.is_cut]
    shown = ""
    if len(seen) < len(found):
        shown += note(f"The first {len(seen):,} of {len(found):,} tokens.")
    features = rows.features_of(rows.row_of(found))
    layers = list(attention.attention_heads(model.model, features))
    number = 0 if head == MEAN else int(head)
    shown += plots.overview(layers, (int(layer), number))
    probs = layers[int(layer) - 1]
    chosen = probs[number - 1] if number else probs.mean(axis=0)
    if kind == HEAT_MAP:
        return shown, plots.heat_map(seen, chosen)
    return shown + plots.lines(seen, chosen), None


# --- Vectors -----------------------------------------------------------------


def similarities(model: PageModel, first: str, second: str) -> str:
    """Return the cosines of sentences with others, one in each line."""
    texts, others = map(neighbors.sentences_of, (first, second))
    if len(others.texts) > MAX_COLUMNS:
        raise UserError(
            f"{len(others.texts):,} sentences to compare with: {MAX_COLUMNS} "
            "have a place in the table"
        )
    items = [parsed(model.task, text=t) for t in texts.texts + others.texts]
    vectors = vectors_of(model.task, model.run, items)
    count = len(texts.texts)
    cosines = vectors[:count] @ vectors[count:].T
    listed = [
        [text, *(f"{x:.3f}" for x in line)]
        for text, line in zip(texts.texts, cosines.tolist(), strict=True)
    ]
    shown = ""
    if cut := sum(lost > 0 for lost in model.task.encode(items).left_out):
        shown = _cut_sentences(cut)
    headers = ("sentence", *others.texts)
    return shown + table("Cosines of the vectors", headers, listed)


def _cut_sentences(count: int) -> str:
    return note(f"{counted(count, 'sentence')} cut to what the model reads.")


def nearest(
    collections: dict[str, Any], model: PageModel, text: str, pasted: str = ""
) -> str:
    """Return the sentences that are nearest to a text.

    Args:
        collections: what to search, by name of the model: of
            --neighbors_file or --index; empty: the sentences of `pasted`.
        model: any.
        text: the sentence to compare with.
        pasted: sentences, one in each line.
    """
    searched = collections.get(model.name)
    if searched is None:
        sentences = neighbors.sentences_of(pasted)
        searched = neighbors.Collection(model, sentences)
    settings, run = model.of_vectors()
    task = task_for(settings, "query")
    vectors = vectors_of(task, run, [parsed(task, text=text)])
    found = next(searched.search(vectors, NUM_NEIGHBORS))
    listed = [[r["text"], f"{r['score']:.3f}", str(r["id"])] for r in found]
    num_cut = getattr(searched, "num_cut", 0)  # an index does not say it
    shown = _cut_sentences(num_cut) if num_cut else ""
    return shown + table(
        f"The nearest of {counted(len(searched.vectors), 'sentence')}",
        ("sentence", "cosine", "line"),
        listed,
        [r["score"] for r in found],
    )
