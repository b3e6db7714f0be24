"""What each tab shows of one model, as HTML.

A view takes a model and the values of the tab's fields. It raises a UserError
for an input that cannot be shown, and the tab shows the message.
"""

from collections.abc import Sequence
from typing import Any

from base.errors import UserError, counted

from tasks import nearest as tasks_nearest
from tasks.ner import data as ner_data
from tools.page import attention, inputs, neighbors
from tools.page.inputs import predict
from tools.page.markup import bars, marked, note, number, shaded, share, table
from tools.page.models import PageModel

NUM_NEIGHBORS = 10

MAX_COLUMNS = 10  # of the table of similarities, beside the sentences

_AROUND = 600  # characters of a context that are shown around an answer

MEAN = "mean"  # of the heads of a layer


# --- Heads -------------------------------------------------------------------


def masks(model: PageModel, text: str) -> str:
    """Return the likeliest word pieces of every [MASK]."""
    found = predict(model, text=text)
    first, *others = text.split("[MASK]")
    parts: list[tuple[str, str | None]] = [(first, None)]
    names, tables = [], ""
    pieces = zip(others, found["tokens"], found["scores"], strict=True)
    for place, (other, tokens, scores) in enumerate(pieces, 1):
        names.append(f"[MASK] {place}")
        parts += [(tokens[0], names[-1]), (other, None)]
        pairs = [*zip(tokens, scores, strict=True)]
        tables += bars(names[-1], "word piece", pairs)
    return marked("With the likeliest word pieces", parts, names) + tables


def scores(model: PageModel, text: str) -> str:
    """Return the perplexity of a sentence, and log P of its tokens."""
    found = predict(model, text=text)
    pairs = zip(found["tokens"], found["token_scores"], strict=True)
    listed = [[token, f"{score:.2f}"] for token, score in pairs]
    return number("Perplexity", found["perplexity"]) + table(
        "Tokens", ("token", "log P, given all others"), listed
    )


def follows(model: PageModel, text: str, second: str) -> str:
    """Return how probable it is that the second text follows the first.

    Raises:
        UserError: the second text has no word.
    """
    features = inputs.features_of(inputs.pieces_of(model, text, second))
    if not features["segment_ids"].any():
        raise UserError(
            "the second text has no word: write one that may follow"
        )
    shares = inputs.next_sentence(model, features).tolist()
    names = ("the second text follows", "it is from another document")
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
    return shown + _cut(model, *texts.values())


def reasons(model: PageModel, text: str, second: str = "") -> str:
    """Return the words, colored by what they add to the answer's log odds."""
    texts, shown = _texts(model, text, second)
    found = predict(model.explaining, **texts)["attributions"]
    label = found.get("label")
    shown += number(
        f"Log odds of {label}" if label else "Predicted", found["value"]
    )
    shown += number("The same without the words", found["baseline"])
    shown += note(
        "The words add the difference: orange ones raise the first number, "
        "blue ones lower it. The strongest word has the full color."
    )
    if "gap" in found:
        shown += note(
            f"The sum of the words misses the difference by {found['gap']:.0%}."
        )
    words = [pair for name in texts for pair in found[name]]
    largest = max((abs(adds) for _, adds in words), default=0) or 1
    for name in texts:
        parts = [(word, adds / largest) for word, adds in found[name]]
        shown += shaded(name.replace("_", " ").capitalize(), parts)
    listed = [[word, f"{adds:+.3f}"] for word, adds in words]
    shown += table("What each word adds", ("word", "adds"), listed)
    return shown + _cut(model, *texts.values())


def _texts(
    model: PageModel, text: str, second: str
) -> tuple[dict[str, str], str]:
    """Return the texts that a classifier reads, and a note of an unused one."""
    if model.task.checkpoint.trained_for.sentence_pairs:
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
    for place, text in enumerate(listed, 1):
        shown += _cut(model, context, text, f"Choice {place}")
    return shown


def answers(model: PageModel, question: str, context: str) -> str:
    """Return the answer in the context, the likeliest ones, the null odds."""
    found = predict(model, question=question, context=context)
    shown = note("The context has no answer.")
    if found["answer"]:
        start, end = found["start"], found["end"]
        likely = share(found["probability"])
        before, after = context[:start], context[end:]
        parts = [
            ("… " if len(before) > _AROUND else "", None),
            (before[-_AROUND:], None),
            (context[start:end], likely),
            (after[:_AROUND], None),
            (" …" if len(after) > _AROUND else "", None),
        ]
        shown = marked("The answer in the context", parts, [likely])
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
        shown += note(
            f"The null odds are {odds:.4g}. The context has an answer if they "
            f"are {limit:.4g} or less."
        )
    most = model.task.settings.max_query_length
    pieces = [
        (token, inputs.KINDS[0] if place < most else inputs.NOT_READ)
        for place, token in enumerate(model.task.tokenizer.tokenize(question))
    ]
    return shown + _unread("Question", pieces)


