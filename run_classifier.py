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

import json
import math
from collections.abc import Mapping

import tensorflow as tf
from absl import flags, logging

import checkpoints
import classifier_data
import classifier_records
import classifier_scores
import devices
import errors
import heads
import input_pipeline
import modeling
import prediction
import runner_flags
import running
import saved_model
import serving
import sweeps
import tasks
import tokenization
import training
from errors import UserError

FLAGS = flags.FLAGS

# What to do
flags.DEFINE_bool("do_train", False, "Fine-tune.")
flags.DEFINE_bool("do_eval", False, "Score the development set.")
flags.DEFINE_bool("do_predict", False, "Predict the test set.")
flags.DEFINE_bool(
    "do_export",
    False,
    "Write a SavedModel that tokenizes by itself; see export_saved_model.py.",
)
flags.DEFINE_string(
    "export_dir", None, "Where; default: saved_model/1 in output_dir."
)

# Task and data
flags.DEFINE_string(
    "task_name",
    None,
    f"One of {', '.join(classifier_data.TASK_NAMES)}; tsv: your own files.",
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
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Longer sentences and pairs are cut to so many tokens.",
    lower_bound=5,
)
flags.DEFINE_bool(
    "pad_to_max_length",
    False,
    "Pad every batch to max_seq_length, as the original, instead of batching "
    "sentences of like length.",
)

# Model
flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Weights to start from: a prefix, a directory that holds one, or a "
    "Hugging Face directory. Read only when output_dir holds no run yet.",
)
flags.DEFINE_string(
    "bert_config_file",
    None,
    "JSON file that says how large the model is; default: the one beside the "
    "checkpoint.",
)
flags.DEFINE_string(
    "vocab_file", None, "The vocabulary; default: the one beside it."
)
flags.DEFINE_bool(
    "do_lower_case",
    None,
    "Lower-case the text; default: as the checkpoint was trained, where it "
    "says so, else true.",
)

# Training
flags.DEFINE_string(
    "output_dir", None, "Where records, checkpoints, curves and results go."
)
flags.DEFINE_float(
    "num_train_epochs", 3.0, "Passes over the training data.", lower_bound=0.0
)
flags.DEFINE_float(
    "warmup_proportion",
    0.1,
    "Share of the steps over which the learning rate rises from 0.",
    lower_bound=0.0,
    upper_bound=1.0,
)
runner_flags.define_training_flags()
runner_flags.define_tpu_flags()
sweeps.define_flags()
flags.DEFINE_string(
    "records_dir", None, "Where the records go; default: output_dir."
)

# Evaluation and prediction
flags.DEFINE_integer("eval_batch_size", 8, "For scoring.", lower_bound=1)
flags.DEFINE_integer("predict_batch_size", 8, "For predicting.", lower_bound=1)
flags.DEFINE_integer(
    "eval_steps",
    0,
    "While training, score the development set every so many steps and keep "
    "the best weights; 0: keep the last.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "End after so many scores in a row that were no better than the best; 0: "
    "train to the end.",
    lower_bound=0,
)

_SCORES = "scores.json"  # of every evaluation while training
# A CPU takes some 40 s to compile all lengths and gains a fifth of a step.
_STEPS_THAT_PAY = 2000
# What a fine-tuned model's configuration says beyond its encoder's.
_ADDED = ("id2label", "sentence_pairs")
_KINDS = {"do_train": "training", "do_predict": "test"}


# --- One run --------------------------------------------------------------


