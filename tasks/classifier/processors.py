"""Fine-tuning on the examples of a user's DataProcessor (--processor)."""

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any

from base import tables
from base.errors import UserError

from absl import logging

import tokenization
from tasks.classifier import task_files
from tasks.classifier.task_files import Example

# Part -> the method of a processor that returns its examples.
METHODS = {part: f"get_{part}_examples" for part in ("train", "dev", "test")}


def read_files(
    name: str, data_dir: str, parts: Collection[str]
) -> task_files.TaskFiles:
    """Return the task of a user's processor, its labels and examples checked.

    Args:
        name: "module:Class", the module in the current folder or installed.
        data_dir: what its methods are called with.
        parts: those of train, dev and test that a run needs.
    """
    flag, (module, _, cls) = f"--processor={name}", name.partition(":")
    # As `python -m` does; a script's own folder alone is not enough.
    sys.path.append(os.getcwd())
    try:
        processor = getattr(importlib.import_module(module), cls)()
    except (ImportError, ValueError, AttributeError) as error:
        raise UserError(
            f"{flag}: {error}; wanted module:Class, such as "
            "my_module:MyProcessor for a class in my_module.py"
        ) from error

    def call(method: str, *arguments: str) -> Any:
        if not hasattr(processor, method):
            raise UserError(f"{flag} has no method {method}")
        try:
            return getattr(processor, method)(*arguments)
        except NotImplementedError:
            raise UserError(
                f"{flag} does not define {method}, which this command needs"
            ) from None

    own_labels = call("get_labels")
    labels = tuple(map(str, own_labels))
    if len(set(labels)) < max(2, len(labels)):
        raise UserError(
            f"{flag}: get_labels() returns {own_labels!r}, wanted two or more "
            "different labels"
        )
    examples: dict[str, list[Example]] = {}
    for part, method in METHODS.items():
        if part in parts:
            known = None if part == "test" else labels
            examples[part] = [
                _example(one, known, f"{flag}, {method}[{number}]")
                for number, one in enumerate(call(method, data_dir) or ())
            ]
            if not examples[part]:
                raise UserError(f"{flag}: {method} returns no example")
    is_pair = any(one.text_b for part in examples.values() for one in part)
    columns = task_files.Columns(
        "text_a", "text_b" if is_pair else None, "label", "guid"
    )
    files = {}
    for part, own in examples.items():
        count = sum(is_pair and not (one.text_b or "").strip() for one in own)
        if count:
            logging.warning(
                "%s: of %s, %d of %d have no text_b",
                *(flag, METHODS[part], count, len(own)),
            )
        text = json.dumps(own).encode()
        files[part] = task_files.DataFile(
            part,
            columns,
            examples=own,
            drawn={"data": hashlib.sha256(text).hexdigest()},
        )
    return task_files.of_parts(labels, files, ("accuracy", "macro_f1"))


def _example(found: Any, labels: Sequence[str] | None, at: str) -> Example:
    """Return one of the user's examples, checked.

    `labels` are the task's; None: of a test set, whose labels are not read. The
    original's test examples have some label.
    """
    try:
        guid = str(found.guid)
        text_a = tokenization.convert_to_unicode(found.text_a)
        text_b = found.text_b and tokenization.convert_to_unicode(found.text_b)
    except (AttributeError, ValueError) as error:
        raise UserError(
            f"{at}: {error}; wanted an InputExample of texts"
        ) from None
    tables.check_cell(guid, f"{at}: guid")
    if not text_a.strip():
        raise UserError(f"{at}: text_a is empty")
    if labels is None:
        return Example(guid, text_a, text_b)
    label = str(found.label)  # as those of get_labels
    if label not in labels:
        raise UserError(
            f"{at}: unknown label {label!r}; get_labels() returns "
            f"{', '.join(labels)}"
        )
    return Example(guid, text_a, text_b, label)
