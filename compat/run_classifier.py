"""The original's run_classifier.py: processors, examples, features, model."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

from base import file_system, text_files

import numpy as np
import tensorflow as tf

import modeling
import tokenization
from compat.modeling import dropout, output_layer
from records import tfrecord
from tasks import rows
from tasks.classifier import data, task_files

_SHOWN = 5  # examples in the log

# --- Examples ----------------------------------------------------------------


@dataclasses.dataclass
class InputExample:
    """A text or a pair, and its label unless it is a test example."""

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | None = None


class PaddingInputExample:
    """Fills up the last batch; its features are zeros."""


@dataclasses.dataclass
class InputFeatures:
    """The model's input for one example: lists of max_seq_length ids."""

    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]
    label_id: int
    is_real_example: bool = True


class DataProcessor:
    """Reads the examples of a task; subclasses define all four methods.

    `run_classifier.py --processor=module:Class` trains on one.
    """

    def get_train_examples(self, data_dir: str) -> list[InputExample]:
        """Return the examples to train on."""
        raise NotImplementedError

    def get_dev_examples(self, data_dir: str) -> list[InputExample]:
        """Return the examples to score."""
        raise NotImplementedError

    def get_test_examples(self, data_dir: str) -> list[InputExample]:
        """Return the examples to predict."""
        raise NotImplementedError

    def get_labels(self) -> list[str]:
        """Return the labels; the place of a label is its class id."""
        raise NotImplementedError

    @classmethod
    def _read_tsv(
        cls, input_file: str, quotechar: str | None = None
    ) -> list[list[str]]:
        """Return the cells of a file with tabs, quoted only by `quotechar`."""
        quoting = csv.QUOTE_MINIMAL if quotechar else csv.QUOTE_NONE
        text = text_files.read_text(input_file)
        # newline="": a text may hold characters at which Python ends lines.
        lines = io.StringIO(text, newline="")
        return list(
            csv.reader(
                lines, delimiter="\t", quotechar=quotechar, quoting=quoting
            )
        )


class _GlueProcessor(DataProcessor):
    """A task of tasks/classifier/task_files.py."""

    task_name: str
    language = "zh"  # of XNLI; an attribute in the original, too

    def get_train_examples(self, data_dir: str) -> list[InputExample]:
        """Return the examples to train on."""
        return self._examples(data_dir, "train", self._files().train)

    def get_dev_examples(self, data_dir: str) -> list[InputExample]:
        """Return the examples of the first development set."""
        title, file = next(iter(self._files().dev.items()))
        return self._examples(data_dir, title, file)

    def get_test_examples(self, data_dir: str) -> list[InputExample]:
        """Return the examples of the first test set; all have one label."""
        file = next(iter(self._files().test.values()))
        return self._examples(data_dir, "test", file)

    def get_labels(self) -> list[str]:
        """Return the labels; the place of a label is its class id."""
        return list(self._files().labels)

    def _files(self) -> task_files.TaskFiles:
        return task_files.find(self.task_name, self.language)

    def _examples(
        self, data_dir: str, title: str, file: task_files.DataFile
    ) -> list[InputExample]:
        files = self._files()
        return [
            InputExample(
                f"{title}-{x.guid}",
                x.text_a,
                x.text_b,
                x.label or files.labels[0],
            )
            for x in data.read_examples(file.in_folder(data_dir), files)
        ]


class XnliProcessor(_GlueProcessor):
    """XNLI in `language`."""

    task_name = "xnli"


class MnliProcessor(_GlueProcessor):
    """MultiNLI; dev and test are the matched sets."""

    task_name = "mnli"


class MrpcProcessor(_GlueProcessor):
    """The Microsoft Research Paraphrase Corpus."""

    task_name = "mrpc"


class ColaProcessor(_GlueProcessor):
    """The Corpus of Linguistic Acceptability."""

    task_name = "cola"


# --- Features ----------------------------------------------------------------


def convert_single_example(
    ex_index: int,
    example: InputExample | PaddingInputExample,
    label_list: Sequence[str],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> InputFeatures:
    """Return the features of an example; the first ones are logged."""
    if isinstance(example, PaddingInputExample):
        zeros = [0] * max_seq_length
        return InputFeatures(zeros, list(zeros), list(zeros), 0, False)
    row = rows.row_of_texts(
        example.text_a, example.text_b, max_seq_length, tokenizer
    )
    columns = rows.pad([row], max_seq_length)
    features = InputFeatures(
        *(columns[name][0].tolist() for name in columns),
        list(label_list).index(example.label),
    )
    if ex_index < _SHOWN:
        ids = row.input_ids.tolist()
        rows.log_example(
            ex_index,
            ("guid", example.guid),
            ("tokens", " ".join(tokenizer.convert_ids_to_tokens(ids))),
            ("label", f"{example.label} (id = {features.label_id})"),
        )
    return features


def convert_examples_to_features(
    examples: Sequence[InputExample | PaddingInputExample],
    label_list: Sequence[str],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> list[InputFeatures]:
    """Return the features of all examples."""
    return [
        convert_single_example(
            number, example, label_list, max_seq_length, tokenizer
        )
        for number, example in enumerate(examples)
    ]


def file_based_convert_examples_to_features(
    examples: Sequence[InputExample | PaddingInputExample],
    label_list: Sequence[str],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
    output_file: str,
) -> None:
    """Write the features of all examples as TFRecords."""
    features = convert_examples_to_features(
        examples, label_list, max_seq_length, tokenizer
    )
    names = [field.name for field in dataclasses.fields(InputFeatures)]
    columns = {
        name.replace("label_id", "label_ids"): np.array(
            [getattr(x, name) for x in features], np.int64
        )
        for name in names
    }
    with file_system.atomic_file(output_file) as file:
        with tfrecord.RecordWriter(file) as writer:
            writer.write_examples(columns)


def _truncate_seq_pair(
    tokens_a: list[Any], tokens_b: list[Any], max_length: int
) -> None:
    """Cut two lists in place, from the longer one, to max_length together."""
    kept_a, kept_b = tokenization.truncated_lengths(
        len(tokens_a), len(tokens_b), max_length
    )
    del tokens_a[kept_a:], tokens_b[kept_b:]


# --- Model -------------------------------------------------------------------


def create_model(
    bert_config: modeling.BertConfig,
    is_training: bool,
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    segment_ids: tf.Tensor,
    labels: tf.Tensor,
    num_labels: int,
    use_one_hot_embeddings: bool,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return loss, loss of each row, logits and probabilities [B, K].

    Variables are those of modeling.BertModel, output_weights and output_bias.
    """
    del use_one_hot_embeddings  # see modeling.BertModel
    model = modeling.BertModel(
        bert_config, is_training, input_ids, input_mask, segment_ids
    )
    x = dropout(model.get_pooled_output(), 0.1 if is_training else None)
    logits = output_layer(x, num_labels)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.cast(labels, tf.int32), logits
    )
    return tf.reduce_mean(each), each, logits, tf.nn.softmax(logits)
