"""What each tab shows of one model.

A view takes a model and the values of the tab's fields. It raises UserError
for an input that cannot be shown; the tab shows the message.
"""

from collections.abc import Mapping, Sequence

from base.errors import UserError

from serving.search.build import task_for, vectors_of
from serving.search.index import Index as SearchIndex
from tools.page import attention, neighbors, plots, rows
from tools.page.models import PageModel
from tools.page.neighbors import Index
from tools.page.predictions import (
    check_size,
    next_sentence,
    parsed,
    predict,
)
from tools.page.results import (
    Bars,
    Drawing,
    Note,
    Number,
    Plot,
    Result,
    Table,
    Text,
    share,
)

NUM_ANSWERS = 5

NUM_NEIGHBORS = 10

MAX_PASTED = 200  # sentences, encoded again for every search

MAX_COLUMNS = 10  # of the table of similarities

_AROUND = 600  # characters of a context that are shown around an answer

# Choices of the attention tab.
HEAT_MAP, LINES, ALL_HEADS = "heat map", "lines", "all heads"
ATTENTION_KINDS = (HEAT_MAP, LINES, ALL_HEADS)
MEAN = "mean"


# --- Heads -------------------------------------------------------------------


def masks(model: PageModel, text: str) -> list[Result]:
    """Return the likeliest tokens of every [MASK]."""
    found = predict(model, text=text)
    first, *others = text.split("[MASK]")
    parts: list[tuple[str, str | None]] = [(first, None)]
    bars = []
    masks = zip(others, found["tokens"], found["scores"], strict=True)
    for number, (other, tokens, scores) in enumerate(masks, 1):
        name = f"[MASK] {number}"
        parts += [(tokens[0], name), (other, None)]
        bars.append(Bars(name, dict(zip(tokens, scores, strict=True))))
    kinds = tuple(bar.label for bar in bars)
    return [Text("The likeliest tokens", parts, kinds), *bars]


def scores(model: PageModel, text: str) -> list[Result]:
    """Return the perplexity of a sentence, and log P of its tokens."""
    found = predict(model, text=text)
    pairs = zip(found["tokens"], found["token_scores"], strict=True)
    listed = [[token, f"{score:.2f}"] for token, score in pairs]
    return [
        Number("Perplexity", found["perplexity"]),
        Table(("token", "log P of it, given all others"), listed, 1),
    ]


def follows(model: PageModel, text: str, second: str = "") -> list[Result]:
    """Return how probable it is that the second text follows the first.

    Raises:
        UserError: the second text has no word.
    """
    row = rows.row_of(rows.pieces_of(model, text, second))
    if not row.segment_ids.any():
        raise UserError("second text is empty: give one that may follow")
    shares = next_sentence(model, rows.features_of(row)).tolist()
    names = ("the second text follows", "it is of another document")
    bars = Bars("Next sentence", dict(zip(names, shares, strict=True)))
    return [bars, *_cut(model, text, second)]


def classes(model: PageModel, text: str, second: str = "") -> list[Result]:
    """Return the probability of every class, or the number of a regression."""
    texts, shown = _texts(model, text, second)
    found = predict(model, **texts)
    if "value" in found:
        shown.append(Number("Predicted", found["value"]))
    else:
        shown.append(Bars("Classes", found["probabilities"]))
    if "truncated" in found:
        shown += _cut(model, *texts.values())
    return shown


def reasons(model: PageModel, text: str, second: str = "") -> list[Result]:
    """Return the words, colored by what they add to the answer's log odds."""
    texts, shown = _texts(model, text, second)
    found = predict(model.explaining, **texts)
    own = found["attributions"]
    what = f"Log odds of {own['label']}" if "label" in own else "Predicted"
    shown += [
        Number(what, own["value"]),
        Number("The same without the words", own["baseline"]),
        Note(
            "The words add the difference: red ones raise the first number, "
            "violet ones lower it. The strongest word has the full color."
        ),
    ]
    if "gap" in own:
        shown.append(
            Note(f"The sum of the words misses it by {own['gap']:.0%}")
        )
    words = {name: own[name] for name in texts}
    largest = max((abs(x) for w in words.values() for _, x in w), default=0)
    for name, pairs in words.items():
        parts: list[tuple[str, float | None]] = []
        for word, adds in pairs:
            parts += [(word, adds / (largest or 1)), (" ", None)]
        shown.append(Text(name, parts, (), is_legend=True))
    listed = [
        [word, f"{x:.3f}"] for pairs in words.values() for word, x in pairs
    ]
    shown.append(Table(("word", "adds"), listed, wide=0))
    if "truncated" in found:
        shown += _cut(model, *texts.values())
    return shown


def _texts(
    model: PageModel, text: str, second: str
) -> tuple[dict[str, str], list[Result]]:
    """Return the texts that a classifier reads, and a note of an unused one."""
    if model.settings.sentence_pairs:
        return {"text_a": text, "text_b": second}, []
    if not second.strip():
        return {"text": text}, []
    note = Note("This model reads one text: the second is unused.")
    return {"text": text}, [note]


