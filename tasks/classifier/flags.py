"""The flags of run_classifier.py that its job reads, apart from TensorFlow."""

import dataclasses

from base.flags import flag

_ONE_LABEL = "it is for one class per example, learned from its label"


@dataclasses.dataclass(frozen=True)
class Options:
    """The loss."""

    class_weights: str | None = flag(excludes={"teacher_answers": _ONE_LABEL})
    """How much an example of each class counts in the training loss: balanced,
    so that rare classes count as much as frequent ones; or a JSON file,
    {"label": weight, ...}. With multi_label how much the examples that have a
    label count in its loss, those without it counting 1; balanced: as many
    times as there are examples without it for one that has it."""

    label_smoothing: float = flag(
        0.0,
        0,
        0.99,
        excludes=dict.fromkeys(("multi_label", "teacher_answers"), _ONE_LABEL),
    )
    """Share of the probability that training takes from the label and divides
    among all classes (Szegedy et al., arXiv:1512.00567), such as 0.1."""
