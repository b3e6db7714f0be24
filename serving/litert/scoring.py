"""Score a LiteRT file on a development set, without TensorFlow.

The scores are those of run_classifier.py, run_squad.py and run_ner.py
--do_eval: two files of one model, in float32 and int8, can be compared.
"""

import importlib
from typing import Any

from base import progress
from base.errors import UserError

import numpy as np
from absl import logging

from serving.litert.model import LiteRtModel
from tasks import predict
from tasks.classifier import data as classifier_data
from tasks.classifier import glue
from tasks.classifier.task import MultiLabel
from tasks.ner import data as ner_data
from tasks.rows import Unit
from tasks.squad import data as squad_data
from tasks.squad import scores as squad_scores
from tasks.task import Input, Outputs, Place, Prediction


def score_classifier(
    model: LiteRtModel, task: glue.TaskFiles, data_dir: str
) -> dict[str, float]:
    """Return the scores on the development sets of a task."""
    name = MultiLabel.name if task.multi_label else "classifier"
    _check_task(model, name, "task_name")
    if not task.dev:
        raise UserError("--task_name: the task has no development file")
    labels = model.task.labels
    if (labels is None) != (task.labels is None):
        found, wanted = (
            "of a regression" if some is None else ", ".join(some)
            for some in (labels, task.labels)
        )
        raise UserError(
            f"the task has the labels {wanted}, but {model.path} {found}"
        )
    task = glue.with_labels_of(task, labels, model.path)
    labels = task.labels
    taught = model.settings.checkpoint.trained_for.sentence_pairs
    glue.check_pairs(task, taught, model.path)
    classifier_scores = _scores_of("classifier")
    results: dict[str, float] = {}
    for name, split in task.dev.items():
        examples = classifier_data.read_examples(data_dir, split, task)
        units = [[model.task.row(x.text_a, x.text_b)[0]] for x in examples]
        output = "value" if labels is None else "probabilities"
        numbers = np.array([found[output] for found in _outputs(model, units)])
        if labels is None:
            found = classifier_scores.number_scores(
                numbers,
                np.array([float(x.label) for x in examples]),
                task.metrics,
            )
        elif task.multi_label:
            several = [classifier_data.split_labels(x.label) for x in examples]
            # Neither 0 nor 1 has a logit.
            inner = np.clip(numbers.astype(np.float64), 1e-12, 1 - 1e-12)
            found = classifier_scores.label_scores(
                np.log(inner / (1 - inner)),
                np.array([[n in own for n in labels] for own in several], int),
                numbers >= model.task.thresholds,
            )
        else:
            found = classifier_scores.scores(
                # A probability of 0 has no logarithm.
                np.log(np.maximum(numbers, np.finfo(np.float32).tiny)),
                np.array([labels.index(x.label) for x in examples]),
                task.metrics,
                task.positive_id,
            )
        prefix = f"{name}_" if len(task.dev) > 1 else ""
        results |= {prefix + key: value for key, value in found.items()}
    return results


def score_questions(model: LiteRtModel, path: str) -> dict[str, float]:
    """Return the official scores on a JSON file of SQuAD, in percent.

    The file is of the version that the model was fine-tuned on.
    """
    _check_task(model, "question_answering", "predict_file")
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
    return squad_scores.score(data, answers)


def score_entities(model: LiteRtModel, path: str) -> dict[str, float]:
    """Return precision, recall and F1 of the entities of a file.

    It has a word and its tag on each line, or is .jsonl (docs/ner.md). Every
    sentence is read alone, without the document around it.
    """
    _check_task(model, "token_classification", "dev_file")
    ner_scores = _scores_of("ner")
    types = sorted({x[2:] for x in model.task.labels} - {""})
    file = ner_data.with_iob2_tags(
        ner_data.read_file(path, ner_data.Columns()), types
    )
    texts = [
        {"words": sentence.words, "places": None, "text": None}
        for sentence in file.sentences
    ]
    tags = []
    for number, found in enumerate(_results(model, texts), 1):
        if isinstance(found, str):
            raise UserError(f"{path}, sentence {number}: {found}")
        tags.append(found["tags"])
    logging.info("Scored %d sentences without document context", len(tags))
    return ner_scores.entity_scores([s.tags for s in file.sentences], tags)


def _check_task(model: LiteRtModel, wanted: str, flag: str) -> None:
    if model.settings.task != wanted:
        raise UserError(
            f"--{flag} is for {wanted}, but {model.path} does "
            f"{model.settings.task}"
        )


def _scores_of(task: str) -> Any:
    """Return the module of a task's scores, which predictions do not need."""
    try:
        return importlib.import_module(f"tasks.{task}.scores")
    except ImportError as error:
        raise UserError(
            f"--do_eval needs scikit-learn and seqscore ({error}): pip install "
            "'scikit-learn>=1.4,<2' 'seqscore>=0.9,<0.10'"
        ) from error


def _outputs(model: LiteRtModel, units: list[Unit]) -> list[Outputs]:
    """Return the model's outputs for all units of rows."""
    with progress.Bar(len(units), "rows", "Scoring") as bar:
        return predict.run_units(
            model.task, model, units, model.batch_size, bar.update
        )


def _results(
    model: LiteRtModel, texts: list[dict[str, Any]]
) -> list[Prediction | str]:
    """Return the prediction for each of a task's texts."""
    inputs = [
        Input(number, Place("texts", number), text)
        for number, text in enumerate(texts)
    ]
    encoded = model.task.encode(inputs)
    outputs = _outputs(model, encoded.units)
    return list(model.task.decode(inputs, encoded, outputs))
