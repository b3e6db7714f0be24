r"""Question answering: fine-tune BERT on SQuAD, answer, score as officially.

    python run_squad.py --train_file=train-v1.1.json \
        --predict_file=dev-v1.1.json --init_checkpoint=uncased_L-12_H-768_A-12 \
        --do_train --do_predict --do_eval --output_dir=squad \
        --learning_rate=3e-5 --num_train_epochs=2 --train_batch_size=12

ends with `predictions.json`, `nbest_predictions.json` and, in
`eval_results.txt`, exact match and F1 to the official script's last digit.
SQuAD 2.0: --version_2_with_negative, and --tune_null_threshold to find from
which odds on "no answer" is the answer. Logits are kept: another threshold,
n_best_size or max_answer_length needs no second pass of the model.

    python run_squad.py --predict_file=dev.json --predictions_file=answers.json
    python run_squad.py --predict_file=dev.json --ensemble_dirs=a,b,c \
        --output_dir=together --do_predict --do_eval

score answers without a model, and combine several runs. TriviaQA's files go
into --train_file with --triviaqa_evidence_dir; SQuAD follows with the first
run's output_dir as --init_checkpoint.
"""

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from base import errors, file_system
from base.errors import UserError

import tensorflow as tf
from absl import flags, logging

import modeling
import tokenization
from checkpoints import lookup, weight_files
from finetuning import flags as finetuning_flags
from finetuning import job as finetuning_job
from finetuning import runner, source
from records import cache as record_cache
from records import in_memory
from serving import graph_tokenizer, saved_model
from squad import answers as squad_answers
from squad import data as squad_data
from squad import decoding as squad_decoding
from squad import export as squad_export
from squad import model as squad_model
from squad import records as squad_records
from squad import scores as squad_scores
from squad import windows as squad_windows
from training import reporting
from training.settings import from_flags

FLAGS = flags.FLAGS

finetuning_flags.define_finetuning_flags(
    max_seq_length=384,
    what_is_cut="Tokens of question and paragraph seen at once; longer "
    "paragraphs are seen through windows that overlap.",
    train_on="train_file",
    score_on="predict_file, as SQuAD's official scripts do",
    predict_on="predict_file",
)

# Data
flags.DEFINE_list(
    "train_file", [], "SQuAD's JSON, or several files separated by commas."
)
flags.DEFINE_list("predict_file", [], "The same, to be answered or scored.")
flags.DEFINE_bool(
    "version_2_with_negative", False, "Questions may have no answer: SQuAD 2.0."
)
flags.DEFINE_bool(
    "strict", False, "End at an answer that is not where answer_start says."
)
flags.DEFINE_string(
    "triviaqa_evidence_dir",
    None,
    "train_file is TriviaQA's; this folder holds its wikipedia/ and web/.",
)
flags.DEFINE_integer(
    "triviaqa_max_tokens",
    400,
    "Words of a TriviaQA document that are read, from its beginning.",
    lower_bound=1,
)

# Windows
flags.DEFINE_integer(
    "doc_stride", 128, "Tokens from one window to the next.", lower_bound=1
)
flags.DEFINE_integer(
    "max_query_length",
    64,
    "Longer questions are cut to so many tokens.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_workers",
    0,
    "Processes that make windows; 0: all cores where the data are large. The "
    "windows do not depend on it.",
    lower_bound=0,
)
flags.DEFINE_enum(
    "count_steps_by",
    "windows",
    ["windows", "questions"],
    "What num_train_epochs are epochs of; the original counts questions, and "
    "so trains less on long paragraphs.",
)

