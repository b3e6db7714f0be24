"""A checkpoint and the files beside it: opened once, and written.

    checkpoint = open_checkpoint("hf://google-bert/bert-base-uncased")
    checkpoint.prefix, checkpoint.config, checkpoint.tokenizer, ...

A model is four files: weights, configuration (`bert_config.json`), vocabulary
(`vocab.txt`) and its tokenizer's settings (`tokenizer_config.json`). The
flags --bert_config_file, --vocab_file and --do_lower_case override the files
beside a checkpoint.
"""

import itertools
import json
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from base import cluster, file_system, machine, text_files
from base.errors import UserError, naming

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import lookup, published, weight_files
from checkpoints.casing import TokenizerFiles
from checkpoints.model import Checkpoint
from checkpoints.run_folder import WEIGHTS_NAME
from checkpoints.tokenizer_folder import Folder
from checkpoints.trained_for import TAIL, LongTexts, TrainedFor
from modeling import BertConfig
from tokenization import FullTokenizer, Vocabulary


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
    folder = Folder(lookup.folder_of(prefix)) if prefix else None
    config, trained_for = _read_config(prefix, bert_config_file, folder)
    vocabulary = own = folder and folder.vocabulary
    if vocab_file and not (own and own.path == vocab_file):
        vocabulary = Vocabulary(vocab_file)
        if own:
            _check_same_vocabulary(vocabulary, own)
    files = TokenizerFiles(folder, vocabulary, do_lower_case, prefix)
    return Checkpoint(prefix, config, trained_for, files, bert_config_file)


def _check_same_vocabulary(vocabulary: Vocabulary, own: Vocabulary) -> None:
    """Check that a vocabulary is a model's own.

    Words may stand in the places of its [unused1], [unused2], ...

    Raises:
        UserError: a line differs; names the first.
    """
    try:
        wanted = list(own.tokens)
    except UserError:
        return  # it is damaged, and the flag names a mended copy
    given = list(vocabulary.tokens)
    pairs = itertools.zip_longest(given, wanted)
    for line, (token, known) in enumerate(pairs, 1):
        is_word = token and re.fullmatch(r"\[unused\d+\]", known or "")
        if token != known and not is_word:
            found = (
                f"{token!r} in line {line}" if token else f"{line - 1} lines"
            )
            there = repr(known) if known else f"{line - 1} lines"
            raise UserError(
                f"--vocab_file={vocabulary.path} has {found}, and the model's "
                f"own vocabulary {own.path} {there}: leave --vocab_file out "
                "(tools.extend_checkpoint adds words to a model)"
            )


