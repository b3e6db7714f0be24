"""A pre-training model of a few hundred weights."""

import pytest

import modeling
from pretraining import model as pretraining_model

CONFIG = modeling.BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    type_vocab_size=2,
)


@pytest.fixture
def model() -> pretraining_model.BertForPreTraining:
    return pretraining_model.BertForPreTraining(CONFIG)
