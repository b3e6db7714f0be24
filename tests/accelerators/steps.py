"""The steps that the scripts compile for a device, as programs of XLA.

A program has variables and slots as parameters and results, beside batch and
step number. TensorFlow's wheel for CPUs can lower for CPUs only, so the program
is taken as it is before any optimization. With 8 replicas the sums over them
are part of it, as on TPUs; on GPUs NCCL forms them outside.

tests/golden/accelerators.json has a row for each program and device: what the
compiled program needs. docs/accelerators.md says how the rows were made.
"""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
from paths import GOLDEN
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

import modeling
from ops import elementwise
from pretraining import objectives
from pretraining.data import packing, schema
from pretraining.data.schema import InstanceConfig
from pretraining.model import BertForPreTraining
from records import streaming
from tasks.classifier import model as classifier_model
from tasks.ner import model as ner_model
from tasks.squad import model as squad_model
from tasks.swag import model as swag_model
from training import compilation, memory, train_step
from training.objective import Objective
from training.settings import TrainingSettings
from training.task_model import TaskModel

VOCAB_SIZE = 30522
CHOICES = 4  # sequences of a question

Row = dict[str, Any]  # of a Program, "device", and what was measured
Specs = dict[str, tf.TensorSpec]

ROWS: list[Row] = json.loads((GOLDEN / "accelerators.json").read_text("utf-8"))


class Program(NamedTuple):
    """What is compiled: one of KINDS, and its sizes.

    `batch` are the sequences of a replica, `length` their tokens.
    """

    step: str
    size: str
    length: int
    batch: int
    dtype: str
    replicas: int = 1

    @classmethod
    def of(cls, row: Row) -> "Program":
        """Return the program of a row."""
        return cls(**{name: row[name] for name in cls._fields})


def name_of(row: Row) -> str:
    """Return a row's program and device as the name of a test."""
    return "-".join(map(str, (*Program.of(row), row["device"])))


class Kind(NamedTuple):
    """A kind of step.

    Attributes:
        model: (configuration, dtype) -> the model.
        objective: the losses of the model.
        features: (sequences, length) -> the batch.
        settings: of the training, if they are not the defaults.
        trains: whether it is a step of the training; else `objective` is
            evaluated, or with None the model predicts.
        group: sequences of an example.
    """

    model: Callable[[modeling.BertConfig, str], TaskModel]
    objective: Objective | None
    features: Callable[[int, int], Specs]
    settings: Mapping[str, Any] = {}
    trains: bool = True
    group: int = 1


def inputs(*shape: int) -> Specs:
    """Return input_ids, input_mask and segment_ids, [sequences, length]."""
    names = ("input_ids", "input_mask", "segment_ids")
    return dict.fromkeys(names, tf.TensorSpec(shape, tf.int32))


def labeled(*names: str, of_tokens: bool = False) -> Callable[..., Specs]:
    """Return the features of inputs and labels, [rows] or [rows, length]."""

    def features(rows: int, length: int) -> Specs:
        shape = [rows, length] if of_tokens else [rows]
        labels = dict.fromkeys(names, tf.TensorSpec(shape, tf.int32))
        return inputs(rows, length) | labels

    return features


