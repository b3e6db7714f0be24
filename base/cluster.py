"""Which process of a cluster this is, as the variable TF_CONFIG says."""

import json
import os

from base.errors import UserError


def num_workers() -> int:
    """Return how many processes TF_CONFIG names, 1 without it."""
    cluster = _tf_config().get("cluster", {})
    return max(1, len(cluster.get("worker", []) + cluster.get("chief", [])))


def has_other_workers() -> bool:
    """Whether TF_CONFIG names more than this process."""
    return num_workers() > 1


def is_chief() -> bool:
    """Whether this is the one process that writes."""
    if not has_other_workers():
        return True
    config = _tf_config()
    task = config.get("task", {})
    if "chief" in config["cluster"]:
        return task.get("type") == "chief"
    return task.get("type") == "worker" and int(task.get("index", 0)) == 0


def _tf_config() -> dict:
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return {}
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"TF_CONFIG is not JSON: {error}") from error
