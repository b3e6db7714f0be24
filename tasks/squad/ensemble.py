"""Answer with the output of several runs, without running a model.

The paper's ensemble (Table 2) has 7 systems with different pre-training
checkpoints and fine-tuning seeds; it does not state how they are combined.
Here the logits are averaged and decoded if all runs used the same windows. If
their windows differ, the probabilities of their n-best lists are averaged,
text by text:

    first run    Paris 0.6, London 0.4
    second run   Paris 0.2, Lyon 0.8
    mean         Paris 0.4, Lyon 0.4, London 0.2
"""

import json
import os
from collections.abc import Sequence

from base import file_system, text_files
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import tokenization
from checkpoints import lookup
from tasks.squad import answers as squad_answers
from tasks.squad import decoding as squad_decoding
from tasks.squad.answers import LOGITS, NBEST, NULL_ODDS, Answered
from tasks.squad.data import SquadData
from tasks.squad.decoding import AnswerOptions, Candidate, Decoded
from tasks.squad.windows import Questions


def check_folders(folders: Sequence[str], output_dir: str | None) -> None:
    """Check that the runs' directories exist and none is output_dir."""
    if not output_dir:
        raise UserError("--output_dir is required")
    places = [file_system.real_path(folder) for folder in folders]
    for number, (folder, place) in enumerate(zip(folders, places, strict=True)):
        if not tf.io.gfile.isdir(folder):
            raise UserError(f"--ensemble_dirs: {folder!r} is not a directory")
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
    for folder in folders:
        weights = os.path.join(folder, lookup.WEIGHTS_NAME)
        if tf.io.gfile.exists(weights + ".index"):
            return lookup.find_checkpoint(folder)
    if init_checkpoint:
        return lookup.find_checkpoint(init_checkpoint)
    raise UserError(
        "none of --ensemble_dirs holds a model, whose vocabulary and casing "
        "the answers need: name one of the models by --init_checkpoint"
    )


def combined_answers(
    folders: Sequence[str],
    questions: Questions,
    tokenizer: tokenization.FullTokenizer,
    options: AnswerOptions,
    output_dir: str,
) -> Answered:
    """Answer questions with the files in several runs' output_dir.

    The answers are written to `output_dir`.
    """
    # A fingerprint read from JSON has lists for tuples.
    wanted = json.loads(json.dumps(questions.fingerprint))
    weights, has_logits = [], True
    for folder in folders:
        found = text_files.read_own_json(os.path.join(folder, LOGITS + ".json"))
        if not isinstance(found, dict):
            found = {}
        weights.append(found.get("weights"))
        has_logits = has_logits and found.get("windows") == wanted
    if has_logits:
        logging.info("Ensemble: the mean of %d runs' logits", len(folders))
        parts = [
            squad_answers.read_logits(os.path.join(folder, LOGITS))
            for folder in folders
        ]
        # Rows are cut to the shortest width. That loses nothing but padding:
        # each run padded its rows to the longest one or to max_seq_length.
        width = min(part["start_logits"].shape[1] for part in parts)
        logits = (
            np.mean([part[name][:, :width] for part in parts], axis=0)
            for name in ("start_logits", "end_logits")
        )
        decoded = squad_decoding.decode(
            questions.data, questions.windows, *logits, tokenizer, options
        )
    else:
        logging.info(
            "Ensemble: the mean of %d runs' n-best lists, since their windows, "
            "or those of the flags, differ",
            len(folders),
        )
        lists = [read_lists(folder, questions.data) for folder in folders]
        decoded = combine(lists, options.n_best_size)
    file_system.make_directory(output_dir)
    # A tuned threshold is stored for these weights if all are known.
    return squad_answers.write_answers(
        questions.data,
        decoded,
        options,
        output_dir,
        weights if None not in weights else None,
    )


# --- The mean of n-best lists ------------------------------------------------


def read_lists(folder: str, data: SquadData) -> Decoded:
    """Return the n-best lists of a run, for the given questions only."""
    keys = [example.qas_id for example in data.examples]
    found, kinds = {NULL_ODDS: {}}, {NBEST: list}
    if data.is_version_2:
        kinds[NULL_ODDS] = float
    for name, kind in kinds.items():
        path = os.path.join(folder, name)
        if not tf.io.gfile.exists(path):
            raise UserError(
                f"--ensemble_dirs: {folder} holds no {name}; run "
                "--do_predict there first"
            )
        values = squad_answers.read_values(path, kind, name)
        missing = [key for key in keys if key not in values]
        if missing:
            raise UserError(
                f"--ensemble_dirs: {path} lacks question {missing[0]} and "
                f"{len(missing) - 1} more: predicted from another file?"
            )
        if len(values) > len(keys):
            logging.info(
                "%s: %d questions are not in the file to predict: left out",
                path,
                len(values) - len(keys),
            )
        found[name] = {key: values[key] for key in keys}
    numbers = ("probability", "start_logit", "end_logit")
    try:
        lists = {
            key: [
                # A TypeError unless the text is a string.
                Candidate(e["text"] + "", *(float(e[n]) for n in numbers))
                for e in entries
            ]
            for key, entries in found[NBEST].items()
        }
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise UserError(
            f"--ensemble_dirs: {folder} holds an {NBEST} that is not one "
            f"({error}); --do_predict writes it"
        ) from error
    return Decoded(lists, found[NULL_ODDS])


def combine(parts: Sequence[Decoded], n_best_size: int) -> Decoded:
    """Return the mean of n-best lists, for runs whose windows differ.

    The probability of a text is its mean over the runs, with 0 for a run that
    does not list it; its logits are those of the run with the highest
    probability. A run whose list has no text for a question is left out of
    that question, unless all lists have none: its null odds are a constant.
    """
    result = Decoded({}, {})
    for key in parts[0].nbest:
        used = [
            part
            for part in parts
            if squad_decoding.best_answer(part.nbest[key]).text
        ]
        used = used or list(parts)
        found: dict[str, list[Candidate]] = {}
        for part in used:
            for candidate in part.nbest[key]:
                found.setdefault(candidate.text, []).append(candidate)
        merged = [
            max(same, key=lambda c: c.probability)._replace(
                probability=sum(c.probability for c in same) / len(used)
            )
            for same in found.values()
        ]
        merged.sort(key=lambda candidate: -candidate.probability)
        result.nbest[key] = merged[:n_best_size]
        if parts[0].null_odds:
            odds = [part.null_odds[key] for part in used]
            result.null_odds[key] = sum(odds) / len(odds)
    return result
