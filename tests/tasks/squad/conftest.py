"""Fixtures of the SQuAD tests."""

import pytest
from corpora import VOCAB_FILE

import tokenization


@pytest.fixture(scope="session")
def tokenizer() -> tokenization.FullTokenizer:
    return tokenization.FullTokenizer(VOCAB_FILE)
