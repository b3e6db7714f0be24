"""A checkpoint with the files beside it: opened, checked, written again."""

import json
import math

from base import cluster
from base.errors import UserError

import casings
import numpy as np
import pytest
import tensorflow as tf
from tiny import SPECIAL, assert_same, values_of

from checkpoints import weight_files
from checkpoints.casing import TokenizerFiles
from checkpoints.checkpoint import num_weights, open_checkpoint, write_model
from checkpoints.model import Checkpoint
from checkpoints.run_folder import WEIGHTS_NAME
from checkpoints.trained_for import TrainedFor, id2label_of
from modeling import BertConfig, BertModel
from tokenization import TokenizerSettings, Vocabulary

NOTHING = TrainedFor()
UNCASED, CASED = TokenizerSettings.of(True), TokenizerSettings.of(False)


def config_with(**settings) -> BertConfig:
    config = BertConfig.from_size("tiny", 30)
    return BertConfig.from_dict(config.to_dict() | settings)


def test_the_numbers_of_an_encoder():
    config = config_with(intermediate_size=7)
    variables = BertModel(config).variables
    assert num_weights(config) == sum(math.prod(v.shape) for v in variables)


def test_labels_are_in_the_order_of_their_numbers():
    names = {str(number): f"label {number}" for number in (10, 2, 0, 1)}
    labels = TrainedFor(id2label=names).labels
    assert labels == ("label 0", "label 1", "label 2", "label 10")
    assert NOTHING.labels is None and TrainedFor(id2label={}).labels is None


def test_labels_that_are_numbers_are_names():
    found = TrainedFor.from_dict({"id2label": {"0": 0, "1": 10}})
    assert found.labels == ("0", "10") and found.class_names(2) == ["0", "10"]


def test_outputs_without_a_label_have_a_number_as_name():
    found = TrainedFor(id2label={"0": "no", "2": "yes"})
    assert found.class_names(3) == ["no", "LABEL_1", "yes"]
    assert NOTHING.class_names(2) == ["LABEL_0", "LABEL_1"]
    with pytest.raises(UserError, match="names two classes 'LABEL_1'"):
        TrainedFor(id2label={"0": "LABEL_1"}).class_names(2)


def test_what_a_model_was_trained_for_is_no_part_of_the_encoder(tmp_path):
    """Its keys are written back as they were, and so are unknown ones."""
    given = {
        "task": "token_classification",
        "id2label": id2label_of(["O", "B-PER"]),
        "max_seq_length": 20,
        "document_context": False,
    }
    path = tmp_path / "bert_config.json"
    encoder = config_with(pooler_type="first").to_dict()
    path.write_text(json.dumps(encoder | given))
    prefix = str(tmp_path / "model.ckpt")
    weight_files.write(prefix, {"output_bias": np.zeros(2, np.float32)})
    found = open_checkpoint(prefix)
    assert found.config.to_dict() == encoder
    assert found.trained_for.to_dict() == given
    assert found.trained_for.sentence_pairs is None


@pytest.mark.parametrize(
    "setting",
    [
        {"bilstm_units": "9"},
        {"max_seq_length": 0},
        {"max_seq_length": 10**30},
        {"sentence_pairs": 1},
        {"task": 3},
        {"id2label": ["a"]},
        {"id2label": {"a": "b"}},
        {"id2label": {"0": None}},
        {"hidden_act": ["gelu"]},
        {"id2label": {10 * "9": "b"}},
    ],
    ids=str,
)
def test_a_setting_of_another_type_is_named(tmp_path, setting):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(config_with().to_dict() | setting))
    (name,) = setting
    words = f"{name} must be|unknown activation"
    with pytest.raises(UserError, match=f"c.json: .*({words})"):
        open_checkpoint(None, str(path))


def test_lengths_up_to_the_positions_of_a_model():
    checkpoint = Checkpoint("", config_with(max_position_embeddings=20))
    assert checkpoint.fitting_length(20, is_given=True) == 20
    assert checkpoint.fitting_length(21, is_given=False) == 20
    with pytest.raises(UserError, match="=21 is more than .*embeddings=20"):
        checkpoint.fitting_length(21, is_given=True)


def test_a_vocabulary_may_be_smaller_than_the_model():
    checkpoint = Checkpoint(
        "", config_with(), files=TokenizerFiles(vocabulary=Vocabulary("v.txt"))
    )
    checkpoint.check_vocab(29)
    with pytest.raises(UserError, match="31 tokens, vocab_size .* is 30"):
        checkpoint.check_vocab(31)


