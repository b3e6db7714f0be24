"""Score a LiteRT file on a development set, without TensorFlow.

The scores are those of run_classifier.py, run_squad.py and run_ner.py
--do_eval: two files of one model, in float32 and int8, can be compared.
"""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from base import progress
from base.errors import UserError

import numpy as np
from absl import logging

from serving.litert.model import LiteRtModel
from tasks import predict
from tasks.classifier import data as classifier_data
from tasks.classifier import glue
from tasks.multi_label.task import MultiLabel
from tasks.ner import data as ner_data
from tasks.rows import Unit
from tasks.squad import data as squad_data
from tasks.squad import scores as squad_scores
from tasks.task import Input, Outputs, Place


def check_task(model: LiteRtModel, wanted: str, flag: str) -> None:
    """Raise a UserError if a flag is for another task than the model's."""
    if model.settings.task != wanted:
        raise UserError(
            f"--{flag} is for {wanted}, but {model.path} does "
            f"{model.settings.task}"
        )


def _scores_of(task: str) -> Any:
    """Return the module of a task's scores, which predictions do not need.

    Raises:
        UserError: a package that it needs is not installed.
    """
    try:
        return importlib.import_module(f"tasks.{task}.scores")
    except ImportError as error:
        raise UserError(
            f"--do_eval needs scikit-learn and seqscore ({error}): pip install "
            "'scikit-learn>=1.4,<2' 'seqscore>=0.9,<0.10'"
        ) from error


def _outputs(model: LiteRtModel, units: list[Unit]) -> list[Outputs]:
    """Run the model on all units of rows; return the outputs of each.

    Shows a progress bar.
    """
    with progress.Bar(len(units), "rows", "Scoring") as bar:
        return predict.run_units(
            model.task, model, units, model.batch_size, bar.update
        )


# --- Classifiers -------------------------------------------------------------


def score_classifier(
    model: LiteRtModel, task: glue.TaskFiles, data_dir: str
) -> dict[str, float]:
    """Return the scores of a classifier or regression on its development sets.

    Args:
        model: fine-tuned on the task.
        task: its files, labels and scores.
        data_dir: the folder of the files.

    Raises:
        UserError: a file cannot be read, or the task is not the model's.
    """
    name = MultiLabel.name if task.multi_label else "classifier"
    check_task(model, name, "task_name")
    task = _with_labels_of_model(model, task)
    classifier_scores = _scores_of("classifier")
    results: dict[str, float] = {}
    for name, split in task.dev.items():
        examples = classifier_data.read_examples(data_dir, split, task)
        units = [
            [model.task.row(example.text_a, example.text_b)[0]]
            for example in examples
        ]
        outputs = _outputs(model, units)
        labels = task.labels
        if task.multi_label:
            several = [
                classifier_data.split_labels(example.label)
                for example in examples
            ]
            results |= _scores_of("multi_label").scores(
                np.array([found["probabilities"] for found in outputs]),
                np.array([[n in own for n in labels] for own in several], int),
                model.task.thresholds,
            )
            continue
        if labels is None:
            logits = np.array([[found["value"]] for found in outputs])
            ids = np.array([float(example.label) for example in examples])
        else:
            probs = np.array([found["probabilities"] for found in outputs])
            # A probability of 0 has no logarithm.
            logits = np.log(np.maximum(probs, np.finfo(np.float32).tiny))
            ids = np.array(
                [labels.index(example.label) for example in examples]
            )
        found = classifier_scores.scores(
            logits, ids, task.metrics, labels is None, task.positive_id
        )
        prefix = f"{name}_" if len(task.dev) > 1 else ""
        results |= {prefix + key: value for key, value in found.items()}
    return results


def _with_labels_of_model(
    model: LiteRtModel, task: glue.TaskFiles
) -> glue.TaskFiles:
    """Return the task with its labels in the order of the model.

    Raises:
        UserError: task and model differ in what they read or predict.
    """
    if not task.dev:
        raise UserError("--task_name: the task has no development file")
    ours, theirs = model.settings.labels, task.labels
    if (ours is None) != (theirs is None):
        raise UserError(
            f"the task has the labels {_shown(theirs)}, but {model.path} "
            f"{_shown(ours)}"
        )
    task = glue.with_labels_of(task, ours, model.path)
    is_pair = model.settings.sentence_pairs
    glue.check_pairs(task, is_pair, model.path)
    return task


def _shown(labels: Iterable[str] | None) -> str:
    return "of a regression" if labels is None else ", ".join(labels)


# --- Questions ---------------------------------------------------------------


def score_questions(model: LiteRtModel, path: str) -> dict[str, float]:
    """Return the official scores on a SQuAD file, in percent.

    Args:
        model: that answers questions.
        path: a JSON file of SQuAD, of the version the model was fine-tuned on.

    Raises:
        UserError: the file cannot be read, or has no answers.
    """
    check_task(model, "question_answering", "predict_file")
    is_version_2 = model.settings.null_threshold is not None
    data = squad_data.read_squad([path], False, is_version_2)
    texts = [
        {
            "question": example.question_text,
            "context": data.paragraphs[example.paragraph].text,
        }
        for example in data.examples
    ]
    answers = {
        # A context without a token has no answer.
        example.qas_id: "" if isinstance(found, str) else found["answer"]
        for example, found in zip(
            data.examples, _results(model, texts), strict=True
        )
    }
    return squad_scores.score(data, answers, is_version_2)


def _results(
    model: LiteRtModel, texts: list[dict[str, Any]]
) -> list[dict[str, Any] | str]:
    """Return the prediction for each of a task's texts."""
    inputs = [
        Input(number, Place("texts", number), text)
        for number, text in enumerate(texts)
    ]
    encoded = model.task.encode(inputs)
    outputs = _outputs(model, encoded.units)
    return list(model.task.decode(inputs, encoded, outputs))


# --- Named entities ----------------------------------------------------------


def score_entities(model: LiteRtModel, path: str) -> dict[str, float]:
    """Return precision, recall and F1 of the entities of a file.

    Every sentence is read alone, without the document around it.

    Args:
        model: that tags words.
        path: a word and its tag on each line, or .jsonl (docs/ner.md).

    Raises:
        UserError: the file cannot be read, or has tags of unknown types.
    """
    check_task(model, "token_classification", "dev_file")
    ner_scores = _scores_of("ner")
    types = sorted({x[2:] for x in model.settings.labels} - {""})
    file = ner_data.with_iob2_tags(
        ner_data.read_file(path, ner_data.Columns()), types
    )
    texts: list[Mapping[str, Any]] = [
        {"words": sentence.words, "places": None, "text": None}
        for sentence in file.sentences
    ]
    tags = []
    for number, found in enumerate(_results(model, texts)):
        if isinstance(found, str):
            raise UserError(f"{path}, sentence {number + 1}: {found}")
        tags.append(found["tags"])
    logging.info("Scored %d sentences without document context", len(tags))
    return ner_scores.entity_scores([s.tags for s in file.sentences], tags)
