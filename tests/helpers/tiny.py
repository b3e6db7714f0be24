"""A model small enough to be trained inside a test, and what runs leave."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

import modeling
from checkpoints import weight_files
from modeling import BertConfig

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# Flags of a run that learns in seconds.
TRAINING = {
    "train_batch_size": 8,
    "num_train_epochs": 6,
    "do_train": True,
    "do_eval": True,
    "jit_compile": False,  # XLA takes longer than such a run
}


def config_of(vocab: Sequence[str], **changes) -> BertConfig:
    """Return one layer of 16 units, with weights large enough to learn."""
    settings = dict(
        vocab_size=len(vocab),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        type_vocab_size=2,
        initializer_range=0.3,
    )
    return BertConfig(**(settings | changes))


def write_model(
    folder: Path,
    config: BertConfig,
    vocab: Sequence[str],
    create: Callable = modeling.BertModel,
) -> Path:
    """Write an encoder with vocabulary and configuration beside it.

    `create` makes another model than the encoder.
    """
    folder.mkdir(exist_ok=True)
    (folder / "bert_config.json").write_text(config.to_json_string())
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    tf.keras.utils.set_random_seed(1)
    weight_files.write(
        str(folder / "bert_model.ckpt"),
        weight_files.as_tensors(create(config).variables),
    )
    return folder


def results_of(out: Path, name: str = "eval_results.txt") -> dict[str, float]:
    """Return the scores a run wrote."""
    lines = (out / name).read_text().splitlines()
    return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


def summaries_of(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return {tag: [(step, value)]} of the summaries in a directory."""
    found: dict[str, list[tuple[int, float]]] = {}
    for path in folder.glob("events.*"):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                number = float(tf.make_ndarray(value.tensor))
                found.setdefault(value.tag, []).append((event.step, number))
    return found


def weights_of(prefix: Path | str) -> dict[str, np.ndarray]:
    """Return {name: value} of a checkpoint, all that is in it."""
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def assert_same(one: dict, other: dict, tolerance: float = 0.0) -> None:
    """Check that two {name: value} have the same names and values."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(
            value, other[name], rtol=0, atol=tolerance, err_msg=name
        )


def check_same_bits(one: Path, other: Path) -> None:
    """Check that two checkpoints have the same values, whatever their step."""
    found, wanted = map(weights_of, (one, other))
    step = {"global_step": 0}
    assert_same(found | step, wanted | step)


def values_of(variables: Sequence) -> dict[str, np.ndarray]:
    """Return {path: value} of keras variables."""
    return {variable.path: variable.numpy() for variable in variables}


def write_examples(path: Path, examples: Sequence[dict[str, list]]) -> None:
    """Write a TFRecord file of {feature: integers, floats or bytes}."""
    kinds = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for features in examples:
            example = tf.train.Example()
            for name, values in features.items():
                feature = example.features.feature[name]
                getattr(feature, kinds[type(values[0])]).value.extend(values)
            writer.write(example.SerializeToString())
