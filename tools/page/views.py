"""What each tab shows of one model, as HTML.

A view takes a model and the values of the tab's fields. It raises UserError
for an input that cannot be shown; the tab shows the message.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from base.errors import UserError

import numpy as np

from checkpoints import model_files
from tools.page import attention, drawing, neighbors, rows, svg
from tools.page.models import PageModel
from tools.page.neighbors import Index
from tools.page.predictions import check_size, next_sentence, predict
from tools.page.rows import Part

NUM_ANSWERS = 5

NUM_NEIGHBORS = 10

MAX_PASTED = 200  # sentences, encoded again for every search

# Choices of the attention tab.
HEAT_MAP, LINES, ALL_HEADS = "heat map", "lines", "all heads"
ATTENTION_KINDS = (HEAT_MAP, LINES, ALL_HEADS)
MEAN = "mean"


# --- Heads -------------------------------------------------------------------


def masks(model: PageModel, text: str) -> str:
    """Return the likeliest tokens of every [MASK]."""
    found = predict(model, text=text)
    best = [tokens[0] for tokens in found["tokens"]]
    parts = [drawing.filled(text.split("[MASK]"), best)]
    masks = zip(found["tokens"], found["scores"], strict=True)
    for number, (tokens, scores) in enumerate(masks, 1):
        bars = drawing.bars(list(zip(tokens, scores, strict=True)))
        parts.append(drawing.heading(f"[MASK] {number}", bars))
    return "".join(parts)


def follows(model: PageModel, text: str, second: str = "") -> str:
    """Return how probable it is that the second text follows the first.

    Raises:
        UserError: the second text has no word.
    """
    row = rows.row_of(rows.pieces_of(model, text, second))
    if not row.segment_ids.any():
        raise UserError("second text is empty: give one that may follow")
    shares = next_sentence(model, rows.features_of(row))
    names = ("the second text follows", "it is of another document")
    bars = _sorted_bars(list(zip(names, map(float, shares), strict=True)))
    return bars + _cut_texts(model, [text, second])


def classes(model: PageModel, text: str, second: str = "") -> str:
    """Return the probability of every class, or the number of a regression."""
    parts = []
    if model.settings.sentence_pairs:
        texts = [text, second]
        found = predict(model, text_a=text, text_b=second)
    else:
        texts = [text]
        found = predict(model, text=text)
        if second.strip():
            parts.append(
                drawing.note("This model reads one text: the second is unused.")
            )
    if "value" in found:
        parts.append(drawing.number_line("predicted", found["value"]))
    else:
        parts.append(_sorted_bars(found["probabilities"].items()))
    if "truncated" in found:
        parts.append(_cut_texts(model, texts))
    return "".join(parts)


def choices(model: PageModel, context: str, endings: str) -> str:
    """Return the probability of every choice, one in each line of `endings`."""
    listed = [line for line in endings.split("\n") if line.strip()]
    found = predict(model, context=context, choices=listed)
    named = [
        (f"{number}. {text}", share)
        for number, (text, share) in enumerate(
            zip(listed, found["probabilities"], strict=True), 1
        )
    ]
    parts = [drawing.bars(named, found["answer"])]
    if "truncated" in found:
        for number, text in enumerate(listed, 1):
            body = _cut_texts(model, [context, text])
            if body:
                parts.append(drawing.heading(f"Choice {number}", body))
    return "".join(parts)


def answers(model: PageModel, question: str, context: str) -> str:
    """Return the answer in the context, the n best, and the null odds."""
    found = predict(model, question=question, context=context)
    parts = []
    if "null_odds" in found:
        odds, limit = found["null_odds"], model.settings.null_threshold
        verdict = "no answer" if odds > limit else "an answer"
        sign = ">" if odds > limit else "≤"
        parts.append(
            drawing.note(
                f"Null odds {odds:.4g} {sign} {limit:.4g}, the threshold: "
                f"{verdict}"
            )
        )
    if found["answer"]:
        anchor = "answer-" + re.sub(r"\W", "-", model.name)
        parts.append(
            f'<p><a class="bert-answer" href="#{anchor}">'
            f"{drawing.escape(found['answer'])}</a> "
            f"{drawing.share(found['probability'])}</p>"
        )
        place = found["start"], found["end"]
        parts.append(drawing.marked(context, *place, anchor))
    else:
        parts.append(drawing.note("The context has no answer."))
        parts.append(drawing.text_box(drawing.escape(context)))
    if "truncated" in found:
        limit = model.settings.max_query_length
        part = rows.part_of(question, limit, model.task.tokenizer)
        parts.append(drawing.with_cut([part], limit))
    headers = ("answer", "probability", "score", "character")
    listed = [_answer_row(candidate) for candidate in found["nbest"]]
    parts.append(drawing.table(headers, listed, wide=0))
    return "".join(parts)


def _answer_row(candidate: Mapping[str, Any]) -> list[str]:
    """Return a row of the table of the n best."""
    start = candidate["start"]
    return [
        candidate["text"] or "(no answer)",
        drawing.share(candidate["probability"]),
        f"{candidate['score']:.4g}",
        "" if start is None else str(start),
    ]


def entities(model: PageModel, text: str) -> str:
    """Return the text with colored entities, and a table of their scores."""
    found = predict(model, text=text)["entities"]
    labels = model_files.labels_in(model.model.config) or ()
    types = sorted({label[2:] for label in labels if label[1:2] == "-"})
    spans = [
        (entity["start"], entity["end"], entity["type"]) for entity in found
    ]
    html = drawing.colored(text, spans, types)
    if not found:
        return drawing.note("No entity was found.") + html
    listed = [
        [
            entity["text"],
            entity["type"],
            drawing.share(entity["score"]),
            str(entity["start"]),
        ]
        for entity in found
    ]
    headers = ("entity", "type", "score", "character")
    return html + drawing.table(headers, listed, wide=0)


def _sorted_bars(shares: Sequence[tuple[str, float]]) -> str:
    return drawing.bars(sorted(shares, key=lambda item: -item[1]))


def _cut_texts(model: PageModel, texts: Sequence[str]) -> str:
    """Return texts with what the model does not see; "" if it sees all."""
    limit = model.settings.max_seq_length
    parts: list[Part] = rows.parts_of(list(texts), limit, model.task.tokenizer)
    if not any(part.cut for part in parts):
        return ""
    return drawing.with_cut(parts, limit)


# --- Every model -------------------------------------------------------------


def pieces(model: PageModel, text: str, second: str = "") -> str:
    """Return the word pieces with their ids."""
    found = rows.pieces_of(model, text, second)
    limit = model.settings.max_seq_length
    cut = sum(piece.is_cut for piece in found)
    unknown = sum(piece.token == "[UNK]" for piece in found)
    message = f"{len(found) - cut:,} of {limit:,} tokens"
    if cut:
        message += f"; {cut:,} more are cut, struck through here"
    if unknown:
        message += f"; {unknown:,} unknown to the vocabulary"
    return drawing.note(message) + drawing.piece_chips(found)


def attention_of(
    model: PageModel,
    text: str,
    second: str = "",
    kind: str = HEAT_MAP,
    layer: int | str = 1,
    head: int | str = MEAN,
) -> str:
    """Return which tokens attend to which.

    Args:
        model: any.
        text: the first text.
        second: the second text; blank: there is none.
        kind: one of ATTENTION_KINDS.
        layer: from 1.
        head: from 1; or MEAN of the layer's heads.
    """
    found = rows.pieces_of(model, text, second)
    config = model.model.config
    if kind != ALL_HEADS:
        layer = _number("layer", layer, config.num_hidden_layers)
        if head != MEAN:
            head = _number("head", head, config.num_attention_heads)
    seen = [piece.token for piece in found if not piece.is_cut]
    features = rows.features_of(rows.row_of(found))
    parts = []
    if len(seen) < len(found):
        parts.append(
            drawing.note(
                f"The first {len(seen):,} of {len(found):,} tokens; the others "
                "are cut (tab Word pieces)"
            )
        )
    layers = attention.attention_heads(model.model, features)
    if kind == ALL_HEADS:
        parts.append(drawing.note("Rows are layers, columns are heads."))
        parts.append(svg.overview([svg.thumbnails(probs) for probs in layers]))
        return "".join(parts)
    probs = next(p for n, p in enumerate(layers, 1) if n == layer)
    chosen = probs.mean(axis=0) if head == MEAN else probs[head - 1]
    return "".join([*parts, _one_head(kind, seen, chosen)])


def _one_head(kind: str, tokens: Sequence[str], probs: np.ndarray) -> str:
    """Return the picture of the probabilities [F, T] of some tokens."""
    if kind == LINES:
        note = (
            "Left attends to right. Point at a token on the left for its "
            f"lines alone; weights below {svg.MIN_LINE} are left out."
        )
        return drawing.note(note) + svg.lines(tokens, probs)
    note = drawing.note("Rows attend to columns.")
    return note + svg.heat_map(tokens, probs)


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
) -> str:
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
    table = drawing.table(("cosine", "line", "sentence"), listed, wide=2)
    return drawing.note(message) + table


def nearest_pasted(
    model: PageModel, text: str, sentences: str, pooling: str
) -> str:
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
