r"""Find named entities with BERT: fine-tune, or train on frozen features.

    python run_ner.py --train_file=eng.train --dev_file=eng.testa \
        --test_file=eng.testb --init_checkpoint=cased_L-12_H-768_A-12 \
        --output_dir=conll --document_context --max_seq_length=512 \
        --do_train --do_eval --do_predict

is the paper's recipe (section 5.3) and ends with `eval_results.txt` (precision,
recall and F1 by conlleval's rules, of all entities and of each type),
`predictions.txt` (the test file with a column of tags appended) and the
fine-tuned weights in `bert_model.ckpt`. The same command again goes on where
it stopped.

Files have a word per line with its tag in a column (IOB1 or IOB2) and a blank
line between sentences, or are .jsonl with `tokens` and `tags`. With
--feature_based the encoder stays as it is and a BiLSTM learns on the layers
that --feature_layers names: the rows of the paper's table 7.
"""

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags, logging

import modeling
from base import errors
from base.errors import UserError
from checkpoints import weight_files
from features import layers as features_layers
from finetuning import fitted, runner, source
from finetuning import flags as finetuning_flags
from finetuning import job as finetuning_job
from ner import data as ner_data
from ner import export as ner_export
from ner import feature_based
from ner import model as ner_model
from ner import records as ner_records
from ner import scores as ner_scores
from records import in_memory
from serving import graph_tokenizer, saved_model
from training import prediction, reporting

FLAGS = flags.FLAGS

finetuning_flags.define_finetuning_flags(
    max_seq_length=128,
    what_is_cut="Longer sentences are split into overlapping windows of so "
    "many tokens.",
    train_on="train_file",
    score_on="dev_file",
    predict_on="test_file",
)
flags.DEFINE_integer("eval_batch_size", 8, "For scoring.", lower_bound=1)

# Data
flags.DEFINE_string("train_file", None, "Sentences to train on.")
flags.DEFINE_string("dev_file", None, "Sentences to score.")
flags.DEFINE_string("test_file", None, "Sentences to tag, with tags or not.")
flags.DEFINE_integer("token_column", 0, "Column of the word, from 0.")
flags.DEFINE_integer("label_column", -1, "Column of the tag; -1: the last.")
flags.DEFINE_bool(
    "document_context",
    False,
    "Fill each window up with the sentences around, as far as the document "
    "(-DOCSTART-, or `document` in JSONL) has some.",
)

# Frozen features
flags.DEFINE_bool(
    "feature_based",
    False,
    "Train a BiLSTM on the encoder's frozen layers; a --learning_rate of some "
    "1e-3 suits it.",
)
flags.DEFINE_enum(
    "feature_layers",
    "concat_last_four",
    list(features_layers.table_7(num_layers=12)),
    "feature_based: which layers it sees.",
)
flags.DEFINE_integer(
    "lstm_units",
    768,
    "feature_based: width of each direction of its two layers.",
    lower_bound=1,
)

_FILES = {
    "do_train": "train_file",
    "do_eval": "dev_file",
    "eval_steps": "dev_file",
    "do_predict": "test_file",
}


