"""A checkpoint and the files beside it: opened once, and written.

    checkpoint = open_checkpoint("hf://google-bert/bert-base-uncased")
    checkpoint.prefix, checkpoint.config, checkpoint.tokenizer, ...

A model is four files: weights, configuration (`bert_config.json`), vocabulary
(`vocab.txt`) and its tokenizer's settings (`tokenizer_config.json`). The
flags --bert_config_file, --vocab_file and --do_lower_case override the files
beside a checkpoint.
"""

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from base import cluster, file_system, machine_memory
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
import tokenization
from checkpoints import (
    casing,
    hub,
    huggingface,
    lookup,
    sentence_transformers,
    weight_files,
)
from checkpoints.trained_for import TAIL, LongTexts, TrainedFor
from modeling import BertConfig
from tokenization import Normalization


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint and its files; weights are read when they are needed.

    Without a checkpoint, in a run from new weights, the prefix is empty, and
    the rest is what the flags name.

    Attributes:
        prefix: beginning of its files' paths; a Hugging Face directory.
        config: the encoder's configuration.
        trained_for: task, labels and options of its head.
        vocab_file: the flag's, else the file beside the weights, if any.
        given_lower_case: value of --do_lower_case; None: not given.
        bert_config_file: value of the flag; None: not given.
    """

    prefix: str
    config: BertConfig
    trained_for: TrainedFor = TrainedFor()
    vocab_file: str | None = None
    given_lower_case: bool | None = None
    bert_config_file: str | None = None

    @property
    def max_seq_length(self) -> int:
        """Tokens of a row in fine-tuning, else the number of positions."""
        own = self.trained_for.max_seq_length
        return own or self.config.max_position_embeddings

    @functools.cached_property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of every variable in it."""
        reader = weight_files.open_reader(self.prefix)
        return reader.get_variable_to_shape_map()

    @functools.cached_property
    def normalization(self) -> Normalization:
        """How text is normalized; see `resolve_normalization`."""
        return resolve_normalization(
            self.given_lower_case, self.prefix, self.vocab_file
        )

    @functools.cached_property
    def tokenizer(self) -> tokenization.FullTokenizer:
        """The tokenizer, checked against the configuration."""
        if not self.vocab_file and not self.prefix:
            raise UserError("--vocab_file is required without a checkpoint")
        if not self.vocab_file:
            raise UserError(
                f"no {lookup.VOCAB_NAME} beside {self.prefix}, nor a "
                f"{casing.TOKENIZER_NAME}: name it with --vocab_file"
            )
        tokenizer = tokenization.FullTokenizer(
            self.vocab_file, *self.normalization
        )
        tokenization.validate_special_tokens(
            tokenizer.vocab, ("[CLS]", "[SEP]"), self.vocab_file
        )
        self.check_vocab(len(tokenizer.vocab))
        return tokenizer

    def check_vocab(self, size: int) -> None:
        """Check that the model has a word embedding for each of `size` tokens.

        More embeddings than tokens are fine: models trained on TPUs or GPUs
        often round vocab_size up to a multiple of 64.
        """
        embeddings = self.config.vocab_size
        if size > embeddings:
            raise UserError(
                f"{self.vocab_file} has {size} tokens, vocab_size of the "
                f"configuration is {embeddings}: they belong to different "
                "models"
            )

    def fitting_length(self, max_seq_length: int, is_given: bool) -> int:
        """Return a length for which the model has position embeddings.

        It is max_seq_length, or all positions of the model where these are
        fewer and the length is no more than the default of a flag.

        Raises:
            UserError: the length is given, and too long.
        """
        positions = self.config.max_position_embeddings
        if max_seq_length <= positions:
            return max_seq_length
        if is_given:
            raise UserError(
                f"--max_seq_length={max_seq_length} is more than the model's "
                f"max_position_embeddings={positions}"
            )
        logging.info(
            "max_seq_length = %d: the model has no more positions", positions
        )
        return positions

    def warn_of_untrained_pooler(self) -> None:
        """Warn if the pooler has random weights, for outputs that read it."""
        if "bert/pooler/dense/kernel" not in self.shapes:
            logging.warning(
                "%s has no pooler (bert/pooler/...): pooled_output is that of "
                "random weights; use mean_output",
                self.prefix,
            )
        elif self.trained_for.objective:
            logging.warning(
                "%s was pre-trained with --objective=%s, which does not train "
                "the pooler: pooled_output is that of random weights; use "
                "mean_output",
                self.prefix,
                self.trained_for.objective,
            )

    def read_weights(self) -> dict[str, np.ndarray]:
        """Return {name: value}, checked to be those of the configuration."""
        weights = weight_files.read_weights(self.prefix)
        with tf.device("CPU"):
            model = modeling.BertModel(self.config)
        wanted = {v.path: list(v.shape) for v in model.variables}
        found = {name: list(value.shape) for name, value in weights.items()}
        report = weight_files.compare(wanted, found)
        weight_files.check_required(report, self.prefix)
        extra = sum(name.startswith("bert/") for name in report.unused)
        if extra:
            raise UserError(
                f"{self.prefix} holds {extra} variables of the encoder that "
                "the configuration does not have, the first: "
                f"{report.unused[0]}; use the configuration that belongs to "
                "the checkpoint"
            )
        return weights


