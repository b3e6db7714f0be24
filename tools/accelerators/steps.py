"""Lower the steps that the scripts compile for a device to programs of XLA.

A program has variables and slots as parameters and results, beside batch and
step number. TensorFlow's wheel for CPUs can lower for CPUs only, so the program
is taken as it is before any optimization. With 8 replicas the sums over them
are part of it, as on TPUs; on GPUs NCCL forms them outside.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
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
from tools.accelerators.rows import Program, Row, job
from training import compilation, memory, train_step
from training.objective import Objective
from training.settings import TrainingSettings
from training.task_model import TaskModel

VOCAB_SIZE = 30522
_CHOICES = 4  # sequences of a question
_TAGS = 9  # those of CoNLL-2003

Specs = dict[str, tf.TensorSpec]


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


def predictions_of(length: int) -> int:
    """Return the masked tokens of a record, 15%: 20 of 128, 77 of 512."""
    return -(-length * 15 // 100)


def _inputs(rows: int, length: int) -> Specs:
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: tf.TensorSpec([rows, length], tf.int32) for name in names}


def _labeled(*names: str, of_tokens: bool = False) -> Callable[..., Specs]:
    """Return the features of inputs and labels, [rows] or [rows, length]."""

    def features(rows: int, length: int) -> Specs:
        shape = [rows, length] if of_tokens else [rows]
        labels = dict.fromkeys(names, tf.TensorSpec(shape, tf.int32))
        return _inputs(rows, length) | labels

    return features


def _choices(sequences: int, length: int) -> Specs:
    shape = [sequences // _CHOICES, _CHOICES]
    inputs = tf.TensorSpec([*shape, length], tf.int32)
    return dict.fromkeys(_inputs(0, 0), inputs) | {
        "label_ids": tf.TensorSpec(shape, tf.int32)
    }


def _records(rows: int, length: int, is_packed: bool = False) -> Specs:
    """Return the features of pre-training records, of the usual flags."""
    config = InstanceConfig(length, predictions_of(length))
    found = schema.schema(length, config.max_predictions_per_seq)
    if is_packed:
        found = schema.packed_schema(
            length,
            packing.predictions_per_row(config),
            config.max_sequences_per_pack,
        )
    return streaming.batch_specs(found, rows)


def _pretraining(name: str) -> Kind:
    """Return the kind of an objective."""
    found = objectives.OBJECTIVES[name]

    def model(config: modeling.BertConfig, dtype: str) -> BertForPreTraining:
        config.attention_direction = found.attention_direction
        return BertForPreTraining(config, dtype, found.predicts_next_sentence)

    return Kind(model, found.objective, _records)


_MLM_NSP = _pretraining("mlm_nsp")

KINDS = {
    **{name: _pretraining(name) for name in objectives.OBJECTIVES},
    "packed": _MLM_NSP._replace(
        features=functools.partial(_records, is_packed=True)
    ),
    "accumulated": _MLM_NSP._replace(
        settings={"gradient_accumulation_steps": 4}
    ),
    "muon": _MLM_NSP._replace(settings={"optimizer": "muon"}),
    "recompute_layers": _MLM_NSP._replace(settings={"recompute": "layers"}),
    "recompute_attention": _MLM_NSP._replace(
        settings={"recompute": "attention"}
    ),
    "evaluation": _MLM_NSP._replace(trains=False),
    "classifier": Kind(
        lambda config, dtype: classifier_model.BertForSequenceClassification(
            config, 2, dtype
        ),
        classifier_model.CLASSIFICATION,
        _labeled("label_ids"),
    ),
    "squad": Kind(
        squad_model.BertForQuestionAnswering,
        squad_model.QUESTION_ANSWERING,
        _labeled("start_positions", "end_positions"),
    ),
    "ner": Kind(
        lambda config, dtype: ner_model.BertForTokenClassification(
            config, _TAGS, dtype
        ),
        ner_model.WORD_CLASSIFICATION,
        _labeled("label_ids", of_tokens=True),
    ),
    "swag": Kind(
        swag_model.BertForMultipleChoice,
        swag_model.MULTIPLE_CHOICE,
        _choices,
        group=_CHOICES,
    ),
}
for _name in ("classifier", "squad"):
    KINDS[f"{_name}_prediction"] = KINDS[_name]._replace(
        objective=None, features=_inputs, trains=False
    )


class _OneOfMany(train_step.Step):
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


def model_of(program: Program) -> TaskModel:
    """Return a new model of a program's kind and size."""
    config = modeling.BertConfig.from_size(program.size, VOCAB_SIZE)
    return KINDS[program.step].model(config, program.dtype)


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


def sizes(row: Row) -> memory.Sizes | None:
    """Return what memory.py estimates a training row from; else None."""
    if "parameters" not in row:
        return None
    program, _ = job(row)
    return memory.Sizes(
        False,  # not on CPUs
        modeling.BertConfig.from_size(program.size, VOCAB_SIZE),
        settings_of(program),
        program.length,
        memory.RowCost(KINDS[program.step].group, row["logits"]),
        row["parameters"],
        row["parameters"],
    )


def lower(program: Program) -> tuple[bytes, dict[str, Any]]:
    """Return a serialized HLO module, and numbers of a training step.

    `sizes` reads them in a row; for other steps they are {}.
    """
    kind, model = KINDS[program.step], model_of(program)
    specs = kind.features(program.batch, program.length)
    scalars, known = [], {}
    if kind.trains:
        step = _OneOfMany(
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
        words = specs.get("masked_lm_ids")
        known = {
            "parameters": sum(math.prod(v.shape) for v in model.variables),
            "logits": words.shape[1] * VOCAB_SIZE if words is not None else 0,
        }

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
    return lowered(stage="hlo_serialized"), known
