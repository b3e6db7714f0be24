"""The checkpoint a fine-tuning run starts from, and the files beside it."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
import tokenization
from checkpoints import lookup
from checkpoints.checkpoint import Checkpoint, open_checkpoint
from checkpoints.trained_for import (
    HEAD_TAIL,
    TAIL,
    WINDOWS,
    LongTexts,
    TrainedFor,
)
from tasks import bilstm, long_texts
from tasks.settings import RunSettings
from training import layers


class ModelSource(NamedTuple):
    """A checkpoint as a run uses it.

    Attributes:
        checkpoint: the checkpoint, with its vocabulary and casing.
        max_seq_length: the flag's, or the one the model was fine-tuned with.
        bilstm: size of the BiLSTM, the flags' or the fine-tuned model's.
        long_texts: what is read of longer texts, by the flags or the model.
    """

    checkpoint: Checkpoint
    max_seq_length: int
    bilstm: bilstm.BiLstmSize
    long_texts: LongTexts = LongTexts()

    @property
    def row_length(self) -> int:
        """Tokens of a row: more than max_seq_length where it has windows."""
        return self.long_texts.row_length(self.max_seq_length)

    def what_is_read(
        self, lengths: Sequence[np.ndarray], left_out: Sequence[np.ndarray]
    ) -> str:
        """Return how many texts were cut, and by how much, for the log.

        Args:
            lengths: tokens of the rows, in parts.
            left_out: the pieces that were cut off each.
        """
        used, lost = (
            np.concatenate([np.zeros(0, int), *parts])
            for parts in (lengths, left_out)
        )
        share = lost.sum() / max(1, used.sum() + lost.sum())
        found = (
            f"{np.count_nonzero(lost)} of them cut to {self.row_length} tokens"
        )
        if lost.any():
            how = ""
            if self.long_texts.how == HEAD_TAIL:
                how = ", from the middle"
            elif self.long_texts.how == TAIL:
                how = ", from the beginning"
            found += f" ({share:.1%} of all tokens left out{how})"
        if self.long_texts.how == WINDOWS:
            num = np.count_nonzero(used > self.max_seq_length)
            found += f", {num} read in windows of {self.max_seq_length}"
        return found

    @property
    def prefix(self) -> str:
        """The prefix of the checkpoint; empty without one."""
        return self.checkpoint.prefix

    @property
    def config(self) -> modeling.BertConfig:
        """The configuration of the encoder."""
        return self.checkpoint.config

    @property
    def trained_for(self) -> TrainedFor:
        """Task, labels and options of the checkpoint's head."""
        return self.checkpoint.trained_for

    @property
    def tokenizer(self) -> tokenization.FullTokenizer:
        """The tokenizer of the checkpoint."""
        return self.checkpoint.tokenizer

    @property
    def vocab_file(self) -> str:
        """The path of the vocabulary."""
        return self.tokenizer.vocab_file


def find_source(settings: RunSettings, is_training: bool) -> ModelSource:
    """Return the checkpoint to train from or to use, and the files beside it.

    Training starts from init_checkpoint, also where output_dir holds a run:
    that run began from it. Without training a fine-tuned model in output_dir
    comes before init_checkpoint.

    Raises:
        UserError: there is no model to use.
    """
    weights = os.path.join(settings.output_dir, lookup.WEIGHTS_NAME)
    name = settings.init_checkpoint
    if not is_training and tf.io.gfile.exists(weights + ".index"):
        name = weights
    elif not is_training and not name:
        if not lookup.latest_checkpoint(settings.output_dir):
            raise no_model_error(settings.output_dir)
    return read_source(settings, name, is_training)


def read_source(
    settings: RunSettings, name: str | None, is_training: bool = False
) -> ModelSource:
    """Return a checkpoint with its configuration, vocabulary and length.

    They are in the files beside the checkpoint, or in those that flags name. A
    model that is used as it is, not trained first, has the length it was
    fine-tuned with, unless the flag --max_seq_length is given.
    """
    checkpoint = open_checkpoint(
        name,
        settings.bert_config_file,
        settings.vocab_file,
        settings.do_lower_case,
    )
    length, long = settings.max_seq_length, settings.long_texts
    is_given = settings.is_length_given
    if is_training:
        for flag, count in (
            ("reinit_top_layers", settings.reinit_top_layers),
            ("freeze_layers", settings.training.freeze_layers),
        ):
            layers.check(flag, count, checkpoint.config)
    elif own := checkpoint.trained_for.max_seq_length:
        if not is_given:
            length, is_given = own, True
        elif length != own:
            logging.warning(
                "--max_seq_length=%d; the model was fine-tuned with %d",
                length,
                own,
            )
    length = checkpoint.fitting_length(length, is_given)
    own_long = checkpoint.trained_for.long_texts or LongTexts()
    if is_training and own_long.how != TAIL:
        own_long = LongTexts()
    long = long_texts.checked(long or own_long, length)
    if long != own_long and (not is_training or own_long.how == TAIL):
        logging.warning(
            "--long_texts: %s; the model's files say %s (long_texts, or "
            "truncation_side)",
            long,
            own_long,
        )
    _ = checkpoint.tokenizer  # reports what is missing before hours of work
    size = bilstm.choose_size(settings.bilstm, checkpoint, is_training)
    return ModelSource(checkpoint, length, size, long)


def no_model_error(output_dir: str) -> UserError:
    """Return the error of a command that has no model to use."""
    return UserError(
        f"{output_dir} holds no fine-tuned model and there is no "
        "--init_checkpoint: --do_train first"
    )