def open_checkpoint(
    name: str | None,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
    flag: str = "init_checkpoint",
) -> Checkpoint:
    """Return the checkpoint that a name and the other flags describe.

    Without a name there is no checkpoint, and the flags name all files. Flags
    that are None stand for what the files beside the checkpoint say. A missing
    vocabulary is an error of `tokenizer`, not of this function.

    Raises:
        UserError: there is no such checkpoint, or a vocabulary is given that is
            not its own.
    """
    prefix = lookup.find_checkpoint(name, flag) if name else ""
    config, trained_for = read_config(prefix, bert_config_file)
    if prefix and not bert_config_file:
        names = lookup.BERT_CONFIG_NAME, huggingface.CONFIG_NAME
        if all(lookup.beside(prefix, name) for name in names):
            logging.info(
                "%s and %s are beside %s: read is %s, which belongs to the "
                "format of the weights",
                *names,
                prefix,
                os.path.basename(lookup.config_beside(prefix)),
            )
    own = casing.find_vocabulary(lookup.folder_of(prefix)) if prefix else None
    if vocab_file and own:
        _check_same_vocabulary(vocab_file, own)
    return Checkpoint(
        prefix,
        config,
        trained_for,
        vocab_file or own,
        do_lower_case,
        bert_config_file,
    )


def _check_same_vocabulary(vocab_file: str, own: str) -> None:
    """Check that a vocabulary is a model's own, whose file is `own`.

    Words may stand in the places of its [unused1], [unused2], ...

    Raises:
        UserError: a line differs; names the first.
    """
    try:
        wanted = list(tokenization.load_vocab(own))
    except UserError:
        return  # it is damaged, and the flag names a mended copy
    given = list(tokenization.load_vocab(vocab_file))
    pairs = itertools.zip_longest(given, wanted)
    for line, (token, known) in enumerate(pairs, 1):
        is_word = token and re.fullmatch(r"\[unused\d+\]", known or "")
        if token != known and not is_word:
            found = (
                f"{token!r} in line {line}" if token else f"{line - 1} lines"
            )
            there = repr(known) if known else f"{line - 1} lines"
            raise UserError(
                f"--vocab_file={vocab_file} has {found}, and the model's own "
                f"vocabulary {own} {there}: leave --vocab_file out "
                "(extend_checkpoint.py adds words to a model)"
            )


class Loaded(NamedTuple):
    """A pre-trained encoder and what belongs to it."""

    config: BertConfig
    tokenizer: tokenization.FullTokenizer
    model: modeling.BertModel


