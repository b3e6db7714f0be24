"""The objectives of pre-training: the values of run_pretraining.py --objective.

    mlm_nsp  masked LM and next sentence prediction: BERT (paper section 3.1)
    mlm      masked LM alone: "No NSP" of table 5
    ltr      a left-to-right LM: "LTR & No NSP" of table 5

All three read the same records.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
from checkpoints.trained_for import TrainedFor
from ops.losses import Loss
from pretraining import model as pretraining_model
from pretraining.model import BertForPreTraining
from records.streaming import Batch
from training.objective import Objective, Sums

# --- Parts that the objectives share -----------------------------------------


def _masked_lm_sums(
    model: BertForPreTraining, output: modeling.BertOutput, batch: Batch
) -> Sums:
    """Return loss and accuracy of the masked tokens, as sums and counts."""
    return _sums_of("masked_lm", model.masked_lm_loss(output, batch))


def _next_sentence_sums(
    model: BertForPreTraining, output: modeling.BertOutput, batch: Batch
) -> Sums:
    """Return loss and accuracy of the next sentences, as sums and counts."""
    return _sums_of("next_sentence", model.next_sentence_loss(output, batch))


def _sums_of(name: str, found: Loss) -> Sums:
    """Return a loss and its accuracy under the names that are reported."""
    return {
        f"{name}_loss": (found.loss, found.weight),
        f"{name}_accuracy": (found.correct, found.weight),
    }


def _tokens(batch: Batch) -> Sums:
    """Return the number of tokens, and the number of sequences they are of."""
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    sequences = tf.reduce_sum(pretraining_model.sequence_weights(batch))
    return {"tokens": (tokens, sequences)}


def _forward_of(*parts: Callable[..., Sums]) -> Callable[..., Sums]:
    """Return an Objective's forward pass over a batch as it is.

    Args:
        *parts: (model, the encoder's output, batch) -> sums of a loss.
    """

    def forward(
        model: BertForPreTraining,
        batch: Batch,
        training: bool,
        dropout_seed: tf.Tensor | None,
    ) -> Sums:
        output = model.encode(batch, training, dropout_seed)
        sums = _tokens(batch)
        for part in parts:
            sums |= part(model, output, batch)
        return sums

    return forward


def _mean_of_tokens(sums: Mapping, weights: Mapping, name: str) -> tf.Tensor:
    """Return the mean loss of the predicted tokens of the whole batch.

    As in the original, 1e-5 is added to the number of predictions. So a batch
    without any has a loss of 0, not 0 / 0.
    """
    return sums[name] / (weights[name] + 1e-5)


# --- Masked LM and next sentence prediction ----------------------------------

# The denominators depend on the records alone: with several replicas those of
# the whole batch are needed before the first gradient.


def _mlm_nsp_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return the numbers of masked tokens and of sequences."""
    sequences = pretraining_model.sequence_weights(batch)
    return {
        **_mlm_weights(batch),
        "next_sentence_loss": tf.reduce_sum(sequences),
    }


def _mlm_nsp_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """Return mean masked LM loss + mean next sentence loss (paper A.2)."""
    return (
        _mlm_loss(sums, weights)
        + sums["next_sentence_loss"] / weights["next_sentence_loss"]
    )


# --- Masked LM ---------------------------------------------------------------


def _mlm_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return the number of masked tokens."""
    return {"masked_lm_loss": tf.reduce_sum(batch["masked_lm_weights"])}


def _mlm_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """Return the mean masked LM loss of the predicted tokens."""
    return _mean_of_tokens(sums, weights, "masked_lm_loss")


# --- Left-to-right LM --------------------------------------------------------


def _ltr_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return the number of next tokens."""
    weights = pretraining_model.next_token_weights(batch)
    return {"lm_loss": tf.reduce_sum(weights)}


def _ltr_sums(
    model: BertForPreTraining,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> Sums:
    """Return loss and metrics of a batch, as sums and counts."""
    batch = {**batch, "input_ids": pretraining_model.unmasked_ids(batch)}
    output = model.encode(batch, training, dropout_seed)
    return {
        **_sums_of("lm", model.next_token_loss(output, batch, training)),
        **_tokens(batch),
    }


def _ltr_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """Return the mean loss of the next tokens."""
    return _mean_of_tokens(sums, weights, "lm_loss")


# --- The table ---------------------------------------------------------------


class PretrainingObjective(NamedTuple):
    """What a model is pre-trained for: a value of --objective.

    Attributes:
        name: the value.
        predicts: what is predicted, for the log; may have {predictions} and
            {length}, the numbers of a record.
        objective: losses and metrics.
        attention_direction: that the model has to have.
        predicts_next_sentence: whether pooler and next sentence head are
            trained.
    """

    name: str
    predicts: str
    objective: Objective
    attention_direction: str = modeling.BIDIRECTIONAL
    predicts_next_sentence: bool = False

    @property
    def is_left_to_right(self) -> bool:
        """Whether every next token is predicted, instead of masked ones."""
        return self.attention_direction == modeling.LEFT_TO_RIGHT

    def projections(self, length: int, predictions: int) -> int:
        """Return how many positions of a record are projected to the words.

        Args:
            length: tokens of a record, padding included.
            predictions: masked tokens that it may have.
        """
        return length if self.is_left_to_right else predictions

    def trained_for(self) -> TrainedFor:
        """Return what a configuration beside the trained weights says of them.

        The objective's name, if pooler and next sentence head were not
        trained: users of the weights have to know.
        """
        is_whole = self.predicts_next_sentence
        return TrainedFor(objective=None if is_whole else self.name)

    def log(self, length: int, predictions: int) -> None:
        """Log the objective, and what it predicts of a record."""
        text = self.predicts.format(length=length, predictions=predictions)
        if not self.predicts_next_sentence:
            text += "; pooler and next sentence head are not trained"
        logging.info("Objective %s: %s", self.name, text)


OBJECTIVES = {
    found.name: found
    for found in (
        PretrainingObjective(
            "mlm_nsp",
            "the masked tokens, up to {predictions} of the {length} of a "
            "record, and whether sentence B follows A",
            Objective(
                loss_weights=_mlm_nsp_weights,
                forward=_forward_of(_masked_lm_sums, _next_sentence_sums),
                total_loss=_mlm_nsp_loss,
                names=(
                    "masked_lm_loss",
                    "masked_lm_accuracy",
                    "next_sentence_loss",
                    "next_sentence_accuracy",
                    "tokens",
                ),
                perplexities={"masked_lm_loss": "masked_lm_perplexity"},
            ),
            predicts_next_sentence=True,
        ),
        PretrainingObjective(
            "mlm",
            "the masked tokens, up to {predictions} of the {length} of a "
            "record",
            Objective(
                loss_weights=_mlm_weights,
                forward=_forward_of(_masked_lm_sums),
                total_loss=_mlm_loss,
                names=("masked_lm_loss", "masked_lm_accuracy", "tokens"),
                perplexities={"masked_lm_loss": "masked_lm_perplexity"},
            ),
        ),
        PretrainingObjective(
            "ltr",
            "every token but the first of each sequence, of the {length} of a "
            "record, from the tokens before it; masked tokens are restored",
            Objective(
                loss_weights=_ltr_weights,
                forward=_ltr_sums,
                total_loss=_ltr_loss,
                names=("lm_loss", "lm_accuracy", "tokens"),
                perplexities={"lm_loss": "lm_perplexity"},
            ),
            attention_direction=modeling.LEFT_TO_RIGHT,
        ),
    )
}

DEFAULT = "mlm_nsp"


# --- Configuration -----------------------------------------------------------


def set_direction(config: modeling.BertConfig, name: str, source: str) -> None:
    """Set the attention_direction that an objective needs, and log it.

    Args:
        config: of the model to train; is changed.
        name: of the objective.
        source: file or checkpoint of the configuration, for messages.

    Raises:
        UserError: the configuration is of a left-to-right model, and the
            objective is not.
    """
    wanted = OBJECTIVES[name].attention_direction
    found = config.attention_direction
    if found == wanted:
        return
    if wanted == modeling.LEFT_TO_RIGHT:
        config.attention_direction = wanted
        # A file of Hugging Face may have "is_decoder": false. Written beside
        # left_to_right it would contradict it.
        vars(config).pop("is_decoder", None)
        logging.info(
            "attention_direction is set to %s in the configuration of %s: "
            "tokens attend to those before them alone",
            wanted,
            source,
        )
    else:
        raise UserError(
            f"{source}: attention_direction is {found}, --objective={name} "
            f"needs {wanted}: use --objective=ltr, or a configuration without "
            "the key"
        )
