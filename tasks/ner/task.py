"""Named entities in texts of any length, with their characters.

Windows are those of run_ner.py without document context (tasks/ner/windows.py),
so the tags are the same. A text is split into words as the tokenizer splits it;
a list of words is tagged as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from base import tables
from base.errors import UserError

import numpy as np

import tokenization
from checkpoints.model import Checkpoint
from tasks.ner import data as ner_data
from tasks.ner import windows as ner_windows
from tasks.rows import Row
from tasks.task import (
    NOT_FINITE,
    TEXT_COLUMNS,
    Encoded,
    Input,
    Outputs,
    Prediction,
    Task,
    TaskSettings,
    is_record,
    number,
)

# TrainedFor.task of a tagger that is fine-tuned, and of one on frozen features.
TAGGING, FEATURE_TAGGING = "token_classification", "feature_tagging"


class Entities(Task):
    """The entities of each text, and a tag for each of its words."""

    name = TAGGING
    graph = "ner.model.TaggerGraph"
    described = (*Task.described, "labels")
    head, trained_as = "output_weights", (TAGGING, FEATURE_TAGGING)
    # The first two of a text alone, the last one for students.
    predicted = ("words", "places", "tags", "scores", "entities")

    def __init__(self, settings: TaskSettings):
        super().__init__(settings)
        if settings.teacher and self.checkpoint.is_exported:
            raise UserError(
                f"--as_teacher: the SavedModel {self.checkpoint.prefix} gives "
                "the likeliest tag alone: give the checkpoint that it was "
                "exported from"
            )
        # Words keep their case and accents.
        self.basic = tokenization.BasicTokenizer(
            settings=self.checkpoint.tokenizer_settings.spelled()
        )
        # Without tags, the converter marks the words with the class of O.
        self.converter = ner_windows.Converter(
            self.tokenizer, ["O"], self.checkpoint.max_seq_length, False
        )

    # --- Words ---------------------------------------------------------------

    def texts_of_line(self, cells: list[str]) -> dict[str, Any]:
        """Return the words of a text and their characters."""
        return self._words_of_text(super().texts_of_line(cells)["text"])

    def texts_of_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the words of `tokens`, a list, or of `text`."""
        column = self.names[0]
        if not self.settings.text_columns and "tokens" in value:
            column = "tokens"
        if not isinstance(value.get(column), list):
            text = tables.require(value, column, str, hint=TEXT_COLUMNS)
            return self._words_of_text(text)
        words = tables.require_strings(value, column)
        return {"words": words, "places": None, "text": None}

    def _words_of_text(self, text: str) -> dict[str, Any]:
        found = list(self.basic.words_with_places(text))
        return {
            "words": [word for word, _ in found],
            "places": [(at[0], at[-1] + 1) for _, at in found],
            "text": text,
        }

    def check(self, texts: Mapping[str, Any]) -> None:
        """Raise UserError for a text without a word, or an empty word."""
        if not texts["words"]:
            raise UserError("there is no word")
        if not all(texts["words"]):
            raise UserError("a word is empty")

    # --- Rows ----------------------------------------------------------------

    def encode(self, inputs: Sequence[Input]) -> Encoded:
        """Return the windows of all texts, each a unit."""
        if any(map(is_record, inputs)):  # then all are
            records = list(map(_record_of, inputs))
            counts = [(labels >= 0).sum() for _, labels in records]
        else:
            sentences = [
                ner_data.Sentence(item.texts["words"], None, [], place)
                for place, item in enumerate(inputs)
            ]
            records = list(self.converter(sentences))
            counts = [len(sentence.words) for sentence in sentences]
        units = [[row] for row, _ in records]
        # Of the words in each row.
        positions = [np.flatnonzero(labels >= 0) for _, labels in records]
        return Encoded(inputs, units, [0] * len(inputs), (positions, counts))

    # --- Tags ----------------------------------------------------------------

    def decode(
        self, encoded: Encoded, outputs: Sequence[Outputs]
    ) -> Iterator[Prediction | str]:
        """Yield the tags of each text's words, and their entities."""
        positions, num_words = encoded.state

        def of_words(name: str) -> list:
            pairs = zip(outputs, positions, strict=True)
            return [x for found, at in pairs for x in found[name][at].tolist()]

        tags, scores = of_words("tags"), of_words("scores")
        if self.settings.teacher:
            shares = of_words("probabilities")  # of all tags, for students
        first = 0
        for item, count in zip(encoded.inputs, num_words, strict=True):
            part = slice(first, first + count)
            first += count
            if not np.isfinite(scores[part]).all():
                yield NOT_FINITE
                continue
            names = [tag.decode() for tag in tags[part]]
            names = ner_data.normalized_tags(names)
            prediction = _prediction(item, names, scores[part])
            if self.settings.teacher:
                own = zip(*shares[part], strict=True)
                by_label = zip(self.labels, own, strict=True)
                prediction["probabilities"] = {
                    label: list(map(number, own)) for label, own in by_label
                }
            yield prediction

    # --- Model ---------------------------------------------------------------

    @classmethod
    def check_model(cls, checkpoint: Checkpoint, needs_rows: bool) -> None:
        """Raise a UserError if the model reads words, and rows are needed."""
        if needs_rows and checkpoint.trained_for.task == FEATURE_TAGGING:
            raise UserError(
                f"{checkpoint.prefix} tags words by a BiLSTM on frozen "
                "features: it reads words, and no rows of ids. Use run_ner.py "
                "--do_predict, or a SavedModel (export_saved_model.py)"
            )

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return the settings of a model that has tags.

        Raises:
            UserError: its configuration names none.
        """
        if not settings.checkpoint.trained_for.labels:
            raise UserError(
                f"{settings.checkpoint.prefix} is not a fine-tuned tagger: its "
                "configuration names no labels (id2label)"
            )
        return settings

    @property
    def model(self) -> str:
        """The tagger, or that on frozen features."""
        if self.checkpoint.trained_for.feature_layers:
            return "ner.feature_based.BertForFeatureTagging"
        return "ner.model.BertForTokenClassification"

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return the likeliest tag and its probability at every piece."""
        shares = numbers["probabilities"]  # [B, S, K]
        names = np.array([x.encode() for x in self.labels], object)
        return {"tags": names[shares.argmax(-1)], "scores": shares.max(-1)}


