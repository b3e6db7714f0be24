r"""Fine-tune BERT to choose what follows; score it, predict with it.

    python run_swag.py --data_dir=swag --output_dir=out \
        --init_checkpoint=uncased_L-12_H-768_A-12 \
        --do_train --do_eval --do_predict \
        --train_batch_size=16 --learning_rate=2e-5 --num_train_epochs=3

reads SWAG's train.csv, val.csv and test.csv (paper section 4.4), and ends with
`eval_results.txt`, `test_results.tsv` (a probability per choice), `test.tsv`
(the number of the choice), and the fine-tuned weights in `bert_model.ckpt`.
The same command again goes on where it stopped.

One's own questions, with any number of choices: train.jsonl, dev.jsonl and
test.jsonl, an object per line:

    {"context": "He takes the ball.", "start": "Then he",
     "choices": ["eats it.", "throws it."], "label": 1}

`start`, which begins every choice, may be left out, `label` in the test file.
"""

import tensorflow as tf
from absl import flags, logging

from base import errors
from base.errors import UserError
from classifier import scores as classifier_scores
from finetuning import flags as finetuning_flags
from finetuning import job as finetuning_job
from finetuning import runner, source
from serving import graph_tokenizer, saved_model
from swag import data as swag_data
from swag import export as swag_export
from swag import model as swag_model
from swag import records as swag_records
from training import reporting

FLAGS = flags.FLAGS

finetuning_flags.define_finetuning_flags(
    max_seq_length=128,
    what_is_cut="Context and choice together are cut to so many tokens.",
    train_on="the training questions",
    score_on="the development questions",
    predict_on="the test questions",
)
flags.DEFINE_integer(
    "eval_batch_size", 8, "Choices scored together.", lower_bound=1
)
flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of train, val (or dev) and test, each .csv in SWAG's columns or "
    ".jsonl.",
)

_PARTS = {
    "do_train": "train",
    "do_eval": "dev",
    "eval_steps": "dev",
    "do_predict": "test",
}


class SwagJob(finetuning_job.Job):
    """Questions, and which of their choices is right."""

    head_pattern = "^output_"
    fitted_task = "multiple_choice"  # the shape is a regression's too
    objective = swag_model.MULTIPLE_CHOICE

    def __init__(
        self,
        flag_values: flags.FlagValues,
        start: source.ModelSource,
        is_training: bool,
    ):
        super().__init__(flag_values, start, is_training)
        self.data = swag_records.SwagRecords(
            FLAGS.data_dir,
            self.records_dir(),
            start.tokenizer,
            start.config.vocab_size,
            FLAGS.max_seq_length,
            FLAGS.pad_to_max_length,
        )
        # Read now: what is wrong in them should not be found after training.
        for name, part in _PARTS.items():
            if FLAGS[name].value and (is_training or part != "train"):
                self.data.questions(part)
        self.train: swag_records.Questions
        self.dev: swag_records.Questions | None = None

    @classmethod
    def deciding_metric(cls, flag_values: flags.FlagValues) -> str:
        """Return the accuracy's key."""
        swag_data.find_file(flag_values.data_dir, "dev")
        return "accuracy"

    def create_model(self) -> swag_model.BertForMultipleChoice:
        """Return the encoder with one vector that scores."""
        return swag_model.BertForMultipleChoice(self.config, FLAGS.dtype)

    def forward(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the score of each choice on its own, [B]."""
        return {"scores": self.model(batch)}

    def data_fingerprint(self) -> dict:
        """Return what the training records are made of."""
        return self.data.fingerprint("train")

    def train_data(self) -> swag_records.Questions:
        """Return the training questions."""
        self.train = self.data.split("train", "train")
        return self.train

    def flops_per_example(self, length: int) -> float:
        """Return the operations of training on all choices of a question."""
        return reporting.training_flops(
            self.config, self.train.num_choices, length
        )

    def evaluate(self, step: int) -> dict[str, float]:
        """Score the development questions; write eval_results.txt."""
        self.dev = self.dev or self.data.split("dev", "eval")
        logging.info("***** Running evaluation *****")
        scores = self.predictor(self.dev.rows, FLAGS.eval_batch_size, "dev")
        results = classifier_scores.scores(
            self.dev.by_question(scores["scores"]),
            self.dev.by_question(self.dev.rows.features["label_ids"])[:, 0],
            ("accuracy",),
            is_regression=False,
        )
        results["eval_loss"] = results["loss"]
        results["eval_accuracy"] = results["accuracy"]
        results["global_step"] = step
        reporting.write_results(FLAGS.output_dir, results, step)
        return results

    def predict(self) -> None:
        """Write test_results.tsv and test.tsv."""
        test = self.data.split("test", "predict")
        logging.info("***** Running prediction*****")
        scores = self.predictor(test.rows, FLAGS.predict_batch_size, "test")
        rows, answers = classifier_scores.prediction_lines(
            test.by_question(scores["scores"]),
            [question.guid for question in test.questions],
            [str(number) for number in range(test.num_choices)],
        )
        logging.info("***** Predict results *****")
        self.write_lines("test_results.tsv", rows)
        self.write_lines("test.tsv", answers)

    def saved_model(
        self, tokenizer: graph_tokenizer.Tokenizer
    ) -> saved_model.Export:
        """Return context and choices in, probabilities and answer out."""
        return swag_export.MultipleChoice(
            self.model, tokenizer, self.start.vocab_file, FLAGS.max_seq_length
        )


def validate_flags() -> None:
    """Check what can be checked before anything is read."""
    runner.validate_flags(FLAGS)
    parts = [part for name, part in _PARTS.items() if FLAGS[name].value]
    if not parts:  # an export needs no questions
        return
    if not FLAGS.data_dir:
        raise UserError("--data_dir is required")
    if not tf.io.gfile.isdir(FLAGS.data_dir):
        raise UserError(f"--data_dir={FLAGS.data_dir} is no directory")
    for part in parts:
        swag_data.find_file(FLAGS.data_dir, part)


def main(_: list[str]) -> int:
    """Train, score and predict as the flags say; return the exit status."""
    logging.set_verbosity(logging.INFO)
    validate_flags()
    return runner.run(__file__, FLAGS, SwagJob)


if __name__ == "__main__":
    errors.run(main)