class Run:
    """Model, predictor and the files they leave in output_dir."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: heads.BertForSequenceClassification,
        config: modeling.BertConfig,
        data: classifier_records.Data,
    ):
        self.strategy, self.model = strategy, model
        self.config, self.data, self.task = config, data, data.task
        self.dev = (
            {
                name: data.split("eval" if i == 0 else f"eval_{name}", split)
                for i, (name, split) in enumerate(data.task.dev.items())
            }
            if FLAGS.do_eval or FLAGS.eval_steps
            else {}
        )

        def forward(batch: input_pipeline.Batch) -> dict[str, tf.Tensor]:
            return {"logits": model(batch)}

        self.predictor = prediction.Predictor(
            strategy, forward, FLAGS.jit_compile
        )

    def train(self, init_checkpoint: str | None) -> bool:
        """Fine-tune; return whether the end was reached."""
        train_data = self.data.split("train", self.task.train)
        settings, recipe = create_settings(train_data.num_records)
        settings = settings._replace(jit_compile=self._compiles(settings))
        recipe = recipe._replace(init_checkpoint=init_checkpoint)
        claim_output_dir(self.config, self.data)
        if self._is_enough(self.scores_so_far()):
            logging.info("%s ended early: nothing to train", FLAGS.output_dir)
            return True
        running.log_beginning(train_data.num_records, settings)
        compiles = settings.jit_compile or devices.is_tpu(self.strategy)
        batches = train_data.training(
            FLAGS.train_batch_size, FLAGS.random_seed, is_fine=not compiles
        )
        done = running.fit(
            self.strategy,
            self.model,
            tasks.REGRESSION
            if self.data.is_regression
            else tasks.CLASSIFICATION,
            settings,
            recipe,
            training.Batches(
                batches.make,
                batches.length,
                batches.is_static or not compiles,
            ),
            lambda length: heads.training_flops(self.config, 1, length),
            self.keep_best,
        )
        is_enough = self._is_enough(self.scores_so_far())
        if done < settings.last_step and not is_enough:
            return False
        if not FLAGS.eval_steps:
            self.export()
        return True

    def _compiles(self, settings: training.Settings) -> bool:
        """Whether XLA pays: on a CPU each length costs seconds to compile."""
        one_length = FLAGS.pad_to_max_length
        is_cpu = devices.what_compiles(self.strategy, True) == "pieces"
        if settings.jit_compile and is_cpu and not one_length:
            pays = settings.last_step >= _STEPS_THAT_PAY
            if not pays:
                logging.info(
                    "XLA is left out: it pays from %d steps on where every "
                    "length is compiled apart",
                    _STEPS_THAT_PAY,
                )
            return pays
        return settings.jit_compile

    def _path(self, name: str) -> str:
        return checkpoints.join(FLAGS.output_dir, name)

    def export(self) -> None:
        """Write the weights as they are, with all a predictor needs."""
        labels = self.task.labels
        if labels is not None:
            self.config.id2label = {str(i): n for i, n in enumerate(labels)}
        columns = self.task.train.columns
        self.config.sentence_pairs = columns.text_b is not None
        running.export(
            FLAGS.output_dir,
            self.model,
            self.config,
            self.data.vocab_file,
            self.data.tokenizer.basic_tokenizer.do_lower_case,
        )

    def keep_best(self, step: int) -> bool:
        """Score; keep the weights if better; say whether that is enough."""
        results = self.evaluate(step)
        name = deciding_metric(self.task)
        scores = {k: v for k, v in self.scores_so_far().items() if k < step}
        scores[step] = results[name]
        best = max(scores, key=scores.get)  # the first of equals
        logging.info(
            "Best %s so far: %.4f at step %d", name, scores[best], best
        )
        if best == step:
            self.export()
        if devices.is_chief():
            checkpoints.write_text(self._path(_SCORES), json.dumps(scores))
        return self._is_enough(scores)

    def scores_so_far(self) -> dict[int, float]:
        """Return step -> score of the evaluations while training."""
        found = classifier_records.read_json(self._path(_SCORES)) or {}
        return {int(step): score for step, score in found.items()}

    def _is_enough(self, scores: Mapping[int, float]) -> bool:
        if not scores or not FLAGS.early_stopping_patience:
            return False
        best = max(scores, key=scores.get)
        worse = sum(step > best for step in scores)
        if worse >= FLAGS.early_stopping_patience:
            logging.info("No better score in %d evaluations: enough", worse)
            return True
        return False

    def evaluate(self, step: int) -> dict[str, float]:
        """Score every development set; write eval_results.txt."""
        results: dict[str, float] = {}
        for name, data in self.dev.items():
            logging.info("***** Running evaluation *****")
            logits = self.predictor(data, FLAGS.eval_batch_size, name)["logits"]
            scores = classifier_scores.scores(
                logits,
                data.features["label_ids"],
                self.task.metrics,
                self.data.is_regression,
            )
            prefix = f"{name}_" if len(self.dev) > 1 else ""
            results |= {prefix + key: value for key, value in scores.items()}
        first = next(iter(self.dev))
        prefix = f"{first}_" if len(self.dev) > 1 else ""
        # The original's keys, of the first set.
        results["eval_loss"] = results["loss"] = results.pop(prefix + "loss")
        if not self.data.is_regression:
            results["eval_accuracy"] = results[prefix + "accuracy"]
        results["global_step"] = step
        running.write_results(FLAGS.output_dir, results, step)
        return results

    def export_saved_model(self) -> None:
        """Write the SavedModel of the weights as they are."""
        tokenizer = serving.Tokenizer(
            self.data.vocab_file,
            self.data.tokenizer.basic_tokenizer.do_lower_case,
        )
        labels = self.task.labels
        split = self.task.train or next(iter(self.task.test.values()))
        export = saved_model.Classifier(
            self.model,
            tokenizer,
            self.data.vocab_file,
            FLAGS.max_seq_length,
            labels=labels and list(labels),
            is_pair=split.columns.text_b is not None,
        )
        if devices.is_chief():
            saved_model.write(export, export_dir())

    def predict(self) -> None:
        """Write test_results.tsv and the submission of every test set."""
        for number, (name, split) in enumerate(self.task.test.items()):
            part = "predict" if number == 0 else f"predict_{name}"
            data = self.data.split(part, split)
            logging.info("***** Running prediction*****")
            logits = self.predictor(data, FLAGS.predict_batch_size, name)
            self._write_predictions(part, name, split, logits["logits"])

    def _write_predictions(
        self, part: str, name: str, split: classifier_data.Split, logits
    ) -> None:
        guids = [example.guid for example in self.data.read(part, split)]
        rows, submission = classifier_scores.prediction_lines(
            logits, guids, self.task.labels
        )
        results = part.replace("predict", "test_results")
        logging.info("***** Predict results *****")
        for file, lines in ((results, rows), (name, submission)):
            path = self._path(f"{file}.tsv")
            if devices.is_chief():
                checkpoints.write_text(path, "\n".join(lines) + "\n")
            logging.info("  %s", path)


# --- main and its steps -----------------------------------------------------


def validate_flags() -> None:
    """Check what can be checked before anything is read."""
    jobs = ("do_train", "do_eval", "do_predict", "do_export")
    if not any(FLAGS[name].value for name in jobs):
        raise UserError(f"give --{', --'.join(jobs)} or several")
    if FLAGS.do_export:
        saved_model.check_new(export_dir())
    for name in ("task_name", "data_dir", "output_dir"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")
    if FLAGS.early_stopping_patience and not FLAGS.eval_steps:
        raise UserError("--early_stopping_patience needs --eval_steps")
    if not tf.io.gfile.isdir(FLAGS.data_dir):
        raise UserError(f"--data_dir={FLAGS.data_dir} is no directory")
    own = FLAGS.task_name.lower() == "tsv"
    for name in ("text_a_column", "text_b_column", "label_column"):
        if FLAGS[name].present and not own:
            raise UserError(f"--{name} is for --task_name=tsv")
    if FLAGS.regression and not own:
        raise UserError("--regression is for --task_name=tsv")
    if FLAGS.train_batch_size % FLAGS.gradient_accumulation_steps:
        raise UserError(
            f"--train_batch_size={FLAGS.train_batch_size} does not divide by "
            f"--gradient_accumulation_steps={FLAGS.gradient_accumulation_steps}"
        )


def export_dir() -> str:
    """Return where the SavedModel goes."""
    if FLAGS.export_dir:
        return FLAGS.export_dir.rstrip("/")
    return checkpoints.join(FLAGS.output_dir, "saved_model/1")


def read_task() -> classifier_data.Task:
    """Return the task; check that it has the files that are asked for."""
    if FLAGS.task_name.lower() == "tsv":
        task = classifier_data.own_task(
            FLAGS.data_dir,
            FLAGS.text_a_column,
            FLAGS.text_b_column,
            FLAGS.label_column,
            FLAGS.regression,
        )
    else:
        task = classifier_data.task_of(FLAGS.task_name, FLAGS.xnli_language)
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


def deciding_metric(task: classifier_data.Task) -> str:
    """Return the key in eval_results.txt that tells the best weights."""
    prefix = f"{next(iter(task.dev))}_" if len(task.dev) > 1 else ""
    return prefix + task.metrics[0]


def find_weights() -> str | None:
    """Return the fitted weights in output_dir, else those to start from."""
    for path in (FLAGS.output_dir, FLAGS.init_checkpoint):
        if not path:
            continue
        if path == FLAGS.init_checkpoint:
            return checkpoints.find_checkpoint(path)
        try:
            return checkpoints.find_checkpoint(path)
        except UserError:  # nothing there yet
            continue
    return None


def read_config(prefix: str) -> modeling.BertConfig:
    """Return the configuration, checked against the flags."""
    config = checkpoints.read_config(prefix, FLAGS.bert_config_file)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={FLAGS.max_seq_length} is more than the "
            f"model's max_position_embeddings={config.max_position_embeddings}"
        )
    return config


def create_settings(
    num_examples: int,
) -> tuple[training.Settings, running.Recipe]:
    """Return how to train: steps from epochs, as the original counts them."""
    steps = int(num_examples / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if steps < 1:
        raise UserError(
            f"{num_examples} training examples in batches of "
            f"{FLAGS.train_batch_size} for {FLAGS.num_train_epochs} epochs "
            "make no step; use a smaller --train_batch_size or more epochs"
        )
    warmup = math.floor(steps * FLAGS.warmup_proportion)
    return (
        running.from_flags(training.Settings, FLAGS, num_train_steps=steps),
        running.from_flags(running.Recipe, FLAGS, num_warmup_steps=warmup),
    )


def claim_output_dir(
    config: modeling.BertConfig, data: classifier_records.Data
) -> None:
    """Refuse an output_dir that belongs to another model or other data."""
    fixed = {
        "model": {k: v for k, v in config.to_dict().items() if k not in _ADDED},
        "data": data.fingerprint(data.task.train),
    }
    for name in (
        "train_batch_size",
        "random_seed",
        "optimizer",
        "pad_to_max_length",
    ):
        fixed[name] = FLAGS[name].value
    adjustable = {
        name: FLAGS[name].value
        for name in (
            "learning_rate",
            "num_train_epochs",
            "warmup_proportion",
            "weight_decay_rate",
            "bias_correction",
            "continuous_schedule",
            "gradient_accumulation_steps",
            "dtype",
            "jit_compile",
        )
    }
    checkpoints.claim_output_dir(
        FLAGS.output_dir, fixed, adjustable, devices.is_chief()
    )


def restore_fitted(model: heads.BertForSequenceClassification) -> int:
    """Set the weights to score or predict with; return their step.

    Raises:
        UserError: there are none, or none with a fitted head.
    """
    prefix = find_weights()
    if not prefix:
        raise UserError(
            f"{FLAGS.output_dir} holds no fitted model and there is no "
            "--init_checkpoint: --do_train first"
        )
    reader = checkpoints.open_reader(prefix)
    if not reader.has_tensor("output_weights"):
        raise UserError(
            f"{prefix} has no classifier (output_weights): scores of an "
            "untrained head are noise; --do_train first, or name the "
            "output_dir of a fine-tuned model as --init_checkpoint"
        )
    checkpoints.restore_weights(
        model.variables, prefix, required=r"^(bert/|output_)"
    )
    return run_step(prefix)


def run_step(prefix: str) -> int:
    """Return the step that weights are from, 0 where nothing says."""
    scores = classifier_records.read_json(
        checkpoints.join(FLAGS.output_dir, _SCORES)
    )
    if scores:
        return int(max(scores, key=scores.get))
    latest = tf.train.latest_checkpoint(FLAGS.output_dir)
    return checkpoints.global_step(latest or prefix)


def sweep(todo: list[sweeps.SweepRun]) -> None:
    """Make every run of a sweep, keep the best one's model."""
    task = read_task()
    if not FLAGS.do_train or not task.dev:
        raise UserError(
            "restarts and sweeps need --do_train and a development set: the "
            "best run is the best there"
        )
    checkpoints.make_directory(FLAGS.output_dir)

    def command(run: sweeps.SweepRun, folder: str) -> list[str]:
        return sweeps.command_of(
            __file__,
            FLAGS,
            run,
            folder,
            do_eval=True,
            records_dir=FLAGS.records_dir or FLAGS.output_dir,
        )

    best = sweeps.run_all(
        FLAGS.output_dir, todo, command, deciding_metric(task)
    )
    sweeps.copy_best(best, FLAGS.output_dir)


