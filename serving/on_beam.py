"""Predict the shards of a plan with Apache Beam's RunInference.

    shards --count line ends--> line numbers
    shards --read windows, make batches--> batches --RunInference--> outputs
    (windows, outputs) --by window--> lines --by shard--> files

Reading, batching and writing are the functions of the local runner, on the
same windows: the files are the same. A shard is read by one worker, and the
batches of all shards are spread over all workers. Keys are windows and shards,
whose sizes are bounded.

This module imports Apache Beam, which is optional; it is imported for
--runner=beam alone.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from base import beam as base_beam

import apache_beam as beam
import numpy as np
from absl import logging
from apache_beam.ml.inference import base as inference

from serving import data, outputs, run
from serving import model as prediction_model
from serving.data import Window
from serving.outputs import WindowResult
from serving.plan import Plan
from tasks import predict, registry
from tasks.predict import Batch
from tasks.task import Encoded, Model, Outputs, Settings

JOB_NAME = "batch_predict"

_EMPTY = WindowResult([], [], {})

# The number of a shard, and of a window in it.
_Key = tuple[int, int]


class _KeyedBatch(NamedTuple):
    """A batch, and the window that it is of."""

    key: _Key
    batch: Batch


def predict_shards(
    plan: Plan,
    to_do: Sequence[int],
    settings: Settings,
    batch_size: int,
    beam_options: str,
) -> None:
    """Write the shards with the numbers `to_do`.

    Args:
        plan: the run.
        to_do: numbers of shards.
        settings: of the model, which every worker process loads once.
        batch_size: see `predict.make_batches`.
        beam_options: of the pipeline.
    """
    began = time.monotonic()

    def build(pipeline: beam.Pipeline) -> None:
        _build(pipeline, plan, to_do, settings, batch_size)

    counts = base_beam.run(build, beam_options, JOB_NAME)
    seconds = time.monotonic() - began
    num_inputs = counts.get("inputs", 0)
    logging.info(
        "Predicted about %d inputs, %.1f inputs/s, pipeline included",
        num_inputs,
        num_inputs / max(seconds, 1e-9),
    )


def _build(
    pipeline: beam.Pipeline,
    plan: Plan,
    to_do: Sequence[int],
    settings: Settings,
    batch_size: int,
) -> None:
    """Add the steps of the run to a pipeline."""
    # Of files that several shards share, the earlier ones are counted too.
    counted = range(max(to_do) + 1)
    line_numbers = (
        pipeline
        | "All shards" >> beam.Create(list(counted))
        | "Spread counting" >> beam.Reshuffle()
        | "Count line ends"
        >> beam.Map(lambda i: (i, data.count_line_ends(plan.shards[i][-1])))
        | "Collect counts" >> beam.combiners.ToDict()
        | "Number lines" >> beam.Map(lambda found: _first_lines(plan, found))
    )
    shards = pipeline | "Shards to do" >> beam.Create(list(to_do))
    read = (
        shards
        | "Spread shards" >> beam.Reshuffle()
        | "Read windows"
        >> beam.ParDo(
            _ReadWindows(plan, settings, batch_size),
            beam.pvalue.AsSingleton(line_numbers),
        ).with_outputs(_ReadWindows.BATCHES, main="windows")
    )
    found = (
        read[_ReadWindows.BATCHES]
        | "Spread batches" >> beam.Reshuffle()
        | "Predict"
        >> inference.RunInference(BertHandler(settings).with_no_batching())
    )
    results = (
        {"window": read["windows"], "outputs": found}
        | "By window" >> beam.CoGroupByKey()
        | "Make lines" >> beam.ParDo(_MakeLines(settings))
    )
    # A shard without any input has a file too.
    empty = shards | "No input" >> beam.Map(lambda i: (i, (-1, _EMPTY)))
    _ = (
        [results, empty]
        | "All windows" >> beam.Flatten()
        | "By shard" >> beam.GroupByKey()
        | "Write shards" >> beam.MapTuple(_Writer(plan))
    )


def _first_lines(plan: Plan, line_ends: Mapping[int, int]) -> dict[int, int]:
    """Return for each shard the line ends of its first file before it."""
    counted = plan.shards[: len(line_ends)]
    return dict(enumerate(data.lines_before(counted, line_ends.__getitem__)))


# --- Reading -----------------------------------------------------------------


class _ReadWindows(beam.DoFn):
    """Yields the windows of a shard, and their batches.

    The main output is (key, (window, rows)), the output BATCHES lists of one
    _KeyedBatch.

    Args:
        plan: the run.
        settings: of the model.
        batch_size: see `predict.make_batches`.
    """

    BATCHES = "batches"

    def __init__(self, plan: Plan, settings: Settings, batch_size: int):
        self.plan, self.settings = plan, settings
        self.batch_size = batch_size

    def setup(self) -> None:
        """Load the vocabulary, once per worker."""
        self.task = registry.create_task(self.settings)

    def process(self, shard: int, first_lines: Mapping[int, int]) -> Iterator:
        """Yield the windows and batches of a shard."""
        windows = data.read_windows(
            self.plan.shards[shard], first_lines[shard], self.task.parse
        )
        for number, window in enumerate(windows):
            encoded = self.task.encode(window.inputs)
            yield (shard, number), (window, encoded)
            for batch in predict.make_batches(
                self.task, encoded.units, self.batch_size
            ):
                keyed = _KeyedBatch((shard, number), batch)
                yield beam.pvalue.TaggedOutput(self.BATCHES, [keyed])


# --- Inference ---------------------------------------------------------------


class BertHandler(inference.ModelHandler):
    """Runs a model on batches that are made already.

    RunInference loads the model once per worker process, whose threads share
    it. Its own batching is turned off (`with_no_batching`): it would mix
    lengths, and make batches that differ from run to run.

    Args:
        settings: of the model.
    """

    def __init__(self, settings: Settings):
        super().__init__()
        self.settings = settings

    def load_model(self) -> Model:
        """Return the model."""
        return prediction_model.load(self.settings)

    def run_inference(
        self,
        batch: Sequence[_KeyedBatch],
        model: Model,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterator[tuple[_Key, tuple[np.ndarray, Outputs]]]:
        """Yield (key, (units, outputs)) of each batch in a list."""
        del inference_args
        for keyed in batch:
            found = model(keyed.batch.features)
            yield keyed.key, (keyed.batch.units, found)

    def get_metrics_namespace(self) -> str:
        """Return the namespace of RunInference's own metrics."""
        return f"{JOB_NAME}_inference"


