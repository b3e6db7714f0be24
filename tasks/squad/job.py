"""Fine-tuning on SQuAD: answer questions with spans of a paragraph."""

import dataclasses
import functools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system, logs, progress, text_files
from base.errors import UserError

import numpy as np
from absl import logging

from checkpoints.model import Checkpoint
from records import in_memory
from tasks.job import DataSet, FineTuningJob, LoadedModel, Scored
from tasks.rows import Record, log_example
from tasks.settings import RunSettings
from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import decoding as squad_decoding
from tasks.squad import model as squad_model
from tasks.squad import task as squad_task
from tasks.squad import triviaqa
from tasks.squad import windows as squad_windows
from tasks.squad.answers import Answered
from tasks.squad.data import SquadData
from tasks.squad.flags import Options
from tasks.squad.windows import Windows
from tasks.task import Outputs

_SHOWN = 5  # windows written to the log


class SquadJob(FineTuningJob):
    """A span of the paragraph for each question."""

    task_name = "question_answering"
    training_features = ("start_positions", "end_positions", "is_impossible")
    objective = squad_model.QUESTION_ANSWERING
    result_files = (*FineTuningJob.result_files, *squad_answers.FILES)
    kept = (*FineTuningJob.kept, "version_2_with_negative")

    def __init__(
        self, settings: RunSettings, source: Checkpoint, options: Options
    ):
        self.flags, self.is_version_2 = options, options.version_2_with_negative
        super().__init__(
            settings, source.changed(version_2_with_negative=self.is_version_2)
        )
        self.null_threshold: float | None = None  # of an export
        taught = source.trained_for.version_2_with_negative
        if not settings.do_train and taught not in (None, self.is_version_2):
            logging.warning(
                "the model was fine-tuned with version_2_with_negative=%s; now "
                "it answers with --version_2_with_negative=%s",
                taught,
                self.is_version_2,
            )
        asked = DataSet("eval", "predict_file", options.predict_file)
        self.open_data(
            squad_windows.schema(source.max_seq_length),
            DataSet("train", "train_file", options.train_file),
            [asked],
            [asked],
        )
        is_scored = settings.do_eval or settings.eval_steps
        if is_scored and not self.questions.data.has_answers():
            raise UserError(
                f"--predict_file={','.join(asked.source)} has no answers: "
                "there is nothing to score"
            )
        # The fingerprint of the weights that answered last, and the answers.
        self._answered: tuple[list[str] | None, Answered | None] = None, None

    def deciding_metric(self) -> str:
        """Return the key of F1, for SQuAD 2.0 F1 at the best threshold."""
        if not self.dev[0].source:
            raise UserError(
                "--predict_file is required to find the best weights with"
            )
        return "tuned_f1" if self.is_version_2 else "f1"

    def options(self) -> squad_task.Options:
        """Return the windows, and how answers are found."""
        return squad_task.Options(
            doc_stride=self.flags.lengths.doc_stride,
            max_query_length=self.flags.lengths.max_query_length,
            max_answer_length=self.flags.answers.max_answer_length,
            null_threshold=self.null_threshold,
        )

    def adjustable(self) -> dict[str, Any]:
        """Return what an epoch counts."""
        what = self.flags.count_steps_by
        return {"count_steps_by": what if what != "windows" else None}

    # --- Data ----------------------------------------------------------------

    def read_questions(self, data: DataSet) -> SquadData:
        """Return the questions of files; errors name file and place.

        With triviaqa_evidence_dir the training files are TriviaQA's; questions
        to answer are always SQuAD's.
        """
        flags, is_training = self.flags, data.name == "train"
        if is_training and flags.triviaqa_evidence_dir:
            return triviaqa.read_triviaqa(
                data.source, flags.triviaqa_evidence_dir
            )
        found = squad_data.read_squad(
            data.source, is_training, self.is_version_2
        )
        return found._replace(scoring=flags.scoring)

    def read(self, data: DataSet) -> Windows:
        """Return the questions of files with their windows; log how many."""
        found, lengths = self.read_questions(data), self.flags.lengths
        windows = squad_windows.convert(found, self.tokenizer, lengths)
        logs.say(
            "%s: %s questions on %s paragraphs, which make %s windows of at "
            "most %d tokens",
            data.title,
            f"{len(found.examples):,}",
            f"{len(found.paragraphs):,}",
            f"{len(windows):,}",
            lengths.max_seq_length,
        )
        if windows.left_out.any():
            logging.warning(
                "%d questions are cut to max_query_length = %d tokens",
                (windows.left_out > 0).sum(),
                lengths.max_query_length,
            )
        lost = sum(x.place is not None for x in found.examples) - len(
            np.unique(windows.example[windows.end_positions > 0])
        )
        if data.name == "train" and lost:
            logging.warning(
                "%d questions are trained on as if they had no answer: no "
                "window of max_seq_length = %d, doc_stride = %d has all of it",
                lost,
                lengths.max_seq_length,
                lengths.doc_stride,
            )
        if not len(windows):
            raise UserError(
                f"the paragraphs of the {len(found.examples)} questions are "
                "empty: there is nothing to read"
            )
        return windows

    @property
    def questions(self) -> Windows:
        """The questions of predict_file, with their windows."""
        return self.examples(self.dev[0])

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the windows depend on."""
        is_training = data.name == "train"
        found = {
            "data": [file_system.sha256(path) for path in data.source],
            "is_training": is_training,
            "version_2_with_negative": self.is_version_2,
            "lengths": dataclasses.asdict(self.flags.lengths),
            **self.text_fingerprint(),
        }
        if is_training:
            # Labels were once found by a search.
            found |= {"labels": "by character", "triviaqa": self._triviaqa}
        return found

    @functools.cached_property
    def _triviaqa(self) -> dict[str, Any] | None:
        """What TriviaQA's examples depend on; lists all documents once."""
        evidence = self.flags.triviaqa_evidence_dir
        return evidence and {
            "evidence": triviaqa.evidence_in(evidence),
            "max_tokens": triviaqa.MAX_WORDS,
        }

    def convert(self, data: DataSet, examples: Windows) -> Iterator[Record]:
        """Yield the records of windows; log the first ones."""
        records = squad_windows.records(
            examples, self.tokenizer.vocab, data == self.train
        )
        for number, (row, labels) in enumerate(records):
            if number < _SHOWN:
                question = examples.data.examples[examples.example[number]]
                lines = [
                    ("unique_id", labels["unique_ids"]),
                    ("qas_id", question.qas_id),
                    ("tokens", self.tokens_of(row.input_ids)),
                ]
                if first := labels.get("start_positions"):
                    last = labels["end_positions"]
                    words = self.tokens_of(row.input_ids[first : last + 1])
                    lines.append(("answer", f"{words} ({first} to {last})"))
                log_example(number, *lines)
            yield row, labels

    def num_examples(self, data: in_memory.ShortRecords) -> int:
        """Return the number of windows in an epoch, or of questions."""
        if self.flags.count_steps_by == "windows":
            return data.num_examples
        return len(self.read_questions(self.train).examples)

    # --- Scores and predictions ----------------------------------------------

    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score the answers to predict_file; look for constant ones."""
        answered = self.answer(loaded)
        data = self.questions.data
        sign = answered.sign_of_failure(data)
        results = answered.scores(data)
        return Scored(results, sign, [Scored(results, sign, answered)])

    def predict(self, loaded: LoadedModel) -> None:
        """Answer predict_file; say where the answers are."""
        self.answer(loaded)
        self.say_where(self.dev[0], squad_answers.PREDICTIONS)

    def answer(self, loaded: LoadedModel) -> Answered:
        """Answer predict_file, once for the same weights on disk."""
        weights, folder = squad_answers.weights_of(loaded.prefix)
        if weights and self._answered[0] == weights:
            return self._answered[1]
        windows, output_dir = self.questions, self.settings.output_dir
        fingerprint = {
            "windows": self.fingerprint(self.dev[0]),
            "weights": weights,
            "config": self.config.to_dict(),
            "pad_to_max_length": self.settings.pad_to_max_length,
            "dtype": self.settings.dtype,
        }
        logits = squad_answers.kept_logits(
            output_dir, fingerprint, len(windows)
        )
        if logits is None:
            logs.report("Running the model on %s windows", f"{len(windows):,}")
            size = self.settings.predict_batch_size
            logits = self.outputs(loaded, self.dev[0], size)
            squad_answers.keep_logits(output_dir, fingerprint, logits)
        answered = self._answer(logits, weights, folder)
        self._answered = weights, answered
        return answered

    def _answer(
        self, logits: Outputs, weights: Any, trained_in: str | None = None
    ) -> Answered:
        """Return the answers that logits give; see answers.write_answers."""
        windows = self.questions
        with progress.clock("Decoding"):
            decoded = squad_decoding.decode(
                windows,
                logits["start_logits"],
                logits["end_logits"],
                self.tokenizer,
                self.flags.answers,
            )
        return squad_answers.write_answers(
            windows.data,
            decoded,
            self.flags.answers,
            self.settings.output_dir,
            weights,
            trained_in,
        )

    def answer_together(self, folders: Sequence[str]) -> Answered:
        """Answer predict_file by the mean of several runs' logits.

        The paper's ensemble (Table 2) has 7 systems with different pre-training
        checkpoints and fine-tuning seeds; it does not state how they are
        combined. Here their logits are averaged, for which all must have read
        the same windows.

        Raises:
            UserError: a run has no logits, or those of other windows.
        """
        # A fingerprint read from JSON has lists for tuples.
        wanted = json.loads(json.dumps(self.fingerprint(self.dev[0])))
        weights, parts = [], []
        for folder in folders:
            path = os.path.join(folder, squad_answers.LOGITS)
            found = text_files.read_own_json(path + ".json")
            if found.get("windows") != wanted:
                raise UserError(
                    f"--ensemble_dirs: {folder} has no {squad_answers.LOGITS} "
                    "of these windows. All runs need the same --predict_file, "
                    "vocabulary, casing, --max_seq_length, --doc_stride and "
                    "--max_query_length: give them here too, and run "
                    "--do_predict there"
                )
            weights.append(found.get("weights"))
            parts.append(squad_answers.read_logits(path, len(self.questions)))
        logging.info("Ensemble: the mean of %d runs' logits", len(folders))
        # Rows are cut to the shortest width. That loses nothing but padding:
        # each run padded its rows to the longest one or to max_seq_length.
        width = min(part["start_logits"].shape[1] for part in parts)
        logits = {
            name: np.mean([part[name][:, :width] for part in parts], axis=0)
            for name in parts[0]
        }
        file_system.make_directory(self.settings.output_dir)
        # A tuned threshold is stored for these weights.
        answered = self._answer(logits, weights)
        self.say_where(self.dev[0], squad_answers.PREDICTIONS)
        return answered

    # --- The fine-tuned model ------------------------------------------------

    def create_graph(
        self, loaded: LoadedModel
    ) -> squad_model.QuestionAnsweringGraph:
        """Return the SavedModel: question and paragraph in, answer out."""
        if self.is_version_2:
            if self.flags.answers.tune_null_threshold:
                self.answer(loaded)  # stores the threshold
            weights, folder = squad_answers.weights_of(loaded.prefix)
            self.null_threshold = squad_answers.null_threshold(
                self.flags.answers.null_score_diff_threshold,
                weights,
                self.settings.output_dir,
                folder,
            )
        return super().create_graph(loaded)
