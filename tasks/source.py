"""The checkpoint a fine-tuning run starts from, and the files beside it."""

import os
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
import tokenization
from checkpoints import lookup, model_files
from tasks import bilstm, reinit
from tasks.settings import RunSettings


class ModelSource(NamedTuple):
    """A checkpoint with its configuration, tokenizer and length.

    Attributes:
        prefix: of the checkpoint, see lookup.find_checkpoint; empty without
            one.
        config: of the model.
        tokenizer: its vocabulary and casing fit the model.
        max_seq_length: the flag's, or the one the model was fine-tuned with.
        bilstm: size of the BiLSTM, the flags' or the fine-tuned model's.
    """

    prefix: str
    config: modeling.BertConfig
    tokenizer: tokenization.FullTokenizer
    max_seq_length: int
    bilstm: bilstm.BiLstmSize

    @property
    def vocab_file(self) -> str:
        """The path of the vocabulary."""
        return self.tokenizer.vocab_file

    @property
    def do_lower_case(self) -> bool:
        """Whether text is lower-cased."""
        return self.tokenizer.basic_tokenizer.do_lower_case

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels the configuration names (id2label), in their order."""
        return model_files.labels_in(self.config)


def find_source(settings: RunSettings, is_training: bool) -> ModelSource:
    """Return the checkpoint to train from or to use, and the files beside it.

    Training starts from init_checkpoint, also where output_dir holds a run:
    that run began from it. Without training a fine-tuned model in output_dir
    comes before init_checkpoint.

    Raises:
        UserError: there is no model to use.
    """
    weights = os.path.join(settings.output_dir, lookup.WEIGHTS_NAME)
    prefix = ""
    if not is_training and tf.io.gfile.exists(weights + ".index"):
        prefix = weights
    elif settings.init_checkpoint:
        prefix = lookup.find_checkpoint(settings.init_checkpoint)
    elif not is_training and not lookup.latest_checkpoint(settings.output_dir):
        raise no_model_error(settings.output_dir)
    return read_source(settings, prefix, is_training)


def read_source(
    settings: RunSettings, prefix: str, is_training: bool = False
) -> ModelSource:
    """Return a checkpoint with its configuration, vocabulary and length.

    They are in the files beside the checkpoint, or in those that flags name.

    Args:
        settings: the files of its flags take precedence.
        prefix: of the checkpoint; empty without one.
        is_training: whether the model is trained first, not used as it is.
            A model that is used as it is has the length it was fine-tuned
            with, unless the flag --max_seq_length is given.
    """
    config = model_files.read_config(prefix, settings.bert_config_file)
    length = settings.max_seq_length
    if is_training:
        reinit.check(settings.reinit_top_layers, config)
    else:
        length = _own_length(settings, config)
    model_files.check_length(length, config)
    tokenizer = model_files.load_tokenizer(
        prefix, config, settings.vocab_file, settings.do_lower_case
    )
    size = bilstm.choose_size(settings.bilstm, config, prefix, is_training)
    return ModelSource(prefix, config, tokenizer, length, size)


def _own_length(settings: RunSettings, config: modeling.BertConfig) -> int:
    """Return --max_seq_length where given, else the fine-tuned model's own."""
    given = settings.max_seq_length
    own = getattr(config, "max_seq_length", given)
    if not settings.is_length_given:
        return own
    if given != own:
        logging.warning(
            "--max_seq_length=%d; the model was fine-tuned with %d",
            given,
            own,
        )
    return given


def no_model_error(output_dir: str) -> UserError:
    """Return the error of a command that has no model to use."""
    return UserError(
        f"{output_dir} holds no fine-tuned model and there is no "
        "--init_checkpoint: --do_train first"
    )