# --- Writing -----------------------------------------------------------------


class _MakeLines(beam.DoFn):
    """Turns a window and the outputs of its batches into lines.

    Args:
        settings: of the model.
    """

    def __init__(self, settings: Settings):
        self.settings = settings

    def setup(self) -> None:
        """Load the vocabulary, once per worker."""
        self.task = registry.create_task(self.settings)

    def process(
        self, element: tuple[_Key, Mapping[str, Iterable]]
    ) -> Iterator[tuple[int, tuple[int, WindowResult]]]:
        """Yield (shard, (number of the window, its result))."""
        (shard, number), grouped = element
        (pair,) = grouped["window"]
        window: Window = pair[0]
        encoded: Encoded = pair[1]
        found: list[Outputs] = [{}] * len(encoded.units)
        for units, values in grouped["outputs"]:
            batch = Batch(units, {})
            for unit, own in predict.by_unit(batch, values):
                found[unit] = own
        predictions = predict.decode(self.task, window.inputs, encoded, found)
        result = run.window_result(window, predictions)
        base_beam.count(JOB_NAME, result.counts)
        yield shard, (number, result)


class _Writer:
    """Writes the files of a shard.

    Args:
        plan: the run.
    """

    def __init__(self, plan: Plan):
        self.plan = plan

    def __call__(
        self, shard: int, results: Iterable[tuple[int, WindowResult]]
    ) -> int:
        """Write a shard and return its number."""
        windows = sorted(
            (pair for pair in results if pair[0] >= 0), key=lambda pair: pair[0]
        )
        outputs.write_shard(self.plan, shard, [found for _, found in windows])
        return shard
