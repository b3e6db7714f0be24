"""Which process of a cluster this is, by the variable TF_CONFIG.

TensorFlow's format, for the first of two machines:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}

Nothing here needs TensorFlow.
"""

import json
import os
from typing import Any

from base.errors import UserError

_MEND = (
    'wanted {"cluster": {"worker": ["host:port", ...]}, "task": {"type": '
    '"worker", "index": 0}}; mend it, or unset it to use one machine'
)


def num_workers() -> int:
    """Return the number of processes that train, 1 without TF_CONFIG."""
    cluster = _tf_config()["cluster"]
    return max(1, sum(len(cluster.get(t, ())) for t in ("worker", "chief")))


def has_other_workers() -> bool:
    """Whether other processes train with this one."""
    return num_workers() > 1


def is_chief() -> bool:
    """Whether this is the one process that writes files.

    It is the task of type chief, or worker 0 where there is no chief.
    """
    if not has_other_workers():
        return True
    config = _tf_config()
    task = config["task"]
    if "chief" in config["cluster"]:
        return task.get("type") == "chief"
    return task.get("type") == "worker" and int(task.get("index", 0)) == 0


def _tf_config() -> dict[str, Any]:
    """Return TF_CONFIG with its keys cluster and task, empty without it.

    Raises:
        UserError: it is not JSON, or not a cluster.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return {"cluster": {}, "task": {}}
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"TF_CONFIG is not JSON: {error}; {_MEND}") from error
    if not isinstance(config, dict):
        raise UserError(
            f"TF_CONFIG: found {type(config).__name__}, wanted an object; "
            f"{_MEND}"
        )
    cluster, task = config.get("cluster", {}), config.get("task", {})
    if not isinstance(cluster, dict) or not all(
        _is_addresses(addresses) for addresses in cluster.values()
    ):
        raise UserError(
            f"TF_CONFIG: cluster is {json.dumps(cluster)}, wanted a list of "
            f"addresses for each type of task; {_MEND}"
        )
    if not isinstance(task, dict) or not _is_task(task, cluster):
        raise UserError(
            f"TF_CONFIG: task is {json.dumps(task)}, which is not one of "
            f"cluster {json.dumps(cluster)}; {_MEND}"
        )
    return {"cluster": cluster, "task": task}


def _is_addresses(value: Any) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_task(task: dict[str, Any], cluster: dict[str, list[str]]) -> bool:
    """Whether a task names one of the cluster's addresses.

    With at most one address there is nothing to choose from.
    """
    if sum(map(len, cluster.values())) <= 1 and not task:
        return True
    index = task.get("index", 0)
    if isinstance(index, str) and index.isdecimal():  # some launchers quote it
        index = int(index)
    if type(index) is not int:
        return False
    kind = task.get("type")
    return isinstance(kind, str) and 0 <= index < len(cluster.get(kind, ()))
