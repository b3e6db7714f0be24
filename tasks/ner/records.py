"""Convert sentences to record files; collect a model's outputs per word."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from base import file_system, progress
from base.errors import UserError

import numpy as np
from absl import logging

import tokenization
from records import in_memory, text_records
from tasks.ner import data as ner_data
from tasks.ner import windows as ner_windows
from tasks.ner.windows import IGNORED
from training import prediction

_SHOWN = 5  # records in the log


# --- Sentences to records ----------------------------------------------------


class NerRecords(text_records.TextRecords):
    """The record files of sentences.

    Args:
        records_dir: where the records go.
        tokenizer: words to pieces.
        vocab_size: of the configuration.
        max_seq_length: longer sentences are split into windows.
        pad_to_max_length: pad every batch to that length.
        columns: of column files.
        document_context: whether to fill a record with the sentences around.
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
        super().__init__(
            records_dir,
            ner_windows.schema(max_seq_length),
            tokenizer,
            vocab_size,
            max_seq_length,
            pad_to_max_length,
        )
        self.columns, self.document_context = columns, document_context

    def split(
        self, name: str, file: ner_data.File, labels: Sequence[str]
    ) -> in_memory.ShortRecords:
        """Return the records of a file, from an earlier run or made now.

        Args:
            name: of the record file, without .tf_record.
            file: the sentences.
            labels: names of the classes.
        """
        return self.cache.records(
            name,
            self.fingerprint(file, labels),
            lambda path: self._write(path, file, labels),
        )

    def fingerprint(
        self, file: ner_data.File, labels: Sequence[str]
    ) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        return {
            "data": file_system.sha256(file.path),
            **self.text_fingerprint(),
            "columns": self.columns._asdict(),
            "labels": labels,
            "document_context": self.document_context,
        }

    def _write(
        self, path: str, file: ner_data.File, labels: Sequence[str]
    ) -> None:
        """Write the record file of some sentences; log the first records."""
        converter = ner_windows.Converter(
            self.tokenizer, labels, self.max_seq_length, self.document_context
        )
        documents = {sentence.document for sentence in file.sentences}
        if self.document_context and len(documents) == 1:
            logging.warning(
                "%s is one document: no line %s (JSONL: no `document`) "
                "separates its sentences, so a window may hold sentences that "
                "do not belong together",
                file.path,
                ner_data.DOCUMENT_START,
            )

        def parts() -> Iterator[dict[str, np.ndarray]]:
            for number, features in enumerate(converter(file.sentences)):
                if not number:
                    self._log_examples(features, labels)
                yield features

        count = self.write_file(path, parts())
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
        """Log the first records as tokens, with their labels."""
        for row in range(min(_SHOWN, len(features["input_ids"]))):
            used = features["input_mask"][row] > 0
            names = [
                "-" if number == IGNORED else labels[number]
                for number in features["label_ids"][row][used]
            ]
            text_records.log_example(
                ("tokens", " ".join(self.tokens(features, row))),
                ("labels", " ".join(names)),
            )


# --- Outputs of records to outputs of words ----------------------------------


def word_outputs(
    predictor: prediction.Predictor,
    data: in_memory.ShortRecords,
    batch_size: int,
    what: str,
    path: str | None = None,
) -> np.ndarray:
    """Return a model's output for every word, in the order of the words.

    Every word is classified in one record, and the records keep the order of
    the words: the outputs at the labelled positions, read record by record,
    are those of the words. Batches come in another order, so each record's
    place in the result is counted beforehand.

    Args:
        predictor: of a forward pass that returns {"words": [B, S, ...]}.
        data: with label_ids [n, S], not negative where there is a word.
        batch_size: records in a batch.
        what: name of the job in the progress bar.
        path: of a .npy file to write, which the result is then mapped to;
            None: return an array in memory.

    Returns:
        float32 [words, ...].

    Raises:
        UserError: the disk is full.
    """
    is_word = data.features["label_ids"] >= 0  # [n, S]
    ends = np.cumsum(is_word.sum(axis=1))  # [n]
    result = None
    with progress.bar(data.num_records, "records", what) as bar:
        for rows, outputs in predictor.batches(data, batch_size):
            found = outputs["words"]  # [B, S, ...]
            if result is None:
                result = _allocate([int(ends[-1]), *found.shape[2:]], path)
            for row, values in zip(rows, found, strict=True):
                at = np.flatnonzero(is_word[row])
                result[ends[row] - len(at) : ends[row]] = values[at]
            bar.update(len(rows))
    return result


def _allocate(shape: Sequence[int], path: str | None) -> np.ndarray:
    """Return a float32 array, in memory or mapped to a new .npy file."""
    if path is None:
        return np.zeros(shape, np.float32)
    try:
        array = np.lib.format.open_memmap(path, "w+", np.float32, tuple(shape))
        # The new file is sparse. A write to it when the disk is full would
        # end the process with SIGBUS, so its blocks are allocated first.
        if hasattr(os, "posix_fallocate"):  # macOS lacks it
            with open(path, "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise UserError(
            f"{os.path.dirname(path)}: cannot hold the activations, "
            f"{4 * math.prod(shape) / 1e6:.1f} MB: {error.strerror}; free "
            "space, or give another --records_dir"
        ) from error
    return array
