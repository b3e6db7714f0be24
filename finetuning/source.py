"""The checkpoint a fine-tuning run starts from, and the files beside it."""

import os
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
import tokenization
from checkpoints import lookup, model_files
from finetuning import bilstm, reinit
from finetuning.settings import RunSettings


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


def find_source(settings: RunSettings, do_train: bool) -> ModelSource:
    """Return the checkpoint to train from or to use, and the files beside it.

    Training starts from init_checkpoint, also where output_dir holds a run:
    that run began from it. Without training a fine-tuned model in output_dir
    comes before init_checkpoint.

    Raises:
        UserError: there is no model to use.
    """
    fine_tuned = os.path.join(settings.output_dir, lookup.WEIGHTS_NAME)
    prefix = ""
    if not do_train and tf.io.gfile.exists(fine_tuned + ".index"):
        prefix = fine_tuned
    elif settings.init_checkpoint:
        prefix = lookup.find_checkpoint(settings.init_checkpoint)
    elif not do_train and not lookup.latest_checkpoint(settings.output_dir):
        raise nothing_fine_tuned(settings.output_dir)
    return read_source(settings, prefix, is_fine_tuned=not do_train)


def read_source(
    settings: RunSettings, prefix: str, is_fine_tuned: bool = True
) -> ModelSource:
    """Return a checkpoint with its configuration, vocabulary and length.

    They are in the files beside the checkpoint, or in those that flags name.

    Args:
        settings: the files of its flags take precedence.
        prefix: of the checkpoint; empty without one.
        is_fine_tuned: whether the model is used as it is. Without the flag
            --max_seq_length its length is then the one it was fine-tuned with.
    """
    config = model_files.read_config(prefix, settings.bert_config_file)
    length = settings.max_seq_length
    if is_fine_tuned:
        length = _fine_tuned_length(settings, config)
    else:
        reinit.check(settings.reinit_top_layers, config)
    model_files.check_length(length, config)
    tokenizer = model_files.load_tokenizer(
        prefix, config, settings.vocab_file, settings.do_lower_case
    )
    size = bilstm.choose_size(settings.bilstm, config, prefix, is_fine_tuned)
    return ModelSource(prefix, config, tokenizer, length, size)


def _fine_tuned_length(
    settings: RunSettings, config: modeling.BertConfig
) -> int:
    """Return --max_seq_length where given, else the fine-tuned model's own."""
    given = settings.max_seq_length
    fine_tuned = getattr(config, "max_seq_length", given)
    if not settings.is_length_given:
        return fine_tuned
    if given != fine_tuned:
        logging.warning(
            "--max_seq_length=%d; the model was fine-tuned with %d",
            given,
            fine_tuned,
        )
    return given


def nothing_fine_tuned(output_dir: str) -> UserError:
    """Return the error of a command that has no model to use."""
    return UserError(
        f"{output_dir} holds no fine-tuned model and there is no "
        "--init_checkpoint: --do_train first"
    )
