r"""Fine-tune BERT on sentences or sentence pairs; score it, predict with it.

    python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC \
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=mrpc \
        --do_train --do_eval --do_predict

ends with `eval_results.txt` (accuracy, F1, whatever the task is scored with),
`test_results.tsv` (a probability per class), a file for GLUE's server, and the
fine-tuned weights in `bert_model.ckpt`. The same command again goes on where
it stopped.

One's own data: --task_name=tsv with train, dev and test files (.tsv, .csv or
.jsonl, with a header) in data_dir and --text_a_column, --text_b_column,
--label_column; --regression for numbers instead of classes.
"""

import tensorflow as tf
from absl import flags, logging

import modeling
from base import errors
from base.errors import UserError
from classifier import data as classifier_data
from classifier import export as classifier_export
from classifier import model as classifier_model
from classifier import records as classifier_records
from classifier import scores as classifier_scores
from classifier import tasks as classifier_tasks
from finetuning import flags as finetuning_flags
from finetuning import job as finetuning_job
from finetuning import runner, source
from records import in_memory
from serving import graph_tokenizer, saved_model
from training import reporting

FLAGS = flags.FLAGS

finetuning_flags.define_finetuning_flags(
    max_seq_length=128,
    what_is_cut="Longer sentences and pairs are cut to so many tokens.",
    train_on="the training set",
    score_on="the development set",
    predict_on="the test set",
)
flags.DEFINE_integer("eval_batch_size", 8, "For scoring.", lower_bound=1)

# Task and data
flags.DEFINE_string(
    "task_name",
    None,
    f"One of {', '.join(classifier_tasks.TASK_NAMES)}; tsv: your own files.",
)
flags.DEFINE_string("data_dir", None, "Folder of the task's files.")
flags.DEFINE_string("xnli_language", "zh", "Language of XNLI.")
flags.DEFINE_string("text_a_column", "sentence", "tsv: name of the column.")
flags.DEFINE_string(
    "text_b_column", None, "tsv: name of the second sentence's column, if any."
)
flags.DEFINE_string("label_column", "label", "tsv: name of the column.")
flags.DEFINE_bool(
    "regression", False, "tsv: labels are numbers to predict, not classes."
)

_KINDS = {"do_train": "training", "do_predict": "test"}


class ClassifierJob(finetuning_job.Job):
    """Sentences or pairs, and a class or a number for each."""

    head_pattern = "^output_"

    def __init__(
        self,
        flag_values: flags.FlagValues,
        start: source.ModelSource,
        is_training: bool,
    ):
        super().__init__(flag_values, start, is_training)
        labels = None if is_training else labels_of(start.config)
        self.task = read_task(labels)
        self.data = classifier_records.ClassifierRecords(
            self.task,
            FLAGS.data_dir,
            self.records_dir(),
            start.tokenizer,
            start.config.vocab_size,
            FLAGS.max_seq_length,
            FLAGS.pad_to_max_length,
        )
        self.is_regression = self.task.labels is None
        self.objective = (
            classifier_model.REGRESSION
            if self.is_regression
            else classifier_model.CLASSIFICATION
        )
        self.dev: dict[str, in_memory.ShortRecords] = {}

    @classmethod
    def deciding_metric(cls, flag_values: flags.FlagValues) -> str:
        """Return the task's first score, of its first development set."""
        task = read_task()
        if not task.dev:
            raise UserError(
                f"task {FLAGS.task_name} has no development file to find the "
                "best run with"
            )
        return prefixes(task)[0] + task.metrics[0]

    def create_model(self) -> classifier_model.BertForSequenceClassification:
        """Return the encoder with a vector per class."""
        labels = self.task.labels
        return classifier_model.BertForSequenceClassification(
            self.config, labels and len(labels), FLAGS.dtype
        )

    def data_fingerprint(self) -> dict:
        """Return what the training records are made of."""
        return self.data.fingerprint(self.task.train)

    def train_data(self) -> in_memory.ShortRecords:
        """Return the training records."""
        return self.data.split("train", self.task.train)

    def evaluate(self, step: int) -> dict[str, float]:
        """Score every development set; write eval_results.txt."""
        results: dict[str, float] = {}
        splits = zip(self.task.dev.items(), prefixes(self.task), strict=True)
        for number, ((name, split), prefix) in enumerate(splits):
            if name not in self.dev:
                file = "eval" if number == 0 else f"eval_{name}"
                self.dev[name] = self.data.split(file, split)
            data = self.dev[name]
            logging.info("***** Running evaluation *****")
            logits = self.predictor(data, FLAGS.eval_batch_size, name)["logits"]
            scores = classifier_scores.scores(
                logits,
                data.features["label_ids"],
                self.task.metrics,
                self.is_regression,
            )
            results |= {prefix + key: value for key, value in scores.items()}
        # The original's keys, of the first set.
        first = prefixes(self.task)[0]
        results["eval_loss"] = results["loss"] = results.pop(first + "loss")
        if not self.is_regression:
            results["eval_accuracy"] = results[first + "accuracy"]
        results["global_step"] = step
        reporting.write_results(FLAGS.output_dir, results, step)
        return results

    def predict(self) -> None:
        """Write test_results.tsv and the submission of every test set."""
        for number, (name, split) in enumerate(self.task.test.items()):
            part = "predict" if number == 0 else f"predict_{name}"
            data = self.data.split(part, split)
            logging.info("***** Running prediction*****")
            logits = self.predictor(data, FLAGS.predict_batch_size, name)
            guids = [example.guid for example in self.data.read(part, split)]
            rows, submission = classifier_scores.prediction_lines(
                logits["logits"], guids, self.task.labels
            )
            logging.info("***** Predict results *****")
            results = part.replace("predict", "test_results")
            self.write_lines(f"{results}.tsv", rows)
            self.write_lines(f"{name}.tsv", submission)

    def add_to_config(self, config: modeling.BertConfig) -> None:
        """Name the labels, and say whether texts come in pairs."""
        if self.task.labels is not None:
            names = enumerate(self.task.labels)
            config.id2label = {str(number): name for number, name in names}
        config.sentence_pairs = self._takes_pairs()

    def _takes_pairs(self) -> bool:
        splits = [*self.task.dev.values(), *self.task.test.values()]
        split = self.task.train or splits[0]
        return split.columns.text_b is not None

    def saved_model(
        self, tokenizer: graph_tokenizer.Tokenizer
    ) -> saved_model.Export:
        """Return strings in, label and probabilities out."""
        labels = self.task.labels
        return classifier_export.Classifier(
            self.model,
            tokenizer,
            self.start.vocab_file,
            FLAGS.max_seq_length,
            labels=labels and list(labels),
            is_pair=self._takes_pairs(),
        )


