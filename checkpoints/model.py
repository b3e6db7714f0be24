"""All there is to know of a model, as one value.

Workers and programs without TensorFlow import this module.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from base.errors import UserError, counted

from absl import logging

import tokenization
from checkpoints import published
from checkpoints.casing import TokenizerFiles
from checkpoints.trained_for import WINDOWS, LongTexts, TrainedFor
from tokenization import FullTokenizer, TokenizerSettings

if TYPE_CHECKING:
    from modeling import BertConfig
    from ops.windows import Windowing


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A model and its files; picklable. Weights are read when they are needed.

    Without a checkpoint, in a run from new weights, the prefix is empty, and
    the rest is what the flags name. An exported model, a SavedModel or a LiteRT
    file, is described in the same way: its prefix is its path.

    Attributes:
        prefix: beginning of its files' paths; a Hugging Face directory.
        config: the encoder's configuration; None: in an exported model.
        trained_for: task, labels and options of its head.
        files: its vocabulary and the settings of its tokenizer.
        bert_config_file: value of the flag; None: not given.
    """

    prefix: str
    config: "BertConfig | None"
    trained_for: TrainedFor = TrainedFor()
    files: TokenizerFiles = TokenizerFiles()
    bert_config_file: str | None = None

    @property
    def is_exported(self) -> bool:
        """Whether it is a SavedModel or a LiteRT file."""
        return self.config is None

    @property
    def max_seq_length(self) -> int:
        """Tokens of a row in fine-tuning, else the number of positions."""
        length = self.trained_for.max_seq_length
        return length or self.config.max_position_embeddings

    @property
    def long_texts(self) -> LongTexts:
        """What is read of a text that is longer than max_seq_length."""
        return self.trained_for.long_texts or LongTexts()

    @property
    def row_length(self) -> int:
        """Tokens of a row: more than max_seq_length where it has windows."""
        return self.long_texts.row_length(self.max_seq_length)

    @property
    def windows(self) -> "Windowing | None":
        """How the model reads a row in windows; None: at once."""
        if self.long_texts.how != WINDOWS:
            return None
        from ops.windows import Windowing  # TensorFlow

        _, stride, _, pooling = self.long_texts
        return Windowing(self.max_seq_length, stride, pooling)

    def changed(self, **fields: Any) -> "Checkpoint":
        """Return the model with other values of fields of `trained_for`."""
        changed = self.trained_for._replace(**fields)
        return dataclasses.replace(self, trained_for=changed)

    @functools.cached_property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of every variable in it."""
        from checkpoints import weight_files  # TensorFlow

        return weight_files.Reader(self.prefix).get_variable_to_shape_map()

    @property
    def vocab_file(self) -> str | None:
        """The path of the vocabulary, if there is any."""
        return self.files.vocabulary and self.files.vocabulary.path

    @property
    def tokenizer_settings(self) -> TokenizerSettings:
        """How text is normalized; see `TokenizerFiles.settings`."""
        return self.files.settings

    @property
    def tokenizer(self) -> FullTokenizer:
        """The tokenizer, checked against the configuration."""
        if not self.files.vocabulary and not self.prefix:
            raise UserError("--vocab_file is required without a checkpoint")
        if not self.files.vocabulary:
            raise UserError(
                f"no {published.VOCAB_NAME} beside {self.prefix}, nor a "
                f"{published.TOKENIZER_NAME}: name it with --vocab_file"
            )
        tokenizer = self.files.tokenizer
        tokenization.validate_special_tokens(
            tokenizer.vocab, ("[CLS]", "[SEP]"), self.vocab_file
        )
        if self.config:
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

    def in_words(self) -> str:
        """Return a line that tells a person what model it is."""
        what = self.prefix or "new"
        if config := self.config:
            layers = counted(config.num_hidden_layers, "layer")
            what += f", {layers} of {config.hidden_size}"
        if self.files.vocabulary:
            casing = self.tokenizer_settings.do_lower_case
            what += (
                f", {len(self.files.vocabulary.tokens):,} word pieces, "
                f"{'uncased' if casing else 'cased'}"
            )
        return what

    def check_vectors(self, otherwise: str) -> None:
        """Check that the model's own sentence vectors, or scores, can be made.

        `otherwise`: what to do instead.
        """
        if lacks := self.trained_for.lacks:
            raise UserError(
                f"{self.prefix}: {lacks}, which this project lacks: its "
                "sentence vectors, or scores of pairs, would be others; use "
                f"sentence-transformers for them, or {otherwise}"
            )

    def warn_of_untrained_pooler(self) -> None:
        """Warn if the pooler has random weights, for outputs that read it."""
        if "bert/pooler/dense/kernel" not in self.shapes:
            why = "has no pooler (bert/pooler/...)"
        elif objective := self.trained_for.objective:
            why = f"was pre-trained with --objective={objective}, which does "
            why += "not train the pooler"
        else:
            return
        logging.warning(
            "%s %s: pooled_output is that of random weights; use mean_output",
            self.prefix,
            why,
        )