def load(
    name: str,
    dtype: str | None = None,
    do_lower_case: bool | None = None,
    layer_name: str = "bert",
) -> Loaded:
    """Return configuration, tokenizer and encoder of a checkpoint.

    A head that it has is left out.

    Args:
        name: a prefix, a directory, or hf://owner/name[@revision].
        dtype: type of the activations, as for BertModel.
        do_lower_case: None for what the files of the checkpoint say.
        layer_name: name of the encoder in a Keras model, as for BertModel.

    Raises:
        UserError: there is no checkpoint, or a file is missing or damaged.
    """
    try:
        checkpoint = open_checkpoint(name, None, None, do_lower_case, "model")
    except UserError as error:  # no flag names the model here
        raise UserError(str(error).removeprefix("--model=")) from error
    tokenizer = checkpoint.tokenizer
    model = modeling.BertModel(checkpoint.config, layer_name, dtype)
    weight_files.restore_weights(model.weights, checkpoint.prefix)
    checkpoint.warn_of_untrained_pooler()
    long = checkpoint.trained_for.long_texts
    if long:
        logging.warning(
            "%s reads long texts with %s (long_texts, or truncation_side of "
            "its files); batch_encoder reads their beginning",
            checkpoint.prefix,
            long,
        )
    return Loaded(checkpoint.config, tokenizer, model)


def read_config(
    prefix: str, bert_config_file: str | None = None
) -> tuple[BertConfig, TrainedFor]:
    """Return the configuration that a flag names or a checkpoint has."""
    path = bert_config_file or (prefix and lookup.config_beside(prefix))
    if (
        bert_config_file
        or os.path.basename(path or "") == lookup.BERT_CONFIG_NAME
    ):
        found = BertConfig.from_json_file(path)
    elif path:
        found = huggingface.read_config(prefix)
    elif not prefix:
        raise UserError(
            "--init_checkpoint is required (a directory, a prefix or "
            "hf://owner/name); to train from new weights give "
            "--bert_config_file and --vocab_file"
        )
    else:
        raise UserError(
            f"no {lookup.BERT_CONFIG_NAME} beside {prefix}: name it with "
            "--bert_config_file"
        )
    keys = found.to_dict()
    if path == os.path.join(prefix, huggingface.CONFIG_NAME):
        keys |= sentence_transformers.read(
            prefix,
            found.max_position_embeddings,
            len(keys.get("id2label") or ()),
        )
    if prefix and "long_texts" not in keys:
        if casing.reads_end(lookup.folder_of(prefix)):
            keys["long_texts"] = LongTexts(TAIL)._asdict()
    try:
        trained_for = TrainedFor.from_dict(keys)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    config = BertConfig.from_dict(
        {n: v for n, v in keys.items() if n not in TrainedFor._fields}
    )
    machine_memory.check_fits(
        4 * num_weights(config),
        f"{path}: a model of these sizes",
        "correct vocab_size, hidden_size and the others, or use a smaller "
        "model",
    )
    return config, trained_for


def num_weights(config: BertConfig) -> int:
    """Return how many numbers the variables of an encoder have."""
    hidden, inner = config.hidden_size, config.intermediate_size
    rows = (
        config.vocab_size
        + config.max_position_embeddings
        + config.type_vocab_size
    )
    dense = hidden * hidden + hidden
    layer = 4 * dense + 2 * hidden * inner + inner + 5 * hidden
    return (rows + 2) * hidden + config.num_hidden_layers * layer + dense


def known_normalization(prefix: str) -> dict[str, Any]:
    """Return the fields of Normalization that a model's files or name tell.

    They are in the tokenizer_config.json beside a checkpoint, or in the
    tokenizer.json of transformers. The released checkpoints have no such file;
    their casing follows from the name of their directory
    (uncased_L-12_H-768_A-12), or of their repository on the hub.
    """
    if not prefix:
        return {}
    found = casing.read(lookup.folder_of(prefix))
    if "do_lower_case" not in found:
        name = hub.repository_of(prefix) or prefix
        trained = tokenization.casing_of_checkpoint(name)
        if trained is not None:
            found["do_lower_case"] = trained
    return found


