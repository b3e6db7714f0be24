"""one_file_bert.py gives the original's numbers, and the fast code gives its.

Its tokenizer judges tokenization.py in test_tokenization.py, and its instances
those of pretraining/data in pretraining/data/test_masking.py.
"""

import itertools
import json
import random
from pathlib import Path

import numpy as np
import one_file_bert
import pytest
import scripts
import small_models
import tensorflow as tf
import tiny
from one_file_bert import Bert, Config
from small_models import FEATURES, GOLDEN_MODEL
from tiny import NO_DROPOUT, assert_same, weights_of

from checkpoints import weight_files
from modeling import BertConfig
from pretraining.model import BertForPreTraining
from training import task_model

TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 48,
    "initializer_range": 0.1,
}


# --- The original's numbers --------------------------------------------------


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return small_models.golden_arrays()


@pytest.fixture()
def golden_model() -> Bert:
    values = json.loads((GOLDEN_MODEL / "bert_config.json").read_text())
    for name in NO_DROPOUT:
        assert values.pop(name) == 0
    model = Bert(Config(**values))
    saved = weights_of(GOLDEN_MODEL / "bert_model.ckpt")
    assert {*model.weights} == {n for n in saved if "adam_" not in n} - {
        "global_step"
    }
    for name, weight in model.weights.items():
        weight.assign(saved[name])
    return model


def features_of(golden: dict[str, np.ndarray]) -> one_file_bert.Features:
    return {name: tf.constant(golden[name]) for name in FEATURES}


def test_outputs_and_losses_are_the_originals(golden, golden_model):
    features = features_of(golden)
    states, pooled = golden_model.encode(features)
    logits = golden_model.masked_lm_logits(
        states[-1], features["masked_lm_positions"]
    )
    following = golden_model.class_logits("cls/seq_relationship/", pooled)
    masked, next_sentence = golden_model.pretraining_losses(features)
    found = {
        "embedding_output": states[0],
        "all_encoder_layers": tf.stack(states[1:]),
        "pooled_output": pooled,
        "masked_lm_log_probs": tf.reshape(
            tf.nn.log_softmax(logits), [-1, logits.shape[-1]]
        ),
        "next_sentence_log_probs": tf.nn.log_softmax(following),
        "masked_lm_loss": masked,
        "next_sentence_loss": next_sentence,
    }
    assert_same(found, {name: golden[name] for name in found}, 1e-5)


def test_thirty_steps_are_the_originals(golden, golden_model):
    """Losses, weights and both moments."""
    rates = one_file_bert.learning_rates(
        float(golden["learning_rate"]),
        int(golden["num_train_steps"]),
        int(golden["num_warmup_steps"]),
    )[: int(golden["steps"])]
    found_losses, moments = one_file_bert.train(
        golden_model.weights,
        lambda features: sum(golden_model.pretraining_losses(features)),
        itertools.repeat(features_of(golden)),
        rates,
    )
    np.testing.assert_allclose(found_losses, golden["train_losses"], atol=1e-4)
    found = {"global_step": np.array(len(rates))}
    for name, weight in golden_model.weights.items():
        mean, square = moments[name]
        found |= {name: weight, f"{name}/adam_m": mean}
        found[f"{name}/adam_v"] = square
    assert_same(found, weights_of(GOLDEN_MODEL / "trained/model.ckpt-30"), 1e-4)


