"""Write sentences as records, and collect a model's outputs for their words."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from base import file_system
from base.errors import UserError

import numpy as np
from absl import logging

import tokenization
from ner import data as ner_data
from ner import windows as ner_windows
from ner.windows import IGNORED
from records import cache as record_cache
from records import in_memory, tfrecord
from training import prediction

_SHOWN = 5  # sentences in the log


class NerRecords:
    """Files as records.

    Args:
        records_dir: where the records go.
        tokenizer: words to pieces.
        vocab_size: of the configuration.
        max_seq_length: longer sentences are split.
        pad_to_max_length: pad every batch to that length.
        columns: of column files.
        document_context: whether the sentences around fill a record up.
    """

    def __init__(
        self,
        records_dir: str,
        tokenizer: tokenization.FullTokenizer,
        vocab_size: int,
        max_seq_length: int,
        pad_to_max_length: bool,
        columns: ner_data.Columns,
        document_context: bool,
    ):
        self.tokenizer, self.max_seq_length = tokenizer, max_seq_length
        self.columns, self.document_context = columns, document_context
        self.cache = record_cache.RecordCache(
            records_dir,
            ner_windows.schema(max_seq_length),
            vocab_size,
            pad_to_max_length,
        )

    def split(
        self, name: str, file: ner_data.File, labels: Sequence[str]
    ) -> in_memory.ShortRecords:
        """Return the records of a file, from the last run or made now."""
        return self.cache.records(
            name,
            self.fingerprint(file, labels),
            lambda path: self._write(path, file, labels),
        )

    def fingerprint(
        self, file: ner_data.File, labels: Sequence[str]
    ) -> dict[str, Any]:
        """Return all that the records of a file depend on."""
        return {
            "data": file_system.sha256(file.path),
            "columns": self.columns._asdict(),
            "labels": labels,
            "document_context": self.document_context,
            **record_cache.text_fingerprint(
                self.tokenizer, self.max_seq_length
            ),
        }

    def _write(
        self, path: str, file: ner_data.File, labels: Sequence[str]
    ) -> None:
        converter = ner_windows.Converter(
            self.tokenizer, labels, self.max_seq_length, self.document_context
        )
        documents = {sentence.document for sentence in file.sentences}
        if self.document_context and len(documents) == 1:
            logging.warning(
                "%s is one document: no line begins with %s (JSONL: no "
                "`document`), so every sentence may see every other",
                file.path,
                ner_data.DOCUMENT_START,
            )
        with file_system.atomic_file(path) as output:
            with tfrecord.RecordWriter(output) as writer:
                for features in converter(file.sentences):
                    if not writer.num_records:
                        self._log_examples(features, labels)
                    writer.write_examples(features)
                count = writer.num_records
        logging.info(
            "Wrote %d sentences, %d words, to %s as %d records: %d sentences "
            "split into windows of %d tokens, %d words without a piece as "
            "[UNK]",
            len(file.sentences),
            file.num_words,
            path,
            count,
            converter.num_split,
            self.max_seq_length,
            converter.num_unknown,
        )

    def _log_examples(
        self, features: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> None:
        for row in range(min(_SHOWN, len(features["input_ids"]))):
            used = features["input_mask"][row] > 0
            ids = features["input_ids"][row][used].tolist()
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
            names = [
                "-" if number == IGNORED else labels[number]
                for number in features["label_ids"][row][used]
            ]
            logging.info("*** Example ***")
            logging.info("tokens: %s", " ".join(tokens))
            logging.info("labels: %s", " ".join(names))


# --- What a model says of every word ----------------------------------------


def word_outputs(
    predictor: prediction.Predictor,
    data: in_memory.ShortRecords,
    batch_size: int,
    path: str | None = None,
) -> np.ndarray:
    """Return an output of every word, in the order of the words.

    Args:
        predictor: of a forward pass that gives {"words": [B, S, ...]}.
        data: label_ids [n, S], not negative where there is a word.
        batch_size: records at a time.
        path: where to keep the result as .npy instead of in memory.

    Returns:
        float32 [words, ...].

    Raises:
        UserError: there is no room for the file.
    """
    is_word = data.features["label_ids"] >= 0  # [n, S]
    ends = np.cumsum(is_word.sum(axis=1))
    result = None
    for rows, outputs in predictor.batches(data, batch_size):
        found = outputs["words"]
        if result is None:
            result = _allocate([int(ends[-1]), *found.shape[2:]], path)
        for row, values in zip(rows, found, strict=True):
            at = np.flatnonzero(is_word[row])
            result[ends[row] - len(at) : ends[row]] = values[at]
    return result


def _allocate(shape: Sequence[int], path: str | None) -> np.ndarray:
    if path is None:
        return np.zeros(shape, np.float32)
    try:
        array = np.lib.format.open_memmap(path, "w+", np.float32, tuple(shape))
        # A hole in the file that finds no room later is a SIGBUS.
        if hasattr(os, "posix_fallocate"):  # macOS lacks it
            with open(path, "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise UserError(
            f"{os.path.dirname(path)} does not take the activations, "
            f"{4 * math.prod(shape) / 1e6:.1f} MB: {error.strerror}; make "
            "room, or name another --records_dir"
        ) from error
    return array
