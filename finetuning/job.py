"""The base class of fine-tuning tasks: data, model, objective, scores."""

import os
from typing import Any, Protocol

import tensorflow as tf
from absl import flags, logging

import modeling
from base import cluster, file_system, text_files
from finetuning import source
from records import in_memory
from serving import graph_tokenizer, saved_model
from training import prediction, reporting
from training.objective import Objective


class TrainingData(Protocol):
    """What a job trains on; length_buckets.ShortRecords is one."""

    num_records: int

    def training(
        self, batch_size: int, seed: int, is_fine: bool
    ) -> in_memory.TrainingBatches:
        """Return the endless stream of training batches."""


class Job:
    """A task as fine-tuning sees it; a runner's subclass fills it in.

    Args:
        flag_values: the runner's FLAGS.
        start: model description and tokenizer.
        is_training: whether this is more than scoring what is there.

    Attributes:
        head: pattern of the variables only a fitted model has.
        fits: `task` of a fitted configuration, for heads whose variables do
            not say what they are for.
        loss: what the training loop needs of the task.
        results: what an evaluation leaves in output_dir.
    """

    head_pattern: str
    fitted_task: str | None = None
    objective: Objective
    results: tuple[str, ...] = ("eval_results.txt",)

    def __init__(
        self,
        flag_values: flags.FlagValues,
        start: source.ModelSource,
        is_training: bool,
    ):
        self.flags, self.start = flag_values, start
        self.config, self.tokenizer = start.config, start.tokenizer
        self.model: modeling.TaskModel
        self.predictor: prediction.Predictor
        self.restored_from: str | None = None  # where the weights are on disk

    # What a task says of itself.

    @classmethod
    def deciding_metric(cls, flag_values: flags.FlagValues) -> str:
        """Return the key of eval_results.txt that tells the best weights.

        Raises:
            UserError: there is nothing to score.
        """
        raise NotImplementedError

    def create_model(self) -> modeling.TaskModel:
        """Return the model, its variables made in the caller's scope."""
        raise NotImplementedError

    def forward(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return what prediction keeps of a batch, {name: [B, ...]}."""
        return {"logits": self.model(batch)}

    def data_fingerprint(self) -> dict[str, Any]:
        """Return what the training data are made of."""
        raise NotImplementedError

    def train_data(self) -> TrainingData:
        """Return what to train on; called once output_dir is ours."""
        raise NotImplementedError

    def num_examples(self, data: TrainingData) -> int:
        """Return how many examples make an epoch."""
        return data.num_records

    def flops_per_example(self, length: int) -> float:
        """Return the operations of training on one example."""
        return reporting.training_flops(self.config, 1, length)

    def evaluate(self, step: int) -> dict[str, float]:
        """Score the development data; write and return the results."""
        raise NotImplementedError

    def predict(self) -> None:
        """Write the predictions of the test data."""
        raise NotImplementedError

    def add_to_config(self, config: modeling.BertConfig) -> None:
        """Add to an exported configuration what a predictor needs."""

    def saved_model(
        self, tokenizer: graph_tokenizer.Tokenizer
    ) -> saved_model.Export:
        """Return what --do_export writes."""
        raise NotImplementedError

    # What they have in common.

    def path(self, name: str) -> str:
        """Return the path of a file in output_dir."""
        return os.path.join(self.flags.output_dir, name)

    def records_dir(self) -> str:
        """Return where records go."""
        return self.flags.records_dir or self.flags.output_dir

    def write_lines(self, name: str, lines: list[str]) -> None:
        """Write a file of predictions to output_dir; say so."""
        if cluster.is_chief():
            file_system.write_text(self.path(name), "\n".join(lines) + "\n")
        logging.info("  %s", self.path(name))

    def read_back(self, name: str) -> Any:
        """Return what a JSON file in output_dir holds, None without one."""
        return text_files.read_own_json(self.path(name))