def test_flags_come_before_files_beside_the_checkpoint(tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    weight_files.write(prefix, {"output_bias": np.zeros(2, np.float32)})
    (tmp_path / "vocab.txt").write_text("")
    own = config_with(hidden_act="relu").to_json_string()
    (tmp_path / "bert_config.json").write_text(own)
    (tmp_path / "other.json").write_text(config_with().to_json_string())
    found = open_checkpoint(prefix)
    assert found.config.hidden_act == "relu"
    assert found.vocab_file == str(tmp_path / "vocab.txt")
    assert found.shapes == {"output_bias": [2]}
    found = open_checkpoint(prefix, str(tmp_path / "other.json"), "given.txt")
    assert found.config.hidden_act == "gelu"
    assert found.vocab_file == "given.txt"


@pytest.mark.parametrize(
    "tokens, words",
    [
        ("[PAD] [unused1] a b", None),
        ("[PAD] word a b", None),
        ("[PAD] [unused1] b a", "has 'b' in line 3, and 'a'"),
        ("[PAD] [unused1] a", "has 3 lines, and 'b'"),
        ("[PAD] [unused1] a b c", "has 'c' in line 5, and 4 lines"),
    ],
)
def test_a_vocabulary_is_that_of_the_model(tmp_path, tokens, words):
    """With [unused] tokens replaced, as the original's advice has it."""
    prefix = str(tmp_path / "model.ckpt")
    weight_files.write(prefix, {"output_bias": np.zeros(2, np.float32)})
    (tmp_path / "bert_config.json").write_text(config_with().to_json_string())
    own, given = (tmp_path / f"{name}.txt" for name in ("vocab", "given"))
    own.write_text("[PAD]\n[unused1]\na\nb\n")
    given.write_text(tokens.replace(" ", "\r\n"))
    if not words:
        found = open_checkpoint(prefix, vocab_file=str(given)).vocab_file
        assert found == str(given)
        return
    words = words.replace(", and", f", and the model's own vocabulary {own}")
    with pytest.raises(UserError, match=f"^--vocab_file={given} {words}: "):
        open_checkpoint(prefix, vocab_file=str(given))


def test_missing_files_are_asked_for_by_their_flag(tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    weight_files.write(prefix, {"output_bias": np.zeros(2, np.float32)})
    for function, flag, name in (
        (open_checkpoint, "--bert_config_file", "bert_config.json"),
        (
            lambda prefix: Checkpoint(prefix, config_with()).tokenizer,
            "--vocab_file",
            "vocab.txt",
        ),
    ):
        with pytest.raises(UserError, match=f"no {name} beside .*{flag}"):
            function(prefix)
        with pytest.raises(UserError, match=f"required.*{flag}|{flag} is req"):
            function("")


def test_casing_by_file_by_directory_name_or_by_flag(tmp_path):
    assert casings.settings_of(None, "", None) == UNCASED
    assert casings.settings_of(False, "", None) == CASED
    released = "cased_L-12_H-768_A-12/bert_model.ckpt"
    assert casings.settings_of(None, released, None) == CASED
    with pytest.raises(UserError, match="trained with False: leave the flag"):
        casings.settings_of(True, released, None)
    settings = json.dumps({"do_lower_case": False})
    (tmp_path / "tokenizer_config.json").write_text(settings)
    prefix = str(tmp_path / "model.ckpt")
    assert casings.settings_of(None, prefix, None) == CASED


def test_a_file_beside_the_vocabulary_is_named_as_such(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="beside .*/vocab.txt: .*config.json"):
        casings.settings_of(None, "", str(tmp_path / "vocab.txt"))


def test_without_file_and_name_the_vocabulary_tells_the_casing(tmp_path):
    """As for BioBERT's checkpoints: cased, and their names do not tell."""
    folder = tmp_path / "biobert_v1.1_pubmed"
    folder.mkdir()
    prefix = str(folder / "model.ckpt-1000000")
    place = folder / "vocab.txt"

    def resolve(flag: bool | None) -> bool:
        found = casings.settings_of(flag, prefix, str(place))
        return found.do_lower_case

    place.write_text("\n".join([*SPECIAL, "the", "The", "A"]) + "\n")
    assert resolve(None) is False
    assert resolve(True) is True
    settings = json.dumps({"do_lower_case": True})
    (folder / "tokenizer_config.json").write_text(settings)
    assert resolve(None) is True  # what is written comes first
    with pytest.raises(UserError, match="trained with True: leave the flag"):
        resolve(False)


def checkpoint_with(config, vocab, settings=UNCASED, trained_for=NOTHING):
    files = TokenizerFiles(vocabulary=Vocabulary(vocab), known=settings)
    return Checkpoint("", config, trained_for, files)


@pytest.mark.parametrize("is_link", [True, False])
def test_a_vocabulary_in_the_folder_is_kept(model, tmp_path, is_link):
    """A copy onto itself would leave an empty file."""
    vocab = tmp_path / "vocab.txt"
    tokens = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nà\n"
    vocab.write_text(tokens)
    if is_link:
        vocab = tmp_path / "link.txt"
        vocab.symlink_to(tmp_path / "vocab.txt")
    config = config_with(vocab_size=5)
    write_model(str(tmp_path), model, checkpoint_with(config, vocab))
    assert (tmp_path / "vocab.txt").read_text() == tokens


@pytest.mark.parametrize(
    "normalization", [UNCASED, CASED, TokenizerSettings(True, False, False)]
)
def test_a_written_model_is_found_again(model, tmp_path, normalization):
    vocab = tmp_path / "words.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nà\n")
    folder = tmp_path / "model"
    folder.mkdir()
    config = config_with(vocab_size=5)
    before = values_of(model.variables)
    trained_for = TrainedFor(sentence_pairs=False)
    written = checkpoint_with(config, vocab, normalization, trained_for)
    write_model(str(folder), model, written)
    prefix = str(folder / WEIGHTS_NAME)
    found = open_checkpoint(str(folder))
    assert found.prefix == prefix
    assert found.config.to_dict() == config.to_dict()
    assert found.trained_for == trained_for
    tokenizer = found.tokenizer
    assert tokenizer.settings == normalization
    assert list(tokenizer.vocab)[2:] == ["[CLS]", "[SEP]", "à"]
    for variable in model.variables:
        variable.assign(tf.zeros_like(variable))
    weight_files.restore_weights(model.variables, prefix)
    assert_same(values_of(model.variables), before)


def test_only_the_chief_writes_a_model(model, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "is_chief", lambda: False)
    write_model(str(tmp_path), model, Checkpoint("", config_with()))
    assert not list(tmp_path.iterdir())
