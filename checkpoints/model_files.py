"""Find, check and write the files of a model.

A model is four files: weights, configuration (`bert_config.json`), vocabulary
(`vocab.txt`) and the casing of its tokenizer (`tokenizer_config.json`). The
flags --bert_config_file, --vocab_file and --do_lower_case override the files
beside a checkpoint.
"""

import os
import re
from collections.abc import Mapping, Sequence

from base import cluster, file_system
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
import tokenization
from checkpoints import casing, hub, huggingface, lookup, weight_files
from modeling import BertConfig

# Key of bert_config.json: the objective of a pre-trained model whose pooler and
# next sentence head were not trained.
OBJECTIVE = "objective"

# --- Configuration -----------------------------------------------------------


def read_config(prefix: str, bert_config_file: str | None = None) -> BertConfig:
    """Return the configuration that a flag names or a checkpoint has.

    Args:
        prefix: of `lookup.find_checkpoint`; empty without a checkpoint.
        bert_config_file: value of the flag; None: look beside the checkpoint.

    Raises:
        UserError: there is no configuration, or it is not one of BERT.
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


def objective_in(config: BertConfig) -> str | None:
    """Return a pre-trained model's --objective, if it is not the paper's.

    Returns:
        `mlm` or `ltr`; None for the paper's, masked LM and next sentence
        prediction, for fine-tuned models and for files that do not name it.
    """
    return getattr(config, OBJECTIVE, None)


def warn_of_untrained_pooler(config: BertConfig, prefix: str) -> None:
    """Warn if the pooler of a pre-trained model has its initial weights.

    Args:
        config: of the model.
        prefix: of its checkpoint, for the message.
    """
    objective = objective_in(config)
    if objective:
        logging.warning(
            "%s was pre-trained with --objective=%s, which does not train the "
            "pooler: pooled_output is that of random weights; use mean_output",
            prefix,
            objective,
        )


def check_length(max_seq_length: int, config: BertConfig) -> None:
    """Check that a model has a position embedding for every token.

    Raises:
        UserError: it has fewer than --max_seq_length.
    """
    if max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={max_seq_length} is more than the "
            f"model's max_position_embeddings={config.max_position_embeddings}"
        )


def labels_in(config: BertConfig) -> tuple[str, ...] | None:
    """Return the labels of a fine-tuned model, in the order of its logits.

    Returns:
        The values of `id2label`, the Hugging Face name of this setting; None
        if the configuration has none.
    """
    names = getattr(config, "id2label", None)
    if not names:
        return None
    # JSON keys are strings: "10" would sort before "2".
    return tuple(names[number] for number in sorted(names, key=int))


def class_names(config: BertConfig, num_labels: int) -> list[str]:
    """Return a name for each of a classifier's outputs.

    Outputs without a label are called LABEL_0, LABEL_1, ... as in
    Hugging Face's transformers.

    Args:
        config: of the fine-tuned model.
        num_labels: rows of its output matrix.

    Raises:
        UserError: two have the same name.
    """
    names = getattr(config, "id2label", None) or {}
    found = [str(names.get(str(i), f"LABEL_{i}")) for i in range(num_labels)]
    for number, name in enumerate(found):
        if name in found[:number]:
            raise UserError(
                f"bert config: id2label names two classes {name!r}; wanted a "
                "name of its own for each"
            )
    return found


# --- Vocabulary and casing ---------------------------------------------------


def find_vocab(prefix: str, vocab_file: str | None = None) -> str:
    """Return the path of the vocabulary a flag names or a checkpoint has.

    Args:
        prefix: of `lookup.find_checkpoint`; empty without a checkpoint.
        vocab_file: value of the flag; None: look beside the checkpoint.

    Raises:
        UserError: there is none.
    """
    path = vocab_file or (prefix and lookup.beside(prefix, lookup.VOCAB_NAME))
    if not prefix and not path:
        raise UserError("--vocab_file is required without a checkpoint")
    if not path:
        raise UserError(
            f"no {lookup.VOCAB_NAME} beside {prefix}: name it with --vocab_file"
        )
    return path


def known_lower_case(prefix: str) -> bool | None:
    """Return whether a model lower-cases, by its files or its name.

    The setting is in the tokenizer_config.json beside a checkpoint. The
    released checkpoints have no such file; their casing follows from the name
    of their directory (uncased_L-12_H-768_A-12), or of their repository on the
    hub.

    Args:
        prefix: of `lookup.find_checkpoint`; empty without a checkpoint.

    Returns:
        None if neither tells.
    """
    if not prefix:
        return None
    trained = huggingface.lower_cases(lookup.folder_of(prefix))
    if trained is None:
        name = hub.repository_of(prefix) or prefix
        trained = tokenization.casing_of_checkpoint(name)
    return trained


def resolve_lower_case(
    do_lower_case: bool | None, prefix: str, vocab_file: str | None = None
) -> bool:
    """Return whether to lower-case text, by a flag or by the model.

    Where neither the files of a checkpoint nor its name tell its casing, its
    vocabulary decides: one with capitals is a cased one. Other text is
    lower-cased, as by the original, but for models of the hub, most of which
    are not the original's: there the flag is required.

    Args:
        do_lower_case: value of the flag; None: as the model.
        prefix: of `lookup.find_checkpoint`; empty without a checkpoint.
        vocab_file: value of the flag; None: look beside the checkpoint.

    Raises:
        UserError: flag and checkpoint disagree, the casing of a model of the
            hub is unknown, or the vocabulary cannot be read.
    """
    trained = known_lower_case(prefix)
    if trained is not None:
        return _as_trained(do_lower_case, trained, prefix)
    if do_lower_case is False:
        return False
    path = vocab_file
    if not path and prefix:
        path = lookup.beside(prefix, lookup.VOCAB_NAME)
    vocab = tokenization.load_vocab(path) if path else {}
    is_cased = casing.looks_cased(vocab)
    if do_lower_case:
        if is_cased:
            casing.warn_of_contradiction(vocab, path, do_lower_case)
        return True
    repository = hub.repository_of(prefix)
    if repository and not is_cased:
        raise UserError(
            f"{hub.SCHEME}{repository} does not tell its casing (no "
            f"do_lower_case in its {huggingface.TOKENIZER_CONFIG_NAME}): "
            "give --do_lower_case, or --nodo_lower_case for a cased model"
        )
    if path:
        casing.log_choice(path, not is_cased)
    return not is_cased


def _as_trained(do_lower_case: bool | None, trained: bool, prefix: str) -> bool:
    """Return the casing of a checkpoint; a flag must not contradict it."""
    if do_lower_case is None:
        logging.info("do_lower_case = %s, as %s was trained", trained, prefix)
    elif trained != do_lower_case:
        raise UserError(
            f"--do_lower_case={do_lower_case}, but {prefix} was trained with "
            f"{trained}: leave the flag out, or correct "
            f"{huggingface.TOKENIZER_CONFIG_NAME} beside the checkpoint"
        )
    return trained


def check_vocab(size: int, vocab_file: str, config: BertConfig) -> None:
    """Check that a model has a word embedding for every token.

    More embeddings than tokens are fine: models trained on TPUs or GPUs often
    round vocab_size up to a multiple of 64.

    Args:
        size: tokens in the vocabulary.
        vocab_file: its path, for messages.
        config: of the model.

    Raises:
        UserError: the model has fewer embeddings than there are tokens.
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


