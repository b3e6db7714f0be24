r"""Predict texts with a LiteRT or an ONNX file, without TensorFlow.

    python litert_model.py --model=mrpc.tflite --input_file=pairs.jsonl
    echo "I loved it." | python litert_model.py --model=sst2.tflite

writes a JSON object per line of the input, with the fields of batch_predict.py:

    {"id": "pairs.jsonl:1", "label": "1", "score": 0.98, "probabilities": ...}

--output_file writes to a file instead. A line that cannot be predicted is named
on standard error and has an empty answer; the exit status is then 1.

    python litert_model.py --model=minilm.onnx --input_file=corpus.txt \
        --output_file=vectors.npy --dtype=bfloat16

writes the vectors of all lines as one matrix, the fastest way to make many.

It needs ai-edge-litert and no TensorFlow: pip install -r
requirements-litert.txt; for ONNX files requirements-openvino.txt. In a program:
from litert_model import LiteRtModel.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Iterator

from base import file_system, logs, progress, script
from base.errors import UserError
from base.flags import define, flag

import numpy as np
from absl import flags, logging

from serving import flags as prediction_flags
from serving import run
from serving.flags import TextOptions
from serving.litert.model import LiteRtModel
from tasks import openvino_files, predict, reading
from tasks.file_model import FileModel
from tasks.openvino_files import OpenVinoModel
from tasks.reading import Window
from tasks.task import NOT_FINITE

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The model, the texts and the predictions."""

    # Model
    model: str = flag(required=True)
    """The file that export_saved_model.py --format=litert or onnx has
    written; an ONNX file's name ends in .onnx."""

    dtype: str = flag("float32", choices=("float32", "bfloat16"))
    """Type of an ONNX file's matrix products: bfloat16 is the faster one on
    processors that multiply it."""

    num_threads: int | None = flag(low=1, high=1024)
    """Threads that compute; default: all cores."""

    batch_size: int | None = flag(low=1, high=2**17)
    """Rows of max_seq_length tokens in a batch; a batch of shorter rows holds
    more. Default: as many as make 512 tokens, with ONNX files 1,024."""

    # Texts and predictions
    input_file: str = flag("-")
    """Texts to predict, JSON lines, or a table (.csv, .tsv, with a header); -:
    standard input."""

    input_format: str = flag("auto", choices=("auto", "text", "jsonl"))
    """Format of the input; auto: recognised by its content."""

    output_file: str = flag("-", is_output=True, alias="output")
    """File to write the predictions to, in place of an older one; -: standard
    output. A name in .npy gets the vectors of all texts, float32 [n, D]."""


define(Flags)
define(TextOptions)

_STREAM = "stdin"  # the name of standard input in ids and messages


def main(_: list[str]) -> int:
    """Write a line for every input; return the exit status."""
    inputs = [("model", FLAGS.model), ("input_file", FLAGS.input_file)]
    file_system.prepare_output_file(FLAGS.output_file, inputs)
    options = prediction_flags.text_options(FLAGS)
    sizes = FLAGS.num_threads, FLAGS.batch_size
    if FLAGS.model.endswith(openvino_files.SUFFIX):
        settings = openvino_files.find(
            FLAGS.model, dtype=FLAGS.dtype, **options
        )
        model = OpenVinoModel(settings, *sizes)
    elif FLAGS["dtype"].present:
        raise UserError("--dtype is for ONNX files; leave it out")
    else:
        model = LiteRtModel(FLAGS.model, *sizes, **options)
    prediction_flags.warn_of_ignored(FLAGS, model.settings.task)
    prediction_flags.check_text_columns(FLAGS.text_columns, model.task)
    num_predicted = num_problems = 0
    began = time.monotonic()
    if FLAGS.output_file.endswith(".npy"):
        return write_vectors(model)
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
            num_predicted += result.counts["predicted"]
            num_problems += len(result.problems)
        if not num_predicted:
            raise UserError(
                f"--input_file={FLAGS.input_file}: no line could be predicted"
                + (", see above" if num_problems else ": it is empty")
            )
    seconds = time.monotonic() - began
    logs.say(
        "Predicted %d lines in %s, %.1f lines/s%s",
        num_predicted,
        progress.format_seconds(seconds),
        num_predicted / max(seconds, 1e-9),
        "" if FLAGS.output_file == "-" else f": {FLAGS.output_file}",
    )
    if num_problems:
        logging.error("%d lines have an empty answer", num_problems)
    return int(num_problems > 0)


def write_vectors(model: FileModel) -> int:
    """Write the vectors of all inputs to --output_file."""
    task, found = model.task, []
    if task.name not in ("encoder", "embeddings") or len(task.predicted) > 1:
        raise UserError(
            f"--output_file={FLAGS.output_file}: a .npy file has one vector "
            f"for each text; the model gives {', '.join(task.predicted)}"
        )
    (name,) = task.predicted
    for window in windows(model):
        for problem in window.problems:
            raise UserError(f"{problem.place}: {problem.reason}")
        units = task.encode(window.inputs).units
        outputs = predict.run_units(task, model, units, model.batch_size)
        found += [output[name] for output in outputs]
    if not found:
        raise UserError(f"--input_file={FLAGS.input_file}: it is empty")
    if not np.isfinite(vectors := np.stack(found)).all():
        raise UserError(NOT_FINITE)
    with file_system.atomic_file(FLAGS.output_file) as file:
        np.save(file, vectors)
    logs.say("Wrote %s: %d vectors", FLAGS.output_file, len(found))
    return 0


def windows(model: FileModel) -> Iterator[Window]:
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


if __name__ == "__main__":
    script.run(main)
