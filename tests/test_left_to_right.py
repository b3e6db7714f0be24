"""Left-to-right models: vectors of tokens, and masks that cannot be filled.

tests/test_modeling_direction.py has the model itself; one of the tasks of
tests/test_tasks_contract.py, the regression, has such a model.
"""

import json
from pathlib import Path

import feature_runs
import mask_models
import numpy as np
import prediction_runs
import pytest
import scripts
from exports import export_saved_model
from fine_tuned_models import change

from checkpoints.checkpoint import open_checkpoint
from modeling import LEFT_TO_RIGHT
from tasks import loading

extract_features = scripts.load("extract_features")
fill_mask = scripts.load("fill_mask")


TURNED = {"attention_direction": LEFT_TO_RIGHT}


def features_of(folder: Path, pooling: str) -> list[dict]:
    """Return what extract_features.py writes for in.txt, last layer."""
    flags = feature_runs.flags_for(
        folder, folder / "in.txt", folder / f"{pooling}.jsonl", layers="-1"
    )
    scripts.run(extract_features, **flags, pooling=pooling)
    text = (folder / f"{pooling}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.nightly
def test_features_see_their_left_and_cls_is_the_last_token(tmp_path):
    change(feature_runs.write_model(tmp_path), **TURNED)
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


def test_masks_are_not_filled_from_one_side(tmp_path):
    """One line in each script; without --task the encoder is exported."""
    folder = change(mask_models.write_model(tmp_path), **TURNED)
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
    assert words in scripts.error_of(
        export_saved_model, **flags, task="masked_lm"
    )
    checkpoint = open_checkpoint(str(folder))
    assert loading.choose_task(checkpoint) == "encoder"
    found = prediction_runs.predict(folder, tmp_path / "in.txt", tmp_path / "o")
    assert "mean_output" in found[0]
