"""Reuse record files while the data and settings they depend on are the same.

Beside each record file `X` is its fingerprint file, `X.json`: a JSON object of
everything that the records depend on, such as the checksum of the text file,
that of the vocabulary, and --max_seq_length. Records are read from the file
when the fingerprint is the wanted one, else written anew.

Several machines may share the directory: the chief writes, the others wait
until the fingerprint file has the wanted content.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from base import cluster, file_system, text_files
from base.errors import UserError

import tensorflow as tf
from absl import logging

from records import in_memory, streaming, tfrecord

_SECONDS_BETWEEN_LOOKS = 1.0

_SECONDS_BETWEEN_REPORTS = 60.0

# A recorded failure may be left from an earlier run; ignore it until the
# chief of this run has had time to start writing.
_SECONDS_OF_DOUBT = 60.0

# The only other content of a fingerprint file: the key of a failure's text.
_FAILED = "failed"


class RecordCache:
    """Record files of one schema in a directory, kept from run to run.

    Ids have to be smaller than `vocab_size`. With `pad_to_max_length` batches
    are padded to the full length, as in the original.
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
        """Return the path of the records of a data set."""
        return os.path.join(self.directory, f"{name}.tf_record")

    def records(
        self,
        name: str,
        fingerprint: Mapping[str, Any],
        write: Callable[[str], None],
        has: Callable[[str], bool] = lambda name: True,
    ) -> in_memory.ShortRecords:
        """Return the records of a data set; write their file if needed.

        `fingerprint` is everything that the records depend on, `has` whether
        the data set has a feature: test sets lack labels.
        """
        path = self.path(name)
        self.make(path, fingerprint, write)
        schema = {n: f for n, f in self.schema.items() if has(n)}
        data = in_memory.ShortRecords.read(
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
        """Write a file, of records or not, unless it is there and current.

        Raises:
            UserError: on a machine that waits, the chief's attempt to write
                the file failed.
        """
        if self.has(path, fingerprint):
            logging.info("Reusing %s: same data, same flags", path)
        elif cluster.is_chief():
            write_with_fingerprint(path, fingerprint, write)
        else:
            _wait_for_chief(path, fingerprint)

    def has(self, path: str, fingerprint: Mapping[str, Any]) -> bool:
        """Return whether a file is there with this fingerprint."""
        return has_fingerprint(path, fingerprint) and tf.io.gfile.exists(path)


def has_fingerprint(path: str, fingerprint: Mapping[str, Any]) -> bool:
    """Return whether the fingerprint file of a file holds this fingerprint.

    The file itself may be missing or damaged.
    """
    return text_files.read_own_json(path + ".json") == _as_read(fingerprint)


def _as_read(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fingerprint as JSON gives it back: tuples become lists."""
    return json.loads(json.dumps(fingerprint))


def write_with_fingerprint(
    path: str, fingerprint: Mapping[str, Any], write: Callable[[str], None]
) -> None:
    """Write a file and then its fingerprint file."""
    fingerprint_file = path + ".json"
    # The old fingerprint goes first. If the process is killed while it
    # writes, nothing marks the file as complete, and the next run writes it
    # again.
    file_system.write_text(fingerprint_file, "null")
    try:
        write(path)
    except BaseException as error:
        # The waiting machines read it, and end with this failure too. The time
        # distinguishes it from the same failure of an earlier run.
        words = str(error) or type(error).__name__
        failure = {_FAILED: " ".join(words.split()), "at": time.time()}
        with contextlib.suppress(OSError, tf.errors.OpError):
            file_system.write_text(fingerprint_file, json.dumps(failure))
        raise
    file_system.write_text(fingerprint_file, json.dumps(fingerprint))


def _wait_for_chief(path: str, fingerprint: Mapping[str, Any]) -> None:
    """Wait until a file is there with this fingerprint.

    Raises:
        UserError: the chief recorded a failure instead.
    """
    logging.info("Waiting for the chief to write %s", path)
    fingerprint_file, wanted = path + ".json", _as_read(fingerprint)
    began = reported = time.monotonic()
    first = found = text_files.read_own_json(fingerprint_file)
    while found != wanted or not tf.io.gfile.exists(path):
        now = time.monotonic()
        is_failure = isinstance(found, dict) and _FAILED in found
        # A failure that was there when the wait began may be of an earlier
        # run; one that appeared since is of this run.
        if is_failure and (found != first or now - began > _SECONDS_OF_DOUBT):
            raise UserError(
                f"{path} is missing: the chief could not write it: "
                f"{found[_FAILED]}"
            )
        if now - reported >= _SECONDS_BETWEEN_REPORTS:
            reported = now
            logging.info(
                "Still waiting for %s, for %d s", path, round(now - began)
            )
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        found = text_files.read_own_json(fingerprint_file)
