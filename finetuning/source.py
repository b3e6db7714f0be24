"""The checkpoint a fine-tuning run starts from, and what lies beside it."""

import os
from typing import NamedTuple

import tensorflow as tf
from absl import flags, logging

import modeling
import tokenization
from base.errors import UserError
from checkpoints import lookup, model_files


class ModelSource(NamedTuple):
    """What a run stands on: the checkpoint and what lies beside it."""

    prefix: str  # of checkpoints.find_checkpoint; empty without one
    config: modeling.BertConfig
    tokenizer: tokenization.FullTokenizer
    max_seq_length: int  # the flag's, or what a fitted model says

    @property
    def vocab_file(self) -> str:
        """The vocabulary's file."""
        return self.tokenizer.vocab_file

    @property
    def do_lower_case(self) -> bool:
        """Whether text is lower-cased."""
        return self.tokenizer.basic_tokenizer.do_lower_case


def find_source(flag_values: flags.FlagValues, do_train: bool) -> ModelSource:
    """Return configuration, vocabulary and casing of the model meant.

    Training starts from init_checkpoint, whatever output_dir holds: it is
    what the run began with. Without training a fitted model in output_dir is
    described by what lies beside it.
    """
    f = flag_values
    fitted = os.path.join(f.output_dir, lookup.WEIGHTS_NAME)
    prefix = ""
    if not do_train and tf.io.gfile.exists(fitted + ".index"):
        prefix = fitted
    elif f.init_checkpoint:
        prefix = lookup.find_checkpoint(f.init_checkpoint)
    elif not do_train and not tf.train.latest_checkpoint(f.output_dir):
        raise nothing_fitted(f)
    return read_source(f, prefix, is_fitted=not do_train)


def read_source(
    flag_values: flags.FlagValues, prefix: str, is_fitted: bool = True
) -> ModelSource:
    """Return what lies beside a checkpoint, where no flag says otherwise.

    Args:
        flag_values: the runner's FLAGS.
        prefix: of the checkpoint; empty without one.
        is_fitted: whether the model is used as it is, so that what it was
            fitted with holds.
    """
    f = flag_values
    config = model_files.read_config(prefix, f.bert_config_file)
    length = f.max_seq_length
    if is_fitted:
        length = _fitted_length(f, config)
    model_files.check_length(length, config)
    tokenizer = model_files.load_tokenizer(
        prefix, config, f.vocab_file, f.do_lower_case
    )
    return ModelSource(prefix, config, tokenizer, length)


def _fitted_length(
    flag_values: flags.FlagValues, config: modeling.BertConfig
) -> int:
    """Return --max_seq_length, where not given the fitted model's own."""
    given = flag_values.max_seq_length
    fitted = getattr(config, "max_seq_length", given)
    if not flag_values["max_seq_length"].present:
        return fitted
    if given != fitted:
        logging.warning(
            "--max_seq_length=%d; the model was fitted with %d", given, fitted
        )
    return given


def nothing_fitted(flag_values: flags.FlagValues) -> UserError:
    return UserError(
        f"{flag_values.output_dir} holds no fitted model and there is no "
        "--init_checkpoint: --do_train first"
    )
