"""Fine-tuning a tagger: a tag in IOB2 for each word of a sentence."""

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import weight_files
from checkpoints.trained_for import TrainedFor, id2label_of
from records import in_memory
from tasks import signs
from tasks.classifier.scores import log_softmax
from tasks.encoder import layers as features_layers
from tasks.job import Job, LoadedModel, Scored
from tasks.ner import data as ner_data
from tasks.ner import feature_based
from tasks.ner import mistakes as ner_mistakes
from tasks.ner import model as ner_model
from tasks.ner import records as ner_records
from tasks.ner import scores as ner_scores
from tasks.settings import RunSettings
from tasks.source import ModelSource
from training import memory, prediction, reporting

# A BiLSTM on frozen features learns little from a rate below this one; 1e-3 is
# usual.
_LOWEST_FEATURE_BASED_RATE = 3e-4

# With words in columns, and in JSON lines.
_PREDICTIONS = ("predictions.txt", "predictions.jsonl")
_TEST_RESULTS = "test_results.txt"


class DataFiles(NamedTuple):
    """Paths of the data, and where words and tags are in them."""

    train_file: str | None
    dev_file: str | None
    test_file: str | None
    columns: ner_data.Columns


class TaggerOptions(NamedTuple):
    """The options of a tagger; a fine-tuned model's configuration holds them.

    Attributes:
        document_context: whether windows are filled with the sentences around.
        feature_layers: a name of tasks.encoder.layers.table_7, for a BiLSTM on
            these frozen layers; None: the encoder is fine-tuned.
        lstm_units: width of each direction of the BiLSTM.
    """

    document_context: bool
    feature_layers: str | None = None
    lstm_units: int = 0


def options_in(
    trained_for: TrainedFor, document_context: bool
) -> TaggerOptions:
    """Return the options a fine-tuned model's configuration holds.

    Args:
        trained_for: of the model.
        document_context: for a configuration without this option, as that of
            a model trained elsewhere.
    """
    if trained_for.document_context is not None:
        document_context = trained_for.document_context
    return TaggerOptions(
        document_context,
        trained_for.feature_layers,
        trained_for.lstm_units or 0,
    )


