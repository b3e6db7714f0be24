"""Checkpoints of TensorFlow's Model Garden, read: names, numbers, errors."""

import shutil

from base.errors import UserError

import numpy as np
import pretrained_goldens
import pytest
import tensorflow as tf
from paths import GOLDEN

from checkpoints import lookup, model_garden, weight_files

LAYER = "bert/encoder/layer_11"


@pytest.mark.parametrize(
    "theirs, ours",
    [
        # The first version, which TF Hub's first encoders have.
        (
            "bert_model/embedding_postprocessor/type_embeddings",
            "bert/embeddings/token_type_embeddings",
        ),
        (
            "bert_model/embedding_postprocessor/position_embeddings",
            "bert/embeddings/position_embeddings",
        ),
        (
            "bert_model/embedding_postprocessor/layer_norm/gamma",
            "bert/embeddings/LayerNorm/gamma",
        ),
        (
            "bert_model/encoder/layer_11/self_attention_output/kernel",
            f"{LAYER}/attention/output/dense/kernel",
        ),
        (
            "bert_model/encoder/layer_11/self_attention/key/bias",
            f"{LAYER}/attention/self/key/bias",
        ),
        # BertEncoderV2; tests/golden/model_garden has BertEncoder.
        (
            "bert_encoder_v2_1/transformer/layer_11/output/kernel",
            f"{LAYER}/output/dense/kernel",
        ),
        (
            "bert_encoder_v2/word_embeddings/embeddings",
            "bert/embeddings/word_embeddings",
        ),
        # BertPretrainer.
        (
            "predictions/transform/logits/bias",
            "cls/seq_relationship/output_bias",
        ),
        # The layers of ALBERT are one.
        ("transformer/self_attention/query/kernel", None),
        ("classifier/kernel", None),
    ],
)
def test_names(theirs, ours):
    assert model_garden.our_name(theirs) == ours


def test_same_numbers_as_the_model_garden():
    """All outputs, next sentences by the pooler that was trained."""
    pretrained_goldens.check("model_garden")


@pytest.mark.parametrize("said", [None, "false", "true"])
def test_layer_norms_that_come_first(tmp_path, caplog, said):
    """Nothing in the checkpoint tells; the settings of its training do."""
    shutil.copytree(GOLDEN / "model_garden", tmp_path, dirs_exist_ok=True)
    prefix = str(tmp_path / "bert_model.ckpt")
    if said:
        text = f"task:\n  model:\n    bert:\n      norm_first: {said}\n"
        (tmp_path / "params.yaml").write_text(text)
    if said == "true":
        with pytest.raises(UserError, match="params.yaml: norm_first is true,"):
            weight_files.Reader(prefix)
        return
    weight_files.Reader(prefix)
    words = f"{prefix} is read as a BERT whose layer norms come last"
    assert (words in caplog.text) == (said is None)


def write(prefix: str, **names: str) -> str:
    """Write variables, {place in an object: name}, as TensorFlow 2 does."""
    variables = {
        place: tf.Variable(np.zeros([2, 2]), name=name)
        for place, name in names.items()
    }
    return tf.train.Checkpoint(**variables).write(prefix)


def test_other_checkpoints_of_tensorflow_2_are_refused(tmp_path):
    prefix = write(str(tmp_path / "model"), a="dense/kernel")
    words = "model cannot be read as a checkpoint: .* is dense/kernel; save"
    with pytest.raises(UserError, match=words):
        weight_files.Reader(prefix)
    name = "word_embeddings/embeddings"
    prefix = write(prefix, generator=name, discriminator=name)
    words = "two models, both .*generator.* are bert/embeddings/word_embeddings"
    with pytest.raises(UserError, match=words):
        weight_files.Reader(prefix)


def test_a_saved_model_is_named_by_its_variables(tmp_path):
    variables = tmp_path / "variables"
    variables.mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"")
    prefix = write(str(variables / "variables"), a="word_embeddings/embeddings")
    with pytest.raises(UserError, match=f"--init_checkpoint={prefix} --vocab"):
        lookup.find_checkpoint(str(tmp_path))
    assert lookup.find_checkpoint(prefix) == prefix
