"""Fine-tuning a tagger: a tag in IOB2 for each word of a sentence."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system, logs, machine, progress
from base.errors import UserError

import numpy as np
from absl import logging

from checkpoints import weight_files
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor, id2label_of
from records import in_memory
from tasks import predict, signs
from tasks.classifier.scores import log_softmax
from tasks.encoder.layers import layer_choice
from tasks.job import DataSet, FineTuningJob, LoadedModel, Scored, check_finite
from tasks.ner import data as ner_data
from tasks.ner import model as ner_model
from tasks.ner import scores as ner_scores
from tasks.ner import windows as ner_windows
from tasks.ner.feature_based import SentenceActivations
from tasks.ner.task import FEATURE_TAGGING, TAGGING
from tasks.rows import Record, counts_of, log_example
from tasks.settings import RunSettings
from tasks.task import Model, Outputs
from training import memory, prediction, reporting
from training.task_model import TaskModel

# With words in columns, and in JSON lines.
_PREDICTIONS = ("predictions.txt", "predictions.jsonl")
_TEST_RESULTS = "test_results.txt"

_SHOWN = 5  # records in the log


class NerJob(FineTuningJob):
    """A tag for each word of the files to train on, to score and to tag."""

    task_name = TAGGING
    objective = ner_model.WORD_CLASSIFICATION
    result_files = (*FineTuningJob.result_files, *_PREDICTIONS, _TEST_RESULTS)
    kept = (
        *FineTuningJob.kept,
        "document_context",
        "feature_layers",
        "lstm_units",
    )

    def __init__(
        self,
        settings: RunSettings,
        source: Checkpoint,
        files: Sequence[str | None],
        columns: ner_data.Columns,
    ):
        super().__init__(settings, source)
        self.columns, self.tagger = columns, source.trained_for
        self._layers: Sequence[int | str] = ()
        self._sentences: dict[str, SentenceActivations] = {}
        if layers := self.tagger.feature_layers:
            self._layers = layer_choice(
                layers, self.config.num_hidden_layers
            ).indices
            if file_system.is_remote(settings.records_dir):
                raise UserError(
                    "the files of activations are mapped into memory, which "
                    f"is not possible in {settings.records_dir}: name a local "
                    "--records_dir"
                )
        train, dev, test = map(
            DataSet,
            ("train", "eval", "predict"),
            ("train_file", "dev_file", "test_file"),
            files,
        )
        if settings.do_train:
            self.labels = ner_data.iob2_labels(self.examples(train))
        else:
            self.labels = fine_tuned_labels(source, settings.output_dir)
        schema = ner_windows.schema(source.max_seq_length)
        self.open_data(schema, train, [dev], [test])

    def deciding_metric(self) -> str:
        """Return the key of the F1 over all entities."""
        if not self.dev[0].source:
            raise UserError("--dev_file is required to find the best run with")
        return "f1"

    # --- Data ----------------------------------------------------------------

    def read(self, data: DataSet) -> ner_data.File:
        """Return a file of sentences; those of a test file may lack tags.

        Tags that cannot be scored, such as those of a type that the model
        lacks, do not keep the words of a test file from being tagged.
        """
        is_test = data.name == "predict"
        file = ner_data.read_file(
            data.source, self.columns, needs_tags=not is_test
        )
        types = None
        if data.name != "train":
            types = sorted({label[2:] for label in self.labels} - {""})
        if is_test and all(s.tags is None for s in file.sentences):
            logging.info("test_file has no tags: predictions are not scored")
            return file
        try:
            return ner_data.with_iob2_tags(file, types)
        except UserError as error:
            if not is_test:
                raise
            logging.warning("test_file is tagged, but not scored: %s", error)
            without = [s._replace(tags=None) for s in file.sentences]
            return file._replace(sentences=without)

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        return {
            "data": file_system.sha256(data.source),
            **self.text_fingerprint(),
            "columns": self.columns._asdict(),
            "labels": self.labels,
            "document_context": self.tagger.document_context,
        }

    def data_fingerprint(self) -> dict[str, Any]:
        """Return everything the training data depend on."""
        found = super().data_fingerprint()
        if self._layers:
            found["features"] = self.tagger.feature_layers
            found["lstm_units"] = self.tagger.lstm_units
        return found

    def convert(
        self, data: DataSet, examples: ner_data.File
    ) -> Iterator[Record]:
        """Yield the records of windows over the sentences."""
        length, sentences = self.source.max_seq_length, examples.sentences
        context = self.tagger.document_context
        if context and len({s.document for s in sentences}) == 1:
            logging.warning(
                "%s is one document: no line %s (JSONL: no `document`) "
                "separates its sentences, so a window may hold sentences that "
                "do not belong together",
                examples.path,
                ner_data.DOCUMENT_START,
            )
        converter = ner_windows.Converter(
            self.tokenizer, self.labels, length, context
        )
        names = [*self.labels, "-"]  # the last one stands for IGNORED, -1
        for number, (row, label_ids) in enumerate(converter(sentences)):
            if number < _SHOWN:
                shown = label_ids[: len(row.input_ids)]
                log_example(
                    number,
                    ("tokens", self.tokens_of(row.input_ids)),
                    ("labels", " ".join(names[label] for label in shown)),
                )
            yield row, {"label_ids": label_ids}
        kinds = counts_of(
            entity.type
            for sentence in sentences
            for entity in ner_data.entities(sentence.tags or ())
        )
        words = f"{examples.num_words:,} words{kinds}"
        parts = [f"{len(sentences):,} sentences of {words}"]
        if converter.num_split:
            parts.append(
                f"{converter.num_split:,} sentences longer than {length} "
                "tokens, which are read in parts that overlap"
            )
        else:
            parts.append(f"none longer than {length} tokens")
        if converter.num_unknown:
            parts.append(
                f"{converter.num_unknown:,} words have only signs that are "
                "not read, and are [UNK]"
            )
        logs.say("%s: %s", data.title, "; ".join(parts))

    def num_examples(self, data: in_memory.ShortRecords) -> int:
        """Return the number of windows, or of sentences of activations."""
        if not self._layers:
            return super().num_examples(data)
        return len(self.examples(self.train).sentences)

    def begin(
        self, loaded: LoadedModel, data: in_memory.ShortRecords
    ) -> in_memory.ShortRecords:
        """Return the training records, or the activations of their words."""
        if not self._layers:
            return data
        # The training loop restores the encoder, but the activations are
        # computed before it begins.
        weight_files.restore_weights(
            loaded.model.bert.variables, self.source.prefix
        )
        return self._activations(loaded, self.train)

    def row_cost(self) -> memory.RowCost:
        """Return the sizes that the memory of a window depends on.

        With --feature_based the encoder is not trained and needs none.
        """
        if not self._layers:
            return super().row_cost()
        features = len(self._layers) * self.config.hidden_size
        # Two layers, see FineTuningJob.row_cost.
        numbers = features + 2 * 20 * self.tagger.lstm_units
        return memory.RowCost(encoded=0, head_numbers=numbers)

    # --- Frozen features -----------------------------------------------------

    def _activations(
        self, loaded: LoadedModel, data: DataSet
    ) -> SentenceActivations:
        """Return the sentences of a file with the encoder's activations.

        They are computed once and kept in a .npy file beside the records.
        """
        if data.name in self._sentences:
            return self._sentences[data.name]
        records, labels = self.records(data), self.label_ids(data)
        layers = "_".join(map(str, self._layers))
        path = os.path.join(
            self.settings.records_dir, f"{data.name}_{layers}.npy"
        )
        encoder = {
            "weights": _encoder_hash(loaded.model),
            "config": self.config.to_dict(),
            "dtype": self.settings.dtype,
            "layers": self._layers,
        }

        def write(path: str) -> None:
            logging.info("Computing activations")
            run = prediction.on_devices(
                loaded.run.strategy,
                lambda batch: {"logits": loaded.model.activations(batch)},
                self.settings.jit_compile,
            )
            size = self.settings.predict_batch_size
            shape = (len(labels), len(self._layers), self.config.hidden_size)
            with file_system.atomic_file(path) as file:
                found = np.lib.format.open_memmap(
                    file.name, "w+", np.float32, shape
                )
                num_bytes = found.offset + found.nbytes
                # A full disk is found now.
                machine.reserve(file.fileno(), num_bytes)
                fill_words(found, run, records, size, "activations")
                found.flush()
            logging.info(
                "Wrote the activations of %d words to %s, %.1f MB",
                len(labels),
                path,
                num_bytes / 1e6,
            )

        self.cache.make(
            path, {**self.fingerprint(data), "encoder": encoder}, write
        )
        self._sentences[data.name] = SentenceActivations(
            np.load(path, mmap_mode="r"),
            labels,
            [len(x.words) for x in self.examples(data).sentences],
            records.pad_to_max_length,
        )
        return self._sentences[data.name]

    # --- Scores and predictions ----------------------------------------------

    def label_ids(self, data: DataSet) -> np.ndarray:
        """Return the class of every word of a file, [words]."""
        found = self.records(data).features["label_ids"]  # [n, S]
        return found[found >= 0]

    def outputs(
        self, loaded: LoadedModel, data: DataSet, batch_size: int
    ) -> Outputs:
        """Return the logits of every word of a file, [words, K]."""
        records = self.records(data)
        if self._layers:
            records = self._activations(loaded, data)
        shape = [len(self.label_ids(data)), len(self.labels)]
        logits = np.zeros(shape, np.float32)
        fill_words(logits, loaded.run, records, batch_size, data.title)
        check_finite({"logits": logits}, data)
        return {"logits": logits}

    def score(self, data: DataSet, outputs: Outputs) -> Scored:
        """Score the development file; look for a tagger of nothing."""
        logits = outputs["logits"]
        scores = self._scores(data, logits)
        num_entities = sum(
            len(ner_data.entities(sentence.tags))
            for sentence in self.examples(data).sentences
        )
        sign = signs.same_class(
            logits.argmax(-1),
            self.label_ids(data),
            self.labels,
            "words are tagged",
        ) or signs.no_better(
            num_entities, "f1", scores["f1"], 0.0, "the tag O for all"
        )
        return Scored(scores, sign, logits)

    def write_predictions(self, data: DataSet, outputs: Outputs) -> str:
        """Write predictions and, if the file has tags, their scores."""
        logits, file = outputs["logits"], self.examples(data)
        name = _PREDICTIONS[0 if file.separator else 1]
        lines = ner_scores.prediction_lines(file, self.tags(file, logits))
        self.write_lines(name, lines)
        if file.sentences[0].tags is not None:
            results = self._scores(data, logits)
            lines = [f"{score} = {results[score]}" for score in sorted(results)]
            self.write_lines(_TEST_RESULTS, lines)
            title = f"Test results of {data.title}"
            reporting.log_results(self.path(_TEST_RESULTS), results, title)
        return name

    def tags(self, file: ner_data.File, logits: np.ndarray) -> list[list[str]]:
        """Return the likeliest tags of each sentence, as IOB2."""
        tags = [self.labels[number] for number in logits.argmax(-1)]
        sentences = ner_scores.by_sentence(file, tags)
        return [ner_data.normalized_tags(tags) for tags in sentences]

    def _scores(self, data: DataSet, logits: np.ndarray) -> dict[str, float]:
        """Return the scores of a file's tags, and the mean loss of words."""
        file, right = self.examples(data), self.label_ids(data)
        gold = [sentence.tags for sentence in file.sentences]
        scores = ner_scores.entity_scores(gold, self.tags(file, logits))
        loss = -log_softmax(logits)[np.arange(len(right)), right].mean()
        return scores | {"loss": float(loss)}

    # --- The fine-tuned model ------------------------------------------------

    def trained_for(self) -> TrainedFor:
        """Return also the labels, and whether the encoder is frozen."""
        found = (
            super().trained_for()._replace(id2label=id2label_of(self.labels))
        )
        return found._replace(task=FEATURE_TAGGING) if self._layers else found


