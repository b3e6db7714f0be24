"""Answers to a data set: logits kept, lists decoded, files and scores written.

Apart from run_squad.py's job since an ensemble, or another threshold, does
all of this without a model.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from zipfile import BadZipFile

from base import cluster, file_system, text_files
from base.errors import UserError

import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from squad import data as squad_data
from squad import decoding as squad_decoding
from squad import scores as squad_scores
from squad.data import SquadData
from squad.decoding import Decoded
from squad.records import Questions
from squad.scores import Tuned

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
    output_dir: str,
    fingerprint: Mapping[str, Any],
    num_windows: int,
    compute: Callable[[], Logits],
) -> Logits:
    """Return the logits of an earlier pass, or make and keep them.

    Args:
        output_dir: where they are kept.
        fingerprint: data, weights and all else they depend on; weights that
            are on no disk are None, and their logits are not kept.
        num_windows: W.
        compute: runs the model.
    """
    if fingerprint["weights"] is None:
        return compute()
    path = os.path.join(output_dir, LOGITS)
    note = json.loads(json.dumps(fingerprint))
    if text_files.read_own_json(path + ".json") == note:
        try:
            logits = read_logits(path)
            if len(logits.start_logits) == num_windows:
                logging.info(
                    "Reusing %s: same weights, same data, no pass of the model",
                    path,
                )
                return logits
        except UserError as error:
            logging.warning("%s; the model runs again", error)
    logits = compute()
    if cluster.is_chief():
        file_system.write_text(path + ".json", "null")
        with file_system.atomic_file(path) as file:
            np.savez(file, **logits._asdict())
        file_system.write_text(path + ".json", json.dumps(fingerprint))
    return logits


def read_logits(path: str) -> Logits:
    """Return stored logits.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        with file_system.open_for_reading(path) as file:
            arrays = np.load(file)
            return Logits(arrays["start_logits"], arrays["end_logits"])
    except UserError:
        raise
    except (
        ValueError,
        KeyError,
        OSError,
        EOFError,
        BadZipFile,
    ) as error:
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


def notes_of(folders: Sequence[str]) -> list[dict | None]:
    """Return what the logits in each folder were made of."""
    notes = []
    for folder in folders:
        path = os.path.join(folder, LOGITS + ".json")
        note = text_files.read_own_json(path)
        is_note = isinstance(note, dict) and {"windows", "weights"} <= {*note}
        notes.append(note if is_note else None)
    return notes


def ensemble(
    folders: Sequence[str],
    questions: Questions,
    settings: squad_decoding.Settings,
    decode_logits: Callable[[Logits], Decoded],
) -> Decoded:
    """Return what several runs say together.

    The mean of their logits where all looked through the same windows, else
    the mean of their n-best lists' probabilities.

    Raises:
        UserError: a run has neither for these questions.
    """
    wanted = json.loads(json.dumps(questions.fingerprint))
    notes = notes_of(folders)
    if all(note and note["windows"] == wanted for note in notes):
        logging.info("Ensemble: the mean of %d runs' logits", len(folders))
        paths = [os.path.join(folder, LOGITS) for folder in folders]
        return decode_logits(_mean([read_logits(path) for path in paths]))
    logging.info(
        "Ensemble: the mean of %d runs' n-best lists, since their windows, or "
        "those of the flags, differ",
        len(folders),
    )
    is_version_2 = settings.version_2_with_negative
    return squad_decoding.combine(
        [_read_lists(folder, questions, is_version_2) for folder in folders],
        settings.n_best_size,
    )


def _mean(parts: Sequence[Logits]) -> Logits:
    width = min(part.start_logits.shape[1] for part in parts)
    return Logits(
        *(
            np.mean([part[i][:, :width] for part in parts], axis=0)
            for i in range(2)
        )
    )


