"""A tiny masked LM with random weights, as run_pretraining.py leaves one."""

from pathlib import Path

import numpy as np
import tensorflow as tf
import tiny

import tokenization
from pretraining.model import BertForPreTraining
from tasks.masked_lm.task import sentence_to_ids

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s sat on a mat . mask [ ]"


def write_model(folder: Path) -> Path:
    """Write weights, configuration and vocabulary; return the folder."""
    vocab = WORDS.split()
    config = tiny.config_of(
        vocab,
        vocab_size=20,  # more rows than tokens: some models are padded
        num_hidden_layers=2,
        max_position_embeddings=12,
        initializer_range=0.5,
    )
    return tiny.write_model(folder, config, vocab, BertForPreTraining)


def fillings(
    model: BertForPreTraining,
    tokenizer: tokenization.FullTokenizer,
    text: str,
    top_k: int,
) -> list[tuple[list[str], list[float]]]:
    """Return tokens and probabilities of each [MASK], computed with numpy."""
    ids = sentence_to_ids(text, tokenizer)
    mask = tokenizer.vocab["[MASK]"]
    places = [place for place, id_ in enumerate(ids) if id_ == mask]
    output = model(
        {
            "input_ids": tf.constant([ids]),
            "masked_lm_positions": tf.constant([places]),
        }
    )
    found = []
    for logits in output.masked_lm_logits.numpy()[0]:
        scores = np.exp(logits[: len(tokenizer.vocab)] - logits.max())
        scores /= scores.sum()
        best = np.argsort(-scores, kind="stable")[:top_k].tolist()
        tokens = tokenizer.convert_ids_to_tokens(best)
        found.append((tokens, scores[best].tolist()))
    return found
