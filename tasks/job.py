"""The base class of fine-tuning tasks: data, model, objective, scores.

A task's folder has a subclass in its job.py. It says how examples are read,
converted, scored and predicted. What is the same for every task is here:
reading early, record files, running the model, writing files. The runner
(finetuning/runner.py) calls the methods in this order:

    the constructor                  reads and checks the files asked for
    data_fingerprint                 compared with an earlier run's
    learned                          what the plan trains on
    task.create_model                under the strategy's scope
    begin                            when the training begins
    evaluate                         while training
    evaluate                         with the weights to keep
    predict, create_graph

The constructor needs no model, so that a sweep can check its files before the
first of many runs. The methods that need the model get it as a `LoadedModel`.
"""

import abc
import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from base import cluster, file_system, logs, progress
from base.errors import UserError

import numpy as np
from absl import logging

from checkpoints.model import Checkpoint
from checkpoints.trained_for import HEAD_TAIL, TAIL, TrainedFor
from records import cache as record_cache
from records import in_memory, tfrecord
from tasks import graph, predict, registry, rows
from tasks.rows import Record
from tasks.settings import RunSettings, bilstm_in
from tasks.task import Outputs, Task, TaskSettings
from training import curves, memory, prediction
from training.objective import Objective
from training.task_model import TaskModel

_PART = 2048  # records encoded together


class LoadedModel(NamedTuple):
    """A task's model, and how it runs.

    Attributes:
        model: the model.
        run: its outputs, on the devices of the run.
        prefix: the checkpoint of its weights, None while training changes them.
    """

    model: TaskModel
    run: prediction.OnDevices
    prefix: str | None = None


class Scored(NamedTuple):
    """The scores of the development data.

    Attributes:
        results: {name: score}.
        failure: what the predictions show of a failed run, see signs.py; None:
            nothing.
        predictions: what was scored: of a data set as its task has it, of all
            development sets the list of their Scored.
        count: examples that `accuracy` counts; 0: it does not count examples.
    """

    results: dict[str, float]
    failure: str | None = None
    predictions: Any = None
    count: int = 0


class DataSet(NamedTuple):
    """A set of examples of a run.

    Attributes:
        name: its record file without .tf_record: train, eval, predict, as
            in the original.
        title: in log lines, and in the names of files where a task has several
            development sets.
        source: where the examples are; every task has a type of its own.
    """

    name: str
    title: str
    source: Any


class Learned(NamedTuple):
    """What a model learns.

    Attributes:
        data: the training records.
        objective: what to minimize, which the data may decide.
    """

    data: in_memory.ShortRecords
    objective: Objective


