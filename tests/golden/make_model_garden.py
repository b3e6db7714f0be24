"""Makes golden/model_garden with TensorFlow's Model Garden.

    pip install tensorflow tf-keras gin-config
    pip install --no-deps tf-models-official
    python tests/golden/make_model_garden.py

Made with tf-models-official 2.20.0, tf-keras 2.21.0 and TensorFlow 2.21.0. The
layout is that of the published uncased Base, pre-trained by official/nlp.
"""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers, models, networks

FOLDER = Path(__file__).parent / "model_garden"


def gelu(x: tf.Tensor) -> tf.Tensor:
    """The Model Garden's, as the original's, is the approximation by tanh."""
    return tf_keras.activations.gelu(x, approximate=True)


def main() -> None:
    """A random pre-training model in their layout, and what it computes."""
    rng = np.random.default_rng(7)
    encoder = networks.BertEncoder(
        vocab_size=61,
        hidden_size=16,
        num_layers=2,
        num_attention_heads=2,
        max_sequence_length=24,
        type_vocab_size=2,
        inner_dim=32,
        inner_activation=gelu,
        dict_outputs=True,
    )
    head = layers.ClassificationHead(
        16, 2, activation="tanh", name="next_sentence"
    )
    model = models.BertPretrainerV2(
        encoder, mlm_activation=gelu, classification_heads=[head]
    )
    ids = rng.integers(1, 61, [3, 12])
    mask, segments = np.ones_like(ids), np.zeros_like(ids)
    mask[1, 7:] = 0
    segments[:, 5:] = 1
    inputs = {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": segments,
        "masked_lm_positions": np.tile(np.arange(12), [3, 1]),
    }
    inputs = {name: tf.constant(x, tf.int32) for name, x in inputs.items()}
    model(inputs)
    for variable in model.variables:
        scale, around = (0.3, 0.5) if len(variable.shape) == 1 else (0.3, 0)
        variable.assign(rng.normal(around, scale, variable.shape))
    outputs = model(inputs)
    FOLDER.mkdir(exist_ok=True)
    # What a training run of theirs saves, with what the optimizer keeps.
    optimizer = tf_keras.optimizers.Adam()
    optimizer.build(model.trainable_variables[:4])
    saved = {**model.checkpoint_items, "model": model, "optimizer": optimizer}
    tf.train.Checkpoint(**saved).write(str(FOLDER / "bert_model.ckpt"))
    config = {
        "vocab_size": 61,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 24,
        "type_vocab_size": 2,
    }
    (FOLDER / "bert_config.json").write_text(
        json.dumps(config, indent=2) + "\n"
    )
    np.savez_compressed(
        FOLDER / "outputs.npz",
        input_ids=ids,
        input_mask=mask,
        segment_ids=segments,
        sequence_output=outputs["sequence_output"],
        pooled_output=head.dense(outputs["sequence_output"][:, 0]),
        masked_lm_logits=outputs["mlm_logits"],
        next_sentence_logits=outputs["next_sentence"],
    )


if __name__ == "__main__":
    main()