# Answers
flags.DEFINE_integer(
    "n_best_size", 20, "Answers to list for a question.", lower_bound=1
)
flags.DEFINE_integer(
    "max_answer_length", 30, "Tokens of an answer at most.", lower_bound=1
)
flags.DEFINE_float(
    "null_score_diff_threshold",
    0.0,
    "A question has no answer where the score of that exceeds the best "
    "answer's by more than this; default: as tuned, else 0.",
)
flags.DEFINE_bool(
    "tune_null_threshold",
    False,
    "Find the threshold with the best F1 on predict_file, store it, use it.",
)
flags.DEFINE_bool(
    "verbose_logging",
    False,
    "Name the answers that were not found in the paragraph letter by letter.",
)
flags.DEFINE_string(
    "predictions_file",
    None,
    "Score this file against predict_file; no model is needed.",
)
flags.DEFINE_list(
    "ensemble_dirs",
    [],
    "Answer with the mean of these runs' stored logits or n-best lists; no "
    "model is run.",
)


class Answered(NamedTuple):
    """The answers to predict_file."""

    weights: list[str] | None  # None: not on disk
    answers: dict[str, str]
    null_odds: dict[str, float]
    tuned: squad_scores.Tuned | None


class SquadJob(finetuning_job.Job):
    """A question, a paragraph, and where the answer stands in it."""

    head_pattern = "^cls/squad/"
    objective = squad_model.QUESTION_ANSWERING
    results = (
        "eval_results.txt",
        squad_answers.PREDICTIONS,
        squad_answers.NBEST,
        squad_answers.NULL_ODDS,
        squad_answers.THRESHOLD,
        squad_answers.LOGITS,
        squad_answers.LOGITS + ".json",
    )

    def __init__(
        self,
        flag_values: flags.FlagValues,
        start: source.ModelSource,
        is_training: bool,
    ):
        super().__init__(flag_values, start, is_training)
        fitted = getattr(start.config, "version_2_with_negative", None)
        asked = FLAGS.version_2_with_negative
        if not is_training and fitted not in (None, asked):
            logging.warning(
                "the model was fitted with version_2_with_negative=%s; now it "
                "answers with --version_2_with_negative=%s",
                fitted,
                asked,
            )
        self.data = create_data(start)
        self.cache = record_cache.RecordCache(
            self.records_dir(),
            squad_windows.schema(start.max_seq_length),
            start.config.vocab_size,
            FLAGS.pad_to_max_length,
        )
        # Read now: what is wrong shows before hours of training.
        if is_training:
            self.data.check_training(self.cache, FLAGS.train_file)
        self.questions = self._read_questions()
        # What was answered last, and with which weights.
        self.answered: Answered | None = None

    @classmethod
    def deciding_metric(cls, flag_values: flags.FlagValues) -> str:
        """Return F1, of SQuAD 2.0 that at the best threshold."""
        return "tuned_f1" if flag_values.version_2_with_negative else "f1"

    def _read_questions(self) -> squad_records.Questions | None:
        jobs = ("do_eval", "do_predict", "eval_steps", "tune_null_threshold")
        if not any(FLAGS[name].value for name in jobs):
            return None
        questions = self.data.questions(FLAGS.predict_file)
        is_scored = FLAGS.do_eval or FLAGS.eval_steps
        if is_scored and not questions.data.has_answers():
            raise UserError(
                f"--predict_file={','.join(FLAGS.predict_file)} has no "
                "answers: there is nothing to score"
            )
        return questions

    def create_model(self) -> squad_model.BertForQuestionAnswering:
        """Return the encoder with a start and an end vector."""
        return squad_model.BertForQuestionAnswering(self.config, FLAGS.dtype)

    def forward(self, batch: dict) -> dict:
        """Return the logits of starts and ends."""
        starts, ends = tf.unstack(self.model(batch))
        return {"start_logits": starts, "end_logits": ends}

    def data_fingerprint(self) -> dict:
        """Return what the training windows are made of."""
        return self.data.fingerprint(FLAGS.train_file, is_training=True)

    def train_data(self) -> in_memory.ShortRecords:
        """Return the training records."""
        return self.data.training(self.cache, FLAGS.train_file)

    def num_examples(self, data: in_memory.ShortRecords) -> int:
        """Return the windows of an epoch, or the questions."""
        if FLAGS.count_steps_by == "windows":
            return data.num_records
        questions = self.data.read(FLAGS.train_file, is_training=True)
        return len(questions.examples)

    def evaluate(self, step: int) -> dict[str, float]:
        """Answer predict_file, score that as the official scripts do."""
        answered = self._answer()
        results = score(
            self.questions.data, answered.answers, answered.null_odds
        )
        if answered.tuned:
            results["tuned_f1"] = answered.tuned.f1
            results["tuned_thresh"] = answered.tuned.threshold
        results["global_step"] = step
        reporting.write_results(FLAGS.output_dir, results, step)
        return results

    def predict(self) -> None:
        """Answer predict_file."""
        self._answer()

    def _answer(self) -> Answered:
        """Write the prediction files; once for the same weights on disk."""
        weights = self._weights()
        if weights and self.answered and self.answered.weights == weights:
            return self.answered
        logging.info("***** Running predictions *****")
        logits = self._logits(weights)
        decoded = decode(self.questions, logits, self.tokenizer)
        tuned = tuned_of(self.questions.data, decoded)
        answers = self._output().write(
            decoded, tuned if FLAGS.tune_null_threshold else None
        )
        self.answered = Answered(weights, answers, decoded.null_odds, tuned)
        return self.answered

    def _weights(self) -> list[str] | None:
        """Return what says which weights the model has; None: not on disk."""
        if not self.restored_from:
            return None
        files = weight_files.files_of(self.restored_from)
        return [file_system.sha256(path) for path in files]

    def _output(self) -> squad_answers.Output:
        folder = self.restored_from and self.restored_from.rpartition("/")[0]
        return create_output(self._weights(), folder)

    def _logits(self, weights: list[str] | None) -> squad_answers.Logits:
        def compute() -> squad_answers.Logits:
            data = self.data.prediction(self.cache, self.questions)
            logging.info("  Num split examples = %d", data.num_records)
            return squad_answers.Logits(
                **self.predictor(data, FLAGS.predict_batch_size, "predicting")
            )

        fingerprint = {
            "windows": self.questions.fingerprint,
            "weights": weights,
            "pad_to_max_length": FLAGS.pad_to_max_length,
            "dtype": FLAGS.dtype,
        }
        return squad_answers.kept_logits(
            FLAGS.output_dir, fingerprint, len(self.questions.windows), compute
        )

    def add_to_config(self, config: modeling.BertConfig) -> None:
        """Say how long the windows are, and whether null is an answer."""
        config.max_seq_length = self.start.max_seq_length
        config.version_2_with_negative = FLAGS.version_2_with_negative

    def saved_model(
        self, tokenizer: graph_tokenizer.Tokenizer
    ) -> saved_model.Export:
        """Return question and paragraph in, answer and its place out."""
        threshold = None
        if FLAGS.version_2_with_negative:
            if FLAGS.tune_null_threshold:
                self._answer()
            threshold = self._output().threshold()
        return squad_export.QuestionAnswering(
            self.model,
            tokenizer,
            self.start.vocab_file,
            self.data.lengths,
            FLAGS.max_answer_length,
            null_threshold=threshold,
        )


