"""Files of sentences as records, and the outputs of a model for their words.

Apart from ner_data.py and ner_windows.py, which know nothing of record files,
and from run_ner.py, which has enough to tell.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

import file_system
import length_buckets
import ner_data
import ner_windows
import prediction
import records
import task_records
import tokenization
from errors import UserError
from ner_windows import IGNORED

_SHOWN = 5  # sentences in the log


class Data:
    """Files as records.

    Args:
        records_dir: where the records go.
        tokenizer: words to pieces.
        vocab_size: of the configuration.
        max_seq_length: longer sentences are split.
        is_padding: pad every batch to that length.
        columns: of column files.
        document_context: whether the sentences around fill a record up.
    """

    def __init__(
        self,
        records_dir: str,
        tokenizer: tokenization.FullTokenizer,
        vocab_size: int,
        max_seq_length: int,
        is_padding: bool,
        columns: ner_data.Columns,
        document_context: bool,
    ):
        self.tokenizer, self.max_seq_length = tokenizer, max_seq_length
        self.columns, self.document_context = columns, document_context
        self.cache = task_records.RecordCache(
            records_dir,
            ner_windows.schema(max_seq_length),
            vocab_size,
            is_padding,
        )

    def split(
        self, name: str, file: ner_data.File, labels: Sequence[str]
    ) -> length_buckets.ShortRecords:
        """Return the records of a file, from the last run or made now."""
        return self.cache.records(
            name,
            self.made_of(file, labels),
            lambda path: self._write(path, file, labels),
        )

    def made_of(
        self, file: ner_data.File, labels: Sequence[str]
    ) -> dict[str, Any]:
        """Return all that the records of a file depend on."""
        return {
            "data": task_records.sha256(file.path),
            "columns": self.columns._asdict(),
            "labels": labels,
            "document_context": self.document_context,
            **task_records.text_identity(self.tokenizer, self.max_seq_length),
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
            with records.RecordWriter(output) as writer:
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
    data: length_buckets.ShortRecords,
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


class Sentences(length_buckets.ShortRecords):
    """Sentences of words with their activations, batched like records.

    Args:
        activations: [words, C, H], in memory or on disk.
        label_ids: [words].
        sizes: [n], words of each sentence.
        is_padding: pad every batch to the longest sentence.
    """

    def __init__(
        self,
        activations: np.ndarray,
        label_ids: np.ndarray,
        sizes: Sequence[int],
        is_padding: bool,
    ):
        self.activations, self.is_padding = activations, is_padding
        self.lengths = np.array(sizes)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.num_records = len(sizes)
        self.full_length = int(self.lengths.max())
        is_word = np.arange(self.full_length) < self.lengths[:, None]
        labels = np.full(is_word.shape, IGNORED, np.int32)
        labels[is_word] = label_ids
        self.features = {"input_mask": is_word, "label_ids": labels}

    def gather(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the words of some sentences, [B, length, ...]."""
        shape = [len(rows), length, *self.activations.shape[1:]]
        activations = np.zeros(shape, np.float32)
        for place, row in enumerate(rows):
            start, size = self.starts[row], self.lengths[row]
            activations[place, :size] = self.activations[start : start + size]
        return {
            "activations": activations,
            **{
                name: value[rows, :length].astype(np.int32)
                for name, value in self.features.items()
            },
        }

    def signature(
        self, size: int, length: int | None, group: int = 1
    ) -> dict[str, tf.TensorSpec]:
        """Return the shapes of a batch; None: of any length. No groups."""
        inner = self.activations.shape[1:]
        return {
            "activations": tf.TensorSpec([size, length, *inner], tf.float32),
            "input_mask": tf.TensorSpec([size, length], tf.int32),
            "label_ids": tf.TensorSpec([size, length], tf.int32),
        }


class ActivationCache:
    """Activations of every word, computed once and kept as .npy files.

    Args:
        cache: of the records; the files go beside them.
        predictor: see `word_outputs`.
        encoder: what tells these weights from others, and the `layers`.
    """

    def __init__(
        self,
        cache: task_records.RecordCache,
        predictor: prediction.Predictor,
        encoder: Mapping[str, Any],
    ):
        self.cache, self.predictor = cache, predictor
        self.encoder = dict(encoder)
        if file_system.is_remote(cache.directory):
            raise UserError(
                f"activations are mapped into memory, which {cache.directory} "
                "cannot be: name a local --records_dir"
            )

    def sentences(
        self,
        name: str,
        file: ner_data.File,
        data: length_buckets.ShortRecords,
        made_of: Mapping[str, Any],
        batch_size: int,
    ) -> Sentences:
        """Return the sentences of a file with their activations.

        Args:
            name: of the records.
            file: what they were made of.
            data: the records.
            made_of: all that they depend on.
            batch_size: records at a time.
        """
        layers = "_".join(map(str, self.encoder["layers"]))
        path = self.cache.path(f"{name}_{layers}")
        path = path.removesuffix(".tf_record") + ".npy"

        def write(path: str) -> None:
            logging.info("***** Computing activations *****")
            with file_system.atomic_file(path) as temporary:
                array = word_outputs(
                    self.predictor, data, batch_size, temporary.name
                )
                array.flush()
            logging.info(
                "Wrote the activations of %d words to %s, %.1f MB",
                len(array),
                path,
                array.nbytes / 1e6,
            )

        self.cache.make(path, {**made_of, "encoder": self.encoder}, write)
        labels = data.features["label_ids"]
        sizes = [len(sentence.words) for sentence in file.sentences]
        return Sentences(
            np.load(path, mmap_mode="r"),
            labels[labels >= 0],
            sizes,
            data.is_padding,
        )
