"""A model's files: those beside a checkpoint, those a flag names, written."""

import json
import logging

from base import cluster
from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from tiny import SPECIAL, values_of

from checkpoints import lookup, model_files, weight_files
from modeling import BertConfig


def config_with(**settings) -> BertConfig:
    config = BertConfig.from_size("tiny", 30)
    return BertConfig.from_dict(config.to_dict() | settings)


def test_labels_are_in_the_order_of_their_numbers():
    names = {str(number): f"label {number}" for number in (10, 2, 0, 1)}
    labels = model_files.labels_in(config_with(id2label=names))
    assert labels == ("label 0", "label 1", "label 2", "label 10")
    assert model_files.labels_in(config_with()) is None
    assert model_files.labels_in(config_with(id2label={})) is None


def test_outputs_without_a_label_have_a_number_as_name():
    config = config_with(id2label={"0": "no", "2": "yes"})
    assert model_files.class_names(config, 3) == ["no", "LABEL_1", "yes"]
    assert model_files.class_names(config_with(), 2) == ["LABEL_0", "LABEL_1"]
    config = config_with(id2label={"0": "LABEL_1"})
    with pytest.raises(UserError, match="names two classes 'LABEL_1'"):
        model_files.class_names(config, 2)


def test_lengths_up_to_the_positions_of_a_model():
    config = config_with(max_position_embeddings=20)
    model_files.check_length(20, config)
    with pytest.raises(UserError, match="=21 is more than .*embeddings=20"):
        model_files.check_length(21, config)


def test_a_vocabulary_may_be_smaller_than_the_model():
    model_files.check_vocab(29, "vocab.txt", config_with())
    with pytest.raises(UserError, match="31 tokens, vocab_size .* is 30"):
        model_files.check_vocab(31, "vocab.txt", config_with())


def test_flags_come_before_files_beside_the_checkpoint(tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    (tmp_path / "vocab.txt").write_text("")
    own = config_with(hidden_act="relu").to_json_string()
    (tmp_path / "bert_config.json").write_text(own)
    (tmp_path / "other.json").write_text(config_with().to_json_string())
    assert model_files.read_config(prefix).hidden_act == "relu"
    given = model_files.read_config(prefix, str(tmp_path / "other.json"))
    assert given.hidden_act == "gelu"
    assert model_files.find_vocab(prefix) == str(tmp_path / "vocab.txt")
    assert model_files.find_vocab(prefix, "given.txt") == "given.txt"


def test_missing_files_are_asked_for_by_their_flag(tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    for function, flag, name in (
        (model_files.read_config, "--bert_config_file", "bert_config.json"),
        (model_files.find_vocab, "--vocab_file", "vocab.txt"),
    ):
        with pytest.raises(UserError, match=f"no {name} beside .*{flag}"):
            function(prefix)
        with pytest.raises(UserError, match=f"{flag} is required without"):
            function("")


def test_casing_by_file_by_directory_name_or_by_flag(tmp_path):
    resolve = model_files.resolve_lower_case
    assert resolve(None, "") is True
    assert resolve(False, "") is False
    released = "cased_L-12_H-768_A-12/bert_model.ckpt"
    assert resolve(None, released) is False
    with pytest.raises(UserError, match="trained with False: leave the flag"):
        resolve(True, released)
    settings = json.dumps({"do_lower_case": False})
    (tmp_path / "tokenizer_config.json").write_text(settings)
    assert resolve(None, str(tmp_path / "model.ckpt")) is False


def write_vocab(path, *tokens) -> str:
    path.write_text("\n".join([*SPECIAL, "the", *tokens]) + "\n")
    return str(path)


@pytest.mark.parametrize("is_beside", [True, False])
def test_without_file_and_name_the_vocabulary_tells_the_casing(
    tmp_path, caplog, is_beside
):
    """As for BioBERT's checkpoints: cased, and their names do not tell."""
    caplog.set_level(logging.INFO)
    folder = tmp_path / "biobert_v1.1_pubmed"
    folder.mkdir()
    prefix = str(folder / "model.ckpt-1000000")
    place = folder / "vocab.txt" if is_beside else tmp_path / "other.txt"

    def resolve(flag: bool | None) -> bool:
        vocab_file = None if is_beside else str(place)
        return model_files.resolve_lower_case(flag, prefix, vocab_file)

    path = write_vocab(place, "The", "A")
    assert resolve(None) is False
    assert f"False, as the capitals in {path} show" in caplog.text
    assert "looks cased" not in caplog.text
    assert resolve(True) is True
    assert f"{path} looks cased (7 of 8 tokens have capitals)" in caplog.text
    caplog.clear()
    assert resolve(False) is False
    write_vocab(place)
    assert resolve(True) is True and resolve(False) is False
    assert not caplog.text
    assert resolve(None) is True
    settings = json.dumps({"do_lower_case": True})
    (folder / "tokenizer_config.json").write_text(settings)
    write_vocab(place, "The", "A")
    assert resolve(None) is True  # what is written comes first
    with pytest.raises(UserError, match="trained with True: leave the flag"):
        resolve(False)


def test_a_tokenizer_has_the_casing_of_its_vocabulary(tmp_path):
    """Also without a checkpoint."""
    for tokens, casing in ((["The", "A"], False), ([], True)):
        path = write_vocab(tmp_path / "vocab.txt", *tokens)
        tokenizer = model_files.load_tokenizer("", config_with(), path, None)
        assert tokenizer.basic_tokenizer.do_lower_case is casing


@pytest.mark.parametrize("do_lower_case", [True, None])
@pytest.mark.parametrize("is_link", [True, False])
def test_a_vocabulary_in_the_folder_is_kept(
    model, tmp_path, do_lower_case, is_link
):
    """A copy onto itself would leave an empty file."""
    vocab = tmp_path / "vocab.txt"
    tokens = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nà\n"
    vocab.write_text(tokens)
    if is_link:
        vocab = tmp_path / "link.txt"
        vocab.symlink_to(tmp_path / "vocab.txt")
    config = config_with(vocab_size=5)
    model_files.write_model(
        str(tmp_path), model, config, str(vocab), do_lower_case
    )
    assert (tmp_path / "vocab.txt").read_text() == tokens


@pytest.mark.parametrize("do_lower_case", [True, False, None])
def test_a_written_model_is_found_again(model, tmp_path, do_lower_case):
    vocab = tmp_path / "words.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nà\n")
    folder = tmp_path / "model"
    folder.mkdir()
    config = config_with(vocab_size=5)
    before = values_of(model.variables)
    prefix = model_files.write_model(
        str(folder), model, config, str(vocab), do_lower_case
    )
    assert prefix == lookup.find_checkpoint(str(folder))
    found = model_files.read_config(prefix)
    assert found.to_dict() == config.to_dict()
    tokenizer = model_files.load_tokenizer(prefix, found, None, None)
    casing = True if do_lower_case is None else do_lower_case
    assert tokenizer.basic_tokenizer.do_lower_case == casing
    assert list(tokenizer.vocab)[2:] == ["[CLS]", "[SEP]", "à"]
    for variable in model.variables:
        variable.assign(tf.zeros_like(variable))
    weight_files.restore_weights(model.variables, prefix)
    for path, value in values_of(model.variables).items():
        np.testing.assert_array_equal(value, before[path])


def test_only_the_chief_writes_a_model(model, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "is_chief", lambda: False)
    prefix = model_files.write_model(
        str(tmp_path), model, config_with(), None, True
    )
    assert prefix == str(tmp_path / lookup.WEIGHTS_NAME)
    assert not list(tmp_path.iterdir())
