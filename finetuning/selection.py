"""Find the best weights of a run, by the scores of its evaluations.

scores.json in output_dir maps steps to scores. The runner adds one score for
every evaluation while training and keeps the weights with the highest.
"""

import json
import os
from collections.abc import Mapping

from base import cluster, file_system, text_files

from absl import logging

_FILE = "scores.json"


def read_scores(output_dir: str) -> dict[int, float]:
    """Return {step: score} of the evaluations so far."""
    found = text_files.read_own_json(os.path.join(output_dir, _FILE)) or {}
    return {int(step): score for step, score in found.items()}


def write_scores(output_dir: str, scores: Mapping[int, float]) -> None:
    """Write scores.json; of several processes only the chief writes it."""
    if cluster.is_chief():
        path = os.path.join(output_dir, _FILE)
        file_system.write_text(path, json.dumps(scores))


def best_step(scores: Mapping[int, float]) -> int:
    """Return the step of the highest score, the first of equal ones."""
    return max(scores, key=scores.get)


def stops_early(scores: Mapping[int, float], patience: int) -> bool:
    """Return whether the best score is `patience` evaluations ago or more.

    If so, it is logged.

    Args:
        scores: of all evaluations.
        patience: --early_stopping_patience; 0: train to the end.
    """
    if not scores or not patience:
        return False
    worse = sum(step > best_step(scores) for step in scores)
    if worse >= patience:
        logging.info("No better score in %d evaluations: training ends", worse)
        return True
    return False
