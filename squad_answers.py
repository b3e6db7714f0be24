"""Answers to a data set: logits kept, lists decoded, files and scores written.

Apart from run_squad.py's job since an ensemble, or another threshold, does
all of this without a model.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tqdm
from absl import logging

import checkpoints
import devices
import records
import squad_decoding
import squad_scores
import task_records
from errors import UserError
from squad_decoding import Decoded
from squad_records import Questions

PREDICTIONS = "predictions.json"
NBEST = "nbest_predictions.json"
NULL_ODDS = "null_odds.json"
THRESHOLD = "null_threshold.json"
LOGITS = "logits.npz"


class Logits(NamedTuple):
    """What a model says of W windows."""

    start_logits: np.ndarray  # [W, S]
    end_logits: np.ndarray


# --- Logits on disk ---------------------------------------------------------


def kept_logits(
    output_dir: str, made_of: Mapping[str, Any], compute: Callable[[], Logits]
) -> Logits:
    """Return the logits of an earlier pass, or make and keep them.

    Args:
        output_dir: where they are kept.
        made_of: data, weights and whatever else they depend on.
        compute: runs the model.
    """
    path = checkpoints.join(output_dir, LOGITS)
    if task_records.read_json(path + ".json") == json.loads(
        json.dumps(made_of)
    ):
        logging.info(
            "Reusing %s: same weights, same data, no pass of the model", path
        )
        return read_logits(path)
    logits = compute()
    if devices.is_chief():
        checkpoints.write_text(path + ".json", "null")
        with records.atomic_file(path) as file:
            np.savez(file, **logits._asdict())
        checkpoints.write_text(path + ".json", json.dumps(made_of))
    return logits


def read_logits(path: str) -> Logits:
    """Return stored logits.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        with records.open_for_reading(path) as file:
            arrays = np.load(file)
            return Logits(arrays["start_logits"], arrays["end_logits"])
    except (ValueError, KeyError, OSError) as error:
        raise UserError(f"{path} is no file of logits: {error}") from error


def decode(
    questions: Questions,
    logits: Logits,
    tokens: Mapping[int, str],
    settings: squad_decoding.Settings,
    ignores_padding: bool,
) -> Decoded:
    """Return the n-best lists of a data set, with progress."""
    bar = tqdm.tqdm(
        total=len(questions.data.examples),
        unit=" questions",
        desc="decoding",
        disable=None,
    )
    with bar:
        return squad_decoding.decode(
            questions.data,
            questions.windows,
            *logits,
            tokens,
            settings,
            ignores_padding,
            bar.update,
        )


# --- Several runs -----------------------------------------------------------


def ensemble(
    folders: Sequence[str],
    questions: Questions,
    decode_logits: Callable[[Logits], Decoded],
) -> Decoded:
    """Return what several runs say together.

    The mean of their logits where all looked through the same windows, else
    the mean of their n-best lists' probabilities.

    Raises:
        UserError: a run has neither for these questions.
    """
    wanted = json.loads(json.dumps(questions.made_of))
    notes = [
        task_records.read_json(checkpoints.join(folder, LOGITS + ".json"))
        for folder in folders
    ]
    if all(note and note["windows"] == wanted for note in notes):
        logging.info("Ensemble: the mean of %d runs' logits", len(folders))
        found = [
            read_logits(checkpoints.join(folder, LOGITS)) for folder in folders
        ]
        return decode_logits(_mean(found))
    logging.info(
        "Ensemble: the mean of %d runs' n-best lists, since their windows, or "
        "those of the flags, differ",
        len(folders),
    )
    return squad_decoding.combine(
        [_read_lists(folder, questions) for folder in folders]
    )


def _mean(parts: Sequence[Logits]) -> Logits:
    width = min(part.start_logits.shape[1] for part in parts)
    return Logits(
        *(
            np.mean([part[i][:, :width] for part in parts], axis=0)
            for i in range(2)
        )
    )


def _read_lists(folder: str, questions: Questions) -> Decoded:
    """Return the n-best lists a run left."""
    nbest = task_records.read_json(checkpoints.join(folder, NBEST))
    if nbest is None:
        raise UserError(
            f"--ensemble_dirs: {folder} holds no {NBEST}; give it "
            "--do_predict first"
        )
    missing = [
        e.qas_id for e in questions.data.examples if e.qas_id not in nbest
    ]
    if missing:
        raise UserError(
            f"--ensemble_dirs: {folder} has no answer to question "
            f"{missing[0]} and {len(missing) - 1} more: predicted from another "
            "file?"
        )
    odds = task_records.read_json(checkpoints.join(folder, NULL_ODDS))
    return squad_decoding.from_json(nbest, odds)


# --- Files and scores -------------------------------------------------------


class Output:
    """The prediction files of a data set in output_dir, and their scores.

    Args:
        output_dir: where they go.
        questions: what is answered.
        threshold: --null_score_diff_threshold where it was given.
        tunes: find the best instead.
        trained_in: output_dir of the weights, whose stored threshold counts.
    """

    def __init__(
        self,
        output_dir: str,
        questions: Questions | None,
        threshold: float | None,
        tunes: bool,
        trained_in: str | None = None,
    ):
        self.output_dir, self.questions = output_dir, questions
        self.given, self.tunes, self.trained_in = threshold, tunes, trained_in

    def write(self, decoded: Decoded) -> dict[str, str]:
        """Write the original's files; return question id -> answer."""
        threshold = 0.0
        if decoded.null_odds:
            threshold = self._tune(decoded) if self.tunes else self.threshold()
        answers = decoded.answers(threshold)
        texts = {
            PREDICTIONS: json.dumps(answers, indent=4),
            NBEST: squad_decoding.nbest_json(decoded.nbest),
        }
        if decoded.null_odds:
            texts[NULL_ODDS] = json.dumps(decoded.null_odds, indent=4)
            empty = sum(not answer for answer in answers.values())
            logging.info(
                "%d of %d questions have no answer at threshold %g",
                empty,
                len(answers),
                threshold,
            )
        for name, text in texts.items():
            path = checkpoints.join(self.output_dir, name)
            logging.info("Writing %s", path)
            if devices.is_chief():
                checkpoints.write_text(path, text + "\n")
        return answers

    def threshold(self) -> float:
        """Return from which odds on a question has no answer."""
        if self.given is not None:
            return self.given
        for folder in filter(None, (self.output_dir, self.trained_in)):
            path = checkpoints.join(folder, THRESHOLD)
            found = task_records.read_json(path)
            if found:
                logging.info(
                    "null_score_diff_threshold = %g, from %s",
                    found["threshold"],
                    path,
                )
                return float(found["threshold"])
        return 0.0

    def _tune(self, decoded: Decoded) -> float:
        data = self.questions.data
        if not data.has_answers():
            raise UserError(
                "--tune_null_threshold: the file to predict has no answers"
            )
        best = {
            key: squad_decoding.best_text(found)
            for key, found in decoded.nbest.items()
        }
        tuned = squad_scores.tune(data, best, decoded.null_odds)
        logging.info(
            "Tuned null_score_diff_threshold = %g: exact %.2f, F1 %.2f",
            tuned.threshold,
            tuned.exact,
            tuned.f1,
        )
        if devices.is_chief():
            checkpoints.write_text(
                checkpoints.join(self.output_dir, THRESHOLD),
                json.dumps(tuned._asdict(), indent=2) + "\n",
            )
        return tuned.threshold