# --- main and its steps -----------------------------------------------------


def create_lengths(max_seq_length: int) -> squad_windows.Lengths:
    """Return how windows are cut, with the length a fitted model has."""
    lengths = from_flags(
        squad_windows.Lengths, FLAGS, max_seq_length=max_seq_length
    )
    lengths.check()
    return lengths


def create_data(start: source.ModelSource) -> squad_records.SquadRecords:
    """Return the reader of SQuAD's files."""
    return squad_records.SquadRecords(
        from_flags(squad_records.Reading, FLAGS),
        create_lengths(start.max_seq_length),
        start.tokenizer,
        FLAGS.num_workers,
    )


def create_output(
    weights: Any, folder: str | None = None
) -> squad_answers.Output:
    """Return the writer of prediction files.

    Args:
        weights: what says which ones answered.
        folder: where those are.
    """
    given = FLAGS["null_score_diff_threshold"]
    return squad_answers.Output(
        FLAGS.output_dir,
        weights,
        given.value if given.present else None,
        folder,
    )


def create_decoding(
    tokenizer: tokenization.FullTokenizer,
) -> squad_decoding.Settings:
    """Collect the flags that choose answers."""
    return from_flags(
        squad_decoding.Settings,
        FLAGS,
        do_lower_case=tokenizer.basic_tokenizer.do_lower_case,
    )