def choices(model: PageModel, context: str, endings: str) -> list[Result]:
    """Return the probability of every choice, one in each line of `endings`."""
    listed = [line for line in endings.split("\n") if line.strip()]
    found = predict(model, context=context, choices=listed)
    names = [f"{number}. {text}" for number, text in enumerate(listed, 1)]
    shares = dict(zip(names, found["probabilities"], strict=True))
    shown: list[Result] = [Bars("Choices", shares)]
    if "truncated" in found:
        for number, text in enumerate(listed, 1):
            shown += _cut(model, context, text, f"Choice {number}")
    return shown


def similarities(model: PageModel, first: str, second: str) -> list[Result]:
    """Return the cosines of sentences with others, one in each line."""
    check_size({"first": first, "second": second})
    listed = [
        neighbors.sentences_of(text, "the page").texts
        for text in (first, second)
    ]
    for found, most in zip(listed, (MAX_PASTED, MAX_COLUMNS), strict=True):
        if not 1 <= len(found) <= most:
            raise UserError(
                f"{len(found):,} sentences: give 1 to {most}, one in each line"
            )
    texts, others = listed
    items = [parsed(model.task, text=text) for text in texts + others]
    vectors = vectors_of(model.task, model.run, items)
    cosines = vectors[: len(texts)] @ vectors[len(texts) :].T
    table = [
        [text, *(f"{x:.3f}" for x in line)]
        for text, line in zip(texts, cosines.tolist(), strict=True)
    ]
    num_cut = sum(lost > 0 for lost in model.task.encode(items).left_out)
    cut = f", {num_cut} of the sentences cut" if num_cut else ""
    return [Note(f"Cosines{cut}"), Table(("sentence", *others), table, 0)]


def answers(model: PageModel, question: str, context: str) -> list[Result]:
    """Return the answer in the context, the n best, and the null odds."""
    found = predict(model, question=question, context=context)
    shown: list[Result] = []
    if "null_odds" in found:
        odds, limit = found["null_odds"], model.settings.null_threshold
        is_none = odds > limit
        shown.append(
            Note(
                f"Null odds {odds:.4g} {'>' if is_none else '≤'} {limit:.4g}, "
                f"the threshold: {'no' if is_none else 'an'} answer"
            )
        )
    if found["answer"]:
        start, end = found["start"], found["end"]
        before = context[max(0, start - _AROUND) : start]
        after = context[end : end + _AROUND]
        parts = [
            ("… " if start > _AROUND else "", None),
            (before, None),
            (context[start:end], share(found["probability"])),
            (after, None),
            (" …" if len(context) > end + _AROUND else "", None),
        ]
        kinds = (share(found["probability"]),)
        shown.append(Text("The answer in the context", parts, kinds))
    else:
        shown.append(Note("The context has no answer."))
    listed = [
        [
            candidate["text"] or "(no answer)",
            share(candidate["probability"]),
            f"{candidate['score']:.4g}",
            "" if candidate["start"] is None else str(candidate["start"]),
        ]
        for candidate in found["nbest"]
    ]
    headers = ("answer", "probability", "score", "character")
    shown.append(Table(headers, listed, wide=0))
    if "truncated" in found:
        limit = model.task.settings.max_query_length
        parts = [
            (piece, _KINDS[0] if place < limit else _KINDS[2])
            for place, piece in enumerate(
                model.task.tokenizer.tokenize(question)
            )
        ]
        shown.append(
            Note(f"The model reads the first {limit} tokens of the question.")
        )
        shown.append(Text("Question", parts, _KINDS, is_legend=True))
    return shown


def entities(model: PageModel, text: str) -> list[Result]:
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
    shown = Text("Entities", parts, tuple(types))
    if not found:
        return [Note("No entity was found."), shown]
    listed = [
        [
            entity["text"],
            entity["type"],
            share(entity["score"]),
            str(entity["start"]),
        ]
        for entity in found
    ]
    headers = ("entity", "type", "score", "character")
    return [shown, Table(headers, listed, wide=0)]


# --- Every model -------------------------------------------------------------

_KINDS = ("first", "second", "not read")  # texts of pieces


def pieces(model: PageModel, text: str, second: str = "") -> list[Result]:
    """Return the word pieces with their ids."""
    found = rows.pieces_of(model, text, second)
    limit = model.settings.row_length
    cut = sum(piece.is_cut for piece in found)
    unknown = sum(piece.token == "[UNK]" for piece in found)
    message = f"{len(found) - cut:,} of {limit:,} tokens"
    if cut:
        message += f"; {cut:,} more have no place and are not read"
    if unknown:
        message += f"; {unknown:,} unknown to the vocabulary"
    listed = [
        [str(place), piece.token, str(piece.id), _kind(piece)]
        for place, piece in enumerate(found)
    ]
    headers = ("place", "piece", "id", "text")
    return [
        Note(message),
        _piece_text("Word pieces", found),
        Table(headers, listed, wide=1),
    ]


