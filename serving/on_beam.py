"""Predict the inputs of files with Apache Beam's RunInference.

    files --read--> windows --RunInference--> results --by file--> output files

Reading, predicting and writing are the functions of the local runner, on the
same windows: the files are the same. A file is read by one worker, and the
windows of all files are spread over all workers. The lines of the windows are
then grouped by file.

This module imports Apache Beam, which is optional.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from base import beam as base_beam
from base.jobs import pipeline as jobs_pipeline
from base.jobs.run import Job, Target

import apache_beam as beam
from apache_beam.ml.inference import base as inference

from serving import run
from serving.run import Part, Result
from tasks import reading, registry
from tasks.reading import InputFile, Window
from tasks.task import Model, Task, TaskSettings

# A window, with the number of its file and its own number in that file.
_Numbered = tuple[int, int, Window]


def predict_files(
    job: Job,
    parts: Sequence[Part],
    settings: TaskSettings,
    batch_size: int,
    beam_options: str,
) -> None:
    """Write the predictions of files of a job."""

    def build(pipeline: beam.Pipeline) -> None:
        inputs = jobs_pipeline.create(
            pipeline, parts, f"{job.shared_dir}/inputs.json"
        )
        model = inference.RunInference(
            _Handler(settings, batch_size).with_no_batching()
        )
        windows = inputs | "Read" >> beam.ParDo(_Read(settings))
        results = (
            jobs_pipeline.spread(windows, "SpreadWindows") | "Predict" >> model
        )
        by_number = inputs | "Part" >> beam.Map(lambda item: (item[0], item))
        _ = (
            {"results": results, "part": by_number}
            | "ByFile" >> beam.CoGroupByKey()
            | "Write" >> beam.MapTuple(_write)
        )

    base_beam.run(build, beam_options, "batch_predict")


class _Read(beam.DoFn):
    """Yields batches, of one window each."""

    def __init__(self, settings: TaskSettings):
        self.settings = settings

    def setup(self) -> None:
        self.task = registry.create_task(self.settings)

    def process(self, element: list) -> Iterator[list[_Numbered]]:
        index, file, _, _ = element
        windows = reading.read_windows(InputFile(*file), self.task.parse)
        for number, window in enumerate(windows):
            yield [(index, number, window)]


class _Handler(inference.ModelHandler):
    """Predicts windows.

    RunInference loads the model once per worker process, whose threads share
    it. Its own batching is turned off: it would mix lengths, and make batches
    that differ from run to run.
    """

    def __init__(self, settings: TaskSettings, batch_size: int):
        super().__init__()
        self.settings, self.batch_size = settings, batch_size

    @functools.cached_property
    def _task(self) -> Task:  # one thread uses it, as it does this object
        return run.create_task(self.settings)

    def load_model(self) -> Model:
        return run.load_model(self.settings)

    def run_inference(
        self,
        batch: Sequence[_Numbered],
        model: Model,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterator[tuple[int, tuple[int, Result]]]:
        """Yield (number of the file, (number of the window, its result))."""
        del inference_args
        for index, number, window in batch:
            result = run.predict_window(
                self._task, model, window, self.batch_size
            )
            yield index, (number, result)


def _write(index: int, found: dict[str, Iterable]) -> int:
    """Write a file, which may have no window."""
    ((_, file, target, errors),) = found["part"]
    part = Part(index, InputFile(*file), Target(*target), errors)
    results = sorted(found["results"], key=lambda pair: pair[0])
    run.write_file(part, (result for _, result in results))
    return index
