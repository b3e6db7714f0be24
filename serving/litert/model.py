"""Predict texts with a LiteRT file, without TensorFlow.

    from serving.litert.model import LiteRtModel

    model = LiteRtModel("mrpc.tflite")
    model.predict([{"text_a": "...", "text_b": "..."}])
    # [{"label": "1", "score": 0.98, "probabilities": {"0": 0.02, "1": 0.98}}]

The inputs and predictions are those of batch_predict.py (tasks/task.py),
and so those of a SavedModel of the same model. Everything else, the vocabulary
and the labels too, is in the file.

Needs ai-edge-litert, numpy, absl-py and tqdm.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from base import workers
from base.errors import UserError

import numpy as np

from serving.litert import metadata, runtime
from tasks import predict, registry
from tasks.task import BadInput, Input, Outputs, Place, Settings, Task

_BATCH_TOKENS = 512

Features = Mapping[str, np.ndarray]


class LiteRtModel:
    """A model in a LiteRT file; `predict` returns its predictions of texts.

    Args:
        path: of a file that export_litert.py has written.
        num_threads: None: all cores that the process may use.
        batch_size: rows of max_seq_length tokens in a batch; of shorter rows
            more. None: as many as make 512 tokens, whose activations stay in
            the processor's cache.
        **options: fields of Settings that do not depend on the model:
            num_answers, n_best_size, vectors, text_columns, id_column.

    Attributes:
        settings: of the model.
        task: its inputs and predictions.
        details: export.json of the file.
        longest: tokens of the longest row that the model takes.

    Raises:
        UserError: the file cannot be read or is no such file, or the runtime
            is not installed.
    """

    def __init__(
        self,
        path: str,
        num_threads: int | None = None,
        batch_size: int | None = None,
        **options: Any,
    ):
        self.path = path
        files = metadata.read_files(path)
        self.details = metadata.read_description(path, files)
        self.settings, self.task = _create_task(
            path, self.details, files[metadata.VOCAB], options
        )
        self.batch_size = batch_size or max(
            1, _BATCH_TOKENS // self.settings.max_seq_length
        )
        threads = num_threads or workers.num_cores()
        lengths = self.details["lengths"]
        self.longest = max(
            lengths, default=self.details["max_position_embeddings"]
        )
        if lengths:
            self.run = runtime.Fixed(path, threads, lengths)
        else:
            self.run = runtime.Resizable(path, threads)

    # --- Predictions ---------------------------------------------------------

    def predict(
        self, texts: Sequence[str | Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the predictions of texts, in their order.

        Args:
            texts: a string, or for tasks with several texts a dictionary,
                such as {"question": ..., "context": ...}.

        Returns:
            As batch_predict.py writes them; one of which the text was cut has
            `truncated`.

        Raises:
            UserError: a text cannot be predicted; names its number, from 0.
        """
        if isinstance(texts, (str, Mapping)):
            raise UserError("predict: one text, wanted a list of texts")
        inputs = [self._input(*item) for item in enumerate(texts)]
        found = predict.predict(self.task, self, inputs, self.batch_size)
        for number, result in enumerate(found):
            if isinstance(result, str):
                raise UserError(f"text {number}: {result}")
        return found

    def _input(self, number: int, text: str | Mapping[str, Any]) -> Input:
        """Return one text of `predict` as the task's input."""
        try:
            names = self.task.text_names
            if isinstance(text, str) and len(names) > 1:
                raise BadInput(
                    f"a string, wanted a dictionary with {', '.join(names)}"
                )
            if isinstance(text, str):
                texts = self.task.texts_of_line([text])
            elif not isinstance(text, Mapping):
                kind = type(text).__name__
                raise BadInput(f"{kind}, wanted a string or a dictionary")
            else:
                texts = self.task.texts_of_object(text)
            self.task.check(texts)
        except BadInput as error:
            raise UserError(f"text {number}: {error}") from error
        return Input(number, Place("texts", number), texts)

    def __call__(self, features: Features) -> Outputs:
        """Return the model's outputs, those of a SavedModel's signature `ids`.

        Args:
            features: input_ids, input_mask and segment_ids, int32 [B, S], of
                multiple choice [B, C, S].

        Raises:
            UserError: the rows are longer than the model.
        """
        *leading, length = features["input_ids"].shape
        if length > self.longest:
            raise UserError(
                f"rows of {length} tokens, but {self.path} takes "
                f"{self.longest} at most"
            )
        rows = {
            name: np.ascontiguousarray(value, np.int32).reshape(-1, length)
            for name, value in features.items()
        }
        outputs = {
            name: value.reshape([*leading, *value.shape[1:]])
            for name, value in self.run(rows).items()
        }
        labels = self.settings.labels
        if labels is not None:
            width = outputs["probabilities"].shape[-1]
            if width != len(labels):
                raise UserError(
                    f"--model={self.path} gives {width} probabilities, and has "
                    f"{len(labels)} labels inside"
                )
        # The file computes `Export.numbers` of tasks/saved_model.py.
        return self.task.answers(outputs)


# --- Description -------------------------------------------------------------


def _create_task(
    path: str, details: Mapping[str, Any], vocab: bytes, options: Mapping
) -> tuple[Settings, Task]:
    """Return the settings of a file's model, and its task.

    Args:
        path: of the file.
        details: its export.json.
        vocab: its vocabulary.
        options: more fields of Settings.

    Raises:
        UserError: the description is of a newer version, or damaged.
    """
    if details.get("version") != metadata.VERSION:
        raise UserError(
            f"--model={path} has version {details.get('version')!r} of "
            f"{metadata.DESCRIPTION}, this program reads {metadata.VERSION}: "
            "export it with the same version of the project"
        )
    place = f"--model={path}: {metadata.DESCRIPTION} inside"
    described = registry.described_settings(details, place)
    needed = {"lengths", "max_position_embeddings"}
    lacking = needed - set(details)
    if lacking:
        raise UserError(f"{place} lacks {', '.join(sorted(lacking))}")
    # The tokenizer reads a file.
    with tempfile.TemporaryDirectory() as folder:
        vocab_file = os.path.join(folder, metadata.VOCAB)
        with open(vocab_file, "wb") as file:
            file.write(vocab)
        settings = Settings(
            path,
            True,
            None,
            vocab_file=vocab_file,
            **described,
            **options,
        )
        return settings, registry.create_task(settings)
