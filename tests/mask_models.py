"""A tiny masked LM with random weights, as run_pretraining.py leaves one."""

from pathlib import Path

import numpy as np
import tensorflow as tf

import modeling
import tokenization
from checkpoints import weight_files
from pretraining.model import BertForPreTraining
from tasks.masked_lm.task import sentence_to_ids

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s sat on a mat . mask [ ]"


def write_model(folder: Path) -> Path:
    """Write weights, configuration and vocabulary; return the folder."""
    (folder / "vocab.txt").write_text("\n".join(WORDS.split()) + "\n")
    config = modeling.BertConfig(
        vocab_size=20,  # more rows than tokens: some models are padded
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
        type_vocab_size=2,
        initializer_range=0.5,
    )
    (folder / "bert_config.json").write_text(config.to_json_string())
    tf.keras.utils.set_random_seed(1)
    variables = BertForPreTraining(config).variables
    weight_files.write(
        str(folder / "bert_model.ckpt"), weight_files.as_tensors(variables)
    )
    return folder


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
