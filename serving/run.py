"""Predict the inputs of files on this machine, one file after the other.

    file -> windows -> batches by length -> model -> lines in order -> file

Every input file makes one output file. Inputs without a prediction go to a
file of the scratch folder first (base/jobs/run.py), and in the end to
errors.jsonl, the last output of the job. Memory holds one window.
"""

import collections
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system, logs, progress, tables
from base.errors import UserError
from base.jobs import run as jobs_run
from base.jobs.run import Job, Run, Target

from absl import logging

from tasks import predict, reading, registry
from tasks.masked_lm import task as scoring
from tasks.ner.task import TAGGING
from tasks.reading import InputFile, Problem, Window
from tasks.task import Input, Model, Prediction, Task, TaskSettings

# Lines of a file by which it is judged whether they are those of a table.
_FIRST_LINES = 20

# Raise it when the same command no longer gives the same bytes.
_VERSION = 3

Counts = collections.Counter[str]


class Result(NamedTuple):
    """The predictions of a window, as JSON lines; picklable.

    Where the output is a table, each line is a row of it.
    """

    lines: list[str]
    problems: list[Problem]
    counts: dict[str, float]


class Part(NamedTuple):
    """An input file of a run, and what is written for it."""

    number: int
    file: InputFile
    target: Target
    errors: str  # path of the inputs that have no prediction


def create_task(settings: TaskSettings) -> Task:
    """Return the task of a model; with `explain`, with attributions."""
    task = registry.create_task(settings)
    if not settings.explain:
        return task
    from extras import attributions  # TensorFlow

    return attributions.explaining_task(task)


def load_model(settings: TaskSettings) -> Model:
    """Return a model; with `explain`, with the outputs of attributions."""
    from tasks import loading  # TensorFlow, which litert_model.py lacks

    if not settings.explain:
        return loading.load(settings)
    from extras import attributions

    graph = loading.load_graph(settings)
    return attributions.explaining(graph, loading.run_graph(graph))


def predict_window(
    task: Task, run_model: Model, window: Window, batch_size: int
) -> Result:
    """Return the predictions of a window; see `predict.predict`."""
    cut: Counts = Counts()
    predictions = predict.predict(
        task, run_model, window.inputs, batch_size, cut
    )
    problems, none = list(window.problems), dict.fromkeys(task.predicted)
    answers = [
        (task.unread(problem.place, problem.text, window.kind), none)
        for problem in problems
    ]
    for item, found in zip(window.inputs, predictions, strict=True):
        if isinstance(found, str):
            problems.append(Problem(item.place, found, f"id {item.id}"))
            found = none
        answers.append((item, found))
    # The model found some of the problems after the parser found the others.
    problems.sort(key=lambda problem: problem.place.number)
    answers.sort(key=lambda answer: answer[0].place.number)
    lines = [
        json.dumps(written(task, item, found), ensure_ascii=False)
        for item, found in answers
        if not (found is none and task.settings.teacher)
    ]
    counts = {
        "inputs": len(answers),
        "predicted": len(answers) - len(problems),
        "bad_inputs": len(problems),
        "truncated": cut["truncated"],
        "left_out": cut["left_out"],
        "blank_lines": window.num_blank,
        **{
            name: sum(found[name] or 0 for _, found in answers)
            for name in task.totals
        },
    }
    return Result(lines, problems, counts)


def written(task: Task, item: Input, found: Prediction) -> dict[str, Any]:
    """Return what is written of an input, as a row of a table or as a line."""
    if task.settings.output_format == "jsonl":
        line = {"id": item.id} | found
        if teacher := task.settings.teacher:
            texts = {n: v for n, v in item.texts.items() if v is not None}
            line |= texts | {"teacher": teacher}
        return line | (item.others or {})
    columns = item.others
    if columns is None:  # of a line of text, or a record
        pairs = zip(task.names, task.text_names, strict=True)
        columns = {name: item.texts[n] for name, n in pairs if n in item.texts}
        if item.id != str(item.place):
            columns["id"] = item.id
        columns = tables.renamed(columns, task.written)
    names = tables.renamed(dict.fromkeys(task.names), task.written)
    texts = {name: columns[name] for name in names if name in columns}
    return texts | task.cells(found) | columns


