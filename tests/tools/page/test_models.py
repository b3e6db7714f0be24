"""Names of checkpoints, and what is shared among the parts of a model."""

import json

from base.errors import UserError

import litert_files
import numpy as np
import page_models
import pytest

from checkpoints import weight_files
from tools.page import inputs, models


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["out/mrpc/"], ["mrpc"]),
        (["out/base/bert_model.ckpt", "out/x/model.ckpt-10"], ["base", "x"]),
        (["a/mrpc", "b/mrpc", "c"], ["a/mrpc", "b/mrpc", "c"]),
        (["hf://google/bert@main"], ["bert@main"]),
        (["bert_model.ckpt"], ["bert_model.ckpt"]),
        (["/"], ["/"]),
    ],
)
def test_names_are_short_and_differ(paths, names):
    found = models.named_paths(", ".join(paths))
    assert found == dict(zip(names, paths, strict=True))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a,,b", "item 2 of 3 is empty"),
        ("a,", "item 2 of 2 is empty"),
        ("a,b,a", "item 3 of 3 is there twice"),
    ],
)
def test_a_list_with_mistakes(value, message):
    with pytest.raises(UserError, match=message):
        models.named_paths(value)


def test_the_encoder_of_a_classifier_is_that_of_its_head(tmp_path):
    """A weight that changes changes both."""
    model = page_models.made_once(tmp_path)("classifier")
    batch = inputs.features_of(inputs.pieces_of(model, "good film"))
    before = model.run(batch)["probabilities"]
    vectors = model.run_vectors(batch)["mean_output"]
    table = model.model.bert.embeddings.word_embeddings
    table.assign(table + np.random.default_rng(1).normal(size=table.shape))
    assert np.abs(model.run(batch)["probabilities"] - before).max() > 1e-3
    change = model.run_vectors(batch)["mean_output"] - vectors
    assert np.abs(change).max() > 1e-3


@pytest.mark.parametrize("reason", ["objective", "weights"])
def test_a_head_that_was_not_trained_has_no_tab(tmp_path, reason):
    """After --objective=mlm, and in checkpoints of a masked LM alone."""
    path = litert_files.write_model(tmp_path / "lm", "masked_lm")
    assert page_models.load(str(path)).heads == ("masked_lm", "next_sentence")
    if reason == "objective":
        file = path / "bert_config.json"
        config = json.loads(file.read_text()) | {"objective": "mlm"}
        file.write_text(json.dumps(config))
    else:
        prefix = str(path / "bert_model.ckpt")
        reader = weight_files.Reader(prefix)
        kept = {
            name: reader.get_tensor(name)
            for name in reader.get_variable_to_shape_map()
            if "seq_relationship" not in name and "pooler" not in name
        }
        weight_files.write(prefix, kept)
    assert page_models.load(str(path)).heads == ("masked_lm",)


def test_the_summary_names_sizes(model_of):
    summary = model_of("encoder").summary()
    assert "encoder, 1 layer of 16 units, 2 heads, 14 word" in summary
