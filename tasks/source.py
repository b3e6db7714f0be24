"""The checkpoint a fine-tuning run starts from, and the one it has made."""

import dataclasses
import os

from base.errors import UserError

import tensorflow as tf
from absl import logging

from checkpoints import lookup
from checkpoints.checkpoint import open_checkpoint
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TAIL, LongTexts
from tasks import bilstm, long_texts
from tasks.settings import RunSettings
from training import layers


def find_source(settings: RunSettings) -> Checkpoint:
    """Return the checkpoint to train from or to use, and the files beside it.

    Training starts from init_checkpoint, also where output_dir holds a run:
    that run began from it. Without training a fine-tuned model in output_dir
    comes before init_checkpoint.

    Raises:
        UserError: there is no model to use.
    """
    name, output_dir = settings.init_checkpoint, settings.output_dir
    if not settings.do_train:
        name = kept_weights(output_dir) or name
        if not name and not lookup.latest_checkpoint(output_dir):
            raise no_model_error(output_dir)
    return read_source(settings, name)


def kept_weights(output_dir: str) -> str | None:
    """Return the prefix of the fine-tuned weights in output_dir, if any."""
    prefix = os.path.join(output_dir, lookup.WEIGHTS_NAME)
    return prefix if tf.io.gfile.exists(prefix + ".index") else None


def find_weights(output_dir: str) -> str | None:
    """Return the prefix of the weights in output_dir; None if it has none.

    The fine-tuned weights, else the newest training checkpoint.
    """
    return kept_weights(output_dir) or lookup.latest_checkpoint(output_dir)


def read_source(settings: RunSettings, name: str | None) -> Checkpoint:
    """Return a checkpoint as a run uses it.

    Its `trained_for` has the length, the BiLSTM and what is read of longer
    texts as the flags or the model say. All else is in the files beside the
    checkpoint, or in those that flags name. A model that is used as it is, not
    trained first, has the length it was fine-tuned with, unless the flag
    --max_seq_length is given.
    """
    checkpoint = open_checkpoint(
        name,
        settings.bert_config_file,
        settings.vocab_file,
        settings.do_lower_case,
    )
    own = checkpoint.trained_for
    length, long = settings.max_seq_length, settings.long_texts
    is_given, is_training = settings.is_length_given, settings.do_train
    if is_training:
        for flag, count in (
            ("reinit_top_layers", settings.reinit_top_layers),
            ("freeze_layers", settings.training.freeze_layers),
        ):
            layers.check(flag, count, checkpoint.config)
    elif own.max_seq_length and not is_given:
        length, is_given = own.max_seq_length, True
    elif own.max_seq_length not in (None, length):
        logging.warning(
            "--max_seq_length=%d; the model was fine-tuned with %d",
            length,
            own.max_seq_length,
        )
    length = checkpoint.fitting_length(length, is_given)
    own_long = checkpoint.long_texts
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
    used = own._replace(
        max_seq_length=length,
        long_texts=long if long != LongTexts() else None,
        bilstm_layers=size.bilstm_layers or None,
        bilstm_units=size.bilstm_units or None,
    )
    return dataclasses.replace(checkpoint, trained_for=used)


def no_model_error(output_dir: str) -> UserError:
    """Return the error of a command that has no model to use."""
    return UserError(
        f"{output_dir} holds no fine-tuned model and there is no "
        "--init_checkpoint: --do_train first"
    )
