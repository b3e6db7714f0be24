"""Fill the [MASK]s of sentences with the masked LM of a checkpoint.

Dimensions: B sentences, P [MASK]s of the sentence with the most, V vocabulary.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf

import modeling
import tokenization
from checkpoints import weight_files
from checkpoints.checkpoint import Checkpoint
from pretraining.model import BertForPreTraining
from tasks.masked_lm import masked_sentences

_BATCH_SIZE = 32

_NEEDED_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# Likely misspellings of [MASK], for a hint in the error message.
_MISSPELLED = re.compile(r"\[mask\]|<mask>|\bMASK\b", re.IGNORECASE)


class Filling(NamedTuple):
    """One token proposed for one [MASK]."""

    token: str
    probability: float


def load_model(
    checkpoint: Checkpoint, dtype: str = "float32"
) -> BertForPreTraining:
    """Return the model of a checkpoint.

    Args:
        checkpoint: with a vocabulary.
        dtype: of the matrix products, one of modeling.DTYPES.

    Raises:
        UserError: vocabulary and model do not fit, the checkpoint has no
            masked LM head, or its tokens see their left side alone.
    """
    check_sees_both_sides(checkpoint.config, checkpoint.prefix)
    tokenizer = checkpoint.tokenizer
    tokenization.validate_special_tokens(
        tokenizer.vocab, _NEEDED_TOKENS, tokenizer.vocab_file
    )
    model = BertForPreTraining(checkpoint.config, dtype)
    # Pooler and next sentence head may be missing: they are not used.
    weight_files.restore_weights(
        model.variables,
        checkpoint.prefix,
        required=rf"{weight_files.ENCODER}|^cls/pred",
    )
    return model


def check_sees_both_sides(config: modeling.BertConfig, prefix: str) -> None:
    """Check that a model can fill a [MASK] from the words around it.

    A left-to-right model was never trained on [MASK]. Its best guess would
    ignore the rest of the sentence, and look like the answer of a bad BERT.

    Args:
        config: of the model.
        prefix: of its checkpoint, for the message.

    Raises:
        UserError: its tokens see their left side alone.
    """
    if config.attention_direction != modeling.BIDIRECTIONAL:
        raise UserError(
            f"{prefix} is a {config.attention_direction} model, which predicts "
            "the next token and no [MASK]; filling masks needs one trained "
            "with --objective=mlm_nsp or mlm"
        )


# --- Sentences ---------------------------------------------------------------


def encode_sentences(
    texts: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
) -> list[list[int]]:
    """Return the ids of each sentence.

    Raises:
        UserError: a sentence has no [MASK], or more than `max_seq_length`
            tokens.
    """
    encoded = []
    for text in texts:
        if "[MASK]" not in text:
            misspelled = _MISSPELLED.search(text)
            hint = f", only {misspelled[0]!r}" if misspelled else ""
            raise UserError(
                f"no [MASK] in {text!r}{hint}: write [MASK] in place of each "
                "word to find"
            )
        ids = masked_sentences.sentence_to_ids(text, tokenizer)
        if len(ids) > max_seq_length:
            raise UserError(
                f"{text[:40]!r}... has {len(ids)} tokens, [CLS] and [SEP] "
                f"included, but max_seq_length is {max_seq_length}: shorten it"
            )
        encoded.append(ids)
    return encoded


def create_features(
    encoded: Sequence[Sequence[int]], mask_id: int
) -> dict[str, np.ndarray]:
    """Return the model's features of B sentences, padded with 0.

    Returns:
        input_ids, input_mask: int32 [B, tokens of the longest sentence].
        masked_lm_positions: int32 [B, P]; unused places are position 0.
    """
    positions = [
        [i for i, token in enumerate(ids) if token == mask_id]
        for ids in encoded
    ]
    return {
        "input_ids": _pad(encoded),
        "input_mask": _pad([[1] * len(ids) for ids in encoded]),
        "masked_lm_positions": _pad(positions),
    }


def _pad(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows of different lengths as one array, padded with 0."""
    padded = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded


# --- Fillings ----------------------------------------------------------------


def fill_masks(
    model: BertForPreTraining,
    tokenizer: tokenization.FullTokenizer,
    encoded: Sequence[Sequence[int]],
    top_k: int,
) -> list[list[list[Filling]]]:
    """Return the most probable tokens: sentence -> [MASK] -> fillings.

    Each [MASK] is filled on its own: the second does not depend on what the
    first is filled with.

    Args:
        model: with its weights.
        tokenizer: the vocabulary of the model.
        encoded: ids of each sentence, from `encode_sentences`.
        top_k: number of fillings for each [MASK].
    """
    vocab = tokenizer.vocab
    top_k = min(top_k, len(vocab))
    results = []
    for start in range(0, len(encoded), _BATCH_SIZE):
        batch = encoded[start : start + _BATCH_SIZE]
        features = create_features(batch, vocab["[MASK]"])
        logits = model(
            {name: tf.constant(value) for name, value in features.items()}
        ).masked_lm_logits  # [B, P, V]
        # Some models have more rows of embeddings than there are tokens.
        logits = logits[:, :, : len(vocab)]
        best = tf.math.top_k(tf.nn.softmax(logits), top_k)  # [B, P, top_k]
        values, indices = best.values.numpy(), best.indices.numpy()
        for row, ids in enumerate(batch):
            count = list(ids).count(vocab["[MASK]"])
            results.append(
                [
                    _fillings(indices[row, slot], values[row, slot], tokenizer)
                    for slot in range(count)
                ]
            )
    return results


def _fillings(
    ids: np.ndarray,
    probabilities: np.ndarray,
    tokenizer: tokenization.FullTokenizer,
) -> list[Filling]:
    """Return the fillings of one [MASK]; both arrays are [top_k]."""
    return [
        Filling(tokenizer.inv_vocab[int(i)], float(p))
        for i, p in zip(ids, probabilities, strict=True)
    ]


def format_fillings(text: str, masks: Sequence[Sequence[Filling]]) -> str:
    """Return the sentence and a line for each of its [MASK]s."""
    lines = [text]
    for number, fillings in enumerate(masks, 1):
        name = f"[MASK] {number}: " if len(masks) > 1 else ""
        found = ", ".join(f"{f.token} {f.probability:.2f}" for f in fillings)
        lines.append(f"    {name}{found}")
    return "\n".join(lines)
