"""Texts without labels, from files of every kind.

Lines, encodings and damage are in test_reading.py.
"""

import gzip
import json

from base.errors import UserError

import pytest
from exports import VOCAB, create_task

from extras.distillation.classes import TransferTexts


@pytest.fixture
def read(tmp_path):
    """Return a function: pattern, is_pair -> texts."""
    vocab_file = tmp_path / "vocab"
    vocab_file.write_text("\n".join(VOCAB))

    def read(pattern, is_pair: bool = False) -> TransferTexts:
        name = "pairs" if is_pair else "classifier"
        return TransferTexts(
            str(pattern), create_task(name, str(vocab_file), labels=("a", "b"))
        )

    return read


def test_files_keep_their_order(tmp_path, read):
    """Patterns, gzip, pairs and JSON lines."""
    (tmp_path / "b1.tsv").write_text("a\tb\n")
    (tmp_path / "b2.tsv").write_text("\nc\t\n")  # an empty second text
    with gzip.open(tmp_path / "a.gz", "wt") as file:
        file.write("e\tf\n")
    line = {"text_a": "g\th", "text_b": "{", "label": 3}
    (tmp_path / "c.jsonl").write_text(json.dumps(line) + "\n")
    pattern = f"{tmp_path}/b*.tsv,{tmp_path}/a.gz,{tmp_path}/c.jsonl"
    wanted = [("a", "b"), ("c", ""), ("e", "f"), ("g\th", "{")]
    texts = read(pattern, is_pair=True)
    assert list(texts) == [
        (f"transfer-{n}", *pair, None) for n, pair in enumerate(wanted)
    ]
    before = texts.fingerprint()
    (tmp_path / "b2.tsv").write_text("d\t\n")
    assert texts.fingerprint() == before  # read once
    assert read(pattern, is_pair=True).fingerprint() != before


@pytest.mark.parametrize(
    "data, is_pair, words",
    [
        (b"\n \n", False, "--transfer_file: {0} holds no text"),
        (b"one\ta\tb\n", False, "{0}, line 1: 3 columns, wanted 1 (text)"),
        (b"ok\tb\n\none\n", True, "line 3: 1 column, wanted 2 (text_a, text"),
        (b" \tb\n", True, "line 1: text_a is empty"),
        (b"ok\n\xff\n", False, "line 2: not UTF-8"),
        (b'{"text": "a"}\nb\n', False, "line 2: not JSON"),
        (b'{"text": "a"}\n', True, "no key 'text_a'; it has 'text'"),
        (b"\5" + bytes(15), False, "{0} holds TFRecords, wanted texts"),
    ],
    ids=str,
)
def test_damaged_files_are_named(tmp_path, read, data, is_pair, words):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        read(path, is_pair).check()
    assert words.format(path) in str(error.value)


def test_files_that_are_not_there(tmp_path, read):
    for pattern, words in (
        (f"{tmp_path}/*.txt", "--transfer_file: no file matches"),
        (str(tmp_path), "is a directory"),
        ("/dev/null", "--transfer_file: /dev/null is a pipe or a device"),
        (",", "--transfer_file is empty"),
    ):
        with pytest.raises(UserError, match=words):
            read(pattern)
