"""Fine-tuning on multiple choice: which continuation of a context is right."""

import os
from typing import Any

import numpy as np
import tensorflow as tf

import modeling
from finetuning import failed_runs
from tasks import graph_tokenizer
from tasks.classifier import scores as classifier_scores
from tasks.job import Job, LoadedModel, Scored
from tasks.settings import RunSettings
from tasks.source import ModelSource
from tasks.swag import data as swag_data
from tasks.swag import export as swag_export
from tasks.swag import mistakes as swag_mistakes
from tasks.swag import model as swag_model
from tasks.swag import records as swag_records
from training import memory, prediction

_TEST_RESULTS, _ANSWERS = "test_results.tsv", "test.tsv"


class SwagJob(Job):
    """The right choice of each question.

    Args:
        settings: flags of the command.
        source: configuration and tokenizer of the model.
        is_training: whether the model is trained first.
        data_dir: the folder of train, val (or dev) and test.
        eval_batch_size: choices in a batch of the development set.
    """

    head_pattern = "^(output_|bilstm/)"
    # The head of a regression has the same shape.
    fine_tuned_task = "multiple_choice"
    objective = swag_model.MULTIPLE_CHOICE
    result_files = (*Job.result_files, _TEST_RESULTS)

    def __init__(
        self,
        settings: RunSettings,
        source: ModelSource,
        is_training: bool,
        data_dir: str | None,
        eval_batch_size: int,
    ):
        super().__init__(settings, source)
        self.data_dir, self.eval_batch_size = data_dir, eval_batch_size
        folders = (settings.output_dir, data_dir or "")
        if len(set(map(os.path.realpath, folders))) == 2:
            # In one folder it may be a user's test file.
            self.result_files = (*self.result_files, _ANSWERS)
        self.records = swag_records.SwagRecords(
            data_dir,
            settings.records_dir,
            source.tokenizer,
            source.config.vocab_size,
            source.max_seq_length,
            settings.pad_to_max_length,
        )
        # Read the files now, so that an error in them is reported before hours
        # of training, not after them.
        if is_training:
            self.records.questions("train")
        if settings.do_eval or settings.training.eval_steps:
            self.records.questions("dev")
        if settings.do_predict:
            self.records.questions("test")
        self._dev: swag_records.Questions | None = None

    def deciding_metric(self) -> str:
        """Return the key of the accuracy on the development questions."""
        swag_data.find_file(self.data_dir, "dev")
        return "accuracy"

    def create_model(self) -> swag_model.BertForMultipleChoice:
        """Return the encoder with one vector that scores a choice."""
        return swag_model.BertForMultipleChoice(
            self.config, self.settings.training.dtype, self.source.bilstm
        )

    def forward(
        self, model: modeling.TaskModel, batch: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Return the score of each choice [B]; records are single choices."""
        return {"scores": model(batch)}

    # --- Data ----------------------------------------------------------------

    def data_fingerprint(self) -> dict[str, Any]:
        """Return everything the training records depend on."""
        return self.records.fingerprint("train")

    def train_data(self, loaded: LoadedModel) -> swag_records.Questions:
        """Return the training questions."""
        del loaded
        return self.records.split("train", "train")

    def flops_per_example(
        self, model: modeling.TaskModel, length: int
    ) -> float:
        """Return the operations of training on all choices of a question."""
        return self._num_choices * super().flops_per_example(model, length)

    def row(self) -> memory.Rows:
        """Return what a question is: a sequence for each of its choices."""
        return super().row()._replace(encoded=self._num_choices)

    @property
    def _num_choices(self) -> int:
        return len(self.records.questions("train")[0].choices)

    # --- Scores and predictions ----------------------------------------------

    def guess(self, data: swag_records.Questions) -> failed_runs.Guess:
        """Return the loss of equal probabilities for all choices."""
        return failed_runs.guess_choice(data.num_choices)

    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score the development questions; look for constant answers."""
        self._dev = dev = self._dev or self.records.split("dev", "eval")
        scores = self._scores(loaded, dev, self.eval_batch_size, "dev")
        labels = dev.by_question(dev.rows.features["label_ids"])[:, 0]
        results = classifier_scores.scores(
            scores, labels, ("accuracy",), is_regression=False
        )
        # The keys of the original's run_classifier.py.
        results["eval_loss"] = results["loss"]
        results["eval_accuracy"] = results["accuracy"]
        sign = failed_runs.same_class(
            scores.argmax(-1),
            labels,
            [str(number) for number in range(dev.num_choices)],
            "answers are choice",
        )
        return Scored(results, [sign] if sign else [], (scores, labels))

    def write_mistakes(self, scored: Scored) -> None:
        """Write errors.tsv of the development questions."""
        self.write_errors(
            swag_mistakes.wrong_choices(
                *scored.predictions,
                self._dev.questions,
                self.settings.num_errors,
            )
        )

    def predict(self, loaded: LoadedModel) -> None:
        """Write test_results.tsv and test.tsv."""
        test = self.records.split("test", "predict")
        rows, answers = classifier_scores.prediction_lines(
            self._scores(
                loaded, test, self.settings.predict_batch_size, "test"
            ),
            [question.guid for question in test.questions],
            [str(number) for number in range(test.num_choices)],
        )
        self.write_lines(_TEST_RESULTS, rows)
        self.write_lines(_ANSWERS, answers)

    @staticmethod
    def _scores(
        loaded: LoadedModel,
        questions: swag_records.Questions,
        batch_size: int,
        title: str,
    ) -> np.ndarray:
        """Return the score of every choice, [questions, C]."""
        outputs = loaded.predictor(questions.rows, batch_size, title)
        prediction.check_finite(outputs["scores"], title)
        return questions.by_question(outputs["scores"])

    # --- The fine-tuned model ------------------------------------------------

    def create_export(
        self, loaded: LoadedModel, tokenizer: graph_tokenizer.Tokenizer
    ) -> swag_export.MultipleChoice:
        """Return the SavedModel: context and choices in, answer out."""
        return swag_export.MultipleChoice(
            loaded.model,
            tokenizer,
            self.source.vocab_file,
            self.source.max_seq_length,
        )
