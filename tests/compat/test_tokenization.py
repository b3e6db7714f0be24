"""What the original's tokenization.py has beside ours."""

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
