"""extract_features.py as a user runs it, and its numbers one by one."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

from base import file_system
from base.errors import UserError

import numpy as np
import pytest
import scripts
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paths import ROOT

import modeling
from checkpoints import weight_files
from features import writers as features_writers
from modeling import BertConfig

extract_features = scripts.load("extract_features")

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "é", '"']
CONFIG = BertConfig(
    vocab_size=len(VOCAB) + 1,
    hidden_size=16,
    num_hidden_layers=4,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=40,
    type_vocab_size=2,
    initializer_range=0.5,
)
LINES = [
    "a b c",
    "",
    'é "x" d',
    "a b ||| c d e",
    "a ||| b ||| c",  # the last one parts them
    "||| a",  # no text before it: one sentence
    "a ||| \u200b",  # nothing after it: one sentence
    "a " * 50,
    "a " * 30 + "||| " + "b " * 6,
    "b " * 3 + "||| " + "c " * 60,
    "A\u00a0 b\t c",
    *("h " * (7 * n % 30 + 1) for n in range(60)),
]
LENGTH = 24
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
    """An encoder with weights, vocabulary and configuration beside them."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "bert_config.json").write_text(CONFIG.to_json_string())
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    settings = {"do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tf.keras.utils.set_random_seed(1)
    weight_files.write(
        str(folder / "bert_model.ckpt"),
        weight_files.as_tensors(modeling.BertModel(CONFIG).variables),
    )
    return folder


@pytest.fixture(scope="module")
def input_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "input.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def flags_for(model_dir: Path, input_file: Path, out: Path, **more) -> dict:
    return {
        "input_file": str(input_file),
        "output_file": str(out),
        "init_checkpoint": str(model_dir),
        "max_seq_length": LENGTH,
        "batch_size": 8,
    } | more


@pytest.fixture(scope="module")
def extracted(model_dir, input_file, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("features") / "out.jsonl"
    flags = flags_for(model_dir, input_file, out)
    assert scripts.run(extract_features, **flags) == 0
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


# --- Numbers --------------------------------------------------------------


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


def test_windows_are_written_in_order(
    model_dir, input_file, extracted, tmp_path, monkeypatch
):
    """Memory for a few lines at a time: the same file."""
    monkeypatch.setattr(extract_features, "_WINDOW_BYTES", 10_000)
    sizes = []
    make = extract_features.WindowRecords

    def noting(window, *args):
        sizes.append(len(window))
        return make(window, *args)

    monkeypatch.setattr(extract_features, "WindowRecords", noting)
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


def test_windows_hold_a_few_lines_only():
    """A stream without an end: a window comes before the next line is read."""

    def endless():
        for index in range(100):
            yield extract_features.Line(index, [0] * 1000, 1000)
        raise AssertionError("read too far")

    found = extract_features.windows(endless(), 1 << 20, 0)
    assert [line.index for line in next(found)] == [0]


def test_lines_do_not_keep_their_batch(model_dir):
    """What is held for a line is the line's, not the padding beside it."""

    class Predictor:
        def batches(self, data, batch_size):
            for rows, batch in data.prediction(batch_size, is_fine=True):
                shape = [*batch["input_ids"].shape, 1, 2]
                yield rows, {"features": np.zeros(shape, np.float32)}

    window = [extract_features.Line(i, [0] * (i + 2), i + 2) for i in range(3)]
    data = extract_features.WindowRecords(window, LENGTH, is_padding=True)
    told = []
    progress = types.SimpleNamespace(add=lambda *counts: told.append(counts))
    lines = extract_features.window_features(Predictor(), data, 2, progress)
    for line in lines:
        assert told == [(2, 4 + 3), (1, 2)]  # before the first line is ready
        assert line.values.shape == (line.index + 2, 1, 2)
        assert line.values.base is None


def test_a_pipe_has_no_size(tmp_path, caplog, monkeypatch):
    """Nor has what remains of it a time."""
    monkeypatch.setattr(extract_features, "_SECONDS_BETWEEN_REPORTS", 0.0)
    fifo = tmp_path / "in"
    os.mkfifo(fifo)
    reader = extract_features.Reader(str(fifo), None, LENGTH)
    progress = extract_features.Progress(reader)
    reader.num_tokens, reader.num_bytes = 4, 100
    with caplog.at_level("INFO", logger="absl"):
        progress.add(1, 2)
    assert "ETA unknown" in caplog.text


def test_progress_by_hand(tmp_path, caplog, monkeypatch):
    """A window of 30 lines, 300 tokens, half of the file; two batches."""
    now = 1000.0
    clock = types.SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(extract_features, "time", clock)
    (tmp_path / "in").write_bytes(b"x" * 4000)
    reader = extract_features.Reader(str(tmp_path / "in"), None, LENGTH)
    progress = extract_features.Progress(reader)
    reader.num_lines, reader.num_tokens, reader.num_bytes = 30, 300, 2000
    with caplog.at_level("INFO", logger="absl"):
        now += 9  # too early to say something
        progress.add(5, 60)
        now += 6
        progress.add(10, 90)
    # 150 of 300 tokens of half the file in 15 s: a quarter, 45 s to go.
    assert caplog.messages == ["15 lines | 1.0 sequences/s | ETA 00:00:45"]


@pytest.mark.parametrize("length, wanted", [(3, [2, 3]), (4, [2, 5, 3])])
def test_pairs_that_lose_their_second_half(length, wanted):
    """Cut to nothing, it has no [SEP] of its own."""
    tokenizer = types.SimpleNamespace(
        vocab={"[CLS]": 2, "[SEP]": 3}, text_to_ids=lambda _: [5, 6, 7]
    )
    reader = extract_features.Reader("-", tokenizer, length)
    line = reader._encode(0, "a b c ||| a b c")
    assert line.input_ids == wanted
    assert line.second_start == len(line.input_ids)


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


# --- Six decimals -----------------------------------------------------------

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS | st.floats(-2, 2, width=32), min_size=1, max_size=40))
@example([-0.0, 0.0, 1e-9, -1e-9, 1 / 128, -3 / 128, 5e-5, -1.25e-5, 9.95e-5])
@example([998.5, -998.9999, 0.5, 1.0, -10.0, 100.0, 0.1, 1e-4, -1e-4, 1e-6])
@example([999.0, 999.9999, 1000.0, -1e5, 3e38])
def test_rows_are_what_python_prints(values):
    rows = np.array([values, values[::-1]], np.float32)
    wanted = [
        ", ".join(json.dumps(round(float(x), 6)) for x in row) for row in rows
    ]
    assert features_writers.format_rows(rows) == [w.encode() for w in wanted]


