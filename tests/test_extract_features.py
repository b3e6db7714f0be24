"""extract_features.py as a user runs it: its numbers one by one, its errors."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from base import file_system
from base.errors import UserError

import feature_runs
import numpy as np
import pytest
import scripts
import tensorflow as tf
import two_devices
from feature_runs import CONFIG, LENGTH, LINES, VOCAB, flags_for
from marks import nightly

from checkpoints import lookup, weight_files
from tasks.encoder import lines as features_lines
from training.task_model import TaskModel

extract_features = scripts.load("extract_features")


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


def test_a_default_length_is_no_more_than_the_models_positions(
    model_dir, input_file, tmp_path
):
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl")
    scripts.run(extract_features, **flags | {"max_seq_length": None})
    sizes = [len(x["features"]) for x in read_jsonl(tmp_path / "out.jsonl")]
    assert max(sizes) == CONFIG.max_position_embeddings


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
    """[T, 4, H] of every line: one forward pass each, no padding, no mask.

    The weights are large, so that roundings grow to 2e-5 in four layers.
    """
    model = TaskModel(CONFIG)
    weight_files.restore_weights(
        model.variables, lookup.find_checkpoint(str(model_dir))
    )
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
        np.testing.assert_allclose(values_of(line), wanted, rtol=0, atol=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{"batch_size": 3}, nightly({"pad_to_max_length": True})]
)
def test_padding_batches_and_windows_change_nothing(
    model_dir, input_file, extracted, tmp_path, monkeypatch, more
):
    """Nor does memory for a few lines at a time."""
    monkeypatch.setattr(features_lines, "_WINDOW_BYTES", 10_000)
    sizes = []
    make = features_lines.window_features

    def noting(run, window, *args):
        sizes.append(len(window))
        return make(run, window, *args)

    monkeypatch.setattr(features_lines, "window_features", noting)
    out = tmp_path / "out.jsonl"
    flags = flags_for(model_dir, input_file, out, **more)
    scripts.run(extract_features, **flags)
    assert len(sizes) > 10 and max(sizes) < 10
    check_same(out, extracted)


def check_same(path: Path, other: Path) -> None:
    """Check that two files of JSON differ by their rounding at most."""
    for one, wanted in zip(read_jsonl(path), read_jsonl(other), strict=True):
        assert one["linex_index"] == wanted["linex_index"]
        np.testing.assert_allclose(
            values_of(one), values_of(wanted), rtol=0, atol=1.1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("pooling", [nightly("cls"), "mean"])
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
            atol=5e-5,
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
            found["features"], np.concatenate(by_hand), rtol=0, atol=5e-5
        )
        ids = found["input_ids"][offsets[3] : offsets[4]]
        assert [VOCAB[i] for i in ids] == sequence_of(LINES[3])[0]
    first = out.read_bytes()
    scripts.run(extract_features, **flags)
    assert out.read_bytes() == first
    assert os.listdir(tmp_path) == ["out.npz"]


@pytest.mark.nightly
def test_several_devices_give_the_same(
    model_dir, input_file, extracted, tmp_path
):
    out = tmp_path / "out.jsonl"
    flags = flags_for(model_dir, input_file, out, batch_size=7)
    two_devices.run("extract_features", **flags)
    check_same(out, extracted)


def test_standard_input(
    model_dir, input_file, extracted, tmp_path, monkeypatch
):
    class Stdin:
        buffer = io.BytesIO(input_file.read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    out = tmp_path / "out.jsonl"
    scripts.run(extract_features, **flags_for(model_dir, "-", out))
    assert out.read_bytes() == extracted.read_bytes()


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_long_lines_in_windows(model_dir, tmp_path):
    """A token's vectors are those of the window where it sees most."""
    text = list("abcdefgh" * 4)[:29]
    (tmp_path / "in.txt").write_text(" ".join(text) + "\na b c\n")
    flags = flags_for(model_dir, tmp_path / "in.txt", tmp_path / "out.jsonl")
    flags |= {"long_texts": "windows", "max_seq_length": 14, "doc_stride": 6}
    assert not scripts.run(extract_features, **flags)
    model = TaskModel(CONFIG)
    weight_files.restore_weights(
        model.variables, lookup.find_checkpoint(str(model_dir))
    )
    of_windows = []
    for start in (0, 6, 12, 18):
        tokens = ["[CLS]", *text[start : start + 12], "[SEP]"]
        ids = tf.constant([[VOCAB.index(token) for token in tokens]])
        layers = model.bert(ids).encoder_layers[::-1]
        of_windows.append(np.stack([x[0] for x in layers], axis=1))
    # Middles at 6.5, 12.5, 18.5 and 24.5; places from 1 in each window.
    wanted = [of_windows[0][0]]
    for place in range(1, 30):
        window = min(3, max(0, round((place - 6.6) / 6)))
        wanted.append(of_windows[window][place - 6 * window])
    wanted.append(of_windows[3][12])
    long, short = read_jsonl(tmp_path / "out.jsonl")
    np.testing.assert_allclose(values_of(long), wanted, atol=5e-5)
    assert len(short["features"]) == 5
    (tmp_path / "pair.txt").write_text("a ||| b\n")
    flags["input_file"] = str(tmp_path / "pair.txt")
    with pytest.raises(UserError, match="line 1: a pair"):
        scripts.run(extract_features, **flags)


