"""Fine-tuning on multiple choice: which continuation of a context is right."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system, logs

import numpy as np

from checkpoints.model import Checkpoint
from tasks import long_texts, rows, signs
from tasks.classifier import scores as class_scores
from tasks.job import DataSet, FineTuningJob, Scored
from tasks.settings import RunSettings
from tasks.swag import model as swag_model
from tasks.swag import task as swag_task
from tasks.swag.task import Question
from tasks.task import Outputs

_TEST_RESULTS, _ANSWERS = "test_results.tsv", "test.tsv"

_SHOWN = 3  # questions in the log


class SwagJob(FineTuningJob):
    """The right choice of each question."""

    task_name = "multiple_choice"
    objective = swag_model.MULTIPLE_CHOICE
    result_files = (*FineTuningJob.result_files, _TEST_RESULTS)

    def __init__(
        self, settings: RunSettings, source: Checkpoint, data_dir: str | None
    ):
        super().__init__(settings, source)
        self.data_dir = data_dir
        folders = (settings.output_dir, data_dir or "")
        if len(set(map(os.path.realpath, folders))) == 2:
            # In one folder it may be a user's test file.
            self.result_files = (*self.result_files, _ANSWERS)
        self.open_data(
            rows.labeled_schema(source.max_seq_length),
            DataSet("train", "train", "train"),
            [DataSet("eval", "dev", "dev")],
            [DataSet("predict", "test", "test")],
        )

    def deciding_metric(self) -> str:
        """Return the key of the accuracy on the development questions."""
        swag_task.find_file(self.data_dir, "dev")
        return "accuracy"

    # --- Data ----------------------------------------------------------------

    def read(self, data: DataSet) -> list[Question]:
        """Return the questions of a file."""
        path = swag_task.find_file(self.data_dir, data.source)
        return swag_task.read_questions(path, has_labels=data.source != "test")

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        path = swag_task.find_file(self.data_dir, data.source)
        return {"data": file_system.sha256(path), **self.text_fingerprint()}

    def convert(
        self, data: DataSet, examples: Sequence[Question]
    ) -> Iterator[rows.Record]:
        """Yield the record of every choice; log the first questions."""
        task, sizes = self.task, []
        for number, question in enumerate(examples):
            found = [task.row(question.context, c) for c in question.choices]
            if number < _SHOWN:
                rows.log_example(
                    number,
                    ("guid", question.guid),
                    *(
                        ("tokens", self.tokens_of(row.input_ids))
                        for row in found
                    ),
                    ("label", question.label),
                )
            for row in found:
                sizes.append((len(row.input_ids), row.left_out))
                # A choice's label is its question's; a test file has none.
                yield rows.labeled(row, question.label or 0)
        logs.say(
            "%s: %s questions of %d choices; %s",
            data.title,
            f"{len(examples):,}",
            len(examples[0].choices),
            long_texts.what_is_read(self.source, sizes),
        )

    @property
    def group(self) -> int:
        """The choices of a question."""
        return len(self.examples(self.train)[0].choices)

    # --- Scores and predictions ----------------------------------------------

    def by_question(self, data: DataSet, outputs: Outputs) -> np.ndarray:
        """Return the scores of the choices, [n, C] for n questions.

        Records are single choices.
        """
        return outputs["logits"].reshape(len(self.examples(data)), -1)

    def score(self, data: DataSet, outputs: Outputs) -> Scored:
        """Return the accuracy and the loss; look for constant answers."""
        scores = self.by_question(data, outputs)
        labels = np.array([question.label for question in self.examples(data)])
        results = class_scores.scores(scores, labels, ("accuracy",))
        # The keys of the original's run_classifier.py.
        results["eval_loss"] = results["loss"]
        results["eval_accuracy"] = results["accuracy"]
        names = [str(number) for number in range(scores.shape[1])]
        # If all scores of a failed run are equal but for rounding, choice 0.
        below = scores - scores.max(-1, keepdims=True)
        sign = signs.no_better_class(
            below.round(4).argmax(-1), labels, names, "answers are choice"
        )
        return Scored(results, sign, (scores, labels), len(labels))

    def write_predictions(self, data: DataSet, outputs: Outputs) -> str:
        """Write test_results.tsv and test.tsv."""
        scores = self.by_question(data, outputs)
        shares = np.exp(class_scores.log_softmax(scores))
        probabilities, answers = class_scores.prediction_lines(
            shares,
            [question.guid for question in self.examples(data)],
            shares.argmax(-1),
        )
        self.write_lines(_TEST_RESULTS, probabilities)
        self.write_lines(_ANSWERS, answers)
        return _ANSWERS
