"""Turn logits into answers: predictions.json, null threshold, scores.

The steps, one function each:

    kept_logits             the logits of the last run, if they are current
    decoding.decode         logits -> n-best lists and null odds
    write_answers           n-best lists -> answers and files, in these steps:
      scores.tune_threshold   null odds -> threshold with the best F1
      Decoded.chosen          n-best lists, threshold -> answers
    Answered.scores         answers -> scores of the official script

SquadJob.answer_together has another source of logits: the mean of what several
runs have kept.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import cluster, file_system, logs, text_files
from base.errors import UserError, counted, naming

import numpy as np
from absl import logging

from checkpoints import lookup, weight_files
from checkpoints.run_folder import RunFolder
from records import cache as record_cache
from tasks import signs
from tasks.squad import scores as squad_scores
from tasks.squad.data import SquadData
from tasks.squad.decoding import AnswerOptions, Candidate, Decoded
from tasks.squad.scores import Tuned
from tasks.task import Outputs

PREDICTIONS = "predictions.json"  # {question id: answer}

NBEST = "nbest_predictions.json"  # {question id: n-best list}

NULL_ODDS = "null_odds.json"  # {question id: null odds}; SQuAD 2.0

THRESHOLD = "null_threshold.json"  # of --tune_null_threshold

LOGITS = "logits.npz"  # of all windows, with their fingerprint in .json

# All files of this module. They belong to the weights that answered: a sweep
# copies them with the weights of the best run.
FILES = (PREDICTIONS, NBEST, NULL_ODDS, THRESHOLD, LOGITS, LOGITS + ".json")

# Questions to tune a threshold on: among fewer, one is a point of F1 or more.
_ENOUGH = 100


def kept_logits(
    output_dir: str, fingerprint: Mapping[str, Any], num_windows: int
) -> Outputs | None:
    """Return the logits of the last run, None if they are not of this one."""
    path = os.path.join(output_dir, LOGITS)
    if not record_cache.has_fingerprint(path, fingerprint):
        return None
    try:
        logits = read_logits(path, num_windows)
    except UserError as error:
        logging.warning("%s; the model runs again", error)
        return None
    logging.info(
        "Reusing %s: same weights, same data, no pass of the model", path
    )
    return logits


def keep_logits(
    output_dir: str, fingerprint: Mapping[str, Any], logits: Outputs
) -> None:
    """Write the logits for later runs, unless the weights were not saved.

    These are None in the fingerprint. On several machines all have computed the
    same, and one writes them.
    """

    def write(path: str) -> None:
        with file_system.atomic_file(path) as file:
            np.savez(file, **logits)

    if fingerprint["weights"] is not None and cluster.is_chief():
        path = os.path.join(output_dir, LOGITS)
        record_cache.write_with_fingerprint(path, fingerprint, write)


def read_logits(path: str, num_windows: int) -> Outputs:
    """Return the start_logits and end_logits [W, S] in a file.

    Raises:
        UserError: it is missing, damaged or of another number of windows.
    """
    with file_system.open_for_reading(path) as file:
        # Damage raises errors of numpy, zipfile, zlib, tokenize; MemoryError.
        with naming(f"{path} is not a file of logits", Exception):
            arrays = np.load(file)
            found = {n: arrays[n] for n in ("start_logits", "end_logits")}
            for name, values in found.items():
                is_table = values.ndim == 2 and values.dtype.kind == "f"
                if not is_table or len(values) != num_windows:
                    raise ValueError(
                        f"{name} is {values.dtype} {values.shape}, wanted "
                        f"{num_windows} windows"
                    )
    return found


# --- Answers -----------------------------------------------------------------


class Answered(NamedTuple):
    """The answers to the questions of a data set."""

    chosen: dict[str, Candidate]  # {question id: answer}
    null_odds: dict[str, float]  # empty for SQuAD 1.1
    tuned: Tuned | None  # the best threshold, whether used or not

    @property
    def texts(self) -> dict[str, str]:
        """The texts, {question id: answer}, "" for none."""
        return {key: candidate.text for key, candidate in self.chosen.items()}

    def scores(self, data: SquadData) -> dict[str, float]:
        """Return the official scores, and the F1 at the best threshold."""
        results = squad_scores.score(data, self.texts, self.null_odds)
        if self.tuned:
            results["tuned_f1"] = self.tuned.f1
            results["tuned_thresh"] = self.tuned.threshold
        return results

    def sign_of_failure(self, data: SquadData) -> str | None:
        """Return what is wrong if all answers are the same span, or no better.

        By the rules of 2.0 no answer is right where there is none.
        """
        answers = self.texts
        places = {
            key: self.chosen[key].span.piece for key in answers if answers[key]
        }
        scores = squad_scores.score_each(data, answers)
        if sign := signs.same_span(answers, places, scores.exact):
            return sign
        has = [scores.has_answer[key] for key in scores.f1]
        empty = 100 * (1 - np.mean(has)) if data.is_version_2 else 0.0
        f1 = 100 * np.mean([*scores.f1.values()])
        return signs.no_better(sum(has), "f1", f1, empty, "no answer to all")


def write_answers(
    data: SquadData,
    decoded: Decoded,
    options: AnswerOptions,
    output_dir: str,
    weights: Any,
    trained_in: str | None = None,
) -> Answered:
    """Answer the questions from their n-best lists; write the files.

    `weights` is the fingerprint of those that answered, None if unknown, and
    `trained_in` the output_dir of the run that trained them.
    """
    is_version_2, tuned, threshold = data.is_version_2, None, 0.0
    if is_version_2 and data.has_answers():
        best = {k: one.text for k, one in decoded.chosen(math.inf).items()}
        tuned = squad_scores.tune_threshold(data, best, decoded.null_odds)
    if is_version_2 and options.tune_null_threshold:
        if not tuned:
            raise UserError(
                "--tune_null_threshold: the file to predict has no answers"
            )
        threshold = tuned.threshold
        few = ": these are few, and another may suit other questions better"
        say = logs.say if weights else logging.info
        say(
            "Threshold for no answer: %.4g, tuned_thresh, which gives the best "
            "F1 on %s%s",
            threshold,
            counted(len(data.examples), "question"),
            few if len(data.examples) < _ENOUGH else "",
        )
    elif is_version_2:
        threshold = null_threshold(
            options.null_score_diff_threshold, weights, output_dir, trained_in
        )
    answered = Answered(decoded.chosen(threshold), decoded.null_odds, tuned)
    answers = answered.texts
    num_empty = sum(not text for text in answers.values())
    if is_version_2:
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
    texts = {
        PREDICTIONS: json.dumps(answers, indent=4),
        NBEST: nbest_json(decoded.nbest),
    }
    if is_version_2:
        texts[NULL_ODDS] = json.dumps(decoded.null_odds, indent=4)
    # Later runs use the threshold for the same weights only: it is of no use
    # where these are unknown.
    if tuned and options.tune_null_threshold and weights is not None:
        stored = {**tuned._asdict(), "weights": weights}
        texts[THRESHOLD] = json.dumps(stored, indent=2)
    for name, text in texts.items():
        path = os.path.join(output_dir, name)
        if cluster.is_chief():
            file_system.write_text(path, text + "\n")
        logging.info("Wrote %s", path)
    return answered


def weights_of(prefix: str | None) -> tuple[list[str] | None, str | None]:
    """Return a checkpoint's checksums and folder; None if not on disk."""
    if not prefix:
        return None, None
    files = weight_files.files_of(prefix)
    checksums = [file_system.sha256(path) for path in files]
    return checksums, lookup.folder_of(prefix)


