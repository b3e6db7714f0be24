"""Input and flags that look like mistakes give a warning, others none."""

import logging

import generator_runs
import pytest
from corpora import manual
from marks import nightly


def _warnings(tmp_path, caplog, text: str, **flags) -> str:
    source = tmp_path / "in.txt"
    source.write_text(text, encoding="utf-8")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        generator_runs.run(source, tmp_path / "x", **flags)
    return " ".join(record.getMessage() for record in caplog.records)


def test_good_text_gives_no_warning(tmp_path, caplog):
    text = "\n\n".join("\n".join(page) for page in manual(60) if len(page) > 20)
    assert _warnings(tmp_path, caplog, text) == ""


@pytest.mark.parametrize(
    "text, flags, warning",
    [
        ("a sentence\n\nanother one\n\nthird\n", {}, "one sentence only"),
        ("\u3042 \u05d0 \u1200 known\nwords\n\nmore\n", {}, "tokens are [UNK]"),
        nightly("word " * 300 + "\nx\n\n" + "word " * 300, {}, "longer than"),
        nightly("One two.\n\nThree.\nfour", {}, "filled to"),
        ("a b\n\nc d", {"do_lower_case": False}, "looks uncased"),
        ("a b\n\nc d", {"do_whole_word_mask": True}, "0.00% of the tokens"),
        nightly("a b\n\nc d", {"max_seq_length": 512}, "caps the 77 predict"),
    ],
)
def test_warnings(tmp_path, caplog, text, flags, warning):
    assert warning in _warnings(tmp_path, caplog, text, **flags)
