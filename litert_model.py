r"""Predict texts with a LiteRT file, or score it, without TensorFlow.

    python litert_model.py --model=mrpc.tflite --input_file=pairs.jsonl
    echo "I loved it." | python litert_model.py --model=sst2.tflite

writes a JSON object per line of the input, with the fields of batch_predict.py:

    {"id": "pairs.jsonl:1", "label": "1", "score": 0.98, "probabilities": ...}

A line that cannot be predicted is named on standard error, and the run goes on;
its exit status is 1 then. With --do_eval the file is scored on a task's
development set, to see what --quantize=int8 costs:

    python litert_model.py --model=mrpc.tflite --do_eval --task_name=MRPC \
        --data_dir=glue/MRPC

It needs ai-edge-litert and no TensorFlow: pip install -r
requirements-litert.txt. In a program: from litert_model import LiteRtModel.
"""

import json
import os
import sys
from collections.abc import Iterator

from base import errors, file_system
from base.errors import UserError

from absl import flags, logging

from classifier import data as classifier_data
from classifier import tasks as classifier_tasks
from litert import scoring
from litert.model import LiteRtModel
from prediction import data, run
from prediction.data import Window

FLAGS = flags.FLAGS

# Model
flags.DEFINE_string(
    "model", None, "The file that export_litert.py has written."
)
flags.DEFINE_integer(
    "num_threads", None, "Threads; default: all cores.", lower_bound=1
)
flags.DEFINE_string(
    "weight_cache",
    None,
    "Directory that keeps the weights as this kind of processor needs them: "
    "written once, shared by all processes. Needs a model with --lengths.",
)
flags.DEFINE_integer(
    "batch_size",
    None,
    "Rows of max_seq_length tokens in a batch, of shorter rows more; default: "
    "as many as make 512 tokens.",
    lower_bound=1,
)

# Predictions
flags.DEFINE_string("input_file", "-", "Text or JSON lines; -: standard input.")
flags.DEFINE_enum(
    "input_format",
    "auto",
    ["auto", "text", "jsonl"],
    "auto: judged by the content.",
)
flags.DEFINE_string(
    "output_file", "-", "JSON lines, or the scores; -: standard output."
)
flags.DEFINE_list(
    "text_columns",
    [],
    "Fields of the texts in JSON, in the order of the task's own names, which "
    "are the default: text; text_a,text_b; question,context; context,choices.",
)
flags.DEFINE_multi_enum(
    "vectors",
    ["mean_output"],
    ["mean_output", "pooled_output"],
    "encoder: the mean over the tokens, or the pooled output of [CLS]; may be "
    "given twice for both.",
)
flags.DEFINE_integer(
    "num_answers",
    1,
    "Questions: answers to list as nbest; 1 for the best one alone.",
    lower_bound=1,
)

# Scores
flags.DEFINE_bool("do_eval", False, "Score the model instead.")
flags.DEFINE_string(
    "task_name",
    None,
    "Scores of a classifier: one of "
    f"{', '.join(classifier_tasks.TASK_NAMES)}; tsv: your own files.",
)
flags.DEFINE_string("data_dir", None, "Directory of the task's files.")
flags.DEFINE_string("xnli_language", "zh", "Language of XNLI.")
flags.DEFINE_string("text_a_column", "sentence", "tsv: name of the column.")
flags.DEFINE_string(
    "text_b_column", None, "tsv: name of the second sentence's column, if any."
)
flags.DEFINE_string("label_column", "label", "tsv: name of the column.")
flags.DEFINE_string(
    "predict_file", None, "Scores of answers: a JSON file of SQuAD."
)
flags.DEFINE_string(
    "dev_file", None, "Scores of entities: a word and its tag on each line."
)

_STREAM = "stdin"  # the name of standard input in ids and messages


def main(_: list[str]) -> int:
    """Predict or score; return the exit status."""
    check_flags()
    model = LiteRtModel(
        FLAGS.model,
        FLAGS.num_threads,
        FLAGS.weight_cache,
        FLAGS.batch_size,
        text_columns=tuple(FLAGS.text_columns),
        vectors=tuple(dict.fromkeys(FLAGS.vectors)),
        num_answers=FLAGS.num_answers,
    )
    if FLAGS.do_eval:
        return score(model)
    return predict(model)


# --- Steps -------------------------------------------------------------------


