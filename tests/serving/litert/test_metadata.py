"""The metadata of LiteRT files: its layout, and the real MediaPipe."""

import io
import json
import zipfile

import litert_files
import numpy as np
import pytest
from marks import nightly

from serving.litert import metadata
from serving.litert.model import LiteRtModel

pytest.importorskip("ai_edge_litert")

TEXTS = ["a good film", "The BAD book was not very good"]

# Of 1 token to more than a model has that reads 32 and has 64 positions. What
# is not cut changes the answers.
LONG = [
    " ".join(("good film bad book not " * count).split()[:count])
    for count in (1, 30, 31, 32, 33, 62, 63, 64, 65, 600)
]


def mediapipe_text():
    """Return mediapipe.tasks.python, or skip the test."""
    return pytest.importorskip(
        "mediapipe.tasks.python", reason="needs mediapipe (requirements-dev)"
    )


# --- MediaPipe ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["int8", nightly("none")])
def test_mediapipe_classifies_with_the_same_scores(tmp_path, quantize):
    tasks = mediapipe_text()
    source = litert_files.write_model(tmp_path / "model", "classifier", 32)
    file = litert_files.export(source, tmp_path / "m.tflite", quantize=quantize)
    options = tasks.text.TextClassifierOptions(
        base_options=tasks.BaseOptions(model_asset_path=str(file))
    )
    texts = TEXTS + LONG + TEXTS
    wanted = LiteRtModel(str(file)).predict(texts)
    with tasks.text.TextClassifier.create_from_options(options) as model:
        for text, one in zip(texts, wanted, strict=True):
            (found,) = model.classify(text).classifications
            scores = {c.category_name: c.score for c in found.categories}
            assert scores == pytest.approx(one["probabilities"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder", nightly("embeddings")])
def test_mediapipe_embeds_with_the_same_vectors(tmp_path, kind):
    tasks = mediapipe_text()
    source = litert_files.write_model(tmp_path / "model", kind, 32)
    file = litert_files.export(source, tmp_path / "m.tflite")
    names = ("embedding",)
    if kind == "encoder":
        names = ("mean_output", "pooled_output")
    texts = TEXTS + LONG + TEXTS
    wanted = LiteRtModel(str(file), vectors=names).predict(texts)
    options = tasks.text.TextEmbedderOptions(
        base_options=tasks.BaseOptions(model_asset_path=str(file))
    )
    with tasks.text.TextEmbedder.create_from_options(options) as model:
        for text, one in zip(texts, wanted, strict=True):
            found = {
                e.head_name: e.embedding for e in model.embed(text).embeddings
            }
            assert tuple(found) == names  # programs take the first
            for name in names:
                np.testing.assert_allclose(found[name], one[name], atol=1e-5)


# --- Layout ------------------------------------------------------------------


def test_files_are_stored_behind_the_model_and_read_again(tmp_path):
    head = b"\x1c\0\0\0TFL3" + bytes(range(256))
    details = {"version": metadata.VERSION, "max_position_embeddings": 9}
    files = {
        "vocab.txt": b"a\nb\n",
        "export.json": json.dumps(details).encode(),
    }
    whole = metadata.with_files(head, files)
    assert whole.startswith(head)
    assert whole == metadata.with_files(head, files)  # no time of day in it
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        for entry in archive.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED
    path = tmp_path / "m.tflite"
    path.write_bytes(whole)
    assert metadata.read_files(str(path)) == files
    assert metadata.read_description(str(path)) == (details, b"a\nb\n")
