"""What a task is: inputs to rows of ids, the model's outputs to predictions.

A task (tasks/*/task.py; registry.py lists them) parses inputs, turns them into
rows (`encode`) and the model's outputs for these rows into a dictionary per
input (`decode`). predict.py runs the model in between. A task also creates its
model: `create_model`.

Workers and programs without TensorFlow import these modules: the methods that
need TensorFlow import it themselves.
"""

import abc
import functools
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from base import tables, text_files
from base.errors import UserError, counted

import numpy as np

from checkpoints.model import Checkpoint
from checkpoints.trained_for import LongTexts
from records import tfrecord
from tasks import rows
from tasks.rows import Row, Unit

if TYPE_CHECKING:
    from training.task_model import TaskModel

NOT_FINITE = (
    "the model's outputs are not finite numbers: the checkpoint is damaged"
)

# How to mend an object that lacks a text.
TEXT_COLUMNS = " (--text_columns)"

# The outputs of a unit of rows: name -> array.
Outputs = dict[str, np.ndarray]

# The features of a batch -> its outputs. Its attribute `few_shapes`, if it has
# one, says whether it compiles each shape of a batch separately.
Model = Callable[[Mapping[str, np.ndarray]], Outputs]

# What is predicted for an input, as JSON.
Prediction = dict[str, Any]


class NoOptions(NamedTuple):
    """The options of a task that has none of its own."""


class TaskSettings(NamedTuple):
    """The model and the options that predictions depend on; picklable.

    Attributes:
        checkpoint: the model. What its `trained_for` says is used: length,
            labels, pooling and the like.
        task: a key of registry.TASKS.
        options: what that task alone needs, see Task.options_type.
        text_columns: names of the texts in JSON; empty: the task's.
        id_column: name of the id in JSON; None: `id` where there is one.
        output_format: of predictions: jsonl, or csv, which has the inputs, too.
        teacher: what predictions call the model, for students to learn from
            them; None: they are not for students.
        explain: whether predictions have the words that decided, which
            extras/attributions.py finds.
        dtype: type of a checkpoint's matrix products; a SavedModel has its own.
    """

    checkpoint: Checkpoint
    task: str
    options: Any
    text_columns: tuple[str, ...] = ()
    id_column: str | None = None
    output_format: str = "jsonl"
    teacher: str | None = None
    explain: bool = False
    dtype: str = "float32"

    def fingerprint(self) -> dict[str, Any]:
        """Return all that predictions depend on, but for the model's files."""
        checkpoint = self.checkpoint
        return {
            **self._asdict(),
            **checkpoint.tokenizer_settings.to_dict(),
            "checkpoint": checkpoint.trained_for.to_dict(),
            "options": self.options._asdict(),
        }


class Place(NamedTuple):
    """Where an input stands: its file, and its line or record from 1."""

    path: str
    number: int
    kind: str = "line"

    def __str__(self) -> str:
        return f"{self.path}:{self.number}"


class Input(NamedTuple):
    """An input that can be predicted.

    Attributes:
        id: the input's own id, else file:number.
        place: where it stands.
        texts: what the model reads, by name; or the features of a record.
        others: columns that are written beside the prediction, under their
            names there: all of a table, all but texts and id of JSON.
    """

    id: str | int
    place: Place
    texts: dict[str, Any]
    others: dict[str, Any] | None = None


class Encoded(NamedTuple):
    """The rows of inputs.

    Attributes:
        inputs: whose rows they are.
        units: what the model runs on; one or more per input, in order.
        left_out: for each input, the pieces of its texts that no row has.
        state: what `decode` needs besides.
    """

    inputs: Sequence[Input]
    units: list[Unit]
    left_out: list[int]
    state: Any = None