class NerJob(finetuning_job.Job):
    """Sentences of words, and a tag for each word."""

    head_pattern = "^(output_|bilstm/|layer_weights)"
    objective = ner_model.WORD_CLASSIFICATION

    def __init__(
        self,
        flag_values: flags.FlagValues,
        start: source.ModelSource,
        is_training: bool,
    ):
        super().__init__(flag_values, start, is_training)
        self.columns = ner_data.Columns(FLAGS.token_column, FLAGS.label_column)
        if is_training:
            file = ner_data.read_file(FLAGS.train_file, self.columns)
            self.train_file = ner_data.with_iob2_tags(file)
            types = ner_data.entity_types(self.train_file)
            self.labels = ner_data.iob2_labels(types)
            self.features = FLAGS.feature_based and FLAGS.feature_layers
            self.units = FLAGS.lstm_units
            self.document_context = FLAGS.document_context
            if self.features:
                self._choice()  # too few layers show now
        else:
            self.labels = labels_of(start)
            self.features = fitted_features(start.config)
            self.units = getattr(start.config, "lstm_units", 0)
            self.document_context = fitted_context(start.config)
        self.fitted_task = (
            "feature_tagging" if self.features else "token_classification"
        )
        # Read now: what is wrong in them should not be found after training.
        types = sorted({label[2:] for label in self.labels} - {""})
        if FLAGS.do_eval or FLAGS.eval_steps:
            file = ner_data.read_file(FLAGS.dev_file, self.columns)
            self.dev_file = ner_data.with_iob2_tags(file, types)
        if FLAGS.do_predict:
            self.test_file, self.is_test_tagged = self._read_test_file(types)
        self.data = ner_records.NerRecords(
            self.records_dir(),
            start.tokenizer,
            start.config.vocab_size,
            start.max_seq_length,
            FLAGS.pad_to_max_length,
            self.columns,
            self.document_context,
        )
        self.splits: dict[str, in_memory.ShortRecords] = {}

    def _read_test_file(
        self, types: Sequence[str]
    ) -> tuple[ner_data.File, bool]:
        """Return the test file, and whether its tags can be scored."""
        file = ner_data.read_file(
            FLAGS.test_file, self.columns, needs_tags=False
        )
        if all(sentence.tags is None for sentence in file.sentences):
            logging.info("test_file has no tags: nothing to score")
            return file, False
        try:
            return ner_data.with_iob2_tags(file, types), True
        except UserError as error:
            logging.warning("test_file is tagged, but not scored: %s", error)
            without = [s._replace(tags=None) for s in file.sentences]
            return file._replace(sentences=without), False

    @classmethod
    def deciding_metric(cls, flag_values: flags.FlagValues) -> str:
        """Return the F1 of all entities."""
        if not flag_values.dev_file:
            raise UserError("--dev_file is required to find the best run with")
        return "f1"

    def create_model(self) -> modeling.TaskModel:
        """Return the encoder with a vector per class, or with a BiLSTM."""
        count = len(self.labels)
        if not self.features:
            return ner_model.BertForTokenClassification(
                self.config, count, FLAGS.dtype
            )
        return feature_based.BertForFeatureTagging(
            self.config, count, self._choice(), self.units, FLAGS.dtype
        )

    def _choice(self) -> features_layers.LayerChoice:
        choices = features_layers.table_7(self.config.num_hidden_layers)
        if self.features not in choices:
            raise UserError(
                f"--feature_layers={self.features}: the model has "
                f"{self.config.num_hidden_layers} layers, which allow "
                f"{', '.join(choices)}"
            )
        return choices[self.features]

    def forward(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the logits of every position, [B, S, K]."""
        return {"words": self.model(batch)}

    # Data

    def data_fingerprint(self) -> dict[str, Any]:
        """Return what the training records are made of."""
        fingerprint = self.data.fingerprint(self.train_file, self.labels)
        if self.features:
            fingerprint |= {"features": self.features, "lstm_units": self.units}
        return fingerprint

    def train_data(self) -> in_memory.ShortRecords:
        """Return the training records, or their words' activations."""
        if self.features:
            weight_files.restore_weights(
                self.model.bert.variables, self.start.prefix
            )
        return self._split("train", self.train_file)

    def _split(self, name: str, file: ner_data.File) -> in_memory.ShortRecords:
        if name not in self.splits:
            data = self.data.split(name, file, self.labels)
            if self.features:
                data = self._activations.sentences(
                    name,
                    file,
                    data,
                    self.data.fingerprint(file, self.labels),
                    FLAGS.predict_batch_size,
                )
            self.splits[name] = data
        return self.splits[name]

    @functools.cached_property
    def _activations(self) -> feature_based.ActivationCache:
        """Activations of the encoder as it is, which is as it stays."""
        total = hashlib.sha256()
        for variable in self.model.bert.variables:
            if not variable.path.startswith("bert/pooler/"):
                total.update(np.ascontiguousarray(variable))

        def forward(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {"words": self.model.activations(batch)}

        return feature_based.ActivationCache(
            self.data.cache,
            prediction.Predictor(
                self.predictor.strategy, forward, FLAGS.jit_compile
            ),
            {
                "weights": total.hexdigest(),
                "config": fitted.encoder_config(self.config),
                "dtype": FLAGS.dtype,
                "layers": self._choice().indices,
            },
        )

    def flops_per_example(self, length: int) -> float:
        """Return the operations of training on one sentence."""
        if self.features:
            return self.model.flops(length)
        return super().flops_per_example(length)

    # Results

    def evaluate(self, step: int) -> dict[str, float]:
        """Score dev_file; write eval_results.txt."""
        logging.info("***** Running evaluation *****")
        logits = self._logits("eval", self.dev_file)
        results = self._scores(self.dev_file, logits)
        results["global_step"] = step
        reporting.write_results(FLAGS.output_dir, results, step)
        return results

    def predict(self) -> None:
        """Write predictions and, where the tags are known, their scores."""
        file = self.test_file
        logging.info("***** Running prediction*****")
        logits = self._logits("predict", file)
        logging.info("***** Predict results *****")
        kind = "txt" if file.separator else "jsonl"
        lines = ner_scores.prediction_lines(file, self._tags(file, logits))
        self.write_lines(f"predictions.{kind}", lines)
        if self.is_test_tagged:
            results = self._scores(file, logits)
            lines = [f"{name} = {results[name]}" for name in sorted(results)]
            for line in lines:
                logging.info("  %s", line)
            self.write_lines("test_results.txt", lines)

    def _logits(self, name: str, file: ner_data.File) -> np.ndarray:
        """Return the logits of every word of a file, [words, K]."""
        size = {"eval": FLAGS.eval_batch_size}
        return ner_records.word_outputs(
            self.predictor,
            self._split(name, file),
            size.get(name, FLAGS.predict_batch_size),
        )

    def _tags(self, file: ner_data.File, logits: np.ndarray) -> list[list[str]]:
        tags = [self.labels[number] for number in logits.argmax(-1)]
        sentences = ner_scores.by_sentence(file, tags)
        return [ner_data.normalized_tags(tags) for tags in sentences]

    def _scores(
        self, file: ner_data.File, logits: np.ndarray
    ) -> dict[str, float]:
        gold = [sentence.tags for sentence in file.sentences]
        scores = ner_scores.entity_scores(gold, self._tags(file, logits))
        loss = ner_scores.mean_loss(logits, file, self.labels)
        return scores | {"loss": loss}

    # What is left behind

    def add_to_config(self, config: modeling.BertConfig) -> None:
        """Name the labels, and what the model is made of."""
        names = enumerate(self.labels)
        config.id2label = {str(number): name for number, name in names}
        config.document_context = self.document_context
        config.max_seq_length = self.start.max_seq_length
        if self.features:
            config.feature_layers = self.features
            config.lstm_units = self.units

    def saved_model(
        self, tokenizer: graph_tokenizer.Tokenizer
    ) -> saved_model.Export:
        """Return words or a text in, tags out."""
        return ner_export.Tagger(
            self.model,
            tokenizer,
            self.start.vocab_file,
            self.start.max_seq_length,
            labels=list(self.labels),
        )


def labels_of(start: source.ModelSource) -> tuple[str, ...]:
    """Return the tags a fitted model's configuration names.

    Raises:
        UserError: none, or none of IOB.
    """
    names = getattr(start.config, "id2label", None) or {}
    labels = tuple(names[number] for number in sorted(names, key=int))
    if not labels or not all(map(ner_data.is_iob_tag, labels)):
        raise UserError(
            f"{start.prefix or FLAGS.output_dir} is no fitted tagger: its "
            f"configuration names {', '.join(labels) or 'no labels'} "
            "(id2label), wanted O, B-type, I-type; --do_train first"
        )
    return labels


def fitted_features(config: modeling.BertConfig) -> str | None:
    """Return which layers a fitted model reads; None: it was fine-tuned.

    Raises:
        UserError: a flag says otherwise.
    """
    fitted = getattr(config, "feature_layers", None)
    for name, value in (
        ("feature_based", fitted is not None),
        ("feature_layers", fitted),
    ):
        if FLAGS[name].present and FLAGS[name].value != value:
            raise UserError(
                f"the fitted model's feature_layers are {fitted}, "
                f"--{name}={FLAGS[name].value} asks for another: leave the "
                "flag out"
            )
    return fitted


def fitted_context(config: modeling.BertConfig) -> bool:
    """Return whether a fitted model sees the sentences around.

    Raises:
        UserError: the flag says otherwise.
    """
    asked = FLAGS.document_context
    fitted = getattr(config, "document_context", asked)
    if FLAGS["document_context"].present and asked != fitted:
        raise UserError(
            f"the model was fitted with document_context={fitted}, "
            f"--document_context={asked} asks for another: leave the flag out"
        )
    return fitted


def validate_flags() -> None:
    """Check what can be checked before anything is read."""
    runner.validate_flags(FLAGS)
    for job, name in _FILES.items():
        if FLAGS[job].value and not FLAGS[name].value:
            raise UserError(f"--{job} needs --{name}")
    if FLAGS.token_column == FLAGS.label_column:
        raise UserError(
            f"--token_column and --label_column are both {FLAGS.token_column}: "
            "word and tag stand in columns of their own"
        )
    for name in dict.fromkeys(_FILES.values()):
        path = FLAGS[name].value
        if path and not tf.io.gfile.exists(path):
            raise UserError(f"--{name}={path}: no such file")
    if FLAGS.feature_based:
        if FLAGS.do_train and not FLAGS.init_checkpoint:
            raise UserError(
                "--feature_based needs --init_checkpoint: features of an "
                "untrained encoder are noise"
            )
        given = ("learning_rate", "sweep_learning_rates")
        if FLAGS.do_train and not any(FLAGS[name].present for name in given):
            logging.warning(
                "--learning_rate=%g is what fine-tuning takes; a new BiLSTM "
                "(--feature_based) learns little from it: try 1e-3",
                FLAGS.learning_rate,
            )
        return
    for name in ("feature_layers", "lstm_units"):
        if FLAGS[name].present and FLAGS.do_train:
            raise UserError(f"--{name} is for --feature_based")


def main(_: list[str]) -> int:
    """Train, score and predict as the flags say; return the exit status."""
    logging.set_verbosity(logging.INFO)
    validate_flags()
    return runner.run(__file__, FLAGS, NerJob)


if __name__ == "__main__":
    errors.run(main)
