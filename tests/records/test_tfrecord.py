"""TFRecord files are TensorFlow's to the byte; errors name the damage."""

import gzip
import io

from base import file_system
from base.errors import UserError

import numpy as np
import pytest

from records import tfrecord

EDGE_INTEGERS = [
    0,
    1,
    127,
    128,
    16383,
    16384,
    2**21,
    2**35,
    2**62,
    -1,
    -(2**63),
]


def _batch(rows: int = 2100, seed: int = 0) -> dict[str, np.ndarray]:
    """Return rows of different sizes, more than are encoded at once."""
    rng = np.random.default_rng(seed)
    limits = np.array([2, 128, 300, 30522, 2**21, 2**31 - 1])
    return {
        "input_ids": rng.integers(0, limits[rng.integers(0, 6, (rows, 40))]),
        "masked_lm_weights": rng.random((rows, 7)).astype(np.float32),
        "segment_ids": rng.integers(0, 2, (rows, 40)).astype(np.int32),
        "next_sentence_labels": rng.integers(0, 2, rows),
        "none": np.zeros((rows, 0), np.int64),
    }


def _tf_example(features: dict[str, np.ndarray], row: int) -> bytes:
    import tensorflow as tf

    example = tf.train.Example()
    for name, array in features.items():
        values = np.atleast_1d(array[row]).tolist()
        feature = example.features.feature[name]
        if array.dtype.kind == "f":
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return example.SerializeToString(deterministic=True)


def _write(path, features, compression="") -> str:
    with (
        file_system.atomic_file(str(path)) as file,
        tfrecord.RecordWriter(file, compression) as writer,
    ):
        writer.write_examples(features)
    return str(path)


def _records_in(data: bytes) -> list[bytes]:
    """Return the records of a plain file, without lengths and checksums."""
    records, position = [], 0
    while position < len(data):
        start = position + 12
        end = start + int.from_bytes(data[position : position + 8], "little")
        records.append(data[start:end])
        position = end + 4
    assert position == len(data)
    return records


def _encode(features: dict[str, np.ndarray]) -> list[bytes]:
    """Return the serialized examples that a writer writes."""
    buffer = io.BytesIO()
    tfrecord.RecordWriter(buffer).write_examples(features)
    return _records_in(buffer.getvalue())


def test_examples_are_protobufs_bytes():
    batch = _batch()
    encoded = _encode(batch)
    assert len(encoded) == 2100
    assert encoded == [_tf_example(batch, row) for row in range(2100)]


@pytest.mark.parametrize("value", EDGE_INTEGERS)
def test_every_size_of_integer(value):
    batch = {"a": np.array([[0, value, 1]]), "b": np.array([5])}
    assert _encode(batch) == [_tf_example(batch, 0)]


def test_lengths_of_lengths():
    """Messages around 127 and 16383 bytes, where length fields grow."""
    for length in [*range(90, 130), 16370, 16383, 16384]:
        batch = {"name": np.ones((2, length), np.int64)}
        batch["name"][1] = 300
        expected = [_tf_example(batch, row) for row in range(2)]
        assert _encode(batch) == expected


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tensorflow_reads_our_files(tmp_path, compression):
    import tensorflow as tf

    batch = _batch()
    path = _write(tmp_path / "x", batch, compression)
    dataset = tf.data.TFRecordDataset(path, compression_type=compression)
    raw = [record.numpy() for record in dataset]
    assert raw == _encode(batch)
    parsed = tf.io.parse_example(
        raw, {"input_ids": tf.io.FixedLenFeature([40], tf.int64)}
    )
    np.testing.assert_array_equal(parsed["input_ids"], batch["input_ids"])


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_we_read_tensorflows_files(tmp_path, compression):
    import tensorflow as tf

    path, encoded = str(tmp_path / "x"), _encode(_batch())
    with tf.io.TFRecordWriter(path, compression) as writer:
        for record in encoded:
            writer.write(record)
    assert tfrecord.is_gzip(path) == bool(compression)
    assert list(tfrecord.read_records(path)) == encoded
    assert tfrecord.count_records(path) == 2100