class Wrapper(Protocol):
    """Changes what a job learns: its data and its objective."""

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run is resumed."""

    def learned(self, of_job: Learned) -> Learned:
        """Return what the job learns, with what else is learned."""


def usual_rate(source: Checkpoint) -> tuple[float, str] | None:
    """Return a learning rate without the flag, and for what; None: its default.

    They were measured: docs/records/fine_tuning.md, docs/measurements.md.
    """
    if source.trained_for.feature_layers:
        return 1e-3, "a BiLSTM on frozen features"
    if source.config.hidden_size <= 256:
        return 5e-4, "models of at most 256 units"
    return None


class FineTuningJob(abc.ABC):
    """A fine-tuning task: its data, model, objective and scores.

    Args:
        settings: flags of the command.
        source: configuration and tokenizer of the model, with the options of
            the task in its `trained_for`.

    Attributes:
        task_name: a key of registry.TASKS.
        is_of_any_task: whether models of other tasks can do this one, too.
        objective: what to minimize.
        result_files: what scores and predictions are written to in output_dir.
        training_features: features that only the training records have.
        group: records of a training example, such as the choices of a question.
        kept: fields of TrainedFor that the fine-tuned model has of `source`.
    """

    task_name: str
    is_of_any_task = False
    objective: Objective
    result_files: tuple[str, ...] = ("eval_results.txt", curves.NAME)
    training_features: tuple[str, ...] = ()
    group = 1
    kept = ("max_seq_length", "long_texts", "bilstm_layers", "bilstm_units")

    def __init__(self, settings: RunSettings, source: Checkpoint):
        if not settings.is_rate_given and (usual := usual_rate(source)):
            settings = dataclasses.replace(settings, learning_rate=usual[0])
        self.settings, self.source = settings, source
        self.config, self.tokenizer = source.config, source.tokenizer
        self.train: DataSet | None = None
        self.dev: Sequence[DataSet] = ()
        self.test: Sequence[DataSet] = ()
        self._task_settings: TaskSettings | None = None
        self._examples: dict[str, Any] = {}
        self._records: dict[str, in_memory.ShortRecords] = {}

    def open_data(
        self,
        schema: Mapping[str, tfrecord.Feature],
        train: DataSet | None,
        dev: Sequence[DataSet],
        test: Sequence[DataSet],
    ) -> None:
        """Set the data sets; read those that the command needs.

        So an error in a file is reported before hours of training, not after
        them. A file whose records exist already is not read. The schema is that
        of the records.
        """
        self.train, self.dev, self.test = train, dev, test
        self.cache = record_cache.RecordCache(
            self.settings.records_dir,
            schema,
            self.config.vocab_size,
            self.settings.pad_to_max_length,
        )
        wanted = [train] if self.settings.do_train else []
        if self.settings.do_eval or self.settings.eval_steps:
            wanted += dev
        if self.settings.do_predict:
            wanted += test
        for data in wanted:
            path = self.cache.path(data.name)
            if not self.cache.has(path, self.fingerprint(data)):
                self.examples(data)

    # --- What each task defines ----------------------------------------------

    @abc.abstractmethod
    def deciding_metric(self) -> str:
        """Return the key of the scores that decides which weights are best.

        Raises:
            UserError: there is no data to score.
        """

    def options(self) -> Any:
        """Return the options of the task, as the flags decide them."""
        return registry.find(self.task_name).options_type()

    @abc.abstractmethod
    def read(self, data: DataSet) -> Sequence[Any]:
        """Return the examples of a data set.

        Raises:
            UserError: a file is missing or damaged; names file and line.
        """

    @abc.abstractmethod
    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a data set depend on."""

    @abc.abstractmethod
    def convert(
        self, data: DataSet, examples: Sequence[Any]
    ) -> Iterator[Record]:
        """Yield the records of examples.

        Logs the first examples, and what had to be cut.
        """

    def tune(self, data: DataSet, outputs: Outputs, prefix: str | None) -> None:
        """Choose what predictions depend on beside the weights.

        Chosen is what is best for the outputs for a data set of `dev`; `prefix`
        is the checkpoint of the weights, None while training changes them.
        """
        del data, outputs, prefix

    def score(self, data: DataSet, outputs: Outputs) -> Scored:
        """Return the scores of the outputs for a data set of `dev`."""
        raise NotImplementedError

    def write_predictions(self, data: DataSet, outputs: Outputs) -> str:
        """Write the predictions for a data set of `test`.

        Returns the name of the file that a person reads.
        """
        raise NotImplementedError

    # --- Model ---------------------------------------------------------------

    @property
    def task(self) -> Task:
        """The task as predictions and exports know it, as tuned so far."""
        model = dataclasses.replace(self.source, trained_for=self.trained_for())
        settings = TaskSettings(model, self.task_name, self.options())
        if settings != self._task_settings:
            self._task_settings = settings
            self._task = registry.create_task(settings)
        return self._task

    def create_graph(self, loaded: LoadedModel) -> graph.TaskGraph:
        """Return the SavedModel that --do_export writes."""
        return self.task.create_graph(loaded.model)

    # --- Data ----------------------------------------------------------------

    def examples(self, data: DataSet) -> Sequence[Any]:
        """Return the examples of a data set; its files are read once."""
        if data.name not in self._examples:
            self._examples[data.name] = self.read(data)
        return self._examples[data.name]

    def records(self, data: DataSet) -> in_memory.ShortRecords:
        """Return the records of a data set, of an earlier run or made now."""
        if data.name not in self._records:
            self._records[data.name] = self.cache.records(
                data.name,
                self.fingerprint(data),
                lambda path: self.write_records(
                    path, data, self.examples(data)
                ),
                has=lambda name: (
                    data == self.train or name not in self.training_features
                ),
            )
        return self._records[data.name]

    def write_records(
        self, path: str, data: DataSet, examples: Sequence[Any]
    ) -> None:
        """Write the record file of a data set; it appears when complete."""
        bar = progress.Bar(None, "records", f"Reading {data.title}")
        with file_system.atomic_file(path) as file, bar:
            with tfrecord.RecordWriter(file) as writer:
                records = self.convert(data, examples)
                while part := list(itertools.islice(records, _PART)):
                    writer.write_examples(
                        rows.features(part, self.cache.schema)
                    )
                    bar.update(len(part))
        logging.info("Wrote %d records to %s", writer.num_records, path)
        if data == self.train:
            del self._examples[data.name]  # training sets are large

    def text_fingerprint(self) -> dict[str, Any]:
        """Return the fingerprint of vocabulary, casing and length."""
        how = self.source.long_texts.how
        return {
            "vocabulary": self.tokenizer.vocabulary.sha256,
            **self.tokenizer.settings.to_dict(),
            "max_seq_length": self.source.row_length,
            **({"long_texts": how} if how in (HEAD_TAIL, TAIL) else {}),
        }

    def data_fingerprint(self) -> dict[str, Any]:
        """Return everything the training records depend on."""
        return self.fingerprint(self.train)

    def learned(self) -> Learned:
        """Return what the model learns; writes the records that are missing."""
        data = self.records(self.train)
        data.group = self.group
        return Learned(data, self.objective)

    def begin(
        self, loaded: LoadedModel, data: in_memory.ShortRecords
    ) -> in_memory.ShortRecords:
        """Return what the training reads of the records that are learned.

        Writes what belongs to a run before its first step.
        """
        del loaded
        return data

    # --- Scores and predictions ----------------------------------------------

    def outputs(
        self, loaded: LoadedModel, data: DataSet, batch_size: int
    ) -> Outputs:
        """Return the model's outputs for all records, {name: [n, ...]}.

        Outputs of every token are as long as the longest batch, with zeros
        behind the length of a row's own batch.

        Raises:
            UserError: an output is not a finite number.
        """
        outputs: Outputs = {}
        records, run = self.records(data), loaded.run
        with progress.Bar(records.num_records, "records", data.title) as bar:
            for taken, features in predict.batches(run, records, batch_size):
                for name, value in run(features).items():
                    if name not in outputs:  # the first batch is the longest
                        shape = (len(records.lengths), *value.shape[1:])
                        outputs[name] = np.zeros(shape, value.dtype)
                    inner = tuple(map(slice, value.shape[1:]))
                    outputs[name][(taken, *inner)] = value[: len(taken)]
                bar.update(len(taken))
        check_finite(outputs, data)
        return outputs

    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score every development set; look for signs of a failed run.

        The scores of several sets have the sets' titles as prefixes.
        """
        results: dict[str, float] = {}
        signs, kept = [], []
        for data in self.dev:  # MNLI has two: matched and mismatched
            outputs = self.outputs(loaded, data, self.settings.eval_batch_size)
            self.tune(data, outputs, loaded.prefix)
            scored = self.score(data, outputs)
            what = f"{data.title}: " if len(self.dev) > 1 else ""
            prefix = self.prefix(data)
            results |= {prefix + k: v for k, v in scored.results.items()}
            if scored.failure:
                signs.append(what + scored.failure)
            kept.append(scored)
        return Scored(self.named(results), "; ".join(signs) or None, kept)

    def named(self, results: dict[str, float]) -> dict[str, float]:
        """Return the scores of the development sets under their names."""
        return results

    def prefix(self, data: DataSet) -> str:
        """Return what the names of a development set's scores begin with."""
        return f"{data.title}_" if len(self.dev) > 1 else ""

    def predict(self, loaded: LoadedModel) -> None:
        """Write the predictions for the test data; say where they are."""
        for data in self.test:
            size = self.settings.predict_batch_size
            outputs = self.outputs(loaded, data, size)
            self.say_where(data, self.write_predictions(data, outputs))

    def say_where(self, data: DataSet, name: str) -> None:
        """Say in which file of output_dir the predictions of a set are."""
        logs.say("Predictions of %s: %s", data.title, self.path(name))

    # --- What most tasks leave as it is --------------------------------------

    def num_examples(self, data: in_memory.ShortRecords) -> int:
        """Return the number of examples in an epoch."""
        return data.num_examples

    def row_cost(self) -> memory.RowCost:
        """Return the sizes that the memory of a row of a batch depends on."""
        layers, units = bilstm_in(self.source.trained_for)
        # Per unit of both directions: inputs of the gates, gates, h and c.
        return memory.RowCost(
            encoded=self.group,
            head_numbers=20 * units * layers,
            windows=self.source.windows,
        )

    def trained_for(self) -> TrainedFor:
        """Return what the fine-tuned model's configuration says of its head."""
        source = self.source.trained_for
        return TrainedFor(
            task=next(iter(registry.find(self.task_name).trained_as), None),
            **{name: getattr(source, name) for name in self.kept},
        )

    def restored(self, trained_for: TrainedFor) -> None:
        """Take what was tuned for the weights that are used from now on."""
        del trained_for

    def adjustable(self) -> dict[str, Any]:
        """Return settings of the task that a resumed run may change."""
        return {}

    def tokens_of(self, ids: np.ndarray) -> str:
        """Return the tokens of ids for the log."""
        return " ".join(self.tokenizer.convert_ids_to_tokens(ids.tolist()))

    # --- Files in output_dir -------------------------------------------------

    def path(self, name: str) -> str:
        """Return the path of a file in output_dir."""
        return os.path.join(self.settings.output_dir, name)

    def write_lines(self, name: str, lines: list[str]) -> None:
        """Write a file of predictions to output_dir and log its path."""
        if cluster.is_chief():
            file_system.write_text(self.path(name), "\n".join(lines) + "\n")
        logging.info("Wrote %s", self.path(name))


def check_finite(outputs: Outputs, data: DataSet) -> None:
    """Raise a UserError if an output is not a finite number."""
    if not all(np.isfinite(values).all() for values in outputs.values()):
        raise UserError(
            f"the model's outputs for {data.title} are not finite numbers: "
            "the weights are damaged, or --dtype is too narrow for them"
        )
