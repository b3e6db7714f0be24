"""Reuse record files while the data and settings they depend on are the same.

Beside each record file `X` is its fingerprint file, `X.json`: a JSON object of
everything that the records depend on, such as the checksum of the text file,
that of the vocabulary, and --max_seq_length. Records are read from the file
when the fingerprint is the wanted one, else written anew.

Several machines may share the directory: the chief writes, the others wait
until the fingerprint file has the wanted content. If the chief fails, the watch
of the cluster ends them (training/cluster_watch.py).
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from base import cluster, file_system, text_files

from absl import logging

from records import in_memory, streaming, tfrecord

_SECONDS_BETWEEN_LOOKS = 1.0


class RecordCache(NamedTuple):
    """Record files of one schema in a directory, kept from run to run.

    Ids have to be smaller than `vocab_size`. With `pad_to_max_length` batches
    are padded to the full length, as in the original.
    """

    directory: str
    schema: Mapping[str, tfrecord.Feature]
    vocab_size: int
    pad_to_max_length: bool

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
        words = "vocab_size of the configuration"
        bounds = {"input_ids": streaming.Bound(self.vocab_size, words)}
        flags = {n: "max_seq_length" for n, f in schema.items() if f.length > 1}
        data = in_memory.ShortRecords.read(
            [path], schema, bounds, flags, self.pad_to_max_length
        )
        similar = "" if self.pad_to_max_length else "similar lengths, at most "
        logging.info(
            f"{path}: {data.num_records} records, {data.lengths.mean():.1f} "
            f"tokens on average, in batches padded to {similar}"
            f"{data.full_length}"
        )
        return data

    def make(
        self,
        path: str,
        fingerprint: Mapping[str, Any],
        write: Callable[[str], None],
    ) -> None:
        """Write a file and its fingerprint, unless both are there already."""
        if self.has(path, fingerprint):
            logging.info("Reusing %s: same data, same flags", path)
        elif cluster.is_chief():
            file_system.make_directory(self.directory, "records_dir")
            write_with_fingerprint(path, fingerprint, write)
        else:
            logging.info("Waiting for the chief to write %s", path)
            while not self.has(path, fingerprint):
                time.sleep(_SECONDS_BETWEEN_LOOKS)

    def has(self, path: str, fingerprint: Mapping[str, Any]) -> bool:
        """Return whether a file is there with this fingerprint."""
        return has_fingerprint(path, fingerprint) and file_system.exists(path)


def has_fingerprint(path: str, fingerprint: Mapping[str, Any]) -> bool:
    """Return whether the fingerprint file of a file holds this fingerprint.

    The file itself may be missing or damaged.
    """
    # Through JSON tuples become lists, as in the file.
    wanted = json.loads(json.dumps(fingerprint))
    return text_files.read_own_json(path + ".json") == wanted


def write_with_fingerprint(
    path: str, fingerprint: Mapping[str, Any], write: Callable[[str], None]
) -> None:
    """Write a file and then its fingerprint file."""
    fingerprint_file = path + ".json"
    # The old fingerprint goes first. If the process is killed while it
    # writes, nothing marks the file as complete, and the next run writes it
    # again.
    file_system.write_text(fingerprint_file, "null")
    write(path)
    file_system.write_text(fingerprint_file, json.dumps(fingerprint))