def test_many_batches_and_one_write_the_same():
    batch, one, many = _batch(), io.BytesIO(), io.BytesIO()
    tfrecord.RecordWriter(many).write_examples(batch)
    writer = tfrecord.RecordWriter(one)
    bounds = [*range(100), 700, 2100]
    for start, end in zip(bounds[:-1], bounds[1:], strict=True):
        writer.write_examples(
            {name: array[start:end] for name, array in batch.items()}
        )
    assert one.getvalue() == many.getvalue()
    assert writer.num_records == 2100


def test_gzip_members_concatenate_and_carry_no_time(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1e9)
    first = _write(tmp_path / "a", _batch(5), "GZIP")
    monkeypatch.setattr("time.time", lambda: 2e9)
    second = _write(tmp_path / "b", _batch(5), "GZIP")
    a, b = open(first, "rb").read(), open(second, "rb").read()
    assert a == b
    (tmp_path / "c").write_bytes(a + b)
    assert tfrecord.count_records(str(tmp_path / "c")) == 10


def test_decode_inverts_encode():
    batch = _batch(50)
    batch["edge"] = np.tile(np.array(EDGE_INTEGERS), (50, 1))
    for row, record in enumerate(_encode(batch)):
        decoded = tfrecord.decode_example(record)
        assert decoded.keys() == batch.keys()
        for name, values in decoded.items():
            np.testing.assert_array_equal(
                values, np.atleast_1d(batch[name][row]), err_msg=name
            )


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize(
    "read", [tfrecord.count_records, tfrecord.read_records]
)
def test_errors_of_a_cut_file_count_its_whole_records(
    tmp_path, compression, read
):
    path = _write(tmp_path / "x", _batch(20), compression)
    data = open(path, "rb").read()
    whole = 0
    for size in range(1, len(data), 97):
        (tmp_path / "cut").write_bytes(data[:size])
        before = records_before(data, size) if not compression else None
        if before is not None and before[1]:
            continue  # Cut between records, which cannot be found.
        with pytest.raises(UserError, match=r"cut.*is cut off") as caught:
            result = read(str(tmp_path / "cut"))
            list(result) if not isinstance(result, int) else None
        number = int(str(caught.value).split(" after ")[1].split()[0])
        if before is not None:
            assert number == before[0]
        assert number >= whole
        whole = number
    assert whole > 10


def records_before(data: bytes, size: int) -> tuple[int, bool]:
    """Return the number of whole records, and whether they fill the bytes."""
    position = count = 0
    while position < size:
        step = 16 + int.from_bytes(data[position : position + 8], "little")
        if position + step > size:
            return count, False
        position, count = position + step, count + 1
    return count, True


def test_one_flipped_bit_is_found(tmp_path):
    path = _write(tmp_path / "x", _batch(20))
    data = bytearray(open(path, "rb").read())
    for position in range(0, len(data), 53):
        data[position] ^= 4
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(UserError, match=r"bad: is (corrupt|cut off) after"):
            list(tfrecord.read_records(str(tmp_path / "bad")))
        data[position] ^= 4


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("length", [2**26 + 1, 2**40, 2**63 - 1, 2**64 - 1])
def test_a_length_beyond_the_longest_record_is_damage(
    tmp_path, compression, length
):
    """Its checksum is right: it would be allocated, or end in a stack trace."""
    header = length.to_bytes(8, "little")
    header += tfrecord._masked_crc_bytes(header)
    data = open(_write(tmp_path / "x", _batch(3)), "rb").read() + header
    data += bytes(100)
    (tmp_path / "x").write_bytes(gzip.compress(data) if compression else data)
    for read in (tfrecord.count_records, lambda p: [*tfrecord.read_records(p)]):
        with pytest.raises(UserError, match="x: is corrupt after 3 whole reco"):
            read(str(tmp_path / "x"))


