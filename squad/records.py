"""SQuAD's files as record files, and the windows that explain their rows.

Apart from squad_features.py, which works without TensorFlow in worker
processes, and from run_squad.py, which has enough to tell.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

from absl import logging

import tokenization
from records import cache as record_cache
from records import in_memory
from squad import data as squad_data
from squad import triviaqa
from squad import windows as squad_windows

_SHOWN = 5  # windows in the log

_TRAINING_ONLY = ("start_positions", "end_positions", "is_impossible")


class Reading(NamedTuple):
    """How files are read; every field mirrors a flag."""

    version_2_with_negative: bool = False
    strict: bool = False
    triviaqa_evidence_dir: str | None = None
    triviaqa_max_tokens: int = 400


class Questions(NamedTuple):
    """A data set to answer."""

    data: squad_data.SquadData
    windows: squad_windows.Windows
    fingerprint: dict[str, Any]


class SquadRecords:
    """SQuAD's files as windows and records.

    Args:
        reading: see there.
        lengths: of windows.
        tokenizer: text to ids.
        num_workers: processes that convert.
    """

    def __init__(
        self,
        reading: Reading,
        lengths: squad_windows.Lengths,
        tokenizer: tokenization.FullTokenizer,
        num_workers: int,
    ):
        self.reading, self.lengths = reading, lengths
        self.tokenizer, self.num_workers = tokenizer, num_workers
        self._to_train_on: squad_data.SquadData | None = None
        self._fingerprints: dict[tuple, dict[str, Any]] = {}

    def fingerprint(self, files: Sequence[str], is_training: bool) -> dict:
        """Return all that the windows of some files depend on."""
        key = (*files, is_training)
        if key not in self._fingerprints:  # reads the files, lists the evidence
            self._fingerprints[key] = self._describe(files, is_training)
        return self._fingerprints[key]

    def _describe(self, files: Sequence[str], is_training: bool) -> dict:
        reading = self.reading
        evidence = is_training and reading.triviaqa_evidence_dir
        return {
            "data": [file_system.sha256(path) for path in files],
            "is_training": is_training,
            "version_2_with_negative": reading.version_2_with_negative,
            "triviaqa": evidence
            and {
                "evidence": triviaqa.evidence_in(evidence),
                "max_tokens": reading.triviaqa_max_tokens,
            },
            "lengths": self.lengths._asdict(),
            **record_cache.text_fingerprint(
                self.tokenizer, self.lengths.max_seq_length
            ),
        }

    def read(
        self, files: Sequence[str], is_training: bool
    ) -> squad_data.SquadData:
        """Return the questions of files in SQuAD's or TriviaQA's format."""
        reading = self.reading
        if is_training and reading.triviaqa_evidence_dir:
            return triviaqa.read_triviaqa(
                files,
                reading.triviaqa_evidence_dir,
                reading.triviaqa_max_tokens,
            )
        return squad_data.read_squad(
            files, is_training, reading.version_2_with_negative, reading.strict
        )

    def convert(self, data: squad_data.SquadData) -> squad_windows.Windows:
        """Return the windows on some questions."""
        windows = squad_windows.convert_all(
            data, self.tokenizer, self.lengths, self.num_workers
        )
        logging.info(
            "%d questions make %d windows", len(data.examples), len(windows)
        )
        if windows.num_cut[0]:
            logging.warning(
                "%d questions are cut to max_query_length = %d tokens",
                windows.num_cut[0],
                self.lengths.max_query_length,
            )
        if not len(windows):
            raise UserError(
                f"no paragraph of the {len(data.examples)} questions holds a "
                "token: nothing to read"
            )
        return windows

    def check_training(
        self, cache: record_cache.RecordCache, files: Sequence[str]
    ) -> None:
        """Read the training files, unless their records are there already.

        Raises:
            UserError: names file and place.
        """
        if not cache.has(cache.path("train"), self.fingerprint(files, True)):
            self._to_train_on = self.read(files, is_training=True)

    def training(
        self, cache: record_cache.RecordCache, files: Sequence[str]
    ) -> in_memory.ShortRecords:
        """Return the training records, from the last run or made now."""

        def write(path: str) -> None:
            data = self._to_train_on or self.read(files, is_training=True)
            self._write(path, data, self.convert(data), is_training=True)
            self._to_train_on = None

        return cache.records("train", self.fingerprint(files, True), write)

    def questions(self, files: Sequence[str]) -> Questions:
        """Return what is to be answered."""
        data = self.read(files, is_training=False)
        fingerprint = self.fingerprint(files, is_training=False)
        return Questions(data, self.convert(data), fingerprint)

    def prediction(
        self, cache: record_cache.RecordCache, questions: Questions
    ) -> in_memory.ShortRecords:
        """Return the records to predict; the original calls them eval."""
        return cache.records(
            "eval",
            questions.fingerprint,
            lambda path: self._write(
                path, questions.data, questions.windows, is_training=False
            ),
            has=lambda name: name not in _TRAINING_ONLY,
        )

    def _write(
        self,
        path: str,
        data: squad_data.SquadData,
        windows: squad_windows.Windows,
        is_training: bool,
    ) -> None:
        self._log_windows(data, windows, is_training)
        squad_windows.write_records(
            path,
            windows,
            data.examples,
            self.tokenizer.vocab,
            self.lengths.max_seq_length,
            is_training,
        )

    def _log_windows(
        self,
        data: squad_data.SquadData,
        windows: squad_windows.Windows,
        is_training: bool,
    ) -> None:
        count = min(_SHOWN, len(windows))
        length = self.lengths.max_seq_length
        part = squad_windows.rows(
            windows, 0, count, self.tokenizer.vocab, length
        )
        for row in range(count):
            ids = part["input_ids"][row][part["input_mask"][row] > 0].tolist()
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
            example = data.examples[windows.example[row]]
            logging.info("*** Example ***")
            logging.info("unique_id: %d", part["unique_ids"][row])
            logging.info("qas_id: %s", example.qas_id)
            logging.info("tokens: %s", " ".join(tokens))
            first = int(windows.start_positions[row])
            if is_training and first:
                last = int(windows.end_positions[row])
                answer = " ".join(tokens[first : last + 1])
                logging.info("answer: %s (%d to %d)", answer, first, last)
            elif is_training:
                logging.info("answer: not in this window")