def create_job(
    files: Sequence[InputFile],
    output_dir: str,
    options: dict[str, Any],
    model: str = "",
) -> Job:
    """Return the job of predicting files by a model, which messages name.

    `options` has the value of everything else that the predictions depend on.
    """
    folder = file_system.absolute_path(output_dir)
    ending = options.get("output_format", "jsonl")
    outputs = [
        os.path.join(
            folder, f"predictions-{index:05}-of-{len(files):05}.{ending}"
        )
        for index in range(len(files))
    ]
    fingerprint = {
        "version of predictions": _VERSION,
        "input_file": [file_system.file_identity(file.path) for file in files],
        "input_format": files[0].kind,
        **options,
    }
    return Job(
        [*outputs, os.path.join(folder, "errors.jsonl")],
        folder,
        "predictions",
        "output_dir",
        fingerprint,
        model,
    )


def check_first_inputs(
    file: InputFile,
    task: Task,
    is_judged: bool = False,
    flag: str = "text_columns",
) -> None:
    """Raise a UserError if all of the first inputs are unusable.

    Otherwise a misspelt --`flag` would put all inputs into errors.jsonl,
    and be noticed after hours. So would a table that was taken for text:
    `is_judged` if nobody said what it is.
    """
    window = next(reading.read_windows(file, task.parse), None)
    if not window or not (window.inputs or window.problems):
        return
    if file.kind == "text" and is_judged:
        _check_text(file, task, window)
    if window.inputs:
        return
    if file.kind == "table":
        names = ",".join(["NAME"] * len(task.names))
        hint = f": name the columns of the texts with --{flag}={names}"
        next(tables.rows(file.path, task.names, hint, damaged=[]), None)
    first = window.problems[0]
    count = len(window.problems)
    many = f"; nor can the others of the first {count} inputs" * (count > 1)
    raise UserError(
        f"{first.place.path}, {first.place.kind} {first.place.number} cannot "
        f"be predicted: {first.reason}{many}"
    )


def _check_text(file: InputFile, task: Task, window: Window) -> None:
    """Raise a UserError if the first lines look like those of a table.

    They do if the first one names the columns of the texts, or if all have as
    many cells; for a tagger, a word in each line may have its tag beside it.
    """
    lines = [problem.text for problem in window.problems]
    signs = {"semicolons": ";", "tabs": "\t"}
    if window.inputs:
        lines = [
            "\t".join(str(item.texts.get(name)) for name in task.text_names)
            for item in window.inputs
        ]
        del signs["tabs"]  # they separate the texts of an input
    cells = [cell.strip(' "') for cell in re.split("[,;\t]", lines[0])]
    # A text in quotes is one cell.
    lines = [re.sub('"[^"]*"', "x", line) for line in lines[:_FIRST_LINES]]
    each = f"each of its first {len(lines)} lines has"
    words = {len(line.split()) for line in lines}
    if task.name == TAGGING and len(lines) > 4 and words in ({2}, {3}, {4}):
        raise UserError(
            f"{file.path} looks like a file with a word in each line, since "
            f"{each} {words.pop()} columns: give it to run_ner.py --do_predict "
            "--test_file, or give --input_format=text if each line is a text"
        )
    found = ""
    for name, sign in signs.items():
        count, *others = {line.count(sign) for line in lines}
        if len(lines) > 1 and count > 1 and not others:
            found = f"{each} {count} {name}"
    if len(cells) > 1 and {*cells} >= {*task.names}:
        found = f"its first line has the columns {', '.join(cells)}"
    if found:
        raise UserError(
            f"{file.path} looks like a table, since {found}: rename it to .csv "
            "or .tsv, or give --input_format=text if each line is an input"
        )


def errors_path(job: Job, index: int) -> str:
    """Return the path of the inputs of a file that have no prediction."""
    return os.path.join(job.shared_dir, f"errors-{index:05}.jsonl")


def parts_to_do(run: Run, files: Sequence[InputFile]) -> list[Part]:
    """Return the files to predict.

    If errors.jsonl is missing, they include files whose predictions are
    complete but whose errors are not there.
    """
    job, last = run.job, len(files)
    names = {name for name, _ in file_system.files_below(job.shared_dir)}
    parts = [
        Part(index, file, job.target(index), errors_path(job, index))
        for index, file in enumerate(files)
    ]
    return [
        part
        for part in parts
        if part.number in run.todo
        or last in run.todo
        and os.path.basename(part.errors) not in names
    ]


