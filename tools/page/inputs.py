"""What the page computes of an input: prediction, vector, word pieces.

Predictions are those of batch_predict.py, vectors those of search.py.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf

from serving.search.build import task_for, vectors_of
from tasks import predict as tasks_predict
from tasks import rows
from tasks.masked_lm.task import sentence_to_ids
from tasks.task import Input, Place, Prediction, Task
from tools.page.models import PageModel

_BATCH_SIZE = 4  # rows; small, as requests end between batches

_PLACE = Place("page", 1)

NOT_READ = "not read"
KINDS = ("first text", "second text", NOT_READ)  # first those of the segments


# --- Predictions -------------------------------------------------------------


def predict(model: PageModel, **texts: str | list[str]) -> Prediction:
    """Return the prediction for the texts of an input.

    It is the line that batch_predict.py writes for a line of JSON with these
    texts, without the id.

    Args:
        model: the model to predict with.
        **texts: the task's own names and values: text="...", or question="..."
            and context="...", and so on.

    Raises:
        UserError: the input cannot be predicted; has the reason.
    """
    item = _parsed(model.task, **texts)
    (found,) = tasks_predict.predict(model.task, model.run, [item], _BATCH_SIZE)
    if isinstance(found, str):
        raise UserError(found)
    return found


def _parsed(task: Task, **texts: str | list[str]) -> Input:
    """Return texts as the input of a task."""
    return task.parse(_PLACE, json.dumps(texts).encode(), "jsonl")


def vectors(
    model: PageModel,
    texts: Sequence[str],
    use: str = "",
    update: Callable[[int], None] = lambda count: None,
) -> tuple[np.ndarray, int]:
    """Return the vectors of texts, and how many of the texts were cut.

    The vectors are float32 [n, D], as they are compared.

    Args:
        model: any; without `use` one of sentence embeddings.
        texts: n of them.
        use: "query" or "document", for vectors that search.py has; else they
            are those of batch_predict.py, which may have another prompt.
        update: called with the number of texts of each batch.
    """
    task = task_for(model.vector_settings, use) if use else model.task
    inputs = [_parsed(task, text=text) for text in texts]
    num_cut = sum(lost > 0 for lost in task.encode(inputs).left_out)
    return vectors_of(task, model.run_vectors, inputs, update), num_cut


def next_sentence(
    model: PageModel, features: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return how probable it is that text B follows A, and that it does not.

    The two probabilities are those of the next sentence head of pre-training.

    Args:
        model: one that has models.NEXT_SENTENCE.
        features: input_ids, input_mask and segment_ids, [1, S].
    """
    output = model.model.bert(**model.model.encoder_inputs(features))
    logits = model.model.next_sentence_logits(output, features)
    return tf.nn.softmax(logits)[0].numpy()


# --- Word pieces -------------------------------------------------------------


class Piece(NamedTuple):
    """A word piece of an input."""

    token: str
    id: int
    kind: str  # one of KINDS; NOT_READ if the row has no place for it


def pieces_of(
    model: PageModel, text_a: str, text_b: str = "", at_once: bool = False
) -> list[Piece]:
    """Return all pieces of [CLS] text_a [SEP] text_b [SEP], in order.

    Pieces that the row has no place for are at their places in the text. A
    masked LM reads "[MASK]" as one token, other models as any text.

    Args:
        model: its settings have the length of the row.
        text_a: the first text.
        text_b: the second text; blank: there is none.
        at_once: whether the row is as long as the encoder reads at once; else
            it may have several windows.

    Raises:
        UserError: there is no text.
    """
    if not text_a.strip():
        raise UserError("text is empty")
    checkpoint, tokenizer = model.task.checkpoint, model.task.tokenizer
    a, b = (
        sentence_to_ids(text, tokenizer)[1:-1]
        if model.settings.task == "masked_lm"
        else tokenizer.text_to_ids(text)
        for text in (text_a, text_b)
    )
    length = checkpoint.max_seq_length if at_once else checkpoint.row_length
    kept = rows.kept_lengths(
        len(a), len(b), length, checkpoint.tokenizer_settings.is_of_hub
    )
    kinds = [KINDS[0]]
    for own, ids, number in zip(KINDS[:2], (a, b), kept, strict=True):
        how = checkpoint.long_texts.how
        places = {*rows.kept_places(len(ids), number, how)}
        kinds += [own if at in places else NOT_READ for at in range(len(ids))]
        # If nothing is left of the second text, its [SEP] is not read either.
        kinds.append(own if number or own == KINDS[0] else NOT_READ)
    whole, _ = rows.row_of_ids(a, b, len(kinds), tokenizer.vocab)
    ids = whole.input_ids.tolist()
    # Without a second text there is no second [SEP], and map() stops before it.
    return list(map(Piece, tokenizer.convert_ids_to_tokens(ids), ids, kinds))


def features_of(pieces: Sequence[Piece]) -> dict[str, np.ndarray]:
    """Return the pieces that are read as a batch of one row, int32 [1, S]."""
    seen = [
        (piece.id, KINDS.index(piece.kind))
        for piece in pieces
        if piece.kind != NOT_READ
    ]
    ids, segments = np.array(seen, np.int32).T[:, None]
    return {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": segments,
    }
