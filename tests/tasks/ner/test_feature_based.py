"""ner/feature_based.py: the layers of table 7, and the BiLSTM on them."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
from ner_runs import LABELS, VOCAB
from task_settings import settings_of

from tasks import registry
from tasks.encoder.layers import table_7
from training.task_model import project

DEEP = tiny.config_of(VOCAB, num_hidden_layers=4)


@pytest.mark.nightly
@pytest.mark.parametrize("name", table_7(4))
def test_every_row_of_table_7(name, tmp_path):
    """The input of the BiLSTM, computed by hand."""
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    settings = settings_of(
        "token_classification",
        str(tmp_path / "vocab.txt"),
        LABELS,
        config=DEEP,
        feature_layers=name,
        lstm_units=3,
    )
    tf.keras.utils.set_random_seed(1)
    model = registry.create_task(settings).create_model("float32")
    batch = {"input_ids": tf.constant([[2, 6, 7, 3]])}
    output = model.bert(**model.encoder_inputs(batch))
    layers = output.encoder_layers
    wanted = {
        "embeddings": output.embedding_output,
        "second_to_last": layers[-2],
        "last": layers[-1],
        "weighted_sum_last_four": sum(layers) / 4,
        "concat_last_four": tf.concat(layers, -1),
        "weighted_sum_all": sum(layers) / 4,
    }[name]
    mask = tf.ones([1, 4], tf.int32)
    activations = model.activations(batch)
    logits = model({"activations": activations, "input_mask": mask})
    x = model.bilstm(wanted, mask, None)
    x = project(x, model.output_weights, model.output_bias)
    np.testing.assert_allclose(logits, x, atol=1e-6)