def _cut(
    model: PageModel, text: str, second: str = "", label: str = "Word pieces"
) -> list[Result]:
    """Return the pieces of a row; nothing if the model reads all of them."""
    found = rows.pieces_of(model, text, second)
    cut = sum(piece.is_cut for piece in found)
    if not cut:
        return []
    limit = model.settings.row_length
    note = f"{label}: the model reads {limit:,} tokens, {cut:,} are not read."
    return [Note(note), _piece_text(label, found)]


def _piece_text(label: str, found: Sequence[rows.Piece]) -> Text:
    parts = [(piece.token, _kind(piece)) for piece in found]
    return Text(label, parts, _KINDS, is_legend=True)


def _kind(piece: rows.Piece) -> str:
    return _KINDS[2] if piece.is_cut else _KINDS[piece.segment]


def attention_of(
    model: PageModel,
    text: str,
    second: str = "",
    kind: str = HEAT_MAP,
    layer: int | str = 1,
    head: int | str = MEAN,
) -> list[Result]:
    """Return which tokens attend to which.

    Args:
        model: any.
        text: the first text.
        second: the second text; blank: there is none.
        kind: one of ATTENTION_KINDS.
        layer: from 1.
        head: from 1; or MEAN of the layer's heads.
    """
    found = rows.pieces_of(model, text, second, at_once=True)
    config = model.model.config
    if kind != ALL_HEADS:
        layer = _number("layer", layer, config.num_hidden_layers)
        if head != MEAN:
            head = _number("head", head, config.num_attention_heads)
    seen = [piece.token for piece in found if not piece.is_cut]
    shown: list[Result] = []
    if len(seen) < len(found):
        shown.append(
            Note(
                f"{len(seen):,} of {len(found):,} tokens; the others are not "
                "shown (tab Word pieces)"
            )
        )
    features = rows.features_of(rows.row_of(found))
    layers = attention.attention_heads(model.model, features)
    if kind == ALL_HEADS:
        figure = plots.overview([plots.thumbnails(probs) for probs in layers])
        return [
            *shown,
            Note("Rows are layers, columns are heads."),
            Plot(figure),
        ]
    probs = next(p for n, p in enumerate(layers, 1) if n == layer)
    chosen = probs.mean(axis=0) if head == MEAN else probs[head - 1]
    if kind == HEAT_MAP:
        figure = plots.heat_map(seen, chosen)
        return [*shown, Note("Rows attend to columns."), Plot(figure)]
    note = (
        "Left attends to right. Point at a token on the left for its lines "
        f"alone; weights below {plots.MIN_LINE} are left out."
    )
    return [*shown, Note(note), Drawing(plots.lines(seen, chosen))]


def _number(what: str, value: int | str, largest: int) -> int:
    """Return a layer or a head.

    Raises:
        UserError: the model has no such one.
    """
    number = int(value)
    if not 1 <= number <= largest:
        raise UserError(f"the model has {largest} {what}s, and no {number}")
    return number


def nearest(
    indexes: Mapping[str, Index], model: PageModel, text: str, pooling: str
) -> list[Result]:
    """Return the nearest sentences of a file.

    Args:
        indexes: the file's, by name of the model.
        model: any.
        text: the sentence to compare with.
        pooling: one of neighbors.POOLINGS.
    """
    index = indexes[model.name]
    found = index.nearest(text, pooling, NUM_NEIGHBORS)
    message = f"Cosine of {pooling} vectors, {len(index.sentences.texts):,} "
    message += "sentences"
    if index.num_cut:
        message += f", {index.num_cut:,} of them cut"
    listed = [
        [f"{near.similarity:.3f}", str(near.line), near.text] for near in found
    ]
    return [Note(message), Table(("cosine", "line", "sentence"), listed, 2)]


def nearest_pasted(
    model: PageModel, text: str, sentences: str, pooling: str
) -> list[Result]:
    """Return the nearest of the sentences in a text, one in each line.

    Raises:
        UserError: there is none, or too many.
    """
    check_size({"text": text, "sentences": sentences})
    found = neighbors.sentences_of(sentences, "the page")
    if not found.texts:
        raise UserError("there are no sentences to search: one in each line")
    if len(found.texts) > MAX_PASTED:
        raise UserError(
            f"{len(found.texts):,} sentences, at most {MAX_PASTED} can be "
            "pasted: name a file with --neighbors_file"
        )
    index = Index(model, found)
    return nearest({model.name: index}, model, text, pooling)


def search(
    indexes: Mapping[str, SearchIndex], model: PageModel, text: str
) -> list[Result]:
    """Return the sentences of --index that are nearest to a query.

    Args:
        indexes: that of each model, by its name.
        model: one of them.
        text: the query.
    """
    index, (settings, run_model) = indexes[model.name], model.of_vectors()
    task = task_for(settings, "query")
    vectors = vectors_of(task, run_model, [parsed(task, text=text)])
    results = next(index.search(vectors, NUM_NEIGHBORS))
    listed = [[f"{r['score']:.3f}", str(r["id"]), r["text"]] for r in results]
    return [
        Note(f"Cosine of vectors, {len(index.vectors):,} sentences"),
        Table(("cosine", "id", "sentence"), listed, 2),
    ]