def decode(
    questions: squad_records.Questions,
    logits: squad_answers.Logits,
    tokenizer: tokenization.FullTokenizer,
) -> squad_decoding.Decoded:
    """Return the n-best lists the flags ask for."""
    return squad_answers.decode(
        questions,
        logits,
        tokenizer.inv_vocab,
        create_decoding(tokenizer),
        ignores_padding=not FLAGS.pad_to_max_length,
    )


def tuned_of(
    data: squad_data.SquadData, decoded: squad_decoding.Decoded
) -> squad_scores.Tuned | None:
    """Return the best threshold of SQuAD 2.0, where answers are known."""
    asked = FLAGS.tune_null_threshold
    if not decoded.null_odds or not (asked or data.has_answers()):
        return None
    return squad_answers.tune(data, decoded)


def score(
    data: squad_data.SquadData,
    answers: Mapping[str, str],
    null_odds: Mapping[str, float] | None,
) -> dict[str, float]:
    """Return the official scores of answers."""
    return squad_scores.score(
        data, answers, FLAGS.version_2_with_negative, null_odds
    )


def score_file() -> None:
    """Score --predictions_file, with the null odds beside it, if any."""
    path, is_version_2 = FLAGS.predictions_file, FLAGS.version_2_with_negative
    predictions = read_values(path, str, "answers")
    data = squad_data.read_squad(
        FLAGS.predict_file, False, is_version_2, FLAGS.strict
    )
    odds = lookup.beside(path, squad_answers.NULL_ODDS)
    odds = read_values(odds, float, "odds") if odds and is_version_2 else None
    for example in data.examples if odds else ():
        if example.qas_id in predictions and example.qas_id not in odds:
            raise UserError(
                f"{lookup.beside(path, squad_answers.NULL_ODDS)} lacks "
                f"question {example.qas_id}: it belongs to other predictions; "
                "put it aside to score without best_exact and best_f1"
            )
    results = score(data, predictions, odds)
    if FLAGS.output_dir:
        file_system.make_directory(FLAGS.output_dir)
        reporting.write_results(FLAGS.output_dir, results, step=0)
    for name, value in results.items():
        print(f"{name} = {value}")


def read_values(path: str, kind: type, what: str) -> dict:
    """Return a file of question ids and what belongs to each.

    Raises:
        UserError: it is none; names the question.
    """
    values = squad_data.read_json(path)
    if not isinstance(values, dict):
        raise UserError(
            f"{path}: wanted an object of question ids and {what}, found "
            f"{type(values).__name__}"
        )
    if not values:
        raise UserError(f"{path}: holds no question")
    kinds = (int, float) if kind is float else kind
    for key, value in values.items():
        if not isinstance(value, kinds):
            raise UserError(
                f"{path}: question {key} has {type(value).__name__}, wanted "
                f"{kind.__name__}; is this a file of {what}?"
            )
    return values