def _read_lists(
    folder: str, questions: Questions, is_version_2: bool
) -> Decoded:
    """Return the n-best lists a run left, of these questions alone."""
    keys = [example.qas_id for example in questions.data.examples]
    found = []
    for name in (NBEST, NULL_ODDS) if is_version_2 else (NBEST,):
        path = os.path.join(folder, name)
        if not tf.io.gfile.exists(path):
            raise UserError(
                f"--ensemble_dirs: {folder} holds no {name}; give it "
                "--do_predict first"
            )
        values = squad_data.read_json(path)
        if not isinstance(values, dict):
            raise UserError(f"{path}: wanted an object of question ids")
        missing = [key for key in keys if key not in values]
        if missing:
            raise UserError(
                f"--ensemble_dirs: {path} knows nothing of question "
                f"{missing[0]} and {len(missing) - 1} more: predicted from "
                "another file?"
            )
        if len(values) > len(keys):
            logging.info(
                "%s: %d questions are not in the file to predict: left out",
                path,
                len(values) - len(keys),
            )
        found.append({key: values[key] for key in keys})
    try:
        return squad_decoding.from_json(*found)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"--ensemble_dirs: {folder} holds an {NBEST} or {NULL_ODDS} that "
            f"is not one ({error}); --do_predict writes them"
        ) from error


# --- Files and scores -------------------------------------------------------


class Output:
    """The prediction files of a data set in output_dir, and their threshold.

    Args:
        output_dir: where they go.
        weights: what says which weights answered; None: nobody can say.
        threshold: --null_score_diff_threshold where it was given.
        trained_in: output_dir of the weights, whose stored threshold counts.
    """

    def __init__(
        self,
        output_dir: str,
        weights: Any,
        threshold: float | None,
        trained_in: str | None = None,
    ):
        self.output_dir, self.weights = output_dir, weights
        self.given, self.trained_in = threshold, trained_in

    def write(self, decoded: Decoded, tuned: Tuned | None) -> dict[str, str]:
        """Write the original's files; return question id -> answer.

        Args:
            decoded: the n-best lists.
            tuned: the threshold to answer with and to store.
        """
        threshold = 0.0
        if decoded.null_odds:
            threshold = tuned.threshold if tuned else self.threshold()
        answers = decoded.answers(threshold)
        num_empty = sum(not answer for answer in answers.values())
        texts = {
            PREDICTIONS: json.dumps(answers, indent=4),
            NBEST: squad_decoding.nbest_json(decoded.nbest),
        }
        if decoded.null_odds:
            texts[NULL_ODDS] = json.dumps(decoded.null_odds, indent=4)
            logging.info(
                "%d of %d questions have no answer at threshold %g",
                num_empty,
                len(answers),
                threshold,
            )
        elif num_empty:
            logging.warning(
                "%d of %d questions have no answer: no span of at most "
                "max_answer_length tokens was among the n_best_size best",
                num_empty,
                len(answers),
            )
        if tuned and self.weights is not None:
            stored = {**tuned._asdict(), "weights": self.weights}
            texts[THRESHOLD] = json.dumps(stored, indent=2)
        for name, text in texts.items():
            path = os.path.join(self.output_dir, name)
            logging.info("Writing %s", path)
            if cluster.is_chief():
                file_system.write_text(path, text + "\n")
        return answers

    def threshold(self) -> float:
        """Return from which odds on a question has no answer.

        As given, else as tuned for these very weights, else 0.
        """
        if self.given is not None:
            return self.given
        for folder in filter(None, (self.output_dir, self.trained_in)):
            path = os.path.join(folder, THRESHOLD)
            if not tf.io.gfile.exists(path):
                continue
            found = text_files.read_own_json(path)
            if not _is_threshold(found):
                logging.warning("%s is damaged: not used", path)
                continue
            if found["weights"] != self.weights:
                logging.warning("%s is of other weights: not used", path)
                continue
            logging.info(
                "null_score_diff_threshold = %g, from %s",
                found["threshold"],
                path,
            )
            return float(found["threshold"])
        return 0.0


def _is_threshold(found: Any) -> bool:
    """Whether that is what `Output.write` stores."""
    return (
        isinstance(found, dict)
        and isinstance(found.get("threshold"), float)
        and "weights" in found
    )


def tune(data: SquadData, decoded: Decoded) -> Tuned:
    """Return the threshold with the best F1, and say so.

    Raises:
        UserError: there are no answers to tune on.
    """
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
        "Best null_score_diff_threshold: %g, F1 %.2f, exact %.2f", *tuned
    )
    return tuned