def number(value: float) -> float:
    """Return a float32 with the 7 digits that it has."""
    return float(f"{value:.7g}")


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax over the last dimension, of the type of the logits."""
    # Without the largest logit exp() could overflow; the shares are the same.
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def imported(place: str) -> Any:
    """Return a class below tasks/ by its place, "swag.task.MultipleChoice"."""
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(f"tasks.{module}"), name)


# --- Base class --------------------------------------------------------------


class Task(abc.ABC):
    """Base class of tasks.

    Args:
        settings: the model and its options.

    Attributes:
        name: a key of registry.TASKS.
        model: the class of its model below tasks/, whose `for_task` creates
            one; imported when it is needed, since it has TensorFlow.
        graph: the class that has strings in and answers out; see `model`.
        options_type: a named tuple of the options that this task alone has.
        described: fields of settings, options and TrainedFor that an exported
            model's export.json has, beside the settings of its tokenizer.
        head: path of a variable that only models with its head have; None: it
            needs the encoder alone.
        trained_as: `TrainedFor.task` of its models, the one that fine-tuning
            writes first; empty: any.
        text_names: names of the texts in JSON, in the order of the columns
            of a line of text.
        is_grouped: whether a unit is several rows, such as choices.
        why_no_records: why records of ids cannot be predicted; None: they can.
        takes_long_texts: whether it reads texts as Checkpoint.long_texts says.
        totals: fields of a prediction whose sum over all inputs is kept.
        predicted: the fields of every prediction.
        prompt: what is put before each text.
    """

    name: str
    model: str
    graph: str = "graph.TaskGraph"
    options_type: type = NoOptions
    described: tuple[str, ...] = ("task", "max_seq_length")
    head: str | None = None
    trained_as: tuple[str | None, ...] = ()
    text_names: tuple[str, ...] = ("text",)
    is_grouped = False
    why_no_records: str | None = None
    takes_long_texts = False
    totals: tuple[str, ...] = ()
    predicted: tuple[str, ...]
    prompt = ""

    def __init__(self, settings: TaskSettings):
        self.settings, self.options = settings, settings.options
        self.checkpoint = settings.checkpoint
        self.tokenizer = self.checkpoint.tokenizer
        self.labels = self.checkpoint.trained_for.labels
        self.names = settings.text_columns or self.text_names

    @abc.abstractmethod
    def encode(self, inputs: Sequence[Input]) -> Encoded:
        """Return the rows of inputs with texts, or of records."""

    @abc.abstractmethod
    def decode(
        self, encoded: Encoded, outputs: Sequence[Outputs]
    ) -> Iterator[Prediction | str]:
        """Yield the prediction of each input, or why there is none.

        `outputs` are the model's, for each unit of `encoded`.
        """

    # --- Model ---------------------------------------------------------------

    @classmethod
    def fits(cls, checkpoint: Checkpoint) -> bool:
        """Return whether a checkpoint has the head of this task."""
        has_head = cls.head is None or cls.head in checkpoint.shapes
        taught = checkpoint.trained_for.task
        return has_head and (not cls.trained_as or taught in cls.trained_as)

    @classmethod
    def check_model(cls, checkpoint: Checkpoint, needs_rows: bool) -> None:
        """Raise a UserError if a checkpoint cannot be used for this task.

        `needs_rows`: it has to run on rows of ids.
        """
        del checkpoint, needs_rows

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return the settings with what their checkpoint decides.

        `settings` have what the user gave, which takes precedence.
        """
        return settings

    def create_model(self, dtype: str) -> "TaskModel":
        """Return a new model; `dtype` is the type of matrix products."""
        return imported(self.model).for_task(self, dtype)

    def create_graph(self, model: "TaskModel") -> Any:
        """Return the model with its inputs and outputs, a TaskGraph."""
        return imported(self.graph)(self, model)

    def description(self) -> dict[str, Any]:
        """Return what an exported model says of itself in export.json."""
        checkpoint = self.checkpoint
        known = {
            **checkpoint.trained_for._asdict(),
            **self.settings._asdict(),
            **self.options._asdict(),
            "labels": self.labels,
        }
        described = {name: known[name] for name in self.described}
        if checkpoint.long_texts != LongTexts():
            described["long_texts"] = checkpoint.long_texts._asdict()
        tokenizer = checkpoint.tokenizer_settings._asdict().items()
        # Few models have such tokens; other exports are as they were.
        rules = {"normalized_tokens", "whole_words"}
        return described | {n: x for n, x in tokenizer if x or n not in rules}

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return a graph's outputs from its `numbers`, [B, ...] each.

        LiteRT files need this: they compute numbers alone.
        """
        return numbers

    def cells(self, prediction: Prediction) -> dict[str, Any]:
        """Return what a table has of a prediction, by column."""
        return prediction

    @functools.cached_property
    def written(self) -> set[str]:
        """The names of what is written of a prediction beside its input."""
        settings, names = self.settings, {"truncated"}
        if settings.explain:
            names.add("attributions")
        if settings.output_format == "csv":
            return names | {*self.cells(dict.fromkeys(self.predicted))}
        if settings.teacher:
            names |= {"teacher", *self.text_names}
        return names | {"id", *self.predicted}

    # --- Parsing -------------------------------------------------------------

    def parse(self, place: Place, data: bytes, kind: str) -> Input:
        """Return the input of a line, row or record.

        `kind` is text, jsonl, table or tfrecord. `place` is for messages, and
        the id of an input without one.

        Raises:
            UserError: it cannot be predicted; has the reason.
        """
        if kind == "tfrecord":
            if self.why_no_records:
                raise UserError(self.why_no_records)
            return self._parse_record(place, data)
        try:
            line = data.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = data[error.start]
            raise UserError(f"not UTF-8 (byte 0x{byte:02x})") from error
        if kind == "text":
            texts = self.checked(self.texts_of_line(line.split("\t")))
            return Input(str(place), place, texts)
        value = text_files.json_object("", line)
        item = self._input(place, value, kind)
        return item._replace(texts=self.checked(self.texts_of_object(value)))

    def texts_of_line(self, cells: list[str]) -> dict[str, Any]:
        """Return the texts of a line, by name; tabs separate the cells."""
        wanted = len(self.text_names)
        if len(cells) != wanted:
            hint = ""
            if wanted == 1:
                hint = "; a text with tabs has to be JSON, or in a .csv file"
            raise UserError(
                f"{counted(len(cells), 'column')}, wanted {wanted} "
                f"({', '.join(self.text_names)}), separated by tabs{hint}"
            )
        return dict(zip(self.text_names, cells, strict=True))

    def texts_of_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the texts of a JSON object, by name."""
        return {
            name: tables.require(value, column, str, hint=TEXT_COLUMNS)
            for name, column in zip(self.text_names, self.names, strict=True)
        }

    def checked(self, texts: dict[str, Any]) -> dict[str, Any]:
        """Return texts that can be predicted; else raise a UserError."""
        for name, value in texts.items():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    tables.check_utf8(text, name)
        self.check(texts)
        return texts

    def check(self, texts: Mapping[str, Any]) -> None:
        """Raise UserError for texts that cannot be predicted."""
        for name, column in zip(self.text_names, self.names, strict=True):
            if not texts[name].strip():
                raise UserError(f"{column} is empty")

    def unread(self, place: Place, text: str, kind: str) -> Input:
        """Return what there is of an input that `parse` refuses."""
        try:
            return self._input(place, text_files.json_object("", text), kind)
        except UserError:
            return Input(str(place), place, {})

    def _input(self, place: Place, value: dict[str, Any], kind: str) -> Input:
        """Return the input of an object without its texts."""
        key, column = value.get("id"), self.settings.id_column
        if column or key is not None:
            hint = " (--id_column)" if column else ""
            key = tables.require(value, column or "id", (str, int), hint=hint)
            if isinstance(key, str):
                tables.check_utf8(key, "the id")
        item = Input(str(place) if key in (None, "") else key, place, {})
        has_inputs = self.settings.output_format == "csv"
        if kind == "jsonl" and not has_inputs:
            return item
        tables.check_utf8(json.dumps(value, ensure_ascii=False), "the line")
        if not has_inputs:
            read = (*self.names, column or "id")
            value = {n: cell for n, cell in value.items() if n not in read}
        return item._replace(others=tables.renamed(value, self.written))

    # --- Records -------------------------------------------------------------

    def _parse_record(self, place: Place, data: bytes) -> Input:
        """Return the input of a record of ids."""
        try:
            features = tfrecord.decode_example(data)
        except ValueError as error:
            raise UserError(f"not a tf.train.Example ({error})") from error
        row = self._row_of_record(features)
        texts = {"row": row, "label_ids": features.get("label_ids")}
        if isinstance(texts["label_ids"], list):
            raise UserError("label_ids holds bytes, wanted numbers")
        for name in (self.settings.id_column, "id", "unique_ids"):
            values = features.get(name, ()) if name else ()
            if len(values) == 1:
                key = values[0]
                if isinstance(key, bytes):
                    key = key.decode("utf-8", "replace")
                elif np.isfinite(key) and int(key) == key:
                    key = int(key)
                else:
                    raise UserError(f"{name} is {key}, wanted a whole number")
                return Input(key, place, texts)
        return Input(str(place), place, texts)

    def _row_of_record(self, features: Mapping[str, np.ndarray]) -> Row:
        """Return a record's ids without padding."""
        arrays = []
        for name in rows.INPUT_NAMES:
            if name not in features:
                raise UserError(
                    f"no feature {name!r}; it has "
                    f"{', '.join(sorted(features)) or 'none'}"
                )
            values = np.asarray(features[name])
            if len(values) and not np.issubdtype(values.dtype, np.integer):
                kind = "floats" if values.dtype.kind == "f" else "bytes"
                raise UserError(f"{name} holds {kind}, wanted whole numbers")
            arrays.append(values)
        ids, mask, segments = arrays
        if not len(ids) == len(mask) == len(segments):
            raise UserError(
                f"{len(ids)} input_ids, {len(mask)} input_mask, "
                f"{len(segments)} segment_ids: wanted as many of each"
            )
        size = int((mask != 0).sum())
        if not size or not mask[:size].all():
            raise UserError("input_mask is not ones followed by zeros")
        count = len(self.tokenizer.vocab)
        for name, values, limit, what in (
            ("input_ids", ids, count, "tokens of the vocabulary"),
            ("segment_ids", segments, 2, "segments"),
        ):
            bad = values[:size][(values[:size] < 0) | (values[:size] >= limit)]
            if len(bad):
                raise UserError(
                    f"{name} has {bad[0]}; there are {limit} {what}"
                )
        if self.checkpoint.windows and segments.any():
            raise UserError("a pair, and --long_texts=windows is for one text")
        if size > self.checkpoint.row_length:
            raise UserError(
                f"{size} tokens, more than the {self.checkpoint.row_length} "
                "that are read (--max_seq_length, --long_texts)"
            )
        return Row(
            ids[:size].astype(np.int32), segments[:size].astype(np.int32)
        )