@pytest.mark.nightly
def test_the_log_tells_what_was_cut(model_dir, input_file, tmp_path, caplog):
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl")
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(extract_features, **flags, use_one_hot_embeddings=True)
    cut = sum(
        len(text.replace("|||", "").split()) > LENGTH - 2 - ("|||" in text)
        for text in LINES
    )
    assert "71 lines, " in caplog.text
    assert f"{cut} lines were cut to 24 tokens and lost " in caplog.text
    assert "tokens: [CLS] a b c [SEP]" in caplog.text
    assert "--use_one_hot_embeddings is ignored" in caplog.text


# --- What ends it ------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"input_file": None}, "--input_file is required"),
        ({"output_file": None}, "--output_file is required"),
        ({"init_checkpoint": None}, "--init_checkpoint is required"),
        ({"input_file": "/nowhere.txt"}, "/nowhere.txt: cannot be read"),
        ({"input_file": "/tmp"}, "/tmp: cannot be read: Is a directory"),
        ({"output_file": "/tmp"}, "--output_file=/tmp is a directory"),
        ({"output_file": "/proc/x/y"}, "--output_file=/proc/x/y cannot be"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        ({"bert_config_file": "/nowhere"}, "/nowhere: cannot be read"),
        ({"vocab_file": "/nowhere"}, "cannot read the vocabulary"),
        ({"max_seq_length": 41}, "max_position_embeddings=40"),
        ({"layers": "-5"}, "has 4 layers, -5 is none of them"),
        ({"layers": "-1;-2"}, "'-1;-2' is not a layer"),
        ({"do_lower_case": True}, "was trained with False"),
        ({"use_tpu": True}, "--use_tpu: no TPU answers"),
    ],
    ids=str,
)
def test_flags_that_cannot_work(
    model_dir, input_file, tmp_path, changes, words
):
    out = tmp_path / "out.jsonl"
    flags = flags_for(model_dir, input_file, out) | changes
    line = scripts.error_of(extract_features, **flags)
    assert words in line, line
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "holds no line"),
        (b"a b\nc \xff\n", "line 2: not UTF-8 (byte 0xff)"),
    ],
)
def test_text_that_cannot_work(model_dir, tmp_path, data, words):
    (tmp_path / "in.txt").write_bytes(data)
    out = tmp_path / "out.jsonl"
    out.write_text("from before")
    flags = flags_for(model_dir, tmp_path / "in.txt", out)
    line = scripts.error_of(extract_features, **flags)
    assert words in line, line
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.jsonl"]
    assert out.read_text() == "from before"
    (tmp_path / "link").symlink_to("in.txt")
    for path in (flags["input_file"], f"{tmp_path}/./in.txt", "link"):
        flags["output_file"] = str(tmp_path / path)
        line = scripts.error_of(extract_features, **flags)
        assert "is a file of --input_file too" in line
    assert (tmp_path / "in.txt").read_bytes() == data
    flags["output_file"] = str(tmp_path / "new" / "out.jsonl")
    flags["init_checkpoint"] = str(tmp_path / "nowhere")
    scripts.error_of(extract_features, **flags)
    assert not (tmp_path / "new").exists()


@pytest.mark.nightly
def test_outputs_that_are_no_numbers(model_dir, input_file, tmp_path):
    model = TaskModel(CONFIG)
    table = np.ones(model.bert.embeddings.word_embeddings.shape, np.float32)
    table[VOCAB.index("é")] = np.nan
    model.bert.embeddings.word_embeddings.assign(table)
    broken = tmp_path / "broken.ckpt"
    weight_files.write(str(broken), weight_files.as_tensors(model.variables))
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl") | {
        "init_checkpoint": str(broken),
        "bert_config_file": str(model_dir / "bert_config.json"),
        "vocab_file": str(model_dir / "vocab.txt"),
        "do_lower_case": False,
    }
    line = scripts.error_of(extract_features, **flags)
    assert line.startswith("line 3: the model's outputs are not finite numbers")
    assert not (tmp_path / "out.jsonl").exists()


def test_text_that_ends_in_a_read_error(
    model_dir, input_file, tmp_path, monkeypatch
):
    class Failing(io.BytesIO):
        def __next__(self) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().__next__()

    data, opened = input_file.read_bytes(), file_system.open_for_reading
    monkeypatch.setattr(
        file_system,
        "open_for_reading",
        lambda p: Failing(data) if p == str(input_file) else opened(p),
    )
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl")
    line = scripts.error_of(extract_features, **flags)
    wanted = f"{input_file}: cannot be read after 1 lines: Input/output error"
    assert line == wanted


def test_sigterm_leaves_nothing(model_dir, input_file, tmp_path, monkeypatch):
    """Ended in the middle: no output; a killed run's rest goes next time."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    leftover = tmp_path / f".out.{ended.pid}-0.tmp"
    leftover.write_text("of a run that was killed")
    monkeypatch.setattr(features_lines, "_WINDOW_LINES", 9)
    make, seen = features_lines.window_features, []

    def make_or_end(*args):
        seen.append(os.listdir(tmp_path))
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return make(*args)

    monkeypatch.setattr(features_lines, "window_features", make_or_end)
    flags = flags_for(model_dir, input_file, tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        scripts.run(extract_features, **flags, output_format="npz")
    assert any(f".{os.getpid()}-" in name for name in seen[-1])
    assert leftover.name not in seen[-1] and len(seen) == 3
    assert os.listdir(tmp_path) == []
