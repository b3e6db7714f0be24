"""Find and write a model's files: weights, configuration, vocabulary."""

import os
from collections.abc import Sequence

from base import cluster, file_system
from base.errors import UserError

import tensorflow as tf
from absl import logging

import tokenization
from checkpoints import huggingface, lookup, weight_files
from modeling import BertConfig


def read_config(prefix: str, bert_config_file: str | None = None) -> BertConfig:
    """Return the configuration a flag names, or the one beside a checkpoint.

    Args:
        prefix: of `lookup.find_checkpoint`; empty without a checkpoint.
        bert_config_file: the flag.

    Raises:
        UserError: there is none, or it is no BERT's.
    """
    path = bert_config_file or (
        prefix and lookup.beside(prefix, lookup.BERT_CONFIG_NAME)
    )
    if path:
        return BertConfig.from_json_file(path)
    if not prefix:
        raise UserError("--bert_config_file is required without a checkpoint")
    if tf.io.gfile.isdir(prefix):
        return huggingface.read_config(prefix)
    raise UserError(
        f"no {lookup.BERT_CONFIG_NAME} beside {prefix}: name it with "
        "--bert_config_file"
    )


def find_vocab(prefix: str, vocab_file: str | None = None) -> str:
    """Return the vocabulary a flag names, or the one beside a checkpoint.

    Raises:
        UserError: there is none.
    """
    path = vocab_file or (prefix and lookup.beside(prefix, "vocab.txt"))
    if not prefix and not path:
        raise UserError("--vocab_file is required without a checkpoint")
    if not path:
        raise UserError(
            f"no vocab.txt beside {prefix}: name it with --vocab_file"
        )
    return path


def resolve_lower_case(do_lower_case: bool | None, prefix: str) -> bool:
    """Return the casing a flag asks for, or the one a checkpoint has.

    A checkpoint says so in the tokenizer_config.json beside it, or, a
    released one, by the name of its directory. What says nothing lower-cases,
    as the original does.

    Raises:
        UserError: flag and checkpoint disagree.
    """
    folder = prefix if tf.io.gfile.isdir(prefix) else prefix.rpartition("/")[0]
    trained = huggingface.lower_cases(folder or ".") if prefix else None
    if trained is None:
        trained = tokenization.casing_of_checkpoint(prefix)
    if do_lower_case is None:
        do_lower_case = True if trained is None else trained
        logging.info(
            "do_lower_case = %s%s",
            do_lower_case,
            "" if trained is None else f", as {prefix} was trained",
        )
    elif trained is not None and trained != do_lower_case:
        raise UserError(
            f"--do_lower_case={do_lower_case}, but {prefix} was trained with "
            f"{trained}: leave the flag out, or mend what says so beside it"
        )
    return do_lower_case


def check_length(max_seq_length: int, config: BertConfig) -> None:
    """Compare --max_seq_length with the positions a model has.

    Raises:
        UserError: there are fewer.
    """
    if max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={max_seq_length} is more than the "
            f"model's max_position_embeddings={config.max_position_embeddings}"
        )


def load_tokenizer(
    prefix: str,
    config: BertConfig,
    vocab_file: str | None,
    do_lower_case: bool | None,
    needed: Sequence[str] = ("[CLS]", "[SEP]"),
) -> tokenization.FullTokenizer:
    """Return the tokenizer of a model, checked against it.

    Args:
        prefix: of a checkpoint; empty without one.
        config: of the model.
        vocab_file: the flag's; None: the file beside the checkpoint.
        do_lower_case: the flag's; None: what lies beside the checkpoint says.
        needed: tokens the vocabulary has to have.

    Raises:
        UserError: there is no vocabulary, it lacks a token or does not fit.
    """
    vocab_file = find_vocab(prefix, vocab_file)
    do_lower_case = resolve_lower_case(do_lower_case, prefix)
    tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case)
    tokenization.validate_special_tokens(tokenizer.vocab, needed, vocab_file)
    check_vocab(len(tokenizer.vocab), vocab_file, config)
    return tokenizer


def check_vocab(size: int, vocab_file: str, config: BertConfig) -> None:
    """Compare a vocabulary with the configuration.

    Raises:
        UserError: the model has fewer rows than there are tokens.
    """
    if size > config.vocab_size:
        raise UserError(
            f"{vocab_file} has {size} tokens, vocab_size of the configuration "
            f"is {config.vocab_size}: they belong to different models"
        )
    if size < config.vocab_size:
        logging.info(
            "vocab_size %d exceeds the %d tokens of %s",
            config.vocab_size,
            size,
            vocab_file,
        )


def export(
    output_dir: str,
    model,
    config: BertConfig,
    vocab_file: str | None,
    do_lower_case: bool | None = None,
) -> str:
    """Write weights alone, configuration, vocabulary and casing.

    Returns:
        The prefix of the weights, `bert_model.ckpt` in output_dir.
    """
    prefix = os.path.join(output_dir, lookup.WEIGHTS_NAME)
    if not cluster.is_chief():
        return prefix
    file_system.write_text(
        os.path.join(output_dir, lookup.BERT_CONFIG_NAME),
        config.to_json_string(),
    )
    if vocab_file and do_lower_case is not None:
        with tf.io.gfile.GFile(vocab_file, "rb") as file:
            vocabulary = file.read()
        huggingface.write_tokenizer(
            output_dir,
            vocabulary,
            do_lower_case,
            config.max_position_embeddings,
        )
    elif vocab_file:
        path = os.path.join(output_dir, "vocab.txt")
        tf.io.gfile.copy(vocab_file, path, overwrite=True)
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    logging.info("Wrote the weights alone to %s", prefix)
    return prefix