def predict_files(
    parts: Sequence[Part], task: Task, run_model: Model, batch_size: int
) -> None:
    """Write the predictions of files."""
    num_inputs, num_tokens, began = 0, 0, time.monotonic()
    total = sum(part.file.size for part in parts)
    with progress.Bar(total, "B", "Predicting") as bar:

        def results(file: InputFile) -> Iterator[Result]:
            nonlocal num_inputs, num_tokens
            for window in reading.read_windows(file, task.parse):
                result = predict_window(task, run_model, window, batch_size)
                num_inputs += len(window.inputs)
                num_tokens += result.counts.get("num_tokens", 0)
                seconds = max(time.monotonic() - began, 1e-9)
                bar.note(f"{num_inputs / seconds:,.1f} inputs/s")
                bar.update(window.num_bytes)
                yield result

        for part in parts:
            write_file(part, results(part.file))
    seconds = time.monotonic() - began
    logging.info(
        "Predicted %d inputs in %s, %.1f inputs/s%s",
        num_inputs,
        progress.format_seconds(seconds),
        num_inputs / max(seconds, 1e-9),
        f", {num_tokens / seconds:,.1f} tokens/s" if num_tokens else "",
    )


def write_file(part: Part, results: Iterable[Result]) -> None:
    """Write the predictions of a file, and before them its errors.

    A table is written when its last row is known, as is its header.
    """
    counts, table = Counts(), []
    is_table = part.target.path.endswith(".csv")
    with (
        jobs_run.publish(part.target) as (file, entry),
        file_system.atomic_file(part.errors, sync=False) as errors_file,
    ):
        for result in results:
            if is_table:
                table += map(json.loads, result.lines)
            else:
                file.writelines(f"{line}\n".encode() for line in result.lines)
            errors_file.writelines(
                f"{problem.line()}\n".encode() for problem in result.problems
            )
            counts.update(result.counts)
        if is_table:
            file.write(tables.csv_text(table, part.file.path).encode())
        entry["counts"] = counts


def finish(run: Run) -> Counts:
    """Write errors.jsonl, end the run, and return the counts of all files."""
    job = run.job
    last = len(job.outputs) - 1
    if last in run.todo:
        with jobs_run.publish(job.target(last)) as (file, entry):
            for index in range(last):
                path = errors_path(job, index)
                with file_system.open_for_reading(path) as part:
                    shutil.copyfileobj(part, file)
            entry["counts"] = {}
    run.finish({})
    counts = Counts()
    for entry in run.entries.values():
        counts.update(entry["counts"])
    return counts


def log_summary(
    counts: Counts, job: Job, output_dir: str, is_new: bool = True
) -> None:
    """Say what a run has done; raise a UserError if it predicted nothing.

    A run that is not new has found all its files complete.
    """
    *predictions, errors = (
        os.path.join(output_dir, os.path.basename(path)) for path in job.outputs
    )
    predicted, num_inputs = counts["predicted"], counts["inputs"]
    parts = [f"Predicted {predicted:,} of {num_inputs:,} inputs"]
    if not is_new:
        are = f"{predicted:,} of {num_inputs:,} inputs are predicted"
        parts = [f"Nothing left to do: {are}"]
    if cut := counts["truncated"]:
        parts.append(
            f"{cut:,} are longer than the model reads and were cut by "
            f"{counts['left_out']:,} tokens"
        )
    if blank := counts["blank_lines"]:
        parts.append(f"blank lines passed over: {blank:,}")
    if num_tokens := counts["num_tokens"]:
        perplexity = scoring.perplexity(counts["score"], num_tokens)
        parts.append(f"perplexity {perplexity:.4f}, of {num_tokens:,} tokens")
    logs.say("%s", "; ".join(parts))
    if not counts["inputs"]:
        raise UserError("the inputs hold no text and no record")
    if not counts["predicted"]:
        raise UserError(
            f"none of {counts['inputs']} inputs could be predicted; see "
            f"{errors}"
        )
    if counts["bad_inputs"]:
        logging.warning(
            "%d of %d inputs have an empty answer; %s says why, for each",
            counts["bad_inputs"],
            counts["inputs"],
            errors,
        )
    more = len(predictions) - 1
    others = f" and {more} more files" if more else ""
    wrote = "Wrote" if is_new else "The predictions are in"
    logs.say("%s %s%s", wrote, predictions[0], others)
