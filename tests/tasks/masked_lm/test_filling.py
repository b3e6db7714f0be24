"""Masks in text, batches of unequal sentences, probabilities."""

from base.errors import UserError

import mask_models
import numpy as np
import pytest
import tensorflow as tf

import modeling
import tokenization
from checkpoints import weight_files
from checkpoints.checkpoint import open_checkpoint
from pretraining.model import BertForPreTraining
from tasks.masked_lm import filling, masked_sentences


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return mask_models.write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def loaded(model_dir):
    checkpoint = open_checkpoint(str(model_dir), do_lower_case=True)
    return filling.load_model(checkpoint), checkpoint.tokenizer


def tokens(text, tokenizer):
    ids = masked_sentences.sentence_to_ids(text, tokenizer)
    return " ".join(tokenizer.convert_ids_to_tokens(ids))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The [MASK] sat.", "[CLS] the [MASK] sat . [SEP]"),
        ("[MASK][MASK]s", "[CLS] [MASK] [MASK] [UNK] [SEP]"),
        ("Cats sat on[MASK]", "[CLS] cat ##s sat on [MASK] [SEP]"),
        ("[mask] [MASK]", "[CLS] [ mask ] [MASK] [SEP]"),
    ],
)
def test_mask_token_in_text(loaded, text, expected):
    assert tokens(text, loaded[1]) == expected


def test_tokenizer_alone_would_split_the_mask(loaded):
    tokenizer: tokenization.FullTokenizer = loaded[1]
    assert tokenizer.tokenize("[MASK]") == ["[", "mask", "]"]


def test_features_of_unequal_sentences():
    features = filling.create_features(
        [[2, 4, 3], [2, 5, 4, 6, 4, 3]], mask_id=4
    )
    assert features["input_ids"].tolist() == [
        [2, 4, 3, 0, 0, 0],
        [2, 5, 4, 6, 4, 3],
    ]
    assert features["input_mask"].tolist() == [[1] * 3 + [0] * 3, [1] * 6]
    assert features["masked_lm_positions"].tolist() == [[1, 0], [2, 4]]


def test_fillings_are_the_models_probabilities(loaded):
    model, tokenizer = loaded
    texts = ["The [MASK].", "A [MASK] sat on [MASK] mat."]
    encoded = filling.encode_sentences(texts, tokenizer, 12)
    results = filling.fill_masks(model, tokenizer, encoded, top_k=3)
    assert [len(masks) for masks in results] == [1, 2]
    for ids, masks in zip(encoded, results, strict=True):
        positions = [i for i, token in enumerate(ids) if token == 4]
        logits = model(
            {
                "input_ids": tf.constant([ids]),
                "masked_lm_positions": tf.constant([positions]),
            }
        ).masked_lm_logits.numpy()[0, :, : len(tokenizer.vocab)]
        probabilities = np.exp(logits - logits.max(-1, keepdims=True))
        probabilities /= probabilities.sum(-1, keepdims=True)
        for fillings, row in zip(masks, probabilities, strict=True):
            best = np.argsort(-row)[:3]
            assert [f.token for f in fillings] == [
                tokenizer.inv_vocab[int(i)] for i in best
            ]
            found = [f.probability for f in fillings]
            np.testing.assert_allclose(found, row[best], rtol=1e-4)


def test_more_fillings_than_tokens_are_all_tokens(loaded):
    model, tokenizer = loaded
    encoded = filling.encode_sentences(["[MASK]"], tokenizer, 12)
    ((fillings,),) = filling.fill_masks(model, tokenizer, encoded, 1000)
    assert {f.token for f in fillings} == set(tokenizer.vocab)
    assert sum(f.probability for f in fillings) == pytest.approx(1, abs=1e-5)


def test_format():
    cat = filling.Filling("cat", 0.123)
    assert filling.format_fillings("A [MASK].", [[cat, cat]]) == (
        "A [MASK].\n    cat 0.12, cat 0.12"
    )
    assert filling.format_fillings("[MASK] [MASK]", [[cat]] * 2) == (
        "[MASK] [MASK]\n    [MASK] 1: cat 0.12\n    [MASK] 2: cat 0.12"
    )


def test_checkpoint_without_head(model_dir, tmp_path):
    config = modeling.BertConfig.from_json_file(
        str(model_dir / "bert_config.json")
    )
    model = BertForPreTraining(config)
    weight_files.write(
        str(tmp_path / "bert_model.ckpt"),
        weight_files.as_tensors(model.bert.variables),
    )
    with pytest.raises(UserError, match="cls/predictions"):
        filling.load_model(
            open_checkpoint(
                str(tmp_path / "bert_model.ckpt"),
                str(model_dir / "bert_config.json"),
                str(model_dir / "vocab.txt"),
            )
        )
