"""A class, labels or a number for a text or a pair of texts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks import rows
from tasks.rows import Unit
from tasks.task import (
    Encoded,
    Input,
    Outputs,
    Prediction,
    RowTask,
    Settings,
    number,
)

if TYPE_CHECKING:
    import modeling
    from checkpoints.checkpoint import Checkpoint
    from tasks.classifier import model

# Attributions may miss what they explain by this share of it.
TOLERANCE = 0.01

# The probability from which on a label is predicted, where none was tuned.
THRESHOLD = 0.5


class Classification(RowTask):
    """A label with probabilities, or a number, for a text or a pair."""

    name = "classifier"
    described = (*RowTask.described, "labels", "sentence_pairs")
    head, trained_as = "output_weights", (None,)
    multi_label = False
    takes_long_texts = True

    def __init__(self, settings: Settings):
        if settings.sentence_pairs:
            self.text_names = ("text_a", "text_b")
        super().__init__(settings)

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return label, score and probabilities; or value."""
        labels = self.settings.labels
        if labels is None:
            return {"value": number(outputs["value"])}
        shares = outputs["probabilities"]
        best = int(shares.argmax())
        return {
            "label": labels[best],
            "score": number(shares[best]),
            "probabilities": {
                name: number(share)
                for name, share in zip(labels, shares.tolist(), strict=True)
            },
        }

    def decode(
        self,
        inputs: Sequence[Input],
        encoded: Encoded,
        outputs: Sequence[Outputs],
    ) -> Iterator[Prediction | str]:
        """Yield the prediction of each input, with `attributions` if asked."""
        found = super().decode(inputs, encoded, outputs)
        for item, one, own in zip(inputs, found, outputs, strict=True):
            if self.settings.explain and not isinstance(one, str):
                one["attributions"] = self._attributions(item, own)
            yield one

    def _attributions(self, item: Input, outputs: Outputs) -> Prediction:
        """Return what was explained, and [word, attribution] of each word.

        A word is what spaces part, or an ideograph: the sum of its pieces.
        """
        found: Prediction = {}
        if self.settings.labels:
            best = int(outputs["probabilities"].argmax())
            found["label"] = self.settings.labels[best]
        for name in ("value", "baseline"):
            found[name] = number(outputs[name])
        if outputs["gap"] > TOLERANCE:
            found["gap"] = number(outputs["gap"])
        names, tokenizer = self.text_names, self.tokenizer
        texts = []  # for each text: its words, and how many pieces each has
        for name in names:
            words = tokenizer.basic_tokenizer.clean(item.texts[name]).split()
            texts.append([(x, len(tokenizer.text_to_ids(x))) for x in words])
        sizes = [sum(size for _, size in words) for words in texts]
        kept = rows.kept_lengths(
            sizes[0],
            sum(sizes[1:]),
            self.settings.row_length,
            self.settings.normalization.is_of_hub,
        )
        shares, how = outputs["attributions"], self.settings.long_texts.how
        start = 1  # behind [CLS]
        for name, words, size, count in zip(
            names, texts, sizes, kept, strict=False
        ):
            places = rows.kept_places(size, count, how)
            of_piece = dict(zip(places, shares[start:], strict=False))
            piece, found[name] = 0, []
            for word, length in words:
                pieces = range(piece, piece + length)
                own = [of_piece[p] for p in pieces if p in of_piece]
                if own:
                    found[name].append([word, number(float(np.sum(own)))])
                piece += length
            start += count + 1  # behind [SEP]
        return found

    # --- Model ---------------------------------------------------------------

    @classmethod
    def options_of(
        cls, checkpoint: "Checkpoint", given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return also the labels, and whether texts come in pairs.

        The labels of a regression, whose head has one row, are None.
        """
        count = checkpoint.shapes["output_weights"][0]  # of [num_labels, H]
        labels, trained_for = None, checkpoint.trained_for
        if count > 1:
            labels = tuple(trained_for.class_names(count))
        pairs = bool(trained_for.sentence_pairs)
        return {"labels": labels, "sentence_pairs": pairs} | dict(given)

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.BertForSequenceClassification":
        """Return the encoder with a vector for each class."""
        from tasks import bilstm
        from tasks.classifier import model

        labels = self.settings.labels
        return model.BertForSequenceClassification(
            config,
            labels and len(labels),
            dtype,
            bilstm.size_in(self.settings.trained_for),
            windows=self.settings.windows,
            activation=self.settings.trained_for.output_activation,
            multi_label=self.multi_label,
        )


class MultiLabel(Classification):
    """Labels with a probability each, for a text or a pair."""

    name = "multi_label_classification"
    described = (*Classification.described, "thresholds")
    trained_as = (name,)
    multi_label = True

    @property
    def thresholds(self) -> np.ndarray:
        """The probability [K] from which on each label is predicted."""
        found = self.settings.thresholds
        return np.array(found or [THRESHOLD] * len(self.settings.labels))

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the predicted labels, and the probabilities of all."""
        names, shares = np.array(self.settings.labels), outputs["probabilities"]
        return {
            "labels": names[shares >= self.thresholds].tolist(),
            "probabilities": dict(
                zip(names.tolist(), map(number, shares.tolist()), strict=True)
            ),
        }

    @classmethod
    def options_of(
        cls, checkpoint: "Checkpoint", given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return also the thresholds."""
        found = super().options_of(checkpoint, given)
        thresholds = checkpoint.trained_for.thresholds
        return found | {"thresholds": thresholds and tuple(thresholds)}