def test_ties_and_neighbours():
    """Every m / 128 is a tie in the seventh decimal; and both its sides."""
    ties = (np.arange(-4001, 4001, 2) / 128).astype(np.float32)
    rows = np.stack([np.nextafter(ties, s) for s in (-100, 100)] + [ties])
    rows = rows.astype(np.float32)
    wanted = [
        ", ".join(repr(round(float(x), 6)) for x in row).encode()
        for row in rows
    ]
    assert features_writers.format_rows(rows) == wanted


def test_empty_rows():
    assert (
        features_writers.format_rows(np.zeros([2, 0], np.float32)) == [b""] * 2
    )


# --- What goes wrong ------------------------------------------------------


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"input_file": None}, "--input_file is required"),
        ({"output_file": None}, "--output_file is required"),
        ({"init_checkpoint": None}, "--init_checkpoint is required"),
        ({"input_file": "/nowhere.txt"}, "/nowhere.txt: cannot be read"),
        ({"input_file": "/tmp"}, "/tmp: cannot be read: Is a directory"),
        ({"output_file": "/tmp"}, "--output_file=/tmp is a directory"),
        ({"output_file": "/proc/x/y"}, "--output_file=/proc/x cannot be"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        ({"bert_config_file": "/nowhere"}, "cannot read the bert config"),
        ({"vocab_file": "/nowhere"}, "cannot read the vocabulary"),
        ({"max_seq_length": 41}, "max_position_embeddings=40"),
        ({"layers": "-5"}, "has 4 layers, -5 is none of them"),
        ({"layers": "-1;-2"}, "'-1;-2' is no layer"),
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
        assert "is the input file too" in line
    assert (tmp_path / "in.txt").read_bytes() == data
    flags["output_file"] = str(tmp_path / "new" / "out.jsonl")
    flags["init_checkpoint"] = str(tmp_path / "nowhere")
    scripts.error_of(extract_features, **flags)
    assert not (tmp_path / "new").exists()


def test_outputs_that_are_no_numbers(model_dir, input_file, tmp_path):
    model = modeling.TaskModel(CONFIG)
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
    assert line.startswith("line 3: the model's outputs are no finite numbers")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("output_format", features_writers.FORMATS)
@pytest.mark.parametrize("count", [1, 100])
def test_a_full_disk(tmp_path, scheme, output_format, count):
    """It shows at the end, or with so many lines in the middle."""
    path = f"{scheme}{tmp_path}/out"
    (tmp_path / f".out.{os.getpid()}.tmp").symlink_to("/dev/full")
    values = np.ones([20, 1, 64], np.float32)
    line = features_writers.LineFeatures(0, [0] * 20, values)
    with pytest.raises(UserError, match="--output_file=.*out cannot be wr"):
        with features_writers.open_writer(
            path, output_format, [-1], {0: "a"}
        ) as writer:
            for _ in range(count):
                writer.write(line)
    assert os.listdir(tmp_path) == []


def test_other_failures_are_not_blamed_on_the_output(tmp_path):
    """Of the text, of the device."""
    exhausted = tf.errors.ResourceExhaustedError(None, None, "OOM")
    for error in (OSError(5, "Input/output error"), exhausted):
        with pytest.raises(type(error)) as caught:
            with features_writers.open_writer(
                str(tmp_path / "out"), "jsonl", [-1], {}
            ):
                raise error
        assert caught.value is error
    assert os.listdir(tmp_path) == []


def test_text_that_ends_in_a_read_error(
    model_dir, input_file, tmp_path, monkeypatch
):
    class Failing(io.BytesIO):
        def __next__(self) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().__next__()

    data = input_file.read_bytes()
    monkeypatch.setattr(
        file_system, "open_for_reading", lambda _: Failing(data)
    )
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl")
    line = scripts.error_of(extract_features, **flags)
    wanted = f"{input_file}: cannot be read after 1 lines: Input/output error"
    assert line == wanted


def test_sigterm_leaves_nothing(model_dir, tmp_path):
    """Ended in the middle: no output; a killed run's rest goes next time."""
    fifo, out = tmp_path / "in", tmp_path / "out"
    os.mkfifo(fifo)
    leftover = tmp_path / ".out.1.tmp"
    leftover.write_text("of a run that was killed")
    flags = flags_for(model_dir, fifo, out, output_format="npz")
    code = "import sys, extract_features as e; e._WINDOW_LINES = 1; "
    code += "import errors; errors.run(e.main)"
    process = subprocess.Popen(
        [sys.executable, "-c", code]
        + [f"--{name}={value}" for name, value in flags.items()],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    # Held open both ways, nobody waits for the other's end.
    text = os.open(fifo, os.O_RDWR)
    os.write(text, b"a b\n" * 3)
    end = time.monotonic() + 300  # of a machine that does other things
    try:
        while not [n for n in os.listdir(tmp_path) if f".{process.pid}." in n]:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        assert not leftover.exists()
        process.send_signal(signal.SIGTERM)
        _, errors_ = process.communicate(timeout=300)
    finally:
        process.kill()
        os.close(text)
    assert process.returncode == 1
    assert errors_.splitlines()[-1] == "ERROR: interrupted"
    assert os.listdir(tmp_path) == ["in"]


def test_records_helper_removes_only_leftovers(tmp_path):
    for name in ("out", ".out.12.tmp", ".other.12.tmp"):
        (tmp_path / name).write_text("")
    file_system.remove_leftovers(str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path)) == [".other.12.tmp", "out"]
