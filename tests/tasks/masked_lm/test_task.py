"""Masks in text: [MASK] is one token, whatever the tokenizer makes of it."""

import mask_models
import pytest

import tokenization
from tasks.masked_lm.task import sentence_to_ids


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = mask_models.write_model(tmp_path_factory.mktemp("model"))
    return tokenization.FullTokenizer(str(folder / "vocab.txt"))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The [MASK] sat.", "[CLS] the [MASK] sat . [SEP]"),
        ("[MASK][MASK]s", "[CLS] [MASK] [MASK] [UNK] [SEP]"),
        ("Cats sat on[MASK]", "[CLS] cat ##s sat on [MASK] [SEP]"),
        ("[mask] [MASK]", "[CLS] [ mask ] [MASK] [SEP]"),
    ],
)
def test_mask_token_in_text(tokenizer, text, expected):
    ids = sentence_to_ids(text, tokenizer)
    assert " ".join(tokenizer.convert_ids_to_tokens(ids)) == expected
    assert tokenizer.tokenize("[MASK]") == ["[", "mask", "]"]
