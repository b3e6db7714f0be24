"""extract_features.py as a user runs it, and its numbers one by one."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import feature_runs
import numpy as np
import pytest
import scripts
import tensorflow as tf
from feature_runs import CONFIG, LENGTH, LINES, VOCAB, flags_for
from paths import ROOT

import modeling
from checkpoints import weight_files
from tasks.encoder import lines as features_lines

extract_features = scripts.load("extract_features")

# Runs the script on two logical devices.
TWO_DEVICES = """
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
import extract_features
from base import errors
errors.run(extract_features.main)
"""


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    return feature_runs.write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def input_file(tmp_path_factory) -> Path:
    return feature_runs.write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def extracted(model_dir, input_file, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("features") / "out.jsonl"
    flags = flags_for(model_dir, input_file, out)
    assert not scripts.run(extract_features, **flags)
    return out


def read_jsonl(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def values_of(line: dict) -> np.ndarray:
    """[T, K, H] of a line of JSON."""
    return np.array(
        [
            [layer["values"] for layer in token["layers"]]
            for token in line["features"]
        ]
    )


def sequence_of(text: str) -> tuple[list[str], list[int]]:
    """Tokens and segments as the original makes them, popped one by one."""
    text = text.strip()
    a, b = text.split(), []
    if " ||| " in text:
        first, second = text.rsplit(" ||| ", 1)
        a, b = first.split(), second.replace("\u200b", "").split()
    # Punctuation is parted, unknown letters are [UNK].
    a, b = (
        [
            piece if piece in VOCAB else "[UNK]"
            for word in words
            for piece in word.replace('"', ' " ').replace("|", " | ").split()
        ]
        for words in (a, b)
    )
    while len(a) + len(b) > LENGTH - (3 if b else 2):
        (a if len(a) > len(b) else b).pop()
    tokens, segments = ["[CLS]", *a, "[SEP]"], [0] * (len(a) + 2)
    if b:
        tokens, segments = [*tokens, *b, "[SEP]"], segments + [1] * (len(b) + 1)
    return tokens, segments


@pytest.fixture(scope="module")
def by_hand(model_dir) -> list[np.ndarray]:
    """[T, 4, H] of every line: one forward pass each, no padding, no mask."""
    model = modeling.TaskModel(CONFIG)
    weight_files.restore_weights(model.variables, str(model_dir))
    results = []
    for text in LINES:
        tokens, segments = sequence_of(text)
        ids = [VOCAB.index(token) for token in tokens]
        output = model.bert(
            tf.constant([ids]), segment_ids=tf.constant([segments])
        )
        layers = [output.encoder_layers[index][0] for index in (-1, -2, -3, -4)]
        results.append(np.stack(layers, axis=1))
    return results


# --- Numbers -----------------------------------------------------------------


@pytest.mark.slow
def test_every_line_is_a_forward_pass_of_its_own(extracted, by_hand):
    lines = read_jsonl(extracted)
    assert [line["linex_index"] for line in lines] == [*range(len(LINES))]
    for text, line, wanted in zip(LINES, lines, by_hand, strict=True):
        tokens = [token["token"] for token in line["features"]]
        assert tokens == sequence_of(text)[0], text
        for token in line["features"]:
            assert list(token) == ["token", "layers"]
            assert [x["index"] for x in token["layers"]] == [-1, -2, -3, -4]
        np.testing.assert_allclose(values_of(line), wanted, rtol=0, atol=1e-5)


def test_cut_as_the_original_cuts(extracted):
    """Singles to S - 2, pairs from the longer side to S - 3."""
    counts = {}
    for number in (7, 8, 9):
        tokens = [t["token"] for t in read_jsonl(extracted)[number]["features"]]
        assert len(tokens) == LENGTH
        counts[number] = [tokens.count(letter) for letter in "abc"]
    assert counts == {7: [22, 0, 0], 8: [15, 6, 0], 9: [0, 3, 18]}


def test_text_is_what_python_prints(extracted):
    """Byte for byte what json.dumps makes of six decimals."""
    for line in extracted.read_text().splitlines():
        assert json.dumps(json.loads(line)) == line
    assert '"token": "\\u00e9"' in extracted.read_text()


@pytest.mark.slow
def test_padding_and_batches_change_nothing(
    model_dir, input_file, extracted, tmp_path
):
    for number, more in enumerate(
        ({"pad_to_max_length": True}, {"batch_size": 3}, {"batch_size": 1})
    ):
        out = tmp_path / f"{number}.jsonl"
        flags = flags_for(model_dir, input_file, out, **more)
        scripts.run(extract_features, **flags)
        for found, wanted in zip(
            read_jsonl(out), read_jsonl(extracted), strict=True
        ):
            np.testing.assert_allclose(
                values_of(found), values_of(wanted), rtol=0, atol=1.1e-5
            )


@pytest.mark.slow
def test_windows_are_written_in_order(
    model_dir, input_file, extracted, tmp_path, monkeypatch
):
    """Memory for a few lines at a time: the same file."""
    monkeypatch.setattr(features_lines, "_WINDOW_BYTES", 10_000)
    sizes = []
    make = features_lines.WindowRecords

    def noting(window, *args):
        sizes.append(len(window))
        return make(window, *args)

    monkeypatch.setattr(features_lines, "WindowRecords", noting)
    out = tmp_path / "out.jsonl"
    scripts.run(extract_features, **flags_for(model_dir, input_file, out))
    assert len(sizes) > 10 and max(sizes) < 10
    for found, wanted in zip(
        read_jsonl(out), read_jsonl(extracted), strict=True
    ):
        assert found["linex_index"] == wanted["linex_index"]
        np.testing.assert_allclose(
            values_of(found), values_of(wanted), rtol=0, atol=1.1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling(model_dir, input_file, by_hand, tmp_path, pooling):
    out = tmp_path / "out.jsonl"
    flags = flags_for(
        model_dir, input_file, out, pooling=pooling, layers="-1,0"
    )
    scripts.run(extract_features, **flags)
    for line, wanted in zip(read_jsonl(out), by_hand, strict=True):
        assert list(line) == ["linex_index", "layers"]
        assert [layer["index"] for layer in line["layers"]] == [-1, 0]
        wanted = wanted[0] if pooling == "cls" else wanted.mean(axis=0)
        np.testing.assert_allclose(
            [layer["values"] for layer in line["layers"]],
            wanted[[0, 3]],
            rtol=0,
            atol=1e-5,
        )


@pytest.mark.slow
def test_npz(model_dir, input_file, by_hand, tmp_path):
    out = tmp_path / "out.npz"
    flags = flags_for(model_dir, input_file, out, output_format="npz")
    scripts.run(extract_features, **flags)
    with np.load(out) as found:
        assert set(found) == {"features", "offsets", "input_ids", "layers"}
        np.testing.assert_array_equal(found["layers"], [-1, -2, -3, -4])
        offsets = found["offsets"]
        np.testing.assert_array_equal(np.diff(offsets), [*map(len, by_hand)])
        assert found["features"].dtype == np.float32
        np.testing.assert_allclose(
            found["features"], np.concatenate(by_hand), rtol=0, atol=1e-5
        )
        ids = found["input_ids"][offsets[3] : offsets[4]]
        assert [VOCAB[i] for i in ids] == sequence_of(LINES[3])[0]
    first = out.read_bytes()
    scripts.run(extract_features, **flags)
    assert out.read_bytes() == first
    assert os.listdir(tmp_path) == ["out.npz"]


def test_pooled_npz(model_dir, input_file, by_hand, tmp_path):
    out = tmp_path / "out.npz"
    flags = flags_for(model_dir, input_file, out, output_format="npz")
    scripts.run(extract_features, **flags, pooling="mean", layers="-2")
    with np.load(out) as found:
        assert set(found) == {"features", "layers"}
        wanted = [values.mean(axis=0)[1:2] for values in by_hand]
        np.testing.assert_allclose(found["features"], wanted, atol=1e-5)


@pytest.mark.slow
def test_tfrecord(model_dir, input_file, by_hand, tmp_path):
    out = tmp_path / "out.tfrecord"
    flags = flags_for(model_dir, input_file, out, output_format="tfrecord")
    scripts.run(extract_features, **flags)
    sequence = tf.io.FixedLenSequenceFeature
    spec = {
        "linex_index": tf.io.FixedLenFeature([], tf.int64),
        "input_ids": sequence([], tf.int64, allow_missing=True),
        "features": sequence([4, 16], tf.float32, allow_missing=True),
    }
    found = [
        tf.io.parse_single_example(record, spec)
        for record in tf.data.TFRecordDataset(str(out))
    ]
    assert len(found) == len(LINES)
    for number, (example_, wanted) in enumerate(
        zip(found, by_hand, strict=True)
    ):
        assert example_["linex_index"] == number
        tokens = [VOCAB[i] for i in example_["input_ids"].numpy()]
        assert tokens == sequence_of(LINES[number])[0]
        np.testing.assert_allclose(example_["features"], wanted, atol=1e-5)


@pytest.mark.slow
def test_several_devices_give_the_same(
    model_dir, input_file, extracted, tmp_path
):
    out = tmp_path / "out.jsonl"
    flags = flags_for(model_dir, input_file, out, batch_size=7)
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run(
        [sys.executable, "-c", TWO_DEVICES, *arguments],
        check=True,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    for found, wanted in zip(
        read_jsonl(out), read_jsonl(extracted), strict=True
    ):
        np.testing.assert_allclose(
            values_of(found), values_of(wanted), rtol=0, atol=1.1e-5
        )


def test_standard_input(
    model_dir, input_file, extracted, tmp_path, monkeypatch
):
    class Stdin:
        buffer = io.BytesIO(input_file.read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    out = tmp_path / "out.jsonl"
    scripts.run(extract_features, **flags_for(model_dir, "-", out))
    assert out.read_bytes() == extracted.read_bytes()


@pytest.mark.slow
def test_remote_paths(model_dir, input_file, extracted, tmp_path):
    """Through TensorFlow's file system, npz too, which cannot seek there."""
    out = tmp_path / "new" / "out.npz"
    flags = flags_for(
        model_dir, f"file://{input_file}", f"file://{out}", output_format="npz"
    )
    scripts.run(extract_features, **flags)
    wanted = np.concatenate([values_of(x) for x in read_jsonl(extracted)])
    with np.load(out) as found:
        np.testing.assert_allclose(found["features"], wanted, atol=1e-6)


@pytest.mark.slow
def test_the_log_tells_what_was_cut(model_dir, input_file, tmp_path, caplog):
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl")
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(extract_features, **flags, use_one_hot_embeddings=True)
    cut = sum(
        len(text.replace("|||", "").split()) > LENGTH - 2 - ("|||" in text)
        for text in LINES
    )
    assert "71 lines, " in caplog.text
    assert f"{cut} lines were cut to 24 tokens, 1 were blank" in caplog.text
    assert "tokens: [CLS] a b c [SEP]" in caplog.text
    assert "--use_one_hot_embeddings is ignored" in caplog.text
