"""The likeliest of several choices: a row of ids for each of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.rows import Unit
from tasks.task import (
    BadInput,
    Encoded,
    Input,
    Outputs,
    Place,
    Prediction,
    RowTask,
    number,
    text_of,
)

if TYPE_CHECKING:
    import modeling
    from tasks.swag import model


class MultipleChoice(RowTask):
    """The likeliest of several choices to continue a context."""

    name = "multiple_choice"
    graph_class = ("tasks.swag.model", "MultipleChoiceGraph")
    required = "^(bert|bilstm|output_)"
    text_names = ("context", "choices")
    is_grouped = True

    def texts_of_line(self, cells: list[str]) -> dict[str, Any]:
        """Return context and choices, separated by tabs."""
        return {"context": cells[0], "choices": cells[1:]}

    def texts_of_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return context and choices; `start` begins every choice."""
        context, choices = self.names
        found = value.get(choices)
        if not isinstance(found, list):
            raise BadInput(f"field {choices!r} is not a list of strings")
        found = [text_of({choices: text}, choices) for text in found]
        start = value.get("start")
        if start is not None:
            start = text_of(value, "start")
            found = [
                f"{start} {text}" if text.strip() else "" for text in found
            ]
        return {"context": text_of(value, context), "choices": found}

    def check(self, texts: Mapping[str, Any]) -> None:
        """Raise BadInput for fewer than two choices, or an empty one."""
        super().check(texts)
        choices = texts["choices"]
        if len(choices) < 2:
            raise BadInput(f"{len(choices)} choices, wanted two or more")
        for place, choice in enumerate(choices):
            if not choice.strip():
                raise BadInput(f"choice {place} is empty")

    def parse(self, place: Place, data: bytes, kind: str) -> Input:
        """Return the input of a line; records hold single choices."""
        if kind == "tfrecord":
            raise BadInput(
                "a record holds one choice, and not the number of choices: "
                "give JSON lines"
            )
        return super().parse(place, data, kind)

    def encode(self, inputs: Sequence[Input]) -> Encoded:
        """Return a unit of several rows for each question."""
        units, is_cut = [], []
        for item in inputs:
            context = item.texts["context"]
            found = [self.row(context, c) for c in item.texts["choices"]]
            units.append([row for row, _ in found])
            is_cut.append(any(cut for _, cut in found))
        return Encoded(units, is_cut)

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the number of the likeliest choice, and probabilities."""
        shares = outputs["probabilities"]
        return {
            "answer": int(shares.argmax()),
            "probabilities": [number(share) for share in shares.tolist()],
        }

    # --- Model ---------------------------------------------------------------

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.BertForMultipleChoice":
        """Return the encoder with one vector that scores a choice."""
        from tasks import bilstm
        from tasks.swag import model

        return model.BertForMultipleChoice(
            config, dtype, bilstm.size_in(self.settings.trained_for)
        )

    def answers(self, numbers: Outputs) -> Outputs:
        """Return the probability of every choice, and the likeliest one."""
        logits = numbers["logits"]  # [B, C]
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return {"probabilities": shares, "answer": shares.argmax(-1)}