def fine_tuned_labels(source: Checkpoint, output_dir: str) -> tuple[str, ...]:
    """Return the tags that a fine-tuned model's configuration names.

    Raises:
        UserError: it names no labels, or some that are not tags.
    """
    labels = source.trained_for.labels or ()
    others = [x for x in labels if x != "O" and not ner_data.is_entity_tag(x)]
    if not labels or others:
        raise UserError(
            f"{source.prefix or output_dir} is not a tagger of entities: its "
            f"configuration names {', '.join(labels) or 'no labels'} "
            "(id2label), wanted O, B-type, I-type; --do_train first, or give a "
            "tagger of other tags to batch_predict.py or export_saved_model.py"
        )
    return labels


def _encoder_hash(model: TaskModel) -> str:
    """Return a hash of the weights that activations depend on."""
    total = hashlib.sha256()
    for variable in model.bert.variables:
        # Activations are of single pieces: the pooler has no part in them.
        if not variable.path.startswith("bert/pooler/"):
            total.update(np.ascontiguousarray(variable))
    return total.hexdigest()


# --- Outputs of records to outputs of words ----------------------------------


def fill_words(
    words: np.ndarray,
    run: Model,
    data: in_memory.ShortRecords,
    batch_size: int,
    what: str,
) -> None:
    """Fill an array [words, ...] with a model's outputs for the words of data.

    Every word is classified in one record, and the records keep the order of
    the words. Batches come in another order.
    """
    is_word = data.features["label_ids"] >= 0  # [records, S]
    number = np.cumsum(is_word).reshape(is_word.shape) - 1  # of each word
    with progress.Bar(data.num_records, "records", what) as bar:
        for rows, features in predict.batches(run, data, batch_size):
            found = run(features)["logits"]  # [B, S, ...]
            for row, values in zip(rows, found, strict=False):
                at = np.flatnonzero(is_word[row])
                words[number[row, at]] = values[at]
            bar.update(len(rows))
