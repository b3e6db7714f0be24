"""The sentences of a file that are nearest to a sentence.

Nearness is the cosine of two vectors of the last layer: the mean over all
tokens of a sentence, or that of the token which represents it, [CLS].
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from base import progress, text_files
from base.errors import UserError

import numpy as np

import modeling
from tasks import nearest, predict
from tasks.rows import Unit, Units
from tools.page import rows
from tools.page.models import PageModel

POOLINGS = ("mean", "[CLS]")

# Two float32 vectors of each stay in memory: 600 MB for Base.
MAX_SENTENCES = 100_000

_BATCH_SIZE = 16


class Neighbor(NamedTuple):
    """A sentence of the file."""

    similarity: float  # cosine, from -1 to 1
    line: int  # from 1
    text: str


class Sentences(NamedTuple):
    """The sentences to search: the lines of a file that are not blank."""

    path: str
    lines: list[int]  # number of each in the file, from 1
    texts: list[str]


def read_sentences(path: str) -> Sentences:
    """Return the sentences of a text file, one in each line.

    Raises:
        UserError: the file cannot be read, is not UTF-8 text, has no text or
            too many lines.
    """
    text = text_files.read_text(path)
    if "\0" in text:
        raise UserError(
            f"--neighbors_file={path} holds zero bytes: wanted UTF-8 text, one "
            "sentence per line"
        )
    found = sentences_of(text, path)
    if not found.texts:
        raise UserError(
            f"--neighbors_file={path} has no text: wanted one sentence per line"
        )
    if len(found.texts) > MAX_SENTENCES:
        raise UserError(
            f"--neighbors_file={path} has {len(found.texts):,} sentences, at "
            f"most {MAX_SENTENCES:,} are searched: extract_features.py writes "
            "vectors of files of any size"
        )
    return found


def sentences_of(text: str, path: str) -> Sentences:
    """Return the sentences of a text; `path` is its name."""
    found = [
        (number, line.strip())
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    return Sentences(path, [n for n, _ in found], [line for _, line in found])


class Index:
    """The vectors of sentences, to be searched.

    Args:
        model: its encoder makes the vectors.
        sentences: at least one.

    Attributes:
        num_cut: sentences of more tokens than the model takes.
    """

    def __init__(self, model: PageModel, sentences: Sentences):
        self.model, self.sentences = model, sentences
        units, self.num_cut = [], 0
        for text in sentences.texts:
            pieces = rows.pieces_of(model, text)
            self.num_cut += any(piece.is_cut for piece in pieces)
            units.append([rows.row_of(pieces)])
        what = f"Encoding sentences with {model.name}"
        with progress.Bar(len(units), "sentences", what) as bar:
            # Pooling -> [n, H].
            self.vectors = _unit_vectors(model, units, bar.update)

    def nearest(self, text: str, pooling: str, count: int) -> list[Neighbor]:
        """Return the sentences that are nearest to a text, the nearest first.

        Args:
            text: the sentence to compare with.
            pooling: one of POOLINGS.
            count: how many at most.

        Raises:
            UserError: the text is empty, or the outputs are not finite.
        """
        unit = [rows.row_of(rows.pieces_of(self.model, text))]
        query = _unit_vectors(self.model, [unit])[pooling][0]  # [H]
        cosines = self.vectors[pooling] @ query  # [n]
        if not np.isfinite(cosines).all():
            raise UserError(
                "the model's outputs are not finite numbers: the checkpoint is "
                "damaged"
            )
        order = np.argsort(-cosines, kind="stable")[:count]
        return [
            Neighbor(
                float(cosines[place]),
                self.sentences.lines[place],
                self.sentences.texts[place],
            )
            for place in order.tolist()
        ]


def _unit_vectors(
    model: PageModel,
    units: Sequence[Unit],
    update: Callable[[int], None] = lambda count: None,
) -> dict[str, np.ndarray]:
    """Return the vectors of rows, with length 1: pooling -> [n, H].

    Args:
        model: its encoder makes the vectors.
        units: one row each.
        update: called with the number of rows of each batch.
    """
    width = model.model.config.hidden_size
    found = {
        name: np.zeros([len(units), width], np.float32) for name in POOLINGS
    }
    # Of the encoder: its rows are single ones, whatever the head's task is.
    data = Units(units, model.encoder.settings.row_length)
    for taken, output in predict.run_batches(
        model.run_encoder, data, _BATCH_SIZE
    ):
        found["mean"][taken] = output["mean_output"]
        sequence = output["sequence_output"]
        found["[CLS]"][taken] = modeling.class_vectors(
            sequence,
            np.arange(sequence.shape[1]) < data.lengths[taken, None],
            model.model.config.attention_direction,
        )
        update(len(taken))
    return {name: nearest.unit_length(v) for name, v in found.items()}