def prefixes(task: classifier_tasks.Task) -> list[str]:
    """Return what the keys of each development set's scores begin with."""
    several = len(task.dev) > 1
    return [f"{name}_" if several else "" for name in task.dev]


def labels_of(config: modeling.BertConfig) -> tuple[str, ...] | None:
    """Return the labels a fitted model's configuration names, if any."""
    names = getattr(config, "id2label", None)
    if not names:
        return None
    return tuple(names[number] for number in sorted(names, key=int))


def read_task(labels: tuple[str, ...] | None = None) -> classifier_tasks.Task:
    """Return the task; check that it has the files that are asked for.

    Args:
        labels: tsv: those of the fitted model, if known.
    """
    if FLAGS.task_name.lower() == "tsv":
        task = classifier_data.own_task(
            FLAGS.data_dir,
            FLAGS.text_a_column,
            FLAGS.text_b_column,
            FLAGS.label_column,
            FLAGS.regression,
            labels,
        )
    else:
        task = classifier_tasks.task_of(FLAGS.task_name, FLAGS.xnli_language)
    wanted = {
        "do_train": task.train,
        "do_eval": task.dev,
        "eval_steps": task.dev,
        "do_predict": task.test,
    }
    for name, split in wanted.items():
        if FLAGS[name].value and not split:
            raise UserError(
                f"--{name}: task {FLAGS.task_name} has no "
                f"{_KINDS.get(name, 'development')} file"
            )
    return task


def validate_flags() -> None:
    """Check what can be checked before anything is read."""
    runner.validate_flags(FLAGS)
    for name in ("task_name", "data_dir"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")
    if not tf.io.gfile.isdir(FLAGS.data_dir):
        raise UserError(f"--data_dir={FLAGS.data_dir} is no directory")
    own = FLAGS.task_name.lower() == "tsv"
    for name in ("text_a_column", "text_b_column", "label_column"):
        if FLAGS[name].present and not own:
            raise UserError(f"--{name} is for --task_name=tsv")
    if FLAGS.regression and not own:
        raise UserError("--regression is for --task_name=tsv")


def main(_: list[str]) -> int:
    """Train, score and predict as the flags say; return the exit status."""
    logging.set_verbosity(logging.INFO)
    validate_flags()
    return runner.run(__file__, FLAGS, ClassifierJob)


if __name__ == "__main__":
    errors.run(main)