def answer_together() -> None:
    """Answer with --ensemble_dirs; score where that is asked for."""
    if not FLAGS.output_dir:
        raise UserError("--output_dir is required")
    folders = FLAGS.ensemble_dirs
    for folder in folders:
        if not tf.io.gfile.isdir(folder):
            raise UserError(f"--ensemble_dirs: {folder!r} is no directory")
        if folder.rstrip("/") == FLAGS.output_dir.rstrip("/"):
            raise UserError(
                f"--output_dir={folder} is one of --ensemble_dirs, whose own "
                "answers would be lost: name another"
            )
    start = source.read_source(FLAGS, described_by(folders))
    questions = create_data(start).questions(FLAGS.predict_file)
    decoded = squad_answers.ensemble(
        folders,
        questions,
        create_decoding(start.tokenizer),
        lambda logits: decode(questions, logits, start.tokenizer),
    )
    file_system.make_directory(FLAGS.output_dir)
    tuned = tuned_of(questions.data, decoded)
    notes = squad_answers.notes_of(folders)
    # A threshold is stored for weights that can be named, or not at all.
    weights = [note["weights"] for note in notes] if all(notes) else None
    answers = create_output(weights).write(
        decoded, tuned if FLAGS.tune_null_threshold else None
    )
    if FLAGS.do_eval:
        results = score(questions.data, answers, decoded.null_odds)
        if tuned:
            results["tuned_f1"] = tuned.f1
            results["tuned_thresh"] = tuned.threshold
        reporting.write_results(FLAGS.output_dir, results, step=0)


def described_by(folders: list[str]) -> str:
    """Return the weights whose vocabulary and casing an ensemble takes.

    Raises:
        UserError: nobody knows.
    """
    for folder in folders:
        if tf.io.gfile.exists(
            os.path.join(folder, lookup.WEIGHTS_NAME + ".index")
        ):
            return lookup.find_checkpoint(folder)
    if FLAGS.init_checkpoint:
        return lookup.find_checkpoint(FLAGS.init_checkpoint)
    raise UserError(
        "none of --ensemble_dirs holds a model, whose vocabulary and casing "
        "the answers need: name one of the models by --init_checkpoint"
    )


def validate_flags() -> None:
    """Check what can be checked before anything is read."""
    create_lengths(FLAGS.max_seq_length)
    for name in ("train_file", "predict_file"):
        for path in FLAGS[name].value:
            if not tf.io.gfile.exists(path):
                raise UserError(f"--{name}: no file {path!r}")
    if math.isnan(FLAGS.null_score_diff_threshold):
        raise UserError("--null_score_diff_threshold is no number")
    answers = (
        "do_eval",
        "do_predict",
        "eval_steps",
        "tune_null_threshold",
    )
    if FLAGS.do_train and not FLAGS.train_file:
        raise UserError("--do_train needs --train_file")
    for name in (*answers, "predictions_file", "ensemble_dirs"):
        if FLAGS[name].value and not FLAGS.predict_file:
            raise UserError(f"--{name} needs --predict_file")
    if FLAGS.tune_null_threshold and not FLAGS.version_2_with_negative:
        raise UserError(
            "--tune_null_threshold is for --version_2_with_negative"
        )
    if FLAGS.tune_null_threshold and FLAGS["null_score_diff_threshold"].present:
        raise UserError(
            "--tune_null_threshold finds what --null_score_diff_threshold "
            "says: give one of them"
        )
    for name, unused in {
        "predictions_file": (
            *("do_train", "do_export", "do_predict", "eval_steps"),
            *("tune_null_threshold", "ensemble_dirs"),
        ),
        "ensemble_dirs": ("do_train", "do_export", "eval_steps"),
    }.items():
        for other in unused:
            if FLAGS[name].value and FLAGS[other].value:
                raise UserError(f"--{name} runs no model: leave --{other} out")
    if FLAGS.predictions_file and FLAGS["null_score_diff_threshold"].present:
        raise UserError(
            "--predictions_file is scored as it is: leave "
            "--null_score_diff_threshold out"
        )


def main(_: list[str]) -> int:
    """Train, answer, score as the flags say; return the exit status."""
    validate_flags()
    if FLAGS.predictions_file:
        score_file()
    elif FLAGS.ensemble_dirs:
        answer_together()
    else:
        runner.validate_flags(FLAGS)
        return runner.run(__file__, FLAGS, SquadJob)
    return 0


if __name__ == "__main__":
    errors.run(main)
