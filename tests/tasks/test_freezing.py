"""SavedModels with --freeze: constants instead of variables, same outputs."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from exports import EXPORTS, VOCAB, export, write_model

import modeling
from tasks import freezing, graph_tokenizer

pytest.importorskip("tensorflow_text")

TEXTS = ["the films [MASK] good .", "bad", "café [MASK] [MASK]"]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(VOCAB) + "\n")
    return str(path)


def inputs_of(made) -> list[tf.Tensor]:
    """Return texts for each input of an export's text signature."""
    shapes = [spec.shape.rank for spec in made.text_specs()]
    return [
        tf.constant(TEXTS if rank == 1 else [[text] * 2 for text in TEXTS])
        for rank in shapes
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["masked_lm", "question_answering", "tagger"])
def test_heads_give_the_same_outputs(name, vocab_file):
    tokenizer = graph_tokenizer.Tokenizer(vocab_file)
    made = EXPORTS[name](tokenizer, vocab_file, 20)
    texts = inputs_of(made)
    made.skip_padding()
    wanted = made.from_texts(*texts)
    made.freeze()
    found = tf.function(made.from_texts, autograph=False)(*texts)
    assert wanted.keys() == found.keys()
    for key, value in wanted.items():
        if value.dtype.is_floating:
            np.testing.assert_allclose(found[key], value, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[key], value)


@pytest.mark.slow
def test_the_weights_are_constants_that_are_stored_once(tmp_path):
    tf.keras.utils.set_random_seed(3)
    model = modeling.TaskModel(modeling.BertConfig.from_size("tiny", 5000))
    source = write_model(tmp_path / "model", model.variables)
    config = model.config.to_json_string()
    (source / "bert_config.json").write_text(config)
    size = sum(v.value.numpy().nbytes for v in model.variables)
    found, graphs = {}, []
    for name, freeze, dtype in (
        ("plain", False, "float32"),
        ("frozen", True, "float32"),
        ("half", True, "float16"),
    ):
        directory = export(
            source, tmp_path / name, task="encoder", freeze=freeze, dtype=dtype
        )
        loaded = tf.saved_model.load(str(directory))
        found[name] = [
            loaded.signatures["serving_default"](text=tf.constant(TEXTS)),
            loaded.signatures["ids"](
                **dict.fromkeys(
                    ("input_ids", "input_mask", "segment_ids"),
                    tf.ones([2, 7], tf.int32),
                )
            ),
        ]
        graphs.append((directory / "saved_model.pb").stat().st_size)
    plain, frozen, half = graphs  # all with the tokenizer's tables
    assert half == pytest.approx(frozen, rel=0.01), "weights are float32"
    for wanted, answers in zip(found["plain"], found["half"], strict=True):
        for key, value in wanted.items():
            assert answers[key].dtype == tf.float32
            np.testing.assert_allclose(answers[key], value, atol=0.01)
            assert (answers[key] != value).numpy().any()
    assert 0.9 * size < frozen - plain < 1.05 * size
    for plain, frozen in zip(found["plain"], found["frozen"], strict=True):
        for key, value in plain.items():
            np.testing.assert_allclose(frozen[key], value, atol=1e-5)


def test_a_tagger_on_frozen_features_is_refused(vocab_file):
    tokenizer = graph_tokenizer.Tokenizer(vocab_file)
    made = EXPORTS["bilstm"](tokenizer, vocab_file, 20)
    with pytest.raises(UserError, match="--freeze: a tagger on frozen"):
        made.freeze()


def test_weights_that_exceed_a_graph_are_refused(vocab_file, monkeypatch):
    monkeypatch.setattr(freezing, "_MOST_BYTES", 10_000)
    made = EXPORTS["encoder"](
        graph_tokenizer.Tokenizer(vocab_file), vocab_file, 20
    )
    with pytest.raises(UserError, match="the weights have 0.00 GB"):
        made.freeze()
