"""Left-to-right models of all tasks: trained, predicted with, exported.

tests/test_modeling_direction.py has the model itself.
"""

import dataclasses
import json
from pathlib import Path

import classifier_runs
import feature_runs
import fine_tuned_models
import mask_models
import numpy as np
import prediction_runs
import pytest
import scripts
import small_models
import tensorflow as tf

import modeling
from checkpoints.checkpoint import open_checkpoint
from modeling import BIDIRECTIONAL, LEFT_TO_RIGHT
from tasks import loading
from tasks.classifier.model import BertForSequenceClassification
from tasks.ner.model import BertForTokenClassification
from tasks.squad.model import BertForQuestionAnswering
from tasks.swag.model import BertForMultipleChoice

extract_features = scripts.load("extract_features")
fill_mask = scripts.load("fill_mask")


def left_to_right(config: modeling.BertConfig) -> modeling.BertConfig:
    """Return the configuration with the other attention_direction."""
    return dataclasses.replace(config, attention_direction=LEFT_TO_RIGHT)


def turn(folder: Path) -> Path:
    """Set the attention_direction of a model that is written already."""
    path = folder / "bert_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"attention_direction": LEFT_TO_RIGHT}))
    return folder


def per_token(model, features: dict) -> np.ndarray:
    """Return what the head reads or gives for each token, [B, S, ...]."""
    if isinstance(model, BertForSequenceClassification):  # swag's too
        seed = modeling.draw_seed(True, 7)
        return model.encode(features, True, seed).sequence_output.numpy()
    values = model(features, training=True, dropout_seed=7).numpy()
    if isinstance(model, BertForQuestionAnswering):  # [2, B, S]
        values = values.transpose(1, 2, 0)
    return values


@pytest.mark.parametrize("direction", [LEFT_TO_RIGHT, BIDIRECTIONAL])
@pytest.mark.parametrize(
    "create",
    [
        lambda config: BertForSequenceClassification(config, 3),
        BertForMultipleChoice,
        BertForQuestionAnswering,
        lambda config: BertForTokenClassification(config, 5),
    ],
)
def test_training_sees_the_left_alone(create, direction):
    """Two batches whose tokens differ from position 4 on, with dropout."""
    config = dataclasses.replace(
        small_models.tiny_config(),
        attention_direction=direction,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.5,
    )
    model = create(config)
    ids = np.arange(24).reshape(3, 8) + 1
    features = {
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    other = ids.copy()
    other[:, 4:] += 1
    one, two = (
        per_token(model, {**features, "input_ids": tf.constant(found)})
        for found in (ids, other)
    )
    difference = np.abs(one - two).max(axis=-1)  # [B, S]
    assert (difference[:, 4:] > 1e-3).all()
    is_same = difference[:, :4].max() < 1e-5
    assert is_same == (direction == LEFT_TO_RIGHT)


# --- Prediction and export ---------------------------------------------------


@pytest.mark.slow
def test_classifier_export_and_checkpoint_agree(tmp_path):
    """Both ways to predict; a sentence is the same in any batch."""
    for name, config in (
        ("ltr", left_to_right(classifier_runs.CONFIG)),
        ("both", classifier_runs.CONFIG),
    ):
        fine_tuned_models.write_classifier(
            tmp_path / name, config, classifier_runs.VOCAB, ["bad", "good"]
        )
    sentences = [text for text, _ in classifier_runs.sentences(21, 3)]
    lines = prediction_runs.write_lines(
        tmp_path / "in.jsonl", [{"text": text} for text in sentences]
    )
    wanted = prediction_runs.predict(tmp_path / "ltr", lines, tmp_path / "a")
    one_by_one = prediction_runs.predict(
        tmp_path / "ltr", lines, tmp_path / "b", batch_size=1
    )
    prediction_runs.check_same(one_by_one, wanted)
    exported = prediction_runs.export(tmp_path / "ltr", tmp_path / "served")
    served = prediction_runs.predict(exported, lines, tmp_path / "c")
    prediction_runs.check_same(served, wanted)
    other = prediction_runs.predict(tmp_path / "both", lines, tmp_path / "d")
    with pytest.raises(AssertionError):
        prediction_runs.check_same(other, wanted)


def features_of(folder: Path, pooling: str) -> list[dict]:
    """Return what extract_features.py writes for in.txt, last layer."""
    flags = feature_runs.flags_for(
        folder, folder / "in.txt", folder / f"{pooling}.jsonl", layers="-1"
    )
    scripts.run(extract_features, **flags, pooling=pooling)
    text = (folder / f"{pooling}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_features_see_their_left_and_cls_is_the_last_token(tmp_path):
    feature_runs.write_model(tmp_path)
    turn(tmp_path)
    (tmp_path / "in.txt").write_text("a b c d\na b c h\na b\n")
    vectors = [
        np.array([t["layers"][0]["values"] for t in line["features"]])
        for line in features_of(tmp_path, "none")
    ]  # each [tokens, H]
    for other, shared in ((1, 4), (2, 3)):  # [CLS] a b c; [CLS] a b
        np.testing.assert_allclose(
            vectors[0][:shared], vectors[other][:shared], atol=2e-6
        )
        rest = vectors[0][shared] - vectors[other][shared]
        assert np.abs(rest).max() > 0.01
    pooled = features_of(tmp_path, "cls")
    for line, tokens in zip(pooled, vectors, strict=True):
        np.testing.assert_allclose(
            line["layers"][0]["values"], tokens[-1], atol=2e-6
        )


# --- Masks cannot be filled --------------------------------------------------


def test_masks_are_not_filled_from_one_side(tmp_path):
    """One line in each script; without --task the encoder is exported."""
    folder = turn(mask_models.write_model(tmp_path))
    words = f"{folder}/bert_model.ckpt is a left_to_right model"
    for flags in ({"text": "the [MASK] sat"}, {"text": "a", "score": True}):
        line = scripts.error_of(fill_mask, init_checkpoint=folder, **flags)
        assert words in line and "--objective=mlm_nsp or mlm" in line
    (tmp_path / "in.txt").write_text("the [MASK] sat\n")
    line = scripts.error_of(
        prediction_runs.batch_predict,
        model=folder,
        task="masked_lm",
        input_file=tmp_path / "in.txt",
        output_dir=tmp_path / "out",
    )
    assert words in line
    flags = {"init_checkpoint": folder, "export_dir": tmp_path / "served"}
    export = prediction_runs.export_saved_model
    assert words in scripts.error_of(export, **flags, task="masked_lm")
    checkpoint = open_checkpoint(str(folder))
    assert loading.choose_task(checkpoint) == "encoder"
    found = prediction_runs.predict(folder, tmp_path / "in.txt", tmp_path / "o")
    assert "mean_output" in found[0]
