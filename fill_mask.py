r"""Fill the [MASK]s of sentences with a pre-trained BERT.

    python fill_mask.py --init_checkpoint=demo_output/model \
        --text='Open a [MASK] and return a [MASK] object.'

prints for every [MASK] the likeliest tokens and their probabilities:

    Open a [MASK] and return a [MASK] object.
        [MASK] 1: object 0.08, file 0.06, bytes 0.04, return 0.03, a 0.03
        [MASK] 2: object 0.11, a 0.07, return 0.06, file 0.04, bytes 0.02

Configuration and vocabulary are taken from beside the checkpoint, where
run_pretraining.py and the published models have them.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from base import errors, logs
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import flags, logging

import tokenization
from checkpoints import lookup, model_files, weight_files
from pretraining import model as pretraining_model
from training import flags as training_flags

FLAGS = flags.FLAGS

# Text: one of the two or both
flags.DEFINE_multi_string(
    "text", [], "A sentence with one [MASK] or more; may be given repeatedly."
)
flags.DEFINE_string(
    "input_file", None, "UTF-8 text, one such sentence per line."
)

# Model
training_flags.define_model_flags()
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Tokens in a sentence at most; default: what the model has positions for.",
    lower_bound=3,
)

# Output
flags.DEFINE_integer(
    "top_k", 5, "Fillings to print for each [MASK].", lower_bound=1
)

_BATCH_SIZE = 32
_NEEDED_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Filling(NamedTuple):
    """One token proposed for one [MASK]."""

    token: str
    probability: float


def sentence_to_ids(
    text: str, tokenizer: tokenization.FullTokenizer
) -> list[int]:
    """Return [CLS] text [SEP] as ids, `[MASK]` being the mask token.

    The tokenizer by itself splits "[MASK]" like any text, so the pieces
    around it are tokenized one by one.
    """
    vocab = tokenizer.vocab
    first, *others = text.split("[MASK]")
    ids = [vocab["[CLS]"], *tokenizer.text_to_ids(first)]
    for piece in others:
        ids += [vocab["[MASK]"], *tokenizer.text_to_ids(piece)]
    return [*ids, vocab["[SEP]"]]


def encode_sentences(
    texts: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
) -> list[list[int]]:
    """Return the ids of each sentence.

    Raises:
        UserError: a sentence has no [MASK], or more tokens than fit.
    """
    encoded = []
    for text in texts:
        if "[MASK]" not in text:
            misspelled = re.search(r"\[mask\]|<mask>|\bMASK\b", text, re.I)
            hint = f", only {misspelled[0]!r}" if misspelled else ""
            raise UserError(
                f"no [MASK] in {text!r}{hint}: write [MASK] where a word is "
                "to be found"
            )
        ids = sentence_to_ids(text, tokenizer)
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
    """Pad sentences to a batch; unused prediction slots are position 0."""
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
    padded = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded


def fill_masks(
    model: pretraining_model.BertForPreTraining,
    tokenizer: tokenization.FullTokenizer,
    encoded: Sequence[Sequence[int]],
    top_k: int,
) -> list[list[list[Filling]]]:
    """Return the likeliest tokens: sentence -> [MASK] -> fillings."""
    vocab = tokenizer.vocab
    top_k = min(top_k, len(vocab))
    results = []
    for start in range(0, len(encoded), _BATCH_SIZE):
        batch = encoded[start : start + _BATCH_SIZE]
        features = create_features(batch, vocab["[MASK]"])
        logits = model(
            {name: tf.constant(value) for name, value in features.items()}
        ).masked_lm_logits  # [B, P, V]
        # A model may have more rows than the vocabulary has tokens.
        logits = logits[:, :, : len(vocab)]
        best = tf.math.top_k(tf.nn.softmax(logits), top_k)  # [B, P, top_k]
        values, indices = best.values.numpy(), best.indices.numpy()
        for row, ids in enumerate(batch):
            count = list(ids).count(vocab["[MASK]"])
            results.append(
                [
                    [
                        Filling(tokenizer.inv_vocab[int(i)], float(p))
                        for i, p in zip(
                            indices[row, slot], values[row, slot], strict=True
                        )
                    ]
                    for slot in range(count)
                ]
            )
    return results


def format_fillings(text: str, masks: Sequence[Sequence[Filling]]) -> str:
    """Return the sentence and a line for each of its [MASK]s."""
    lines = [text]
    for number, fillings in enumerate(masks, 1):
        name = f"[MASK] {number}: " if len(masks) > 1 else ""
        found = ", ".join(f"{f.token} {f.probability:.2f}" for f in fillings)
        lines.append(f"    {name}{found}")
    return "\n".join(lines)


def read_lines(path: str) -> list[str]:
    """Return the lines of a text file that hold anything.

    Raises:
        UserError: unreadable, not UTF-8, or empty.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"--input_file={path} is not UTF-8: {error}") from error
    except tf.errors.OpError as error:
        raise UserError(
            f"--input_file={path} cannot be read: {error.message}"
        ) from error
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        raise UserError(f"--input_file={path} holds no text")
    return lines


def load(
    prefix: str,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
) -> tuple[pretraining_model.BertForPreTraining, tokenization.FullTokenizer]:
    """Return model and tokenizer, checked against each other."""
    config = model_files.read_config(prefix, bert_config_file)
    tokenizer = model_files.load_tokenizer(
        prefix, config, vocab_file, do_lower_case, _NEEDED_TOKENS
    )
    model = pretraining_model.BertForPreTraining(config)
    weight_files.restore_weights(
        model.variables, prefix, required="^(bert|cls/predictions)/"
    )
    return model, tokenizer


def main(_: list[str]) -> None:
    """Print the fillings of all sentences the flags name."""
    # The report of what was restored matters when something was not.
    logs.set_level(logging.WARNING)
    if not FLAGS.init_checkpoint:
        raise UserError("--init_checkpoint is required")
    texts = list(FLAGS.text)
    if FLAGS.input_file:
        texts += read_lines(FLAGS.input_file)
    if not texts:
        raise UserError("give --text or --input_file")
    prefix = lookup.find_checkpoint(FLAGS.init_checkpoint)
    model, tokenizer = load(
        prefix,
        FLAGS.bert_config_file,
        FLAGS.vocab_file,
        FLAGS.do_lower_case,
    )
    length = FLAGS.max_seq_length or model.config.max_position_embeddings
    model_files.check_length(length, model.config)
    encoded = encode_sentences(texts, tokenizer, length)
    results = fill_masks(model, tokenizer, encoded, FLAGS.top_k)
    for text, masks in zip(texts, results, strict=True):
        print(format_fillings(text, masks))


if __name__ == "__main__":
    errors.run(main)