def main(_: list[str]) -> int:
    """Train, score and predict as the flags say; return the exit status."""
    logging.set_verbosity(logging.INFO)
    validate_flags()
    if not sweeps.is_asked_for(FLAGS):
        return run_once(FLAGS.do_train, FLAGS.do_eval)
    sweep(sweeps.runs(FLAGS))
    if FLAGS.do_predict or FLAGS.do_export:
        return run_once(do_train=False, do_eval=False)
    return 0


def run_once(do_train: bool, do_eval: bool) -> int:
    """Train, score and predict in output_dir; return the exit status."""
    devices.avoid_broken_amx(FLAGS.dtype)
    strategy = devices.create_strategy(
        FLAGS.use_tpu,
        FLAGS.tpu_name,
        FLAGS.tpu_zone,
        FLAGS.gcp_project,
        FLAGS.master,
        FLAGS.num_tpu_cores,
    )
    task = read_task()
    prefix = (
        checkpoints.find_checkpoint(FLAGS.init_checkpoint)
        if FLAGS.init_checkpoint
        else find_weights() or ""
    )
    config = read_config(prefix)
    vocab_file = checkpoints.find_vocab(prefix, FLAGS.vocab_file)
    do_lower_case = checkpoints.resolve_lower_case(FLAGS.do_lower_case, prefix)
    tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case)
    tokenization.validate_special_tokens(
        tokenizer.vocab, ("[CLS]", "[SEP]", "[UNK]"), vocab_file
    )
    running.check_vocab(len(tokenizer.vocab), vocab_file, config)
    checkpoints.make_directory(FLAGS.output_dir)
    tf.keras.utils.set_random_seed(FLAGS.random_seed)
    with strategy.scope():
        model = heads.BertForSequenceClassification(
            config, task.labels and len(task.labels), FLAGS.dtype
        )
    data = classifier_records.Data(
        task,
        FLAGS.data_dir,
        FLAGS.records_dir or FLAGS.output_dir,
        tokenizer,
        vocab_file,
        config.vocab_size,
        FLAGS.max_seq_length,
        FLAGS.pad_to_max_length,
    )
    run = Run(strategy, model, config, data)
    if do_train and not run.train(FLAGS.init_checkpoint):
        return 1
    if do_eval or FLAGS.do_predict or FLAGS.do_export:
        step = restore_fitted(model)
        if do_eval:
            run.evaluate(step)
        if FLAGS.do_predict:
            run.predict()
        if FLAGS.do_export:
            run.export_saved_model()
    return 0


if __name__ == "__main__":
    errors.run(main)