def is_record(item: Input) -> bool:
    """Whether an input is a record of ids instead of texts."""
    return "row" in item.texts


# --- Tasks with one unit per input -------------------------------------------


class RowTask(Task):
    """Base class of tasks with one unit per input, most often a row."""

    def encode(self, inputs: Sequence[Input]) -> Encoded:
        """Return a unit for each input."""
        units = [self.unit(item) for item in inputs]
        left_out = [sum(row.left_out for row in unit) for unit in units]
        return Encoded(inputs, units, left_out)

    def unit(self, item: Input) -> Unit:
        """Return the row of an input."""
        if is_record(item):
            return [item.texts["row"]]
        texts = (self.prompt + item.texts[name] for name in self.text_names)
        return [self.row(*texts)]

    def row(self, text_a: str, text_b: str | None = None) -> Row:
        """Return the row of one or two texts."""
        return rows.row_of_texts(
            text_a,
            text_b,
            self.checkpoint.row_length,
            self.tokenizer,
            self.checkpoint.long_texts.how,
        )

    def decode(
        self, encoded: Encoded, outputs: Sequence[Outputs]
    ) -> Iterator[Prediction | str]:
        """Yield the prediction of each input."""
        for unit, output in zip(encoded.units, outputs, strict=True):
            arrays = map(np.asarray, output.values())
            if all(np.isfinite(x).all() for x in arrays if x.dtype.kind == "f"):
                yield self.prediction(unit, output)
            else:
                yield NOT_FINITE

    @abc.abstractmethod
    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the prediction for the outputs of an input."""