def load_tokenizer(
    prefix: str,
    config: BertConfig,
    vocab_file: str | None,
    do_lower_case: bool | None,
    needed: Sequence[str] = ("[CLS]", "[SEP]"),
) -> tokenization.FullTokenizer:
    """Return a model's tokenizer, checked against its configuration.

    Args:
        prefix: of `lookup.find_checkpoint`; empty without a checkpoint.
        config: of the model.
        vocab_file: value of the flag; None: look beside the checkpoint.
        do_lower_case: value of the flag; None: as the model.
        needed: tokens that the vocabulary must have.

    Raises:
        UserError: there is no vocabulary, it lacks a needed token, or it has
            more tokens than the model has embeddings.
    """
    vocab_file = find_vocab(prefix, vocab_file)
    do_lower_case = resolve_lower_case(do_lower_case, prefix, vocab_file)
    tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case)
    tokenization.validate_special_tokens(tokenizer.vocab, needed, vocab_file)
    check_vocab(len(tokenizer.vocab), vocab_file, config)
    return tokenizer


def check_weights(
    weights: Mapping[str, np.ndarray],
    config: BertConfig,
    prefix: str,
) -> None:
    """Check that weights have the shapes of an encoder.

    Args:
        weights: of `weight_files.read_weights`.
        config: of the encoder.
        prefix: of the checkpoint, for messages.

    Raises:
        UserError: they are not those of a BERT model, or of one of another
            size.
    """
    with tf.device("CPU"):
        model = modeling.BertModel(config)
    wanted = {v.path: list(v.shape) for v in model.variables}
    found = {name: list(value.shape) for name, value in weights.items()}
    report = weight_files.compare(wanted, found)
    weight_files.check_required(report, prefix)
    extra = sum(bool(re.search(r"^bert/", name)) for name in report.unused)
    if extra:
        raise UserError(
            f"{prefix} holds {extra} variables of the encoder that the "
            f"configuration does not have, the first: {report.unused[0]}; use "
            "the configuration that belongs to the checkpoint"
        )


# --- Writing -----------------------------------------------------------------


def write_model(
    output_dir: str,
    model: tf.Module,
    config: BertConfig,
    vocab_file: str | None,
    do_lower_case: bool | None = None,
    step: int | None = None,
) -> str:
    """Write a model's weights, configuration, vocabulary and casing.

    Of several processes only the chief writes.

    Args:
        output_dir: an existing directory; files of these names are replaced.
        model: its variables are written, without optimizer slots.
        config: of the model.
        vocab_file: vocabulary to copy; None: none is written.
        do_lower_case: casing to write; None: none is written.
        step: `global_step` to write; None: none is written.

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
    if vocab_file:
        length = config.max_position_embeddings
        _write_vocabulary(output_dir, vocab_file, do_lower_case, length)
    # Last: the weights' index makes the model visible to find_checkpoint.
    tensors = weight_files.as_tensors(model.variables)
    if step is not None:
        tensors["global_step"] = np.int64(step)
    weight_files.write(prefix, tensors)
    logging.info("Wrote the weights alone to %s", prefix)
    return prefix


def _write_vocabulary(
    output_dir: str, vocab_file: str, do_lower_case: bool | None, length: int
) -> None:
    """Write vocab.txt, and the casing where it is known; see `write_model`."""
    # Read whole before anything is written: it may be the same file.
    with tf.io.gfile.GFile(vocab_file, "rb") as file:
        vocabulary = file.read()
    if do_lower_case is not None:
        huggingface.write_tokenizer(
            output_dir, vocabulary, do_lower_case, length
        )
        return
    path = os.path.join(output_dir, lookup.VOCAB_NAME)
    with file_system.atomic_file(path) as file:
        file.write(vocabulary)