def choices(sequences: int, length: int) -> Specs:
    """Return the batch of questions, [questions, CHOICES, length]."""
    shape = (sequences // CHOICES, CHOICES)
    labels = {"label_ids": tf.TensorSpec(shape, tf.int32)}
    return inputs(*shape, length) | labels


def records(rows: int, length: int, is_packed: bool = False) -> Specs:
    """Return the features of pre-training records, of the usual flags."""
    # 15% of the tokens: 20 of 128, 77 of 512.
    config = InstanceConfig(length, -(-length * 15 // 100))
    found = schema.schema(length, config.max_predictions_per_seq)
    if is_packed:
        found = schema.packed_schema(
            length,
            packing.predictions_per_row(config),
            config.max_sequences_per_pack,
        )
    return streaming.batch_specs(found, rows)


def pretraining(name: str) -> Kind:
    """Return the kind of an objective."""
    found = objectives.OBJECTIVES[name]

    def model(config: modeling.BertConfig, dtype: str) -> BertForPreTraining:
        config.attention_direction = found.attention_direction
        return BertForPreTraining(config, dtype, found.predicts_next_sentence)

    return Kind(model, found.objective, records)


def headed(
    model: Callable[..., TaskModel], num_outputs: int = 1
) -> Callable[[modeling.BertConfig, str], TaskModel]:
    """Return (configuration, dtype) -> a model with a head of some outputs."""
    return lambda config, dtype: model(config, num_outputs, dtype)


MLM_NSP = pretraining("mlm_nsp")
CLASSIFIER = Kind(
    headed(classifier_model.BertForSequenceClassification, 2),
    classifier_model.CLASSIFICATION,
    labeled("label_ids"),
)
SQUAD = Kind(
    headed(squad_model.BertForQuestionAnswering),
    squad_model.QUESTION_ANSWERING,
    labeled("start_positions", "end_positions"),
)
PREDICTION = {"objective": None, "features": inputs, "trains": False}

KINDS = {
    **{name: pretraining(name) for name in objectives.OBJECTIVES},
    "packed": MLM_NSP._replace(
        features=functools.partial(records, is_packed=True)
    ),
    "accumulated": MLM_NSP._replace(
        settings={"gradient_accumulation_steps": 4}
    ),
    "muon": MLM_NSP._replace(settings={"optimizer": "muon"}),
    "recompute_layers": MLM_NSP._replace(settings={"recompute": "layers"}),
    "recompute_attention": MLM_NSP._replace(
        settings={"recompute": "attention"}
    ),
    "evaluation": MLM_NSP._replace(trains=False),
    "classifier": CLASSIFIER,
    "classifier_prediction": CLASSIFIER._replace(**PREDICTION),
    "squad": SQUAD,
    "squad_prediction": SQUAD._replace(**PREDICTION),
    "ner": Kind(
        headed(ner_model.BertForTokenClassification, 9),  # CoNLL-2003's tags
        ner_model.WORD_CLASSIFICATION,
        labeled("label_ids", of_tokens=True),
    ),
    "swag": Kind(
        headed(swag_model.BertForMultipleChoice),
        swag_model.MULTIPLE_CHOICE,
        choices,
        group=CHOICES,
    ),
}


class OneOfMany(train_step.Step):
    """A step whose sums over `count` replicas are part of its program."""

    count = 1

    def _all_reduce(self, context: Any, values: Any) -> Any:
        if self.count == 1:
            return values
        return tf.nest.map_structure(
            lambda value: gen_xla_ops.xla_all_reduce(
                input=value,
                group_assignment=[list(range(self.count))],
                reduce_op="Add",
                mode="CrossReplica",
            ),
            values,
        )


def settings_of(program: Program) -> TrainingSettings:
    """Return the settings of a training of which a program is a step."""
    kind = KINDS[program.step]
    return TrainingSettings(
        output_dir="",
        num_train_steps=1000,
        train_batch_size=program.batch // kind.group,
        dtype=program.dtype,
        **kind.settings,
    )


def sizes(row: Row) -> memory.Sizes:
    """Return what memory.py estimates a training row from."""
    program = Program.of(row)
    return memory.Sizes(
        False,  # not on CPUs
        modeling.BertConfig.from_size(program.size, VOCAB_SIZE),
        settings_of(program),
        program.length,
        memory.RowCost(KINDS[program.step].group, row["logits"]),
        row["parameters"],
        row["parameters"],
    )


def lower(program: Program) -> bytes:
    """Return a program as a serialized HLO module."""
    kind = KINDS[program.step]
    config = modeling.BertConfig.from_size(program.size, VOCAB_SIZE)
    model = kind.model(config, program.dtype)
    specs = kind.features(program.batch, program.length)
    scalars = []
    if kind.trains:
        step = OneOfMany(
            tf.distribute.get_strategy(),
            model,
            kind.objective,
            settings_of(program),
            compilation.Compilation(step=True),
        )
        step.count = program.replicas
        scalars = [tf.TensorSpec([], tf.int64)]
        if step.loss_scale:
            scalars.append(tf.TensorSpec([], tf.float32))

    # Positional: TensorFlow refuses specs inside dictionaries.
    def run(*values: tf.Tensor) -> Any:
        batch = dict(zip(specs, values, strict=False))
        if kind.trains:
            number, *scale = values[len(specs) :]
            return step.replica_step(batch, number, None, *scale)
        if kind.objective is None:
            return model(batch)
        return kind.objective.forward(model, batch, None)

    lowered = elementwise.compiled(run).experimental_get_compiler_ir(
        *specs.values(), *scalars
    )
    return lowered(stage="hlo_serialized")
