"""fill_mask.py: masks in text, batches of unequal sentences, mistakes."""

from base.errors import UserError

import numpy as np
import pytest
import scripts
import tensorflow as tf

import modeling
import tokenization
from checkpoints import weight_files
from pretraining import model as pretraining_model

fill_mask = scripts.load("fill_mask")

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s sat on a mat . mask [ ]"


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """A model with random weights, as run_pretraining.py leaves one."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "vocab.txt").write_text("\n".join(WORDS.split()) + "\n")
    config = modeling.BertConfig(
        vocab_size=20,  # more rows than tokens: some models are padded
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
        type_vocab_size=2,
        initializer_range=0.5,
    )
    (folder / "bert_config.json").write_text(config.to_json_string())
    tf.keras.utils.set_random_seed(1)
    variables = pretraining_model.BertForPreTraining(config).variables
    weight_files.write(
        str(folder / "bert_model.ckpt"), weight_files.as_tensors(variables)
    )
    return folder


@pytest.fixture(scope="module")
def loaded(model_dir):
    return fill_mask.load(
        str(model_dir / "bert_model.ckpt"),
        str(model_dir / "bert_config.json"),
        str(model_dir / "vocab.txt"),
        do_lower_case=True,
    )


def tokens(text, tokenizer):
    ids = fill_mask.sentence_to_ids(text, tokenizer)
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


def test_features_of_unequal_sentences():
    features = fill_mask.create_features(
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
    encoded = fill_mask.encode_sentences(texts, tokenizer, 12)
    results = fill_mask.fill_masks(model, tokenizer, encoded, top_k=3)
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
    encoded = fill_mask.encode_sentences(["[MASK]"], tokenizer, 12)
    ((fillings,),) = fill_mask.fill_masks(model, tokenizer, encoded, 1000)
    assert {f.token for f in fillings} == set(tokenizer.vocab)
    assert sum(f.probability for f in fillings) == pytest.approx(1, abs=1e-5)


def test_format():
    filling = fill_mask.Filling("cat", 0.123)
    assert fill_mask.format_fillings("A [MASK].", [[filling, filling]]) == (
        "A [MASK].\n    cat 0.12, cat 0.12"
    )
    assert fill_mask.format_fillings("[MASK] [MASK]", [[filling]] * 2) == (
        "[MASK] [MASK]\n    [MASK] 1: cat 0.12\n    [MASK] 2: cat 0.12"
    )


def test_main_takes_text_and_file(model_dir, tmp_path, capsys):
    (tmp_path / "text").write_text("The [MASK].\n\nA [MASK] sat.\n")
    scripts.run(
        fill_mask,
        init_checkpoint=model_dir,
        text="On [MASK]",
        input_file=tmp_path / "text",
        top_k=2,
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == ["On [MASK]", "The [MASK].", "A [MASK] sat."]
    assert all(line.count(",") == 1 for line in lines[1::2])


@pytest.mark.parametrize(
    "values, message",
    [
        ({"text": "no gap"}, "no [MASK] in 'no gap'"),
        ({"text": "a [mask]"}, "only '[mask]'"),
        ({"text": "[MASK] " * 20}, "has 22 tokens"),
        ({}, "give --text or --input_file"),
        ({"text": "[MASK]", "max_seq_length": 13}, "max_position_embeddings"),
        ({"text": "[MASK]", "vocab_file": "/no/file"}, "/no/file"),
        ({"text": "[MASK]", "bert_config_file": "/no/file"}, "/no/file"),
        ({"input_file": "/no/file"}, "/no/file"),
        ({"text": "[MASK]", "init_checkpoint": "/no/dir"}, "/no/dir"),
    ],
)
def test_mistakes_are_told_in_one_line(model_dir, values, message):
    values = {"init_checkpoint": model_dir, **values}
    assert message in scripts.error_of(fill_mask, **values)


def test_vocabulary_of_another_model(model_dir, tmp_path):
    words = [*WORDS.split(), *(f"word{i}" for i in range(9))]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    message = scripts.error_of(
        fill_mask,
        init_checkpoint=model_dir,
        vocab_file=tmp_path / "vocab.txt",
        text="[MASK]",
    )
    assert "has 25 tokens" in message and "is 20" in message


def test_vocabulary_without_mask(model_dir, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    message = scripts.error_of(
        fill_mask,
        init_checkpoint=model_dir,
        vocab_file=tmp_path / "vocab.txt",
        text="[MASK]",
    )
    assert "[MASK]" in message


def test_checkpoint_without_head(model_dir, tmp_path):
    config = modeling.BertConfig.from_json_file(
        str(model_dir / "bert_config.json")
    )
    model = pretraining_model.BertForPreTraining(config)
    weight_files.write(
        str(tmp_path / "bert_model.ckpt"),
        weight_files.as_tensors(model.bert.variables),
    )
    with pytest.raises(UserError, match="cls/predictions"):
        fill_mask.load(
            str(tmp_path / "bert_model.ckpt"),
            str(model_dir / "bert_config.json"),
            str(model_dir / "vocab.txt"),
            do_lower_case=True,
        )


def test_tokenizer_alone_would_split_the_mask(loaded):
    tokenizer: tokenization.FullTokenizer = loaded[1]
    assert tokenizer.tokenize("[MASK]") == ["[", "mask", "]"]
