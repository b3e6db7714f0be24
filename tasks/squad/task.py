"""Answers to questions on contexts of any length, with their characters.

Windows and decoding are those of run_squad.py (tasks/squad/windows.py and
tasks/squad/decoding.py), so the answers are the same.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tasks.rows import Unit
from tasks.squad import data as squad_data
from tasks.squad import decoding as squad_decoding
from tasks.squad import windows as squad_windows
from tasks.squad.decoding import Candidate
from tasks.task import (
    NOT_FINITE,
    Encoded,
    Input,
    Outputs,
    Prediction,
    Task,
    TaskSettings,
    number,
)

_NO_TOKEN = "the context has no token"


class Options(NamedTuple):
    """How contexts are read, and answers found.

    Attributes:
        doc_stride, max_query_length, max_answer_length, n_best_size: as for
            run_squad.py; without max_query_length, the default for the length.
        num_answers: answers of a question to list; 1: the best one alone.
        null_threshold: for no answer; None if every question has one.
    """

    doc_stride: int = 128
    max_query_length: int | None = None
    max_answer_length: int = 30
    n_best_size: int = 20
    num_answers: int = 1
    null_threshold: float | None = None


class QuestionAnswering(Task):
    """A part of the context for each question."""

    name = "question_answering"
    model = "squad.model.BertForQuestionAnswering"
    graph = "squad.model.QuestionAnsweringGraph"
    options_type = Options
    described = (
        *Task.described,
        "doc_stride",
        "max_query_length",
        "max_answer_length",
        "null_threshold",
    )
    head = "cls/squad/output_weights"
    text_names = ("question", "context")
    why_no_records = (
        "a record of a question lacks its text and its other windows: give "
        "text or JSON lines"
    )

    def __init__(self, settings: TaskSettings):
        length, own = settings.checkpoint.max_seq_length, settings.options
        query = own.max_query_length or squad_windows.query_length(length)
        own = own._replace(max_query_length=query)
        super().__init__(settings._replace(options=own))
        self.lengths = squad_windows.Lengths(length, own.doc_stride, query)
        self.decoding = squad_decoding.AnswerOptions(
            own.n_best_size, own.max_answer_length
        )

    @property
    def predicted(self) -> tuple[str, ...]:
        """The fields of an answer, and what the settings add to it."""
        return (
            *("answer", "start", "end", "probability", "score"),
            *["null_odds"] * (self.options.null_threshold is not None),
            *["nbest"] * (self.options.num_answers > 1),
            *["windows"] * bool(self.settings.teacher),
        )

    # --- Windows -------------------------------------------------------------

    def encode(self, inputs: Sequence[Input]) -> Encoded:
        """Return the windows of all questions, each a unit."""
        is_version_2 = self.options.null_threshold is not None
        data = squad_data.SquadData([], [], is_version_2=is_version_2)
        for item in inputs:
            context = item.texts["context"]
            # Several questions on the same context follow one another.
            if not data.paragraphs or data.paragraphs[-1].text != context:
                data.paragraphs.append(squad_data.make_paragraph(context))
            data.examples.append(
                squad_data.SquadExample(
                    str(len(data.examples)),
                    item.texts["question"],
                    len(data.paragraphs) - 1,
                )
            )
        windows = squad_windows.convert(data, self.tokenizer, self.lengths)
        records = squad_windows.records(windows, self.tokenizer.vocab)
        units = [[row] for row, _ in records]
        return Encoded(inputs, units, windows.left_out.tolist(), windows)

    # --- Answers -------------------------------------------------------------

    def decode(
        self, encoded: Encoded, outputs: Sequence[Outputs]
    ) -> Iterator[Prediction | str]:
        """Yield the answer to each question."""
        windows = encoded.state
        if not len(windows):  # there is nothing to decode
            yield from [_NO_TOKEN] * len(encoded.inputs)
            return
        width = max(len(found["start_logits"]) for found in outputs)
        starts, ends = np.zeros([2, len(windows), width], np.float32)
        for row, found in enumerate(outputs):
            size = len(found["start_logits"])
            starts[row, :size] = found["start_logits"]
            ends[row, :size] = found["end_logits"]
        decoded = squad_decoding.decode(
            windows,
            starts,
            ends,
            self.tokenizer,
            self.decoding,
            has_bar=False,
        )
        chosen = decoded.chosen(self.options.null_threshold or 0.0)
        bounds = np.searchsorted(
            windows.example, np.arange(len(encoded.inputs) + 1)
        )
        for place, (key, nbest) in enumerate(decoded.nbest.items()):
            part = slice(bounds[place], bounds[place + 1])
            if part.start == part.stop:
                yield _NO_TOKEN
            elif not (
                np.isfinite(starts[part]) & np.isfinite(ends[part])
            ).all():
                yield NOT_FINITE
            else:
                answer = _entry("answer", chosen[key])
                if key in decoded.null_odds:
                    answer["null_odds"] = number(decoded.null_odds[key])
                if self.options.num_answers > 1:
                    listed = nbest[: self.options.num_answers]
                    answer["nbest"] = [_entry("text", one) for one in listed]
                if self.settings.teacher:
                    own = zip(encoded.units[part], outputs[part], strict=True)
                    answer["windows"] = [self._window(*pair) for pair in own]
                yield answer

    def _window(self, unit: Unit, found: Outputs) -> dict[str, Any]:
        """Return what a student learns from a window."""
        ids = unit[0].input_ids.tolist()
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        logits = {
            name: list(map(number, found[name][: len(ids)].tolist()))
            for name in ("start_logits", "end_logits")
        }
        return {"digest": window_digest(tokens), **logits}

    # --- Model ---------------------------------------------------------------

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return also the threshold for no answer; None for SQuAD 1.1."""
        from tasks.squad import answers

        model, own = settings.checkpoint, settings.options
        is_version_2 = model.trained_for.version_2_with_negative
        if is_version_2 and own.null_threshold is None:
            weights, folder = answers.weights_of(model.prefix)
            threshold = answers.null_threshold(None, weights, folder)
            own = own._replace(null_threshold=threshold)
        return settings._replace(options=own)


def window_digest(tokens: Sequence[str]) -> str:
    """Return a digest of the tokens of a window, as hexadecimal digits."""
    return hashlib.sha256(" ".join(tokens).encode()).hexdigest()[:16]


def _entry(name: str, candidate: Candidate) -> dict[str, Any]:
    """Return a candidate with its characters; these are null for no answer."""
    span = candidate.span
    return {
        name: candidate.text,
        "start": span and span.start,
        "end": span and span.end,
        "probability": number(candidate.probability),
        "score": number(candidate.start_logit + candidate.end_logit),
    }
