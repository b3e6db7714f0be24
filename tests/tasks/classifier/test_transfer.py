"""classifier/transfer.py: texts without labels, from files of every kind."""

import gzip
import json
from pathlib import Path

from base.errors import UserError

import pytest

from tasks.classifier.transfer import TransferTexts


def texts_of(pattern: Path | str, is_pair: bool = False) -> list[tuple]:
    return [(x.text_a, x.text_b) for x in TransferTexts(str(pattern), is_pair)]


def test_lines_blank_ones_marks_and_carriage_returns(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"\xef\xbb\xbfone two\r\n\n  \n\xc2\xa0caf\xc3\xa9 \xe2\x80\xa8x\nlast"
    )
    wanted = [("one two", None), ("\xa0café \u2028x", None), ("last", None)]
    assert texts_of(path) == wanted
    assert TransferTexts(str(path), False).check() == 3


def test_files_keep_their_order(tmp_path):
    """Patterns, gzip, pairs and JSON lines."""
    (tmp_path / "b1.tsv").write_text("a\tb\n")
    (tmp_path / "b2.tsv").write_text("c\t\n")  # an empty second text
    with gzip.open(tmp_path / "a.gz", "wt") as file:
        file.write("e\tf\n")
    lines = [{"text_a": "g\th", "text_b": "{", "label": 3}]
    (tmp_path / "c.jsonl").write_text("\n" + json.dumps(lines[0]) + "\n")
    pattern = f"{tmp_path}/b*.tsv,{tmp_path}/a.gz,{tmp_path}/c.jsonl"
    wanted = [("a", "b"), ("c", ""), ("e", "f"), ("g\th", "{")]
    assert texts_of(pattern, is_pair=True) == wanted
    texts = TransferTexts(pattern, True)
    assert [x.guid for x in texts] == [f"transfer-{n}" for n in range(4)]
    assert all(x.label is None for x in texts)
    before = texts.fingerprint()
    (tmp_path / "b2.tsv").write_text("d\t\n")
    assert texts.fingerprint() == before  # read once
    assert TransferTexts(pattern, True).fingerprint() != before


@pytest.mark.parametrize(
    "data, is_pair, words",
    [
        (b"", False, "holds no text"),
        (b"\n \n", False, "holds no text"),
        (b"one\ta\tb\n", False, "a.txt, line 1: 3 columns, wanted 1 (text)"),
        (
            b"ok\tb\n\none\n",
            True,
            "line 3: 1 columns, wanted 2 (text_a, text_b)",
        ),
        (b"ok\n\xff\n", False, "a.txt, line 2: not UTF-8"),
        (b"ok\0\n", False, "line 1: holds a zero byte"),
        (b" \tb\n", True, "line 1: text_a is empty"),
        (
            b'{"text": "a"}\n{"text": 3}\n',
            False,
            "line 2: no text with the key",
        ),
        (
            b'{"text": "a"}\n',
            True,
            "no text with the key 'text_a'; it has 'text'",
        ),
        (b'{"text": "a"}\nb\n', False, "line 2: not JSON"),
        (b'{"text": "a"}\n[1]\n', False, "line 2: wanted a JSON object"),
        (b'{"text": ""}\n', False, "line 1: text is empty"),
        (gzip.compress(b"a\n" * 9999, mtime=0)[:-20], False, "gzip is damaged"),
    ],
    ids=str,
)
def test_damaged_files_are_named(tmp_path, data, is_pair, words):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        TransferTexts(str(path), is_pair).check()
    assert words in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_not_there(tmp_path):
    for pattern, words in (
        (f"{tmp_path}/*.txt", "--transfer_file: no file matches"),
        (str(tmp_path), "is a directory"),
        ("/dev/null", "is a pipe or a device"),
        (",", "--transfer_file is empty"),
    ):
        with pytest.raises(UserError, match=words):
            TransferTexts(pattern, False)