class NerJob(Job):
    """A tag for each word.

    Args:
        settings: flags of the command.
        source: configuration and tokenizer of the model.
        is_training: whether the model is trained first.
        files: the data.
        options: of the tagger.
        eval_batch_size: windows in a batch of the development file.
    """

    head_pattern = "^(output_|bilstm/|layer_weights)"
    task_name = "token_classification"
    objective = ner_model.WORD_CLASSIFICATION
    result_files = (*Job.result_files, *_PREDICTIONS, _TEST_RESULTS)

    def __init__(
        self,
        settings: RunSettings,
        source: ModelSource,
        is_training: bool,
        files: DataFiles,
        options: TaggerOptions,
        eval_batch_size: int,
    ):
        super().__init__(settings, source)
        self.files, self.tagger = files, options
        self.eval_batch_size = eval_batch_size
        self.fine_tuned_task = "token_classification"
        self._layers: features_layers.LayerChoice | None = None
        if options.feature_layers:
            self.fine_tuned_task = "feature_tagging"
            self._layers = features_layers.layer_choice(
                options.feature_layers, self.config
            )
            self.lowest_usual_rate = _LOWEST_FEATURE_BASED_RATE
        # Read the files now, so that an error in them is reported before hours
        # of training, not after them.
        if is_training:
            file = ner_data.read_file(files.train_file, files.columns)
            self.train_file = ner_data.with_iob2_tags(file)
            types = ner_data.entity_types(self.train_file)
            self.labels = ner_data.iob2_labels(types)
        else:
            self.labels = fine_tuned_labels(source, settings.output_dir)
        types = sorted({label[2:] for label in self.labels} - {""})
        if settings.do_eval or settings.training.eval_steps:
            file = ner_data.read_file(files.dev_file, files.columns)
            self.dev_file = ner_data.with_iob2_tags(file, types)
        if settings.do_predict:
            self.test_file, self.is_test_tagged = read_test_file(files, types)
        self.records = ner_records.NerRecords(
            settings.records_dir,
            source.tokenizer,
            source.config.vocab_size,
            source.max_seq_length,
            settings.pad_to_max_length,
            files.columns,
            options.document_context,
        )
        self._splits: dict[str, in_memory.ShortRecords] = {}
        self._activations: feature_based.ActivationCache | None = None

    def deciding_metric(self) -> str:
        """Return the key of the F1 over all entities."""
        if not self.files.dev_file:
            raise UserError("--dev_file is required to find the best run with")
        return "f1"

    def options(self) -> dict[str, Any]:
        """Return the tags."""
        return {"labels": self.labels}

    def forward(
        self, model: modeling.TaskModel, batch: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Return the logits of every position, [B, S, K]."""
        return {"words": model(batch)}

    # --- Data ----------------------------------------------------------------

    def data_fingerprint(self) -> dict[str, Any]:
        """Return everything the training records depend on."""
        fingerprint = self.records.fingerprint(self.train_file, self.labels)
        if self._layers:
            fingerprint |= {
                "features": self.tagger.feature_layers,
                "lstm_units": self.tagger.lstm_units,
            }
        return fingerprint

    def train_data(self, loaded: LoadedModel) -> in_memory.ShortRecords:
        """Return the training records, or the activations of their words."""
        if self._layers:
            # The training loop restores the encoder, but the activations are
            # computed before it begins.
            weight_files.restore_weights(
                loaded.model.bert.variables, self.source.prefix
            )
        return self._split(loaded, "train", self.train_file)

    def row(self) -> memory.Rows:
        """Return the sizes that the memory of a window depends on.

        With --feature_based the encoder is not trained and needs none.
        """
        if not self._layers:
            return super().row()
        features = len(self._layers.indices) * self.config.hidden_size
        # Two layers, see Job.row.
        numbers = features + 2 * 20 * self.tagger.lstm_units
        return memory.Rows(encoded=0, head_numbers=numbers)

    def _split(
        self, loaded: LoadedModel, name: str, file: ner_data.File
    ) -> in_memory.ShortRecords:
        """Return the input of the model for a file: pieces or activations.

        Args:
            loaded: its encoder computes the activations.
            name: of the record file, without .tf_record.
            file: the sentences.
        """
        if name not in self._splits:
            data = self.records.split(name, file, self.labels)
            if self._layers:
                data = self._activation_cache(loaded).sentences(
                    name,
                    file,
                    data,
                    self.records.fingerprint(file, self.labels),
                    self.settings.predict_batch_size,
                )
            self._splits[name] = data
        return self._splits[name]

    def _activation_cache(
        self, loaded: LoadedModel
    ) -> feature_based.ActivationCache:
        """Return the cached activations of the frozen encoder.

        The weights are hashed once: they do not change, and all files of a
        job are read by the same encoder.
        """
        if self._activations is None:
            settings = self.settings.training
            self._activations = feature_based.ActivationCache(
                self.records.cache,
                prediction.Predictor(
                    loaded.predictor.strategy,
                    functools.partial(_piece_activations, loaded.model),
                    settings.jit_compile,
                ),
                {
                    "weights": _encoder_hash(loaded.model),
                    "config": self.config.to_dict(),
                    "dtype": settings.dtype,
                    "layers": self._layers.indices,
                },
            )
        return self._activations

    # --- Scores and predictions ----------------------------------------------

    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score the development file; look for the same tag everywhere."""
        data = self._split(loaded, "eval", self.dev_file)
        logits = ner_records.word_outputs(
            loaded.predictor, data, self.eval_batch_size, "dev"
        )
        prediction.check_finite(logits, "dev_file")
        results = self._scores(self.dev_file, logits)
        label_ids = data.features["label_ids"]  # [n, S]
        sign = signs.same_class(
            logits.argmax(-1),
            label_ids[label_ids >= 0],
            self.labels,
            "words are tagged",
        )
        return Scored(results, [sign] if sign else [], logits)

    def write_mistakes(self, scored: Scored) -> None:
        """Write errors.tsv of the development file."""
        self.write_errors(
            ner_mistakes.wrong_entities(
                self.dev_file,
                self._tags(self.dev_file, scored.predictions),
                np.exp(log_softmax(scored.predictions).max(-1)),
                self.settings.num_errors,
            )
        )

    def predict(self, loaded: LoadedModel) -> None:
        """Write predictions and, if the file has tags, their scores."""
        file = self.test_file
        data = self._split(loaded, "predict", file)
        logits = ner_records.word_outputs(
            loaded.predictor, data, self.settings.predict_batch_size, "test"
        )
        prediction.check_finite(logits, "test_file")
        name = _PREDICTIONS[0 if file.separator else 1]
        lines = ner_scores.prediction_lines(file, self._tags(file, logits))
        self.write_lines(name, lines)
        if self.is_test_tagged:
            results = self._scores(file, logits)
            table = ["Test results", *reporting.results_table(results)]
            logging.info("%s", "\n".join(table))
            lines = [f"{name} = {results[name]}" for name in sorted(results)]
            self.write_lines(_TEST_RESULTS, lines)

    def _tags(self, file: ner_data.File, logits: np.ndarray) -> list[list[str]]:
        """Return the likeliest tags of each sentence, as IOB2."""
        tags = [self.labels[number] for number in logits.argmax(-1)]
        sentences = ner_scores.by_sentence(file, tags)
        return [ner_data.normalized_tags(tags) for tags in sentences]

    def _scores(
        self, file: ner_data.File, logits: np.ndarray
    ) -> dict[str, float]:
        """Return the scores of a file's tags, and the mean loss."""
        gold = [sentence.tags for sentence in file.sentences]
        scores = ner_scores.entity_scores(gold, self._tags(file, logits))
        loss = ner_scores.mean_loss(logits, file, self.labels)
        return scores | {"loss": loss}

    # --- The fine-tuned model ------------------------------------------------

    def trained_for(self) -> TrainedFor:
        """Return the labels, the length, and the options of the tagger."""
        found = (
            super()
            .trained_for()
            ._replace(
                id2label=id2label_of(self.labels),
                document_context=self.tagger.document_context,
            )
        )
        if self._layers:
            found = found._replace(
                feature_layers=self.tagger.feature_layers,
                lstm_units=self.tagger.lstm_units,
            )
        return found


# --- Layers, labels and files of a job ---------------------------------------


def fine_tuned_labels(source: ModelSource, output_dir: str) -> tuple[str, ...]:
    """Return the tags that a fine-tuned model's configuration names.

    Raises:
        UserError: it names no labels, or some that are not tags.
    """
    labels = source.trained_for.labels or ()
    if not labels or not all(map(ner_data.is_iob_tag, labels)):
        raise UserError(
            f"{source.prefix or output_dir} is not a fine-tuned tagger: its "
            f"configuration names {', '.join(labels) or 'no labels'} "
            "(id2label), wanted O, B-type, I-type; --do_train first"
        )
    return labels


def read_test_file(
    files: DataFiles, types: Sequence[str]
) -> tuple[ner_data.File, bool]:
    """Return the test file, and whether its tags can be scored.

    Tags that cannot be scored, such as those of a type that the model lacks,
    do not keep the words from being tagged.
    """
    file = ner_data.read_file(files.test_file, files.columns, needs_tags=False)
    if all(sentence.tags is None for sentence in file.sentences):
        logging.info("test_file has no tags: predictions are not scored")
        return file, False
    try:
        return ner_data.with_iob2_tags(file, types), True
    except UserError as error:
        logging.warning("test_file is tagged, but not scored: %s", error)
        without = [s._replace(tags=None) for s in file.sentences]
        return file._replace(sentences=without), False


def _piece_activations(
    model: feature_based.BertForFeatureTagging, batch: dict[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Return the layers of every piece, [B, S, C, H], for word_outputs."""
    return {"words": model.activations(batch)}


def _encoder_hash(model: modeling.TaskModel) -> str:
    """Return a hash of the weights that activations depend on."""
    total = hashlib.sha256()
    for variable in model.bert.variables:
        # They are those of single pieces: the pooler has no part in them.
        if not variable.path.startswith("bert/pooler/"):
            total.update(np.ascontiguousarray(variable))
    return total.hexdigest()
