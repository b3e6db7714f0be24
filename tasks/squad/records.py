"""Read the files of SQuAD or TriviaQA and cut them into windows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

from absl import logging

import tokenization
from records import cache as record_cache
from tasks.squad import data as squad_data
from tasks.squad import triviaqa
from tasks.squad import windows as squad_windows
from tasks.squad.data import SquadData
from tasks.squad.windows import Lengths, Windows


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