# --- The fast code -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_outputs_and_gradients_of_random_configurations(seed):
    """Sizes, activations and batches with padding; of every weight."""
    rng = random.Random(seed)
    count, length, places = rng.choice([1, 2, 3]), rng.randint(4, 20), 5
    sizes = {
        "vocab_size": rng.randint(20, 90),
        "hidden_size": count * rng.choice([4, 8]),
        "num_hidden_layers": rng.randint(1, 3),
        "num_attention_heads": count,
        "intermediate_size": rng.randint(8, 40),
        "hidden_act": rng.choice(["gelu", "relu", "tanh"]),
        "max_position_embeddings": length + rng.randint(0, 9),
        "type_vocab_size": rng.randint(2, 3),
        "initializer_range": 0.2,
    }
    plain = Bert(Config(**sizes), seed)
    fast = BertForPreTraining(BertConfig(**sizes, **NO_DROPOUT))
    for variable in fast.variables:
        variable.assign(plain.weights[variable.path])
    draw = np.random.default_rng(seed).integers
    used = draw(2, length + 1, 4)
    weights = np.arange(places) < draw(1, places + 1, (4, 1))
    features = {
        "input_ids": draw(0, sizes["vocab_size"], (4, length)),
        "input_mask": np.arange(length) < used[:, None],
        "segment_ids": draw(0, sizes["type_vocab_size"], (4, length)),
        "masked_lm_positions": draw(0, used[:, None], (4, places)),
        "masked_lm_ids": draw(0, sizes["vocab_size"], (4, places)),
        "next_sentence_labels": draw(0, 2, 4),
    }
    features = {n: tf.constant(v, tf.int32) for n, v in features.items()}
    features["masked_lm_weights"] = tf.constant(weights, tf.float32)
    states, pooled = plain.encode(features)
    output = fast.bert(**fast.encoder_inputs(features))
    is_token = features["input_mask"].numpy() > 0
    for state, wanted in zip(
        states, [output.embedding_output, *output.encoder_layers], strict=True
    ):
        np.testing.assert_allclose(
            wanted.numpy()[is_token], state.numpy()[is_token], atol=2e-6
        )
    np.testing.assert_allclose(output.pooled_output, pooled, atol=2e-6)
    variables = {v.path: v.value for v in fast.trainable_variables}
    with tf.GradientTape(persistent=True) as tape:
        loss = sum(plain.pretraining_losses(features))
        fast_loss = small_models.total_loss(
            small_models.losses_of(fast, features)
        )
    np.testing.assert_allclose(fast_loss, loss, rtol=1e-6)
    wanted, found = (
        {
            name: tf.convert_to_tensor(gradient).numpy()
            for name, gradient in tape.gradient(value, by_name).items()
        }
        for value, by_name in ((loss, plain.weights), (fast_loss, variables))
    )
    assert_same(found, wanted, 5e-6)


def write_model(folder: Path, model: Bert) -> None:
    """Write a checkpoint and its configuration, which has no dropout."""
    config = BertConfig(**vars(model.config), **NO_DROPOUT)
    (folder / "bert_config.json").write_text(config.to_json_string())
    weight_files.write(
        str(folder / "bert_model.ckpt"),
        {name: weight.numpy() for name, weight in model.weights.items()},
    )


@pytest.mark.nightly
def test_fine_tuning_of_twenty_steps(tmp_path, monkeypatch):
    """run_classifier.py ends with the same weights, head included."""
    monkeypatch.setattr(task_model, "HEAD_DROPOUT", 0.0)
    words = ["good", "bad", "film", "book", "##s", "the"]
    vocab = {token: i for i, token in enumerate([*tiny.SPECIAL, *words])}
    (tmp_path / "vocab.txt").write_text("\n".join(vocab) + "\n")
    rng = random.Random(1)
    examples = [
        (" ".join(rng.choices(["films", "the", "book"], k=n)) + label, label)
        for n in range(2, 10)
        for label in (" bad", " good")
    ]
    lines = [f"{text}\t{label.strip()}\n" for text, label in examples]
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + "".join(lines))
    rows = [
        one_file_bert.row_features(
            one_file_bert.tokenize(text, vocab, lower=True), [], vocab, 24
        )
        | {"label_ids": int(label == " good")}
        for text, label in examples
    ]
    model = Bert(Config(len(vocab), **TINY))
    model.add_weight("output_weights", 2, TINY["hidden_size"])
    model.add_weight("output_bias", 2)
    write_model(tmp_path, model)
    scripts.run(
        scripts.load("run_classifier"),
        task_name="tsv",
        data_dir=tmp_path,
        init_checkpoint=tmp_path / "bert_model.ckpt",
        output_dir=tmp_path / "out",
        do_train=True,
        max_seq_length=24,
        train_batch_size=len(rows),
        num_train_epochs=20,
        learning_rate=1e-3,
        pad_to_max_length=True,  # else batches have examples of one length
        bias_correction=False,
        jit_compile=False,
    )
    before = model.weights["output_weights"].numpy()
    one_file_bert.fine_tune(model, rows, 20, len(rows), 1e-3, dropout=0.0)
    assert abs(model.weights["output_weights"] - before).numpy().max() > 0.005
    found = weights_of(tmp_path / "out/model.ckpt-20")
    wanted = {
        name: weight.numpy()
        for name, weight in model.weights.items()
        if not name.startswith("cls/")
    }
    assert_same({name: found[name] for name in wanted}, wanted, 1e-4)
