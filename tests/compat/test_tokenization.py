"""What the original's tokenization.py has beside ours."""

import json
import subprocess
import sys

from base.errors import UserError

import pytest
from paths import GOLDEN, ROOT

import tokenization


def test_public_names():
    """All 14; the module of a worker process stays free of TensorFlow."""
    vocab = tokenization.load_vocab(str(GOLDEN / "vocab" / "uncased.txt"))
    ids = tokenization.convert_tokens_to_ids(vocab, ["the", "[SEP]"])
    inverse = {index: token for token, index in vocab.items()}
    assert tokenization.convert_ids_to_tokens(inverse, ids) == ["the", "[SEP]"]
    assert tokenization.printable_text(b"caf\xc3\xa9") == "caf\u00e9"
    assert tokenization.convert_to_unicode("a") == "a"
    assert tokenization.convert_by_vocab(vocab, ["the"]) == ids[:1]
    assert tokenization.whitespace_tokenize(" a  b ") == ["a", "b"]
    code = "import tokenization, sys; tokenization.printable_text('a'); "
    code += "assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_single_steps_of_a_basic_tokenizer():
    """By the original's names; together they are `tokenize`."""
    basic = tokenization.BasicTokenizer(do_lower_case=True)
    assert basic.do_lower_case
    assert basic._clean_text("a\u200d\x00b\u3000c\ufffd\n") == "ab c "
    assert basic._tokenize_chinese_chars("ah\u535a\u63a8z") == (
        "ah \u535a  \u63a8 z"
    )
    assert basic._is_chinese_char(0x535A)
    assert not basic._is_chinese_char(0xAC00)  # Hangul
    assert basic._run_strip_accents("H\u00e9llo") == "Hello"
    assert basic._run_split_on_punc("a b,c!") == ["a b", ",", "c", "!"]
    with (GOLDEN / "tokenization.jsonl").open() as file:
        texts = [json.loads(line)["text"] for line in file]
    for text in texts:
        words = []
        cleaned = basic._tokenize_chinese_chars(basic._clean_text(text))
        for word in tokenization.whitespace_tokenize(cleaned):
            word = basic._run_strip_accents(word.lower())
            words += basic._run_split_on_punc(word)
        assert " ".join(words).split() == basic.tokenize(text)


@pytest.mark.parametrize(
    ("lower", "checkpoint", "is_right"),
    [
        (True, "uncased_L-12_H-768_A-12/bert_model.ckpt", True),
        (False, "/models/uncased_L-12_H-768_A-12/bert_model.ckpt", False),
        (True, "gs://x/cased_L-24_H-1024_A-16/bert_model.ckpt", False),
        (False, "multi_cased_L-12_H-768_A-12/bert_model.ckpt", True),
        (False, "my_model/model.ckpt-30", True),
        (True, None, True),
    ],
)
def test_casing_of_a_released_model(lower, checkpoint, is_right):
    if is_right:
        tokenization.validate_case_matches_checkpoint(lower, checkpoint)
        return
    with pytest.raises(UserError, match="cased: found do_lower_case"):
        tokenization.validate_case_matches_checkpoint(lower, checkpoint)