def resolve_normalization(
    do_lower_case: bool | None, prefix: str, vocab_file: str | None
) -> Normalization:
    """Return how to normalize text, by a flag or by the model; log it.

    If neither the files of a checkpoint nor its name tell its casing, the files
    beside the vocabulary do, then the vocabulary itself: with capitals it is
    cased. In all other cases text is lower-cased, as by the original, except
    for models of the hub, most of which are not the original's: they need the
    flag. A flag that contradicts the files is an error.
    """
    said = known_normalization(prefix)
    folder = os.path.dirname(vocab_file or "")
    if vocab_file and not (prefix and folder == lookup.folder_of(prefix)):
        try:
            said = casing.read(folder) | said
        except UserError as error:
            raise UserError(
                f"{error} (read because it lies beside {vocab_file})"
            ) from error
    trained = said.pop("do_lower_case", None)
    if trained is not None:
        trained = casing.agreed(do_lower_case, trained, prefix or vocab_file)
    elif do_lower_case is False:
        # A vocabulary without capitals may be of a script that has none, whose
        # accents are to stay: no contradiction.
        trained = False
    else:
        vocab = tokenization.load_vocab(vocab_file) if vocab_file else {}
        repository = hub.repository_of(prefix)
        is_told = do_lower_case is not None or casing.looks_cased(vocab)
        if repository and not is_told:
            raise UserError(
                f"{hub.SCHEME}{repository} does not tell its casing (no "
                f"do_lower_case in its {casing.TOKENIZER_CONFIG_NAME}): give "
                "--do_lower_case, or --nodo_lower_case for a cased model"
            )
        trained = True
        if vocab:
            return casing.choose(vocab, vocab_file, do_lower_case, said)
    return casing.with_others(trained, said)


def write_checkpoint(
    directory: str,
    tensors: Mapping[str, np.ndarray],
    config: BertConfig,
    trained_for: TrainedFor,
    vocabulary: bytes | None,
    normalization: Normalization | None,
) -> str:
    """Write a model's files to a directory; return the prefix of its weights.

    Files of the same names are replaced. If the vocabulary or the normalization
    is None, its file is not written.
    """
    named = BertConfig.from_dict(config.to_dict() | trained_for.to_dict())
    file_system.write_text(
        os.path.join(directory, lookup.BERT_CONFIG_NAME), named.to_json_string()
    )
    if vocabulary is not None:
        huggingface.write_tokenizer(
            directory, vocabulary, normalization, config, trained_for
        )
    # Last: the weights' index makes the model visible to find_checkpoint.
    prefix = os.path.join(directory, lookup.WEIGHTS_NAME)
    weight_files.write(prefix, tensors)
    return prefix


def write_model(
    output_dir: str,
    model: tf.Module,
    config: BertConfig,
    trained_for: TrainedFor,
    vocab_file: str | None,
    normalization: Normalization | None,
    step: int | None = None,
) -> str:
    """Write a model in memory, without optimizer slots; see `write_checkpoint`.

    Of several processes only the chief writes. With a step, it is written as
    `global_step`.
    """
    prefix = os.path.join(output_dir, lookup.WEIGHTS_NAME)
    if not cluster.is_chief():
        return prefix
    vocabulary = None
    if vocab_file:
        # Read whole before anything is written: it may be the same file.
        vocabulary = tokenization.vocabulary_bytes(vocab_file)
    tensors = weight_files.as_tensors(model.variables)
    if step is not None:
        tensors["global_step"] = np.int64(step)
    write_checkpoint(
        output_dir, tensors, config, trained_for, vocabulary, normalization
    )
    logging.info("Wrote the weights alone to %s", prefix)
    return prefix