def predict(model: LiteRtModel) -> int:
    """Write a line for every input; return the exit status."""
    check_text_columns(model)
    num_lines = num_problems = 0
    with file_system.atomic_file(FLAGS.output_file) as file:
        for window in windows(model):
            result = run.predict_window(
                model.task, model, window, model.batch_size
            )
            for problem in result.problems:
                place = problem.place
                logging.error(
                    "%s, line %d: %s", place.path, place.number, problem.reason
                )
            file.writelines(f"{line}\n".encode() for line in result.lines)
            num_lines += len(result.lines)
            num_problems += len(result.problems)
        if not num_lines:
            raise UserError(
                f"--input_file={FLAGS.input_file}: no line could be predicted"
                + (", see above" if num_problems else ": it is empty")
            )
    logging.info("Predicted %d lines", num_lines)
    if num_problems:
        logging.error("%d lines have no prediction", num_problems)
    return int(num_problems > 0)


def windows(model: LiteRtModel) -> Iterator[Window]:
    """Yield the inputs, some thousand at a time.

    Raises:
        UserError: the file cannot be read, or is neither text nor JSON lines.
    """
    if FLAGS.input_file != "-":
        if not os.path.isfile(FLAGS.input_file):
            raise UserError(
                f"--input_file={FLAGS.input_file} is not a file; - is standard "
                "input"
            )
        size = os.path.getsize(FLAGS.input_file)
        file = data.inspect(FLAGS.input_file, size, FLAGS.input_format)
        for shard in data.make_shards([file], 1):
            yield from data.read_windows(shard, 0, model.task.parse)
        return
    kind = FLAGS.input_format
    lines = sys.stdin.buffer
    window = Window([], [], 0, 0, 0)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if kind == "auto":
            kind = "jsonl" if line.lstrip()[:1] == b"{" else "text"
        place = data.Place(_STREAM, number)
        try:
            line = line.rstrip(b"\r\n")
            window.inputs.append(model.task.parse(place, line, kind))
        except data.BadInput as error:
            window.problems.append(data.Problem(place, str(error)))
        if len(window.inputs) >= data.WINDOW_INPUTS:
            yield window
            window = Window([], [], 0, 0, 0)
    yield window


def score(model: LiteRtModel) -> int:
    """Write the scores of a development set; return the exit status."""
    if FLAGS.predict_file:
        found = scoring.score_questions(model, FLAGS.predict_file)
    elif FLAGS.dev_file:
        found = scoring.score_entities(model, FLAGS.dev_file)
    else:
        found = scoring.score_classifier(
            model, find_task(model), FLAGS.data_dir
        )
    with file_system.atomic_file(FLAGS.output_file) as file:
        file.write(f"{json.dumps(found)}\n".encode())
    return 0


def find_task(model: LiteRtModel) -> classifier_tasks.Task:
    """Return the task of --task_name."""
    if FLAGS.task_name.lower() != "tsv":
        return classifier_tasks.task_of(FLAGS.task_name, FLAGS.xnli_language)
    return classifier_data.own_task(
        FLAGS.data_dir,
        FLAGS.text_a_column,
        FLAGS.text_b_column,
        FLAGS.label_column,
        model.settings.labels is None,
        model.settings.labels,
    )


def check_text_columns(model: LiteRtModel) -> None:
    """Raise a UserError if --text_columns has a wrong number of names."""
    wanted = model.task.text_names
    if FLAGS.text_columns and len(FLAGS.text_columns) != len(wanted):
        raise UserError(
            f"--text_columns={','.join(FLAGS.text_columns)}: the model reads "
            f"{len(wanted)} ({', '.join(wanted)})"
        )


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    if not FLAGS.model:
        raise UserError("--model is required")
    given = [
        name
        for name in ("task_name", "predict_file", "dev_file")
        if FLAGS[name].value
    ]
    if FLAGS.do_eval and len(given) != 1:
        raise UserError(
            "--do_eval needs one of --task_name, --predict_file and "
            f"--dev_file, found {' and '.join(given) or 'none'}"
        )
    if given and not FLAGS.do_eval:
        raise UserError(f"--{given[0]} is for --do_eval: add it")
    if FLAGS.task_name and not FLAGS.data_dir:
        raise UserError("--task_name needs --data_dir")
    folder = os.path.dirname(FLAGS.output_file)
    if FLAGS.output_file != "-" and not os.access(folder or ".", os.W_OK):
        raise UserError(f"--output_file={FLAGS.output_file} cannot be written")


if __name__ == "__main__":
    errors.run(main)