def entities(model: PageModel, text: str) -> str:
    """Return the text with colored entities, and a table of their scores.

    Tags that name no entities, such as parts of speech, are shown for each
    word instead.
    """
    found = predict(model, text=text)
    labels = model.task.labels or ()
    is_speech = not any(map(ner_data.is_entity_tag, labels))
    if is_speech:
        title, rest, kinds = "Tags", ("word", "tag", "score"), labels
        rows = zip(found["places"], found["tags"], found["scores"], strict=True)
        marks = [(*place, tag, score) for place, tag, score in rows]
    else:
        title, rest = "Entities", ("entity", "type", "score")
        kinds = sorted({x[2:] for x in labels if ner_data.is_entity_tag(x)})
        names = ("start", "end", "type", "score")
        marks = [tuple(map(one.get, names)) for one in found["entities"]]
    parts: list[tuple[str, str | None]] = []
    at = 0
    for start, end, kind, _ in marks:
        parts += [(text[at:start], None), (text[start:end], kind)]
        at = end
    parts.append((text[at:], None))
    shown = marked(title, parts, kinds)
    if not marks:
        return note("No entity was found.") + shown
    listed = [[text[a:b], kind, share(score)] for a, b, kind, score in marks]
    scores = [score for *_, score in marks]
    return shown + table(f"{title} and their scores", rest, listed, scores)


# --- Every model -------------------------------------------------------------


def pieces(model: PageModel, text: str, second: str = "") -> str:
    """Return the word pieces with their ids."""
    found = inputs.pieces_of(model, text, second)
    read = [piece for piece in found if piece.kind != inputs.NOT_READ]
    length = model.task.checkpoint.row_length
    message = f"{len(read):,} of {length:,} places are used."
    if cut := len(found) - len(read):
        message += f" Pieces without a place, which are not read: {cut:,}."
    if unknown := sum(piece.token == "[UNK]" for piece in found):
        message += f" Words that the vocabulary lacks: {unknown:,}."
    parts = [(piece.token, piece.kind) for piece in found]
    listed = [
        [piece.token, str(place), str(piece.id)]
        for place, piece in enumerate(read)
    ]
    return (
        note(message)
        + marked("Word pieces", parts, inputs.KINDS, is_named=False)
        + table("Ids of the pieces", ("piece", "place", "id"), listed)
    )


def _cut(
    model: PageModel, text: str, second: str = "", label: str = "Word pieces"
) -> str:
    """Mark the word pieces without a place in the row; "" if all have one."""
    found = inputs.pieces_of(model, text, second)
    return _unread(label, [(piece.token, piece.kind) for piece in found])


def _unread(label: str, parts: Sequence[tuple[str, str]]) -> str:
    """Mark the word pieces that the model leaves out; "" if it reads all."""
    read = sum(kind != inputs.NOT_READ for _, kind in parts)
    if read == len(parts):
        return ""
    return note(
        f"{label}: the model reads {read:,} of {len(parts):,} tokens."
    ) + marked(label, parts, inputs.KINDS, is_named=False)


def attention_of(
    model: PageModel, text: str, second: str, layer: str, head: str
) -> tuple[str, dict[str, Any]]:
    """Return a note and a figure: which tokens attend to which.

    Args:
        model: any model of the page.
        text: the first text.
        second: the second text; blank: there is none.
        layer: a number from 1.
        head: a number from 1; or MEAN of the layer's heads.

    Raises:
        UserError: another model of the page has more layers or heads.
    """
    found = inputs.pieces_of(model, text, second, at_once=True)
    seen = [piece.token for piece in found if piece.kind != inputs.NOT_READ]
    features = inputs.features_of(found)
    layers = [*attention.attention_heads(model.model, features)]
    try:
        probs = layers[int(layer) - 1]
        chosen = probs.mean(axis=0) if head == MEAN else probs[int(head) - 1]
    except IndexError as error:
        raise UserError(
            f"the model has {counted(len(layers), 'layer')} of "
            f"{counted(len(layers[0]), 'head')}"
        ) from error
    shown = ""
    if len(seen) < len(found):
        shown = note(
            f"The model reads {len(seen):,} of {len(found):,} tokens at once."
        )
    return shown, attention.heat_map(seen, chosen)


# --- Vectors -----------------------------------------------------------------


def similarities(model: PageModel, first: str, second: str) -> str:
    """Return the similarities of sentences with others, one in each line.

    Raises:
        UserError: there are too many of one kind, or none.
    """
    texts = [*neighbors.sentences_of(first).values()]
    others = [*neighbors.sentences_of(second, MAX_COLUMNS).values()]
    found, num_cut = inputs.vectors(model, texts + others)
    similarity = model.task.checkpoint.trained_for.similarity_fn_name
    ours, theirs = found[: len(texts), None], found[None, len(texts) :]
    values = tasks_nearest.scores(ours, theirs, similarity)
    listed = [
        [text, *(f"{x:.3f}" for x in line)]
        for text, line in zip(texts, values.tolist(), strict=True)
    ]
    return _cut_sentences(num_cut) + table(
        f"{(similarity or 'cosine').capitalize()} of the vectors",
        ("sentence", *others),
        listed,
    )


def _cut_sentences(number: int) -> str:
    if not number:
        return ""
    return note(f"{counted(number, 'sentence')} cut to what the model reads.")


def nearest(model: PageModel, text: str, pasted: str = "") -> str:
    """Return the sentences that are nearest to a text.

    If the model has none to search, they are those of `pasted`, one in each
    line.
    """
    searched = model.searched or neighbors.Collection(
        model, neighbors.sentences_of(pasted)
    )
    query, _ = inputs.vectors(model, [text], "query")
    found = next(searched.search(query, NUM_NEIGHBORS))
    listed = [[r["text"], f"{r['score']:.3f}", str(r["id"])] for r in found]
    num_cut = getattr(searched, "num_cut", 0)  # an index does not say it
    return _cut_sentences(num_cut) + table(
        f"The nearest of {counted(len(searched.vectors), 'sentence')}",
        ("sentence", searched.similarity or "cosine", "line"),
        listed,
        [] if searched.similarity else [r["score"] for r in found],
    )
