"""The base class of fine-tuning tasks: data, model, objective, scores.

A task package has a subclass in its job.py. The runner (runner.py) calls its
methods in this order:

    the constructor                  reads and checks the files asked for
    data_fingerprint                 compared with an earlier run's
    create_model                     under the strategy's scope
    train_data, evaluate             while training
    evaluate, write_mistakes         with the weights to keep
    predict, create_export

The constructor needs no model, so that a sweep can check its files before the
first of many runs. The methods that need the model get it as a `LoadedModel`.
"""

import abc
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from base import cluster, file_system, pictures

import tensorflow as tf
from absl import logging

import modeling
from finetuning import failed_runs
from records import in_memory
from tasks import bilstm, graph_tokenizer, mistakes, saved_model
from tasks.settings import RunSettings
from tasks.source import ModelSource
from training import curves, memory, prediction, reporting
from training.objective import Objective


class LoadedModel(NamedTuple):
    """A task's model, its predictor, and the checkpoint of its weights.

    Attributes:
        model: has the weights.
        predictor: runs `Job.forward` over records.
        prefix: the checkpoint that holds these weights; None while training
            changes them.
    """

    model: modeling.TaskModel
    predictor: prediction.Predictor
    prefix: str | None = None


class Scored(NamedTuple):
    """The scores of the development data.

    Attributes:
        results: {name: score}.
        signs: what the predictions show of a failed run, see failed_runs.py.
        predictions: what was scored, for `write_mistakes`.
    """

    results: dict[str, float]
    signs: Sequence[str] = ()
    predictions: Any = None


class TrainingData(Protocol):
    """The training examples of a job, such as in_memory.ShortRecords."""

    num_records: int

    def training(
        self, batch_size: int, seed: int, is_fine: bool
    ) -> in_memory.TrainingBatches:
        """Return the endless stream of training batches."""


class Job(abc.ABC):
    """A fine-tuning task: its data, model, objective and scores.

    Args:
        settings: flags of the command.
        source: configuration and tokenizer of the model.

    Attributes:
        head_pattern: regular expression for the paths of the variables that
            only a fine-tuned model has.
        fine_tuned_task: `task` of a fine-tuned model's configuration, for
            heads that have the variables of another task's head.
        objective: what to minimize.
        lowest_usual_rate: a learning rate below it is advised to be raised if
            a run fails.
        result_files: what evaluation and prediction write to output_dir.
    """

    head_pattern: str
    fine_tuned_task: str | None = None
    objective: Objective
    lowest_usual_rate: float = failed_runs.LOWEST_USUAL_RATE
    result_files: tuple[str, ...] = (
        "eval_results.txt",
        mistakes.NAME,
        curves.NAME,
    )

    def __init__(self, settings: RunSettings, source: ModelSource):
        self.settings, self.source = settings, source
        self.config, self.tokenizer = source.config, source.tokenizer

    # --- What each task defines ----------------------------------------------

    @abc.abstractmethod
    def deciding_metric(self) -> str:
        """Return the key of the scores that decides which weights are best.

        Raises:
            UserError: there is no data to score.
        """

    @abc.abstractmethod
    def create_model(self) -> modeling.TaskModel:
        """Return a new model; call it inside the strategy's scope."""

    @abc.abstractmethod
    def data_fingerprint(self) -> dict[str, Any]:
        """Return everything the training records depend on."""

    @abc.abstractmethod
    def train_data(self, loaded: LoadedModel) -> TrainingData:
        """Return the training records; output_dir is claimed before."""

    @abc.abstractmethod
    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score the development data; look for signs of a failed run."""

    @abc.abstractmethod
    def guess(self, data: TrainingData) -> failed_runs.Guess:
        """Return the training loss of guessing without reading the input."""

    @abc.abstractmethod
    def write_mistakes(self, scored: Scored) -> None:
        """Write the worst mistakes on the development data, and pictures."""

    @abc.abstractmethod
    def predict(self, loaded: LoadedModel) -> None:
        """Write the predictions for the test data."""

    @abc.abstractmethod
    def create_export(
        self, loaded: LoadedModel, tokenizer: graph_tokenizer.Tokenizer
    ) -> saved_model.Export:
        """Return the SavedModel that --do_export writes."""

    # --- What most tasks leave as it is --------------------------------------

    def forward(
        self, model: modeling.TaskModel, batch: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of a batch that scores need, {name: [B, ...]}."""
        return {"logits": model(batch)}

    def own_fingerprint(self) -> dict[str, Any]:
        """Return what else of this task must not change when a run goes on.

        None where a flag is not given: runs of versions without the flag have
        no such key, which counts as None.
        """
        return {}

    def own_adjustable(self) -> dict[str, Any]:
        """Return what else of this task may change when a run goes on."""
        return {}

    def num_examples(self, data: TrainingData) -> int:
        """Return the number of examples in an epoch."""
        return data.num_records

    def flops_per_example(
        self, model: modeling.TaskModel, length: int
    ) -> float:
        """Return the matrix-product operations of training on an example."""
        del model
        flops = reporting.training_flops(self.config, 1, length)
        return flops + bilstm.training_flops(
            self.source.bilstm, self.config.hidden_size, length
        )

    def row(self) -> memory.Rows:
        """Return the sizes that the memory of a row of a batch depends on."""
        layers, units = self.source.bilstm
        # The inputs of the gates, the gates, h and c, of both directions.
        return memory.Rows(head_numbers=20 * units * layers)

    def add_to_config(self, config: modeling.BertConfig) -> None:
        """Add to a fine-tuned model's configuration what prediction needs."""
        config.max_seq_length = self.source.max_seq_length
        if self.source.bilstm.bilstm_layers:
            vars(config).update(self.source.bilstm._asdict())

    # --- Files in output_dir -------------------------------------------------

    def path(self, name: str) -> str:
        """Return the path of a file in output_dir."""
        return os.path.join(self.settings.output_dir, name)

    def write_lines(self, name: str, lines: list[str]) -> None:
        """Write a file of predictions to output_dir and log its path."""
        if cluster.is_chief():
            file_system.write_text(self.path(name), "\n".join(lines) + "\n")
        logging.info("Wrote %s", self.path(name))

    def write_errors(
        self, found: mistakes.Mistakes, name: str = mistakes.NAME
    ) -> None:
        """Write errors.tsv, unless --num_errors=0; log how many there are."""
        if not self.settings.num_errors:
            return
        mistakes.write(self.path(name), found)

    def draw(self, name: str, draw_to: Callable[[str], None]) -> None:
        """Draw a picture to output_dir, unless --nopictures.

        Args:
            name: of the PNG file.
            draw_to: writes the picture to a path.
        """
        if self.settings.training.pictures and cluster.is_chief():
            pictures.draw(self.path(name), draw_to)
