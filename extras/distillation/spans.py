"""Distillation on SQuAD: starts and ends as teachers see them.

Targets are probabilities over the tokens of a window, so teachers read the
windows of the student: they need its vocabulary, casing and lengths.
"""

from collections.abc import Iterable, Iterator, Sequence

from base import tables

import numpy as np
import tensorflow as tf

from extras.distillation import students
from extras.distillation.answers import Line, key_of, numbers
from extras.distillation.students import SOFT_TARGETS
from ops import losses
from records.in_memory import ShortRecords
from records.streaming import Batch
from tasks.squad.job import SquadJob
from tasks.squad.model import without_padding
from tasks.squad.task import window_digest
from training.objective import example_weights

_LOGITS = ("start_logits", "end_logits")


class SpanDistillation(students.Distillation[SquadJob]):
    """What a model of spans learns; the logits are [n, 2, S]."""

    hint = (
        "; a teacher of spans reads the student's windows: it needs the same "
        "vocabulary and casing, --max_seq_length, --doc_stride and "
        "--max_query_length"
    )

    def entries(self, line: Line, at: str) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each window of a question and its logits [2, tokens]."""
        for window in tables.require(line, "windows", list, at):
            digest = tables.require(window, "digest", str, at)
            logits = [tables.require(window, n, list, at) for n in _LOGITS]
            size = len(logits[0])
            yield _key(digest, size), numbers(logits, (2, size), at)

    def keys(
        self, data: ShortRecords, answered: Iterable[str] = ()
    ) -> list[str]:
        """Return the digests of the windows, with their lengths."""
        tokens_of = self.job.tokenizer.convert_ids_to_tokens
        rows = zip(data.features["input_ids"], data.lengths, strict=True)
        return [
            _key(window_digest(tokens_of(ids[:size].tolist())), size)
            for ids, size in rows
        ]

    def texts_of(self, keys: Sequence[str]) -> Iterator[str]:
        """Yield the questions that have these windows."""
        train = self.job.train
        windows = self.job.examples(train)
        data = windows.data
        own = self.keys(self.job.records(train))
        lacking = {*keys}
        for key, number in zip(own, windows.example, strict=True):
            if key in lacking:
                example = data.examples[number]
                context = data.paragraphs[example.paragraph].text
                yield key_of(question=example.question_text, context=context)

    def logits(self, data: ShortRecords, found: list[np.ndarray]) -> np.ndarray:
        """Return the logits of all windows, [n, 2, S].

        Padding has the probability 0, as in the loss of the labels.
        """
        shape = (len(found), 2, data.full_length)
        logits = np.full(shape, -np.inf, np.float32)
        for row, values in enumerate(found):
            logits[row, :, : values.shape[1]] = values
        return logits

    def truths(self, data: ShortRecords) -> np.ndarray:
        """Return the starts and ends [n, 2]."""
        names = ("start_positions", "end_positions")
        return np.stack([data.features[n].astype(float) for n in names], 1)

    def add_targets(self, data: ShortRecords, targets: np.ndarray) -> None:
        """Add the targets of starts and ends, [n, S, 2]."""
        super().add_targets(data, targets.transpose(0, 2, 1))
        data.sequences.append(SOFT_TARGETS)

    def soft_loss(self, logits: tf.Tensor, batch: Batch) -> losses.Loss:
        """Return the mean loss of starts and ends [2, B, S] of the windows."""
        weights = example_weights(batch, "start_positions")  # [B]
        both = losses.soft_loss(
            without_padding(logits, batch),
            tf.transpose(batch[SOFT_TARGETS], [2, 0, 1]),  # [2, B, S]
            self.temperature,
            tf.stack([weights, weights]),
        )
        return losses.Loss(*(value / 2.0 for value in both))


def _key(digest: str, num_tokens: int) -> str:
    """Return the key under which the answer to a window is found."""
    return f"{digest} of {num_tokens} tokens"
