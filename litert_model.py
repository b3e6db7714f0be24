r"""Predict texts with a LiteRT file, or score it, without TensorFlow.

    python litert_model.py --model=mrpc.tflite --input_file=pairs.jsonl
    echo "I loved it." | python litert_model.py --model=sst2.tflite

writes a JSON object per line of the input, with the fields of batch_predict.py:

    {"id": "pairs.jsonl:1", "label": "1", "score": 0.98, "probabilities": ...}

--output_file writes to a file instead. A line that cannot be predicted is named
on standard error and left out; the exit status is then 1. With --do_eval the
file is scored on a task's development set, which shows what --quantize=int8 of
export_saved_model.py costs:

    python litert_model.py --model=mrpc.tflite --do_eval --task_name=MRPC \
        --data_dir=glue/MRPC

It needs ai-edge-litert and no TensorFlow: pip install -r
requirements-litert.txt. In a program: from litert_model import LiteRtModel.
"""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator

from base import file_system, progress, script
from base.errors import UserError
from base.flags import define, flag

from absl import flags, logging

from serving import flags as prediction_flags
from serving import run
from serving.flags import TextOptions
from serving.litert import scoring
from serving.litert.model import LiteRtModel
from tasks import reading
from tasks.classifier import data as classifier_data
from tasks.classifier.data import TaskFlags
from tasks.reading import Window

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The model, the texts and the scores."""

    # Model
    model: str = flag(required=True)
    """The file that export_saved_model.py --format=litert has written."""

    num_threads: int | None = flag(low=1, high=1024)
    """Threads that compute; default: all cores."""

    batch_size: int | None = flag(low=1, high=2**17)
    """Rows of max_seq_length tokens in a batch; a batch of shorter rows holds
    more. Default: as many as make 512 tokens."""

    # Predictions
    input_file: str = flag("-")
    """Texts to predict, or JSON lines; -: standard input."""

    input_format: str = flag("auto", choices=("auto", "text", "jsonl"))
    """Format of the input; auto: recognised by its content."""

    output_file: str = flag("-", is_output=True, alias="output")
    """File to write the predictions or the scores to, in place of an older one;
    -: standard output."""

    # Scores
    do_eval: bool = flag(
        False,
        needs={"task_name or predict_file or dev_file": ""},
        excludes=dict.fromkeys(
            ("input_file", "input_format", "text_columns"),
            "that is for predictions",
        ),
    )
    """Score the model on a development set, instead of predicting: that of
    --task_name, --predict_file or --dev_file."""

    predict_file: str | None = flag(
        needs={"do_eval": ""}, excludes={"task_name": "", "dev_file": ""}
    )
    """With --do_eval, for a model that answers questions: a JSON file of
    SQuAD."""

    dev_file: str | None = flag(
        needs={"do_eval": ""}, excludes={"task_name": ""}
    )
    """With --do_eval, for a model that finds entities: a file with a word and
    its tag on each line, or .jsonl."""


define(Flags)
define(TextOptions)
define(TaskFlags, needs={"task_name": "do_eval"}, words=classifier_data.WORDS)

_STREAM = "stdin"  # the name of standard input in ids and messages


def main(_: list[str]) -> int:
    """Predict or score; return the exit status."""
    check_output()
    model = LiteRtModel(
        FLAGS.model,
        FLAGS.num_threads,
        FLAGS.batch_size,
        **prediction_flags.text_options(FLAGS),
    )
    prediction_flags.warn_of_ignored(FLAGS, model.settings.task)
    if FLAGS.do_eval:
        return score(model)
    return predict(model)


def predict(model: LiteRtModel) -> int:
    """Write a line for every input; return the exit status."""
    prediction_flags.check_text_columns(FLAGS.text_columns, model.task)
    num_lines = num_problems = 0
    began = time.monotonic()
    with file_system.atomic_file(FLAGS.output_file) as file:
        for window in windows(model):
            result = run.predict_window(
                model.task, model, window, model.batch_size
            )
            for problem in result.problems:
                place = problem.place
                logging.error(
                    "%s, %s %d: %s",
                    place.path,
                    place.kind,
                    place.number,
                    problem.reason,
                )
            file.writelines(f"{line}\n".encode() for line in result.lines)
            num_lines += len(result.lines)
            num_problems += len(result.problems)
        if not num_lines:
            raise UserError(
                f"--input_file={FLAGS.input_file}: no line could be predicted"
                + (", see above" if num_problems else ": it is empty")
            )
    seconds = time.monotonic() - began
    logging.info(
        "Predicted %d lines in %s, %.1f lines/s",
        num_lines,
        progress.format_seconds(seconds),
        num_lines / max(seconds, 1e-9),
    )
    if num_problems:
        logging.error("%d lines have no prediction", num_problems)
    return int(num_problems > 0)


def windows(model: LiteRtModel) -> Iterator[Window]:
    """Yield the inputs and the bad lines of --input_file, in parts."""
    if FLAGS.input_file == "-":
        return reading.read_stream(
            sys.stdin.buffer, _STREAM, FLAGS.input_format, model.task.parse
        )
    if not os.path.isfile(FLAGS.input_file):
        raise UserError(
            f"--input_file={FLAGS.input_file} is not a file; - is standard "
            "input"
        )
    file = reading.inspect(FLAGS.input_file, FLAGS.input_format)
    return reading.read_windows(file, model.task.parse)


def score(model: LiteRtModel) -> int:
    """Write the scores of a development set; return the exit status."""
    if FLAGS.predict_file:
        found = scoring.score_questions(model, FLAGS.predict_file)
    elif FLAGS.dev_file:
        found = scoring.score_entities(model, FLAGS.dev_file)
    else:
        labels = model.task.labels
        task = classifier_data.read_files(FLAGS, labels is None, labels)
        found = scoring.score_classifier(model, task, FLAGS.data_dir)
    with file_system.atomic_file(FLAGS.output_file) as file:
        file.write(f"{json.dumps(found)}\n".encode())
    return 0


def check_output() -> None:
    """Check that --output_file is none of the files that are read."""
    names = ("model", "input_file", "predict_file", "dev_file")
    inputs = [(name, FLAGS[name].value) for name in names if FLAGS[name].value]
    if FLAGS.task_name:
        # All files that the task may have, also those that do not exist: an
        # output dev.jsonl beside dev.csv would make the next run fail.
        files = classifier_data.paths_of(FLAGS)
        inputs += [("data_dir", file) for file in files]
    file_system.check_output_file(FLAGS.output_file, inputs)
    file_system.make_directories(os.path.dirname(FLAGS.output_file) or ".")


if __name__ == "__main__":
    script.run(main)