def _record_of(item: Input) -> tuple[Row, np.ndarray]:
    """Return the row of a record and its labels.

    Without labels all pieces are words, but for [CLS] and [SEP].
    """
    row, labels = item.texts["row"], item.texts["label_ids"]
    size = len(row.input_ids)
    if labels is None or len(labels) < size:
        labels = np.full(size, ner_windows.IGNORED)
        labels[1:-1] = 0
    return row, np.asarray(labels[:size])


def _prediction(
    item: Input, tags: Sequence[str], scores: Sequence[float]
) -> Prediction:
    """Return the tags of an input's words, and its entities.

    The words of a text come with their places, [start, end) in characters.
    """
    words, places = item.texts.get("words"), item.texts.get("places")
    found = []
    for entity in ner_data.entities(tags):
        start, end = entity.first, entity.last + 1  # in words
        one: dict[str, Any] = {"type": entity.type}
        if places:
            start, end = places[entity.first][0], places[entity.last][1]
            one["text"] = item.texts["text"][start:end]
        elif words:
            one["text"] = " ".join(words[start:end])
        score = number(min(scores[entity.words]))
        found.append(one | {"start": start, "end": end, "score": score})
    of_text = {"words": words, "places": list(map(list, places or ()))}
    return {
        **(of_text if places else {}),
        "tags": list(tags),
        "scores": [number(score) for score in scores],
        "entities": found,
    }