def read_weights(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Return {name: value}, checked to be those of the configuration."""
    weights = weight_files.read_weights(checkpoint.prefix)
    with tf.device("CPU"):
        model = modeling.BertModel(checkpoint.config)
    wanted = {v.path: list(v.shape) for v in model.variables}
    found = {name: list(value.shape) for name, value in weights.items()}
    report = weight_files.compare(wanted, found)
    weight_files.check_required(report, checkpoint.prefix)
    extra = sum(name.startswith("bert/") for name in report.unused)
    if extra:
        raise UserError(
            f"{checkpoint.prefix} holds {extra} variables of the encoder that "
            "the configuration does not have, the first: "
            f"{report.unused[0]}; use the configuration that belongs to "
            "the checkpoint"
        )
    return weights


class Loaded(NamedTuple):
    """A pre-trained encoder and what belongs to it."""

    config: BertConfig
    tokenizer: FullTokenizer
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


def _read_config(
    prefix: str, bert_config_file: str | None, folder: Folder | None
) -> tuple[BertConfig, TrainedFor]:
    """Return the configuration that a flag names or a checkpoint has.

    `folder` has the files beside the checkpoint; None: there is none.
    """
    path = bert_config_file or (prefix and lookup.config_beside(prefix))
    if not path and not prefix:
        raise UserError(
            "--init_checkpoint is required (a directory, a prefix or "
            "hf://owner/name); to train from new weights give "
            "--bert_config_file and --vocab_file"
        )
    if not path:
        raise UserError(
            f"no {published.BERT_CONFIG_NAME} beside {prefix}: name it with "
            "--bert_config_file"
        )
    names = published.BERT_CONFIG_NAME, published.CONFIG_NAME
    if not bert_config_file and all(lookup.beside(prefix, x) for x in names):
        logging.info(
            "%s and %s are beside %s: read is %s, which belongs to the "
            "format of the weights",
            *names,
            prefix,
            os.path.basename(path),
        )
    is_theirs = path == os.path.join(prefix, published.CONFIG_NAME)
    if is_theirs and not bert_config_file:
        from checkpoints import huggingface  # where the format is theirs

        keys = huggingface.read_config(path, folder.model_config)
    else:
        keys = text_files.read_json_object(path)
    with naming(path):
        own = TrainedFor._fields
        config = BertConfig.from_dict(
            {name: v for name, v in keys.items() if name not in own}
        )
    if is_theirs:
        from checkpoints import sentence_transformers

        keys |= sentence_transformers.read(
            folder,
            config.max_position_embeddings,
            len(keys.get("id2label") or ()),
        )
    if folder and "long_texts" not in keys and folder.reads_end:
        keys["long_texts"] = LongTexts(TAIL)._asdict()
    trained_for = TrainedFor.from_dict(keys, path)
    machine.check_fits(
        4 * num_weights(config),
        f"{path}: a model of these sizes",
        "correct vocab_size, hidden_size and the others, or use a smaller "
        "model",
    )
    return config, trained_for


def read_trained_for(path: str) -> TrainedFor:
    """Return what a bert_config.json says of the head of its model."""
    return TrainedFor.from_dict(text_files.read_json_object(path), path)


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


def write_checkpoint(
    directory: str,
    tensors: Mapping[str, np.ndarray],
    checkpoint: Checkpoint,
) -> str:
    """Write a model's files to a directory; return the prefix of its weights.

    Files of the same names are replaced.
    """
    keys = checkpoint.config.to_dict() | checkpoint.trained_for.to_dict()
    path = os.path.join(directory, published.BERT_CONFIG_NAME)
    text_files.write_json(path, keys, sort_keys=True)
    write_tokenizer(directory, checkpoint)
    # Last: the weights' index makes the model visible to find_checkpoint.
    prefix = os.path.join(directory, WEIGHTS_NAME)
    weight_files.write(prefix, tensors)
    return prefix


def write_tokenizer(directory: str, checkpoint: Checkpoint) -> None:
    """Write vocab.txt and tokenizer_config.json; neither without a vocabulary.

    Transformers cuts texts to model_max_length, from truncation_side on: as in
    fine-tuning the model, or to its positions.
    """
    vocabulary = checkpoint.files.vocabulary
    if not vocabulary:
        return
    path = os.path.join(directory, published.VOCAB_NAME)
    file_system.write_bytes(path, vocabulary.content)
    keys = checkpoint.tokenizer_settings._asdict()
    names, special = keys.pop("token_names"), keys.pop("special_tokens")
    normalized, whole = keys.pop("normalized_tokens"), keys.pop("whole_words")
    is_split = names[0] not in special
    keys |= {
        "tokenizer_class": "BertTokenizer",
        "model_max_length": checkpoint.max_seq_length,
        **dict(zip(published.TOKEN_KEYS, names, strict=True)),
        "split_special_tokens": is_split,
    }
    if added := {*special, *normalized, *whole} - {*names} | {*whole}:
        keys["added_tokens_decoder"] = {
            str(index): {
                "content": token,
                "normalized": token in normalized,
                "single_word": token in whole,
                "special": token in special and not is_split,
            }
            for token, index in vocabulary.tokens.items()
            if token in added
        }
    if checkpoint.long_texts.how == TAIL:
        keys["truncation_side"] = "left"
    path = os.path.join(directory, published.TOKENIZER_CONFIG_NAME)
    text_files.write_json(path, keys, sort_keys=True)


def write_tokenizer_json(
    directory: str, checkpoint: Checkpoint, shows_tokens: bool = False
) -> None:
    """Write tokenizer.json for programs that read no vocab.txt.

    The model's own file is kept where it says the same. Without a vocabulary,
    or without [UNK], [CLS] and [SEP] in it, nothing is written.

    `shows_tokens`: whether answers are tokens of the text. Else a program that
    knows [CLS] and [SEP] by this file alone would tag them, and answer with
    them. It finds them in texts, too; transformers follows its settings.
    """
    files, settings = checkpoint.files, checkpoint.tokenizer_settings
    _, unknown, first, last, _ = settings.token_names
    ids = files.vocabulary.tokens if files.vocabulary else {}
    if not {unknown, first, last} <= ids.keys():
        return
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing

    made = tokenizers.Tokenizer(
        models.WordPiece(
            ids,
            unk_token=unknown,
            max_input_chars_per_word=settings.max_input_chars_per_word,
        )
    )
    lower, strips = settings.do_lower_case, settings.strip_accents
    made.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.tokenize_chinese_chars,
        strip_accents=None if strips == lower else strips,
        lowercase=lower,
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(token, ids[token]) for token in (first, last)],
    )
    made.decoder = decoders.WordPiece()
    special, normalized = settings.special_tokens, settings.normalized_tokens
    if shows_tokens:
        special = (*special, *settings.token_names)
    made.add_tokens(
        [
            tokenizers.AddedToken(
                token,
                single_word=token in settings.whole_words,
                normalized=token in normalized,
                special=token in special,
            )
            for token in ids
            if token in special or token in normalized
        ]
    )
    side = "left" if checkpoint.long_texts.how == TAIL else "right"
    made.enable_truncation(checkpoint.max_seq_length, direction=side)
    text = made.to_str()
    own, parts = (files.folder and files.folder.whole) or {}, json.loads(text)
    unlike = {name for name in parts if own.get(name) != parts[name]}
    # Where it cuts no texts, programs do as tokenizer_config.json says.
    may_differ = {"version", "decoder"}
    may_differ |= {"truncation"} if own.get("truncation") is None else set()
    if unlike <= may_differ:
        text = text_files.read_text(files.folder.file(published.TOKENIZER_NAME))
    path = os.path.join(directory, published.TOKENIZER_NAME)
    file_system.write_text(path, text)


def write_model(
    output_dir: str,
    model: tf.Module,
    checkpoint: Checkpoint,
    step: int | None = None,
) -> None:
    """Write a model in memory, without optimizer slots; see `write_checkpoint`.

    Of several processes only the chief writes. With a step, it is written as
    `global_step`.
    """
    if not cluster.is_chief():
        return
    tensors = weight_files.as_tensors(model.variables)
    if step is not None:
        tensors["global_step"] = np.int64(step)
    prefix = write_checkpoint(output_dir, tensors, checkpoint)
    logging.info("Wrote the weights alone to %s", prefix)