def _field(number: int, wire_type: int, *parts: bytes) -> bytes:
    """Return a protobuf field; one of type 2 gets its length."""
    body = b"".join(parts)
    length = b""
    if wire_type == 2:
        length = bytes([len(body) & 127 | 128, len(body) >> 7])
    return bytes([number << 3 | wire_type]) + length + body


def _example(*parts: bytes, kind: int = 3) -> bytes:
    """Return an Example whose feature "a" has a list with these bytes."""
    value = _field(2, 2, _field(kind, 2, *parts))
    return _field(1, 2, _field(1, 2, _field(1, 2, b"a"), value))


def test_a_message_made_by_hand_is_an_example():
    record = _example(_field(1, 2, b"\x05\xac\x02"), _field(1, 0, b"\x07"))
    assert tfrecord.decode_example(record)["a"].tolist() == [5, 300, 7]
    most = _example(_field(1, 2, b"\xff" * 9 + b"\x01"))
    assert tfrecord.decode_example(most)["a"].tolist() == [-1]


@pytest.mark.parametrize(
    "record, match",
    [
        (_example(_field(1, 2, b"\x80" * 10 + b"\x01")), "more than 10 bytes"),
        (_example(_field(1, 2, b"\x05\x80"), _field(1, 2, b"\x01")), "cut off"),
        pytest.param(b"\x80" * 10_000_000, "too long", id="endless"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "past the end"),  # length -1
        (_example(b"\x0a\x7f\x05"), "past the end"),
        (_example(_field(1, 5, bytes(4))), "unexpected field 1, type 5"),
        (_example(_field(1, 2, b"\0\0"), kind=2), "multiple"),
        (_field(2, 2), "unexpected field 2"),
        (_field(1, 2, _field(1, 2, _field(1, 2, b"\xff"))), "decode"),
    ],
)
def test_damage_within_an_example_is_found(tmp_path, record, match):
    import tensorflow as tf

    with pytest.raises(ValueError, match=match):
        tfrecord.decode_example(record)
    with tf.io.TFRecordWriter(str(tmp_path / "x")) as writer:
        writer.write(record)
    with pytest.raises(UserError, match=f"x: the first record is not.*{match}"):
        tfrecord.describe_first_record(str(tmp_path / "x"))


def test_not_a_record_file(tmp_path):
    import tensorflow as tf

    (tmp_path / "text").write_text("It was the best of times, it was.\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "zip").write_bytes(gzip.compress(b"no records in here"))
    with pytest.raises(UserError, match="text: is corrupt.* no TFRecord"):
        list(tfrecord.read_records(str(tmp_path / "text")))
    with pytest.raises(UserError, match="zip: is corrupt after 0 whole"):
        list(tfrecord.read_records(str(tmp_path / "zip")))
    with pytest.raises(UserError, match="empty: has no records"):
        tfrecord.describe_first_record(str(tmp_path / "empty"))
    with pytest.raises(UserError, match="none: cannot be read: No such file"):
        tfrecord.count_records(str(tmp_path / "none"))
    with tf.io.TFRecordWriter(str(tmp_path / "other")) as writer:
        writer.write(b"\xff\xff garbage")
    with pytest.raises(UserError, match="first record is not a tf.train.Exam"):
        tfrecord.describe_first_record(str(tmp_path / "other"))
    assert list(tfrecord.read_records(str(tmp_path / "empty"))) == []


def test_remote_paths_go_through_gfile(tmp_path):
    remote = f"file://{tmp_path}/x"
    _write_path = _write(remote, _batch(10))
    assert tfrecord.count_records(remote) == 10
    assert len(list(tfrecord.read_records(_write_path))) == 10
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    _write(remote, _batch(10), "GZIP")
    assert tfrecord.count_records(remote) == 10
    with pytest.raises(UserError, match="nowhere: cannot be read"):
        tfrecord.count_records(f"file://{tmp_path}/nowhere")


def test_uneven_batches_and_texts():
    with pytest.raises(ValueError, match="number of rows"):
        _encode({"a": np.zeros(2, int), "b": np.zeros(3, int)})
    with pytest.raises(ValueError, match="feature a"):
        _encode({"a": np.array(["text"])})
