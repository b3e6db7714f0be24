"""Predict texts with a model in one file, without TensorFlow."""

from collections.abc import Mapping, Sequence
from typing import Any

from base.errors import UserError, naming

from tasks import predict, registry
from tasks.task import Input, Place, TaskSettings


class FileModel:
    """A model in a file; subclasses are functions of the features of a batch.

    Args:
        settings: what the file says of the model, with the user's options.
        batch_size: rows of max_seq_length tokens in a batch; a batch of shorter
            rows holds more. None: as many as make `batch_tokens`, whose
            activations stay in the processor's cache.
    """

    batch_tokens = 512

    def __init__(self, settings: TaskSettings, batch_size: int | None):
        self.path, self.settings = settings.checkpoint.prefix, settings
        with naming(f"--model={self.path}"):
            self.task = registry.create_task(settings)
        self.batch_size = batch_size or max(
            1, self.batch_tokens // settings.checkpoint.row_length
        )

    def predict(
        self, texts: Sequence[str | Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the predictions of texts, in their order.

        A text is a string, or for tasks with several texts a dictionary, such
        as {"question": ..., "context": ...}. The predictions are those that
        batch_predict.py writes; `truncated` is there if a text was cut.

        Raises:
            UserError: a text cannot be predicted; names its number, from 0.
        """
        if isinstance(texts, (str, Mapping)):
            raise UserError("predict: one text, wanted a list of texts")
        names, inputs = self.task.text_names, []
        for number, text in enumerate(texts):
            with naming(f"text {number}"):
                if isinstance(text, Mapping):
                    named = self.task.texts_of_object(text)
                elif not isinstance(text, str) or len(names) > 1:
                    wanted = "a string or a dictionary"
                    if len(names) > 1:
                        wanted = f"a dictionary with {', '.join(names)}"
                    raise UserError(f"{type(text).__name__}, wanted {wanted}")
                else:
                    named = self.task.texts_of_line([text])
                named = self.task.checked(named)
            inputs.append(Input(number, Place("texts", number), named))
        found = predict.predict(self.task, self, inputs, self.batch_size)
        for number, result in enumerate(found):
            if isinstance(result, str):
                raise UserError(f"text {number}: {result}")
        return found
