"""Fine-tuning on the examples of a user's DataProcessor (--processor)."""

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from base import tables
from base.errors import UserError

from absl import logging

import tokenization
from tasks.classifier import task_files
from tasks.classifier.task_files import Example

# Part -> the method of a processor that returns its examples.
METHODS = {part: f"get_{part}_examples" for part in ("train", "dev", "test")}


class Processor:
    """A user's processor, its labels and examples checked.

    Args:
        name: "module:Class", the module in the current folder or installed.
        data_dir: what its methods are called with.
    """

    def __init__(self, name: str, data_dir: str):
        self.name, self.data_dir = name, data_dir
        module, _, cls = name.partition(":")
        # As `python -m` does; a script's own folder alone is not enough.
        sys.path.append(os.getcwd())
        try:
            self._processor = getattr(importlib.import_module(module), cls)()
        except (ImportError, ValueError, AttributeError) as error:
            raise UserError(
                f"--processor={name}: {error}; wanted module:Class, such as "
                "my_module:MyProcessor for a class in my_module.py"
            ) from error
        labels = self._call("get_labels")
        self.labels = tuple(map(str, labels))
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise UserError(
                f"--processor={name}: get_labels() returns {labels!r}, wanted "
                "two or more different labels"
            )

    def _call(self, method: str, *arguments: str) -> Any:
        """Return what a method of the processor returns."""
        if not hasattr(self._processor, method):
            raise UserError(f"--processor={self.name} has no method {method}")
        try:
            return getattr(self._processor, method)(*arguments)
        except NotImplementedError:
            raise UserError(
                f"--processor={self.name} does not define {method}, which this "
                "command needs"
            ) from None

    def examples(self, part: str) -> list[Example]:
        """Return the examples of train, dev or test."""
        method = METHODS[part]
        found = [
            self._example(x, part, f"--processor={self.name}, {method}[{n}]")
            for n, x in enumerate(self._call(method, self.data_dir) or ())
        ]
        if not found:
            raise UserError(
                f"--processor={self.name}: {method} returns no example"
            )
        return found

    def _example(self, found: Any, part: str, at: str) -> Example:
        """Return one of the user's examples, checked."""
        try:
            guid = str(found.guid)
            text_a = tokenization.convert_to_unicode(found.text_a)
            text_b = found.text_b and tokenization.convert_to_unicode(
                found.text_b
            )
        except (AttributeError, ValueError) as error:
            raise UserError(
                f"{at}: {error}; wanted an InputExample of texts"
            ) from None
        tables.check_cell(guid, f"{at}: guid")
        if not text_a.strip():
            raise UserError(f"{at}: text_a is empty")
        if part == "test":  # the original's test examples have some label
            return Example(guid, text_a, text_b)
        label = str(found.label)  # as those of get_labels
        if label not in self.labels:
            raise UserError(
                f"{at}: unknown label {label!r}; get_labels() returns "
                f"{', '.join(self.labels)}"
            )
        return Example(guid, text_a, text_b, label)

    def files(self, parts: Sequence[str]) -> task_files.TaskFiles:
        """Return the task of the processor; `parts` are what a run needs."""
        examples = {part: self.examples(part) for part in parts}
        is_pair = any(x.text_b for found in examples.values() for x in found)
        for part, found in examples.items():
            count = sum(is_pair and not (x.text_b or "").strip() for x in found)
            if count:
                logging.warning(
                    "--processor=%s: of %s, %d of %d have no text_b",
                    *(self.name, METHODS[part], count, len(found)),
                )
        columns = task_files.Columns(
            "text_a", "text_b" if is_pair else None, "label", "guid"
        )
        parts = {}
        for part, found in examples.items():
            text = json.dumps(found).encode()
            drawn = {"data": hashlib.sha256(text).hexdigest()}
            parts[part] = task_files.DataFile(
                part, columns, examples=found, drawn=drawn
            )
        return task_files.of_parts(self.labels, parts, ("accuracy", "macro_f1"))
