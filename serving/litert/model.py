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
from collections.abc import Mapping
from typing import Any

from base import machine, packages
from base.errors import UserError

import numpy as np

from serving.litert import metadata
from tasks import predict, registry
from tasks.file_model import FileModel
from tasks.task import Input, Outputs, Place
from tokenization import Vocabulary


class LiteRtModel(FileModel):
    """A model in a LiteRT file; `predict` returns its predictions of texts.

    Args:
        path: a file that export_saved_model.py has written.
        num_threads: None: all cores that the process may use.
        batch_size: rows of max_seq_length tokens in a batch; a batch of shorter
            rows holds more. None: as many as make 512 tokens, whose activations
            stay in the processor's cache.
        **options: fields of settings and options that the file leaves open:
            num_answers, n_best_size, vectors, text_columns, id_column.
    """

    def __init__(
        self,
        path: str,
        num_threads: int | None = None,
        batch_size: int | None = None,
        **options: Any,
    ):
        details, vocab = metadata.read_description(path)
        place = f"--model={path}: {metadata.DESCRIPTION} inside"
        vocabulary = Vocabulary(f"{metadata.VOCAB} inside", vocab)
        settings = registry.described(details, place, path, vocabulary)
        settings = registry.with_options(settings, options)
        longest = settings.checkpoint.max_seq_length
        positions = details["max_position_embeddings"]
        # The table of positions is in the file.
        if not longest <= positions <= os.path.getsize(path):
            raise UserError(
                f"--model={path}: {metadata.DESCRIPTION} inside has "
                f"max_seq_length {longest} and max_position_embeddings "
                f"{positions}, more than the file holds"
            )
        super().__init__(settings, batch_size)
        self.longest = positions
        runtime = packages.load(
            "ai_edge_litert.interpreter",
            "a LiteRT file",
            "ai-edge-litert",
            "requirements-litert.txt",
        )
        try:
            # The runtime's own default is a single thread.
            self._interpreter = runtime.Interpreter(
                path, num_threads=num_threads or machine.num_cores()
            )
            self._run = self._interpreter.get_signature_runner("ids")
            # A short text shows damage.
            cells = ["[MASK]"] * len(self.task.text_names)
            texts = self.task.texts_of_line(cells)
            item = Input("", Place(path, 1), texts)
            predict.predict(self.task, self, [item], 1)
        except UserError:
            raise
        # The runtime raises the first two; the others come from outputs of the
        # graph that are not what export.json says.
        except (ValueError, RuntimeError, LookupError, TypeError) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> UserError:
        kind = "" if isinstance(error, RuntimeError) else type(error).__name__
        return UserError(
            f"--model={self.path} cannot be used: its graph is damaged, or is "
            f"not the one that {metadata.DESCRIPTION} inside describes: "
            + " ".join([kind, *str(error).split()])[:200]
        )

    def __call__(self, features: Mapping[str, np.ndarray]) -> Outputs:
        """Return the model's outputs, those of a SavedModel's signature `ids`.

        `features` are input_ids, input_mask and segment_ids, int32 [B, S], of
        multiple choice [B, C, S].
        """
        *leading, length = features["input_ids"].shape
        if length > self.longest:
            raise UserError(
                f"rows of {length} tokens, but {self.path} takes "
                f"{self.longest} at most"
            )
        if len({value.shape for value in features.values()}) > 1:
            raise UserError(
                "input_ids, input_mask and segment_ids have different shapes"
            )
        rows = {
            name: np.ascontiguousarray(value, np.int32).reshape(-1, length)
            for name, value in features.items()
        }
        try:
            outputs = self._run(**rows)
        except (ValueError, RuntimeError) as error:
            raise self._unusable(error) from error
        outputs = {
            name: value.reshape([*leading, *value.shape[1:]])
            for name, value in outputs.items()
        }
        labels = self.task.labels
        if labels is not None:
            width = outputs["probabilities"].shape[-1]
            if width != len(labels):
                raise UserError(
                    f"--model={self.path} gives {width} probabilities, and has "
                    f"{len(labels)} labels inside"
                )
        # The file computes `numbers` of the task's graph.
        return self.task.outputs_of(outputs)
