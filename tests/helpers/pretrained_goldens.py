"""Pre-training models that other libraries made, with what they compute."""

import numpy as np
import tensorflow as tf
from paths import GOLDEN

from checkpoints import weight_files
from checkpoints.checkpoint import open_checkpoint
from pretraining import model as pretraining_model


def check(name: str) -> None:
    """Check that all weights of a folder are read, and give its outputs."""
    golden = np.load(GOLDEN / name / "outputs.npz")
    checkpoint = open_checkpoint(str(GOLDEN / name))
    model = pretraining_model.BertForPreTraining(checkpoint.config)
    report = weight_files.restore_weights(
        model.variables, checkpoint.prefix, required=""
    )
    assert not report.new and not report.unused
    batch, length = golden["input_ids"].shape
    features = {
        name: tf.constant(golden[name], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    features["masked_lm_positions"] = tf.tile(
        tf.range(length)[None], [batch, 1]
    )
    output = model.bert(**model.encoder_inputs(features))
    logits, next_logits = model(features)
    for name, found in {
        "sequence_output": output.sequence_output,
        "pooled_output": output.pooled_output,
        "masked_lm_logits": logits,
        "next_sentence_logits": next_logits,
    }.items():
        np.testing.assert_allclose(found, golden[name], atol=1e-5, err_msg=name)
