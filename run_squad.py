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

import tensorflow as tf
from absl import flags, logging

import modeling
import tokenization
from base import errors, file_system
from base.errors import UserError
from checkpoints import weight_files
from finetuning import flags as finetuning_flags
from finetuning import job as finetuning_job
from finetuning import runner, source
from records import cache as record_cache
from records import in_memory
from serving import graph_tokenizer, saved_model
from squad import answers as squad_answers
from squad import data as squad_data
from squad import decoding as squad_decoding
from squad import ensemble as squad_ensemble
from squad import export as squad_export
from squad import model as squad_model
from squad import records as squad_records
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


class SquadJob(finetuning_job.Job):
    """A question, a paragraph, and where the answer stands in it."""

    head_pattern = "^cls/squad/"
    objective = squad_model.QUESTION_ANSWERING
    results = ("eval_results.txt", *squad_answers.FILES)

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
        self.reader = create_reader(start)
        self.records = squad_records.SquadRecords(
            self.reader,
            record_cache.RecordCache(
                self.records_dir(),
                squad_windows.schema(start.max_seq_length),
                start.config.vocab_size,
                FLAGS.pad_to_max_length,
            ),
        )
        # Read now: what is wrong shows before hours of training.
        if is_training:
            self.records.check_training(FLAGS.train_file)
        self.questions = self._read_questions()
        # The fingerprint of the weights that answered last, their answers.
        self.answered: tuple[list[str], squad_answers.Answered] | None = None

    @classmethod
    def deciding_metric(cls, flag_values: flags.FlagValues) -> str:
        """Return F1, of SQuAD 2.0 that at the best threshold."""
        return "tuned_f1" if flag_values.version_2_with_negative else "f1"

    def _read_questions(self) -> squad_records.Questions | None:
        jobs = ("do_eval", "do_predict", "eval_steps", "tune_null_threshold")
        if not any(FLAGS[name].value for name in jobs):
            return None
        questions = self.reader.questions(FLAGS.predict_file)
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
        return self.reader.fingerprint(FLAGS.train_file, is_training=True)

    def train_data(self) -> in_memory.ShortRecords:
        """Return the training records."""
        return self.records.training(FLAGS.train_file)

    def num_examples(self, data: in_memory.ShortRecords) -> int:
        """Return the windows of an epoch, or the questions."""
        if FLAGS.count_steps_by == "windows":
            return data.num_records
        questions = self.reader.read(FLAGS.train_file, is_training=True)
        return len(questions.examples)

    def evaluate(self, step: int) -> dict[str, float]:
        """Answer predict_file, score that as the official scripts do."""
        results = self._answer().scores(
            self.questions.data, FLAGS.version_2_with_negative
        )
        results["global_step"] = step
        reporting.write_results(FLAGS.output_dir, results, step)
        return results

    def predict(self) -> None:
        """Answer predict_file."""
        self._answer()

    def _answer(self) -> squad_answers.Answered:
        """Write the prediction files; once for the same weights on disk."""
        weights = self._weights()
        if weights and self.answered and self.answered[0] == weights:
            return self.answered[1]
        logging.info("***** Running predictions *****")
        options = create_answer_options(self.tokenizer)
        decoded = squad_decoding.decode(
            self.questions.data,
            self.questions.windows,
            *self._logits(weights),
            self.tokenizer.inv_vocab,
            options.decoding,
        )
        answered = squad_answers.answer(
            self.questions.data,
            decoded,
            options,
            weights,
            self._trained_in(),
        )
        self.answered = (weights, answered) if weights else None
        return answered

    def _weights(self) -> list[str] | None:
        """Return what says which weights the model has; None: not on disk."""
        if not self.restored_from:
            return None
        files = weight_files.files_of(self.restored_from)
        return [file_system.sha256(path) for path in files]

    def _trained_in(self) -> str | None:
        """Return the directory of the weights, None if not on disk."""
        return self.restored_from and self.restored_from.rpartition("/")[0]

    def _logits(self, weights: list[str] | None) -> squad_answers.Logits:
        def compute() -> squad_answers.Logits:
            data = self.records.prediction(self.questions)
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
        return squad_answers.cached_logits(
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
            threshold = squad_answers.null_threshold(
                create_answer_options(self.tokenizer),
                self._weights(),
                self._trained_in(),
            )
        return squad_export.QuestionAnswering(
            self.model,
            tokenizer,
            self.start.vocab_file,
            self.reader.lengths,
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


def create_reader(start: source.ModelSource) -> squad_records.QuestionReader:
    """Return the reader of SQuAD's files."""
    return squad_records.QuestionReader(
        from_flags(squad_records.ReadingOptions, FLAGS),
        create_lengths(start.max_seq_length),
        start.tokenizer,
        FLAGS.num_workers,
    )


def create_answer_options(
    tokenizer: tokenization.FullTokenizer,
) -> squad_answers.AnswerOptions:
    """Collect the flags that determine answers."""
    decoding = from_flags(
        squad_decoding.DecodingOptions,
        FLAGS,
        do_lower_case=tokenizer.basic_tokenizer.do_lower_case,
        ignore_padding=not FLAGS.pad_to_max_length,
    )
    threshold = FLAGS["null_score_diff_threshold"]
    return squad_answers.AnswerOptions(
        FLAGS.output_dir,
        decoding,
        threshold.value if threshold.present else None,
        FLAGS.tune_null_threshold,
    )


def score_file() -> None:
    """Score --predictions_file, with the null odds beside it, if any."""
    is_version_2 = FLAGS.version_2_with_negative
    data = squad_data.read_squad(
        FLAGS.predict_file, False, is_version_2, FLAGS.strict
    )
    results = squad_answers.score_file(
        FLAGS.predictions_file, data, is_version_2
    )
    if FLAGS.output_dir:
        file_system.make_directory(FLAGS.output_dir)
        reporting.write_results(FLAGS.output_dir, results, step=0)
    for name, value in results.items():
        print(f"{name} = {value}")


def answer_together() -> None:
    """Answer with --ensemble_dirs; score with --do_eval."""
    folders = FLAGS.ensemble_dirs
    squad_ensemble.check_folders(folders, FLAGS.output_dir)
    prefix = squad_ensemble.find_model(folders, FLAGS.init_checkpoint)
    start = source.read_source(FLAGS, prefix)
    questions = create_reader(start).questions(FLAGS.predict_file)
    answered = squad_ensemble.answer(
        folders,
        questions,
        start.tokenizer.inv_vocab,
        create_answer_options(start.tokenizer),
    )
    if FLAGS.do_eval:
        results = answered.scores(questions.data, FLAGS.version_2_with_negative)
        reporting.write_results(FLAGS.output_dir, results, step=0)


def validate_flags() -> None:
    """Check what can be checked before anything is read."""
    create_lengths(FLAGS.max_seq_length)
    for name in ("train_file", "predict_file"):
        for path in FLAGS[name].value:
            if not tf.io.gfile.exists(path):
                raise UserError(f"--{name}: no file {path!r}")
    if math.isnan(FLAGS.null_score_diff_threshold):
        raise UserError("--null_score_diff_threshold is not a number")
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
    logging.set_verbosity(logging.INFO)
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
