"""Read the files of SQuAD or TriviaQA and cut them into windows."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

import numpy as np
from absl import logging

import tokenization
from records import cache as record_cache
from tasks.squad import data as squad_data
from tasks.squad import triviaqa
from tasks.squad import windows as squad_windows
from tasks.squad.data import SquadData
from tasks.squad.windows import Lengths, Windows


class Questions(NamedTuple):
    """Questions with their windows and the fingerprint of these."""

    data: SquadData
    windows: Windows
    fingerprint: dict[str, Any]


@dataclasses.dataclass
class QuestionReader:
    """Reads files and cuts their paragraphs into windows.

    Most attributes have the names of flags. With triviaqa_evidence_dir the
    training files are TriviaQA's; questions to answer are always SQuAD's.
    """

    lengths: Lengths
    tokenizer: tokenization.FullTokenizer
    num_workers: int
    version_2_with_negative: bool
    strict: bool
    scoring: str
    triviaqa_evidence_dir: str | None
    triviaqa_max_tokens: int

    def __post_init__(self):
        self._fingerprints: dict[tuple, dict[str, Any]] = {}

    def fingerprint(self, files: Sequence[str], is_training: bool) -> dict:
        """Return everything that the windows of some files depend on."""
        key = (*files, is_training)
        if key not in self._fingerprints:  # reads the files, lists evidence
            evidence = is_training and self.triviaqa_evidence_dir
            self._fingerprints[key] = {
                "data": [file_system.sha256(path) for path in files],
                "is_training": is_training,
                "version_2_with_negative": self.version_2_with_negative,
                "triviaqa": evidence
                and {
                    "evidence": triviaqa.evidence_in(evidence),
                    "max_tokens": self.triviaqa_max_tokens,
                },
                "lengths": self.lengths._asdict(),
                **record_cache.text_fingerprint(
                    self.tokenizer, self.lengths.max_seq_length
                ),
            }
            if is_training:  # they were once found by a search
                self._fingerprints[key]["labels"] = "by character"
        return self._fingerprints[key]

    def read(self, files: Sequence[str], is_training: bool) -> SquadData:
        """Return the questions of files; errors name file and place."""
        if is_training and self.triviaqa_evidence_dir:
            return triviaqa.read_triviaqa(
                files, self.triviaqa_evidence_dir, self.triviaqa_max_tokens
            )
        data = squad_data.read_squad(
            files, is_training, self.version_2_with_negative, self.strict
        )
        return data._replace(scoring=self.scoring)

    def questions(
        self, files: Sequence[str], is_training: bool = False
    ) -> Questions:
        """Return the questions of files with their windows; log how many."""
        data = self.read(files, is_training)
        windows = squad_windows.convert(
            data, self.tokenizer, self.lengths, self.num_workers
        )
        logging.info(
            "%d questions make %d windows", len(data.examples), len(windows)
        )
        if windows.left_out.any():
            logging.warning(
                "%d questions are cut to max_query_length = %d tokens",
                (windows.left_out > 0).sum(),
                self.lengths.max_query_length,
            )
        lost = sum(x.place is not None for x in data.examples) - len(
            np.unique(windows.example[windows.end_positions > 0])
        )
        if is_training and lost:
            logging.warning(
                "%d questions are trained on as if they had no answer: no "
                "window of max_seq_length = %d, doc_stride = %d has all of it",
                lost,
                self.lengths.max_seq_length,
                self.lengths.doc_stride,
            )
        if not len(windows):
            raise UserError(
                f"the paragraphs of the {len(data.examples)} questions are "
                "empty: there is nothing to read"
            )
        return Questions(data, windows, self.fingerprint(files, is_training))