def null_threshold(
    given: float | None, weights: Any, *folders: str | None
) -> float:
    """Return the null odds above which a question has no answer; say whose.

    It is the given one, else the one tuned for the same weights in the first of
    the folders that has one, else 0.
    """
    threshold, whose = given or 0.0, "--null_score_diff_threshold"
    if given is None:
        whose = "the default"
        for folder in filter(None, folders):
            path = os.path.join(folder, THRESHOLD)
            if not file_system.exists(path):
                continue
            found = text_files.read_own_json(path)
            try:
                tuned, its_weights = float(found["threshold"]), found["weights"]
            except (KeyError, OverflowError, TypeError, ValueError):
                logging.warning("%s is damaged: not used", path)
                continue
            if its_weights == weights:
                threshold, whose = tuned, path
                break
            logging.warning("%s is of other weights: not used", path)
    # Weights in training, which have no file, are scored again and again.
    say = logs.say if weights else logging.info
    say("Threshold for no answer: %.4g, %s", threshold, whose)
    return threshold


def nbest_json(nbest: Mapping[str, Sequence[Candidate]]) -> str:
    """Return the text of nbest_predictions.json."""
    names = Candidate._fields[:4]  # without the span
    lists = {
        key: [dict(zip(names, one[:4], strict=True)) for one in found]
        for key, found in nbest.items()
    }
    return json.dumps(lists, indent=4)


# --- Several runs together ---------------------------------------------------


def check_folders(folders: Sequence[str], output_dir: str) -> None:
    """Check that the runs' directories are different, and none output_dir."""
    places = [file_system.real_path(folder) for folder in folders]
    for number, (folder, place) in enumerate(zip(folders, places, strict=True)):
        if place == file_system.real_path(output_dir):
            raise UserError(
                f"--output_dir={output_dir} is one of --ensemble_dirs, whose "
                "own answers would be overwritten: name another directory"
            )
        if place in places[:number]:
            raise UserError(f"--ensemble_dirs names {folder!r} twice")


def find_model(folders: Sequence[str], init_checkpoint: str | None) -> str:
    """Return the checkpoint whose vocabulary and casing are to be used.

    The first one in the directories, else init_checkpoint.
    """
    kept = (RunFolder.read(folder).kept for folder in folders)
    if found := next(filter(None, kept), init_checkpoint):
        return found
    raise UserError(
        "none of --ensemble_dirs holds a model, whose vocabulary and casing "
        "the answers need: name one of the models by --init_checkpoint"
    )
