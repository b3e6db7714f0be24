"""The objectives of pre-training: the values of run_pretraining.py --objective.

    mlm_nsp  masked LM and next sentence prediction: BERT (paper section 3.1)
    mlm      masked LM alone: "No NSP" of table 5
    ltr      a left-to-right LM: "LTR & No NSP" of table 5
    rtl      a right-to-left LM, of which section 5.1 speaks

All read the same records.
"""

import collections
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
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

# --- Terms of a loss ---------------------------------------------------------


class Term(NamedTuple):
    """A part of the loss: a mean over tokens or sequences.

    Attributes:
        name: names the scalars <name>_loss and <name>_accuracy.
        weight: batch -> the number of predictions, `Loss.weight`. It follows
            from the records alone: see `Objective.loss_weights`.
        loss: (model, the encoder's output, batch, training) -> Loss.
        is_of_tokens: whether it is a mean over tokens. It then has a
            perplexity. As in the original, 1e-5 is added to the number of
            tokens: a batch without any has a loss of 0, not 0 / 0.
    """

    name: str
    weight: Callable[[Batch], tf.Tensor]
    loss: Callable[..., Loss]
    is_of_tokens: bool = True


MASKED_LM = Term(
    "masked_lm",
    lambda batch: tf.reduce_sum(batch["masked_lm_weights"]),
    lambda model, output, batch, _: model.masked_lm_loss(output, batch),
)
NEXT_SENTENCE = Term(
    "next_sentence",
    lambda batch: tf.reduce_sum(pretraining_model.sequence_weights(batch)),
    lambda model, output, batch, _: model.next_sentence_loss(output, batch),
    is_of_tokens=False,
)
NEXT_TOKEN = Term(
    "lm",
    lambda batch: tf.reduce_sum(pretraining_model.next_token_weights(batch)),
    lambda model, output, batch, training: model.next_token_loss(
        output, batch, training
    ),
)


def sum_of(*terms: Term, restores_tokens: bool = False) -> Objective:
    """Return the objective whose loss is the sum of terms (paper A.2).

    With `restores_tokens` the encoder sees the tokens that were masked.
    """

    def loss_weights(batch: Batch) -> dict[str, tf.Tensor]:
        return {f"{term.name}_loss": term.weight(batch) for term in terms}

    def forward(
        model: BertForPreTraining, batch: Batch, seed: modeling.Seed
    ) -> Sums:
        if restores_tokens:
            ids = pretraining_model.unmasked_ids(batch)
            batch = {**batch, "input_ids": ids}
        output = model.bert(**model.encoder_inputs(batch, seed))
        tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
        sequences = tf.reduce_sum(pretraining_model.sequence_weights(batch))
        sums = {"tokens": (tokens, sequences)}
        for term in terms:
            found = term.loss(model, output, batch, seed is not None)
            sums[f"{term.name}_loss"] = found.loss, found.weight
            sums[f"{term.name}_accuracy"] = found.correct, found.weight
        return sums

    def total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
        means = []
        for term in terms:
            weight = weights[f"{term.name}_loss"]
            if term.is_of_tokens:
                weight += 1e-5
            means.append(sums[f"{term.name}_loss"] / weight)
        return functools.reduce(operator.add, means)

    names, perplexities = [], {}
    for term in terms:
        names += [f"{term.name}_loss", f"{term.name}_accuracy"]
        if term.is_of_tokens:
            perplexities[f"{term.name}_loss"] = f"{term.name}_perplexity"
    return Objective(
        loss_weights, forward, total_loss, (*names, "tokens"), perplexities
    )


# --- The table ---------------------------------------------------------------


class PretrainingObjective(NamedTuple):
    """What a model is pre-trained for: a value of --objective.

    Attributes:
        name: the value.
        objective: losses and metrics.
        attention_direction: the one that the model has to have.
    """

    name: str
    objective: Objective
    attention_direction: str = modeling.BIDIRECTIONAL

    @property
    def predicts_next_sentence(self) -> bool:
        """Whether pooler and next sentence head are trained."""
        return "next_sentence_loss" in self.objective.names

    def targets(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the tokens to predict and their weights, [B, P] or [B, S]."""
        if self.attention_direction != modeling.BIDIRECTIONAL:
            return pretraining_model.neighbors(
                pretraining_model.unmasked_ids(batch),
                batch,
                self.attention_direction,
            )
        return batch["masked_lm_ids"], batch["masked_lm_weights"]

    def frequency_loss(self, batches: Iterable[Batch]) -> float:
        """Return the loss of a model that knows only how frequent tokens are.

        This loss is the entropy of the tokens to predict. Its estimate from N
        tokens of K kinds is too small; Miller (1955) corrects it to first order
        by adding (K - 1) / (2 N).
        """
        counts = collections.Counter()
        for batch in batches:
            ids, weights = self.targets(batch)
            counts.update(ids.numpy()[weights.numpy() > 0].tolist())
        total = counts.total()
        entropy = -sum(n * math.log(n / total) for n in counts.values()) / total
        return entropy + (len(counts) - 1) / (2 * total)

    @property
    def trained_for(self) -> TrainedFor:
        """What the configuration beside the weights says of them.

        It has the objective's name if pooler and next sentence head were not
        trained, which users of the weights have to know.
        """
        is_whole = self.predicts_next_sentence
        return TrainedFor(objective=None if is_whole else self.name)

    def log(self) -> None:
        """Log the objective, and which weights it leaves as they are."""
        untrained = ": pooler and next sentence head are not trained"
        is_whole = self.predicts_next_sentence
        logging.info("Objective %s%s", self.name, "" if is_whole else untrained)


_NEIGHBORS = sum_of(NEXT_TOKEN, restores_tokens=True)

OBJECTIVES = {
    each.name: each
    for each in (
        PretrainingObjective("mlm_nsp", sum_of(MASKED_LM, NEXT_SENTENCE)),
        PretrainingObjective("mlm", sum_of(MASKED_LM)),
        PretrainingObjective("ltr", _NEIGHBORS, modeling.LEFT_TO_RIGHT),
        PretrainingObjective("rtl", _NEIGHBORS, modeling.RIGHT_TO_LEFT),
    )
}


# --- Configuration -----------------------------------------------------------


def set_direction(config: modeling.BertConfig, name: str, source: str) -> None:
    """Set the attention_direction that an objective needs, and log it.

    Raises:
        UserError: the configuration, of `source`, is of another direction, and
            not of both.
    """
    wanted = OBJECTIVES[name].attention_direction
    found = config.attention_direction
    if found == wanted:
        return
    if found == modeling.BIDIRECTIONAL:
        config.attention_direction = wanted
        # A file of Hugging Face may have "is_decoder": false. Written beside
        # one direction it would contradict it.
        vars(config).pop("is_decoder", None)
        logging.info(
            "attention_direction is set to %s in the configuration of %s: "
            "tokens attend to those on one side of them alone",
            wanted,
            source,
        )
    else:
        raise UserError(
            f"{source}: attention_direction is {found}, --objective={name} "
            f"needs {wanted}: use the objective of that direction, or a "
            "configuration without the key"
        )
