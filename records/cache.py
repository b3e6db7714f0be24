"""Keep record files; make them again when what they depend on changes."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from base import cluster, file_system, text_files
from base.errors import UserError

import tensorflow as tf
from absl import logging

import tokenization
from records import in_memory, streaming, tfrecord

_SECONDS_BETWEEN_LOOKS = 1.0

_SECONDS_BETWEEN_REPORTS = 60.0

# A failure noted before one looks may be an earlier run's, until the chief of
# this one has had time to begin.
_SECONDS_OF_DOUBT = 60.0

_FAILED = "failed"  # key of a note instead of what the records are made of


class RecordCache:
    """Record files in a directory, each with a note of what it was made of.

    Args:
        directory: where the records go.
        schema: feature name to type and length.
        vocab_size: of the configuration; no id may reach it.
        pad_to_max_length: pad every batch to the full length, as the original.
    """

    def __init__(
        self,
        directory: str,
        schema: Mapping[str, tfrecord.Feature],
        vocab_size: int,
        pad_to_max_length: bool,
    ):
        self.directory, self.schema = directory, schema
        self.vocab_size, self.pad_to_max_length = vocab_size, pad_to_max_length

    def path(self, name: str) -> str:
        """Return where the records of that name are."""
        return os.path.join(self.directory, f"{name}.tf_record")

    def records(
        self,
        name: str,
        fingerprint: Mapping[str, Any],
        write: Callable[[str], None],
        has: Callable[[str], bool] = lambda name: True,
    ) -> in_memory.ShortRecords:
        """Return the records of a data set, from the last run or made now.

        Args:
            name: of the file, without .tf_record.
            fingerprint: all that the records depend on.
            write: path -> makes them.
            has: feature name -> whether this data set has it.
        """
        path = self.path(name)
        self.make(path, fingerprint, write)
        schema = {n: f for n, f in self.schema.items() if has(n)}
        data = in_memory.ShortRecords(
            [path],
            schema,
            {
                "input_ids": streaming.Bound(
                    self.vocab_size, "vocab_size of the configuration"
                )
            },
            {n: "max_seq_length" for n, f in schema.items() if f.length > 1},
            self.pad_to_max_length,
        )
        logging.info("%s:", path)
        data.log_lengths()
        return data

    def make(
        self,
        path: str,
        fingerprint: Mapping[str, Any],
        write: Callable[[str], None],
    ) -> None:
        """Write a file unless the one that is there was made of the same.

        Several machines share the directory: one writes, the others wait.

        Raises:
            UserError: on another machine, the chief could not write it.
        """
        note = path + ".json"
        if self.has(path, fingerprint):
            logging.info("Reusing %s: same data, same flags", path)
        elif cluster.is_chief():
            # Killed in between, what it says must not be of other records.
            file_system.write_text(note, "null")
            with _noting_failure(note):
                write(path)
            file_system.write_text(note, json.dumps(fingerprint))
        else:
            _wait_for_chief(path, note, json.loads(json.dumps(fingerprint)))

    def has(self, path: str, fingerprint: Mapping[str, Any]) -> bool:
        """Whether a file is there and was made of that."""
        as_noted = json.loads(json.dumps(fingerprint))
        is_made = text_files.read_own_json(path + ".json") == as_noted
        return is_made and tf.io.gfile.exists(path)


@contextlib.contextmanager
def _noting_failure(note: str) -> Iterator[None]:
    """Tell those who wait when the block fails."""
    try:
        yield
    except BaseException as error:
        words = str(error) or type(error).__name__
        # The time tells it from the same failure of an earlier run.
        failure = {_FAILED: " ".join(words.split()), "at": time.time()}
        with contextlib.suppress(OSError, tf.errors.OpError):
            file_system.write_text(note, json.dumps(failure))
        raise


def _wait_for_chief(path: str, note: str, fingerprint: Any) -> None:
    """Return when a file and its note are there.

    Raises:
        UserError: the chief noted a failure instead.
    """
    logging.info("Waiting for the chief to write %s", path)
    began = told = time.monotonic()
    first = found = text_files.read_own_json(note)
    while found != fingerprint or not tf.io.gfile.exists(path):
        now = time.monotonic()
        is_failure = isinstance(found, dict) and _FAILED in found
        if is_failure and (found != first or now - began > _SECONDS_OF_DOUBT):
            raise UserError(
                f"{path} is missing: the chief could not write it: "
                f"{found[_FAILED]}"
            )
        if now - told >= _SECONDS_BETWEEN_REPORTS:
            told = now
            logging.info(
                "Still waiting for %s, for %d s", path, round(now - began)
            )
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        found = text_files.read_own_json(note)


def text_fingerprint(
    tokenizer: tokenization.FullTokenizer, max_seq_length: int
) -> dict[str, Any]:
    """Return what the ids of any text depend on."""
    return {
        "vocabulary": file_system.sha256(tokenizer.vocab_file),
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
        "max_seq_length": max_seq_length,
    }
