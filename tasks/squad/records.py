"""Convert SQuAD's files to record files, which are kept between runs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

from absl import logging

import tokenization
from records import cache as record_cache
from records import in_memory
from tasks.rows import log_example
from tasks.squad import data as squad_data
from tasks.squad import triviaqa
from tasks.squad import windows as squad_windows
from tasks.squad.data import SquadData
from tasks.squad.windows import Lengths, Windows

_SHOWN = 5  # windows written to the log

_TRAINING_ONLY = ("start_positions", "end_positions", "is_impossible")


# --- Files to windows --------------------------------------------------------


class ReadingOptions(NamedTuple):
    """Options of reading files; fields have the names of flags."""

    version_2_with_negative: bool = False
    strict: bool = False  # an answer not at answer_start is an error
    triviaqa_evidence_dir: str | None = None  # train_file is TriviaQA's
    triviaqa_max_tokens: int = 400


class Questions(NamedTuple):
    """Questions to answer, with their windows and fingerprint."""

    data: SquadData
    windows: Windows
    fingerprint: dict[str, Any]  # of the windows


class QuestionReader:
    """Reads files and cuts their paragraphs into windows.

    Args:
        options: of reading.
        lengths: of the windows.
        tokenizer: converts words to ids.
        num_workers: processes that cut windows; 0: one per core for large
            data.
    """

    def __init__(
        self,
        options: ReadingOptions,
        lengths: Lengths,
        tokenizer: tokenization.FullTokenizer,
        num_workers: int,
    ):
        self.options, self.lengths = options, lengths
        self.tokenizer, self.num_workers = tokenizer, num_workers
        self._fingerprints: dict[tuple, dict[str, Any]] = {}

    def fingerprint(self, files: Sequence[str], is_training: bool) -> dict:
        """Return everything that the windows of some files depend on."""
        key = (*files, is_training)
        if key not in self._fingerprints:  # reads the files, lists evidence
            self._fingerprints[key] = self._compute_fingerprint(
                files, is_training
            )
        return self._fingerprints[key]

    def _compute_fingerprint(
        self, files: Sequence[str], is_training: bool
    ) -> dict[str, Any]:
        """Return `fingerprint` from the files as they are now."""
        options = self.options
        # TriviaQA is trained on only: questions to predict are SQuAD's.
        evidence = is_training and options.triviaqa_evidence_dir
        return {
            "data": [file_system.sha256(path) for path in files],
            "is_training": is_training,
            "version_2_with_negative": options.version_2_with_negative,
            "triviaqa": evidence
            and {
                "evidence": triviaqa.evidence_in(evidence),
                "max_tokens": options.triviaqa_max_tokens,
            },
            "lengths": self.lengths._asdict(),
            **record_cache.text_fingerprint(
                self.tokenizer, self.lengths.max_seq_length
            ),
        }

    def read(self, files: Sequence[str], is_training: bool) -> SquadData:
        """Return the questions of files in SQuAD's or TriviaQA's format.

        Raises:
            UserError: names file and place.
        """
        options = self.options
        if is_training and options.triviaqa_evidence_dir:
            return triviaqa.read_triviaqa(
                files,
                options.triviaqa_evidence_dir,
                options.triviaqa_max_tokens,
            )
        return squad_data.read_squad(
            files, is_training, options.version_2_with_negative, options.strict
        )

    def convert(self, data: SquadData) -> Windows:
        """Return the windows of all questions; log their number.

        Raises:
            UserError: there is no window.
        """
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
                f"the paragraphs of the {len(data.examples)} questions are "
                "empty: there is nothing to read"
            )
        return windows

    def questions(self, files: Sequence[str]) -> Questions:
        """Return the questions of files to answer, with their windows."""
        data = self.read(files, is_training=False)
        fingerprint = self.fingerprint(files, is_training=False)
        return Questions(data, self.convert(data), fingerprint)


# --- Windows to records ------------------------------------------------------


class SquadRecords:
    """Record files of windows, kept in a directory between runs.

    Args:
        reader: of the files.
        cache: of the record files.
    """

    def __init__(self, reader: QuestionReader, cache: record_cache.RecordCache):
        self.reader, self.cache = reader, cache
        # Read by check_training, until `training` has written the records.
        self._training_data: SquadData | None = None

    def check_training(self, files: Sequence[str]) -> None:
        """Read the training files unless their records are current.

        It is called before anything else is done, so that an error in the
        files is reported at once.

        Raises:
            UserError: names file and place.
        """
        fingerprint = self.reader.fingerprint(files, is_training=True)
        is_cached = self.cache.has(self.cache.path("train"), fingerprint)
        # The records may be of a run without --strict.
        if not is_cached or self.reader.options.strict:
            self._training_data = self.reader.read(files, is_training=True)

    def training(self, files: Sequence[str]) -> in_memory.ShortRecords:
        """Return the training records, written now unless they are current."""

        def write(path: str) -> None:
            data = self._training_data
            data = data or self.reader.read(files, is_training=True)
            self._write(path, data, self.reader.convert(data), True)
            self._training_data = None  # free the memory

        fingerprint = self.reader.fingerprint(files, is_training=True)
        return self.cache.records("train", fingerprint, write)

    def prediction(self, questions: Questions) -> in_memory.ShortRecords:
        """Return the records to predict.

        Their file is called eval.tf_record, as in the original.
        """
        return self.cache.records(
            "eval",
            questions.fingerprint,
            lambda path: self._write(
                path, questions.data, questions.windows, is_training=False
            ),
            has=lambda name: name not in _TRAINING_ONLY,
        )

    def _write(
        self, path: str, data: SquadData, windows: Windows, is_training: bool
    ) -> None:
        """Write a record file; log the first windows."""
        vocab = self.reader.tokenizer.vocab
        length = self.reader.lengths.max_seq_length
        self._log_windows(data, windows, is_training)
        squad_windows.write_records(
            path, windows, data.examples, vocab, length, is_training
        )

    def _log_windows(
        self, data: SquadData, windows: Windows, is_training: bool
    ) -> None:
        """Log the first windows as tokens, with their answers."""
        tokenizer = self.reader.tokenizer
        count = min(_SHOWN, len(windows))
        length = self.reader.lengths.max_seq_length
        part = squad_windows.rows(windows, 0, count, tokenizer.vocab, length)
        for row in range(count):
            ids = part["input_ids"][row][part["input_mask"][row] > 0].tolist()
            tokens = tokenizer.convert_ids_to_tokens(ids)
            example = data.examples[windows.example[row]]
            lines = [
                ("unique_id", part["unique_ids"][row]),
                ("qas_id", example.qas_id),
                ("tokens", " ".join(tokens)),
            ]
            first = int(windows.start_positions[row])
            if is_training and first:
                last = int(windows.end_positions[row])
                answer = " ".join(tokens[first : last + 1])
                lines.append(("answer", f"{answer} ({first} to {last})"))
            elif is_training:
                lines.append(("answer", "not in this window"))
            log_example(*lines)
