"""The flags of distillation: the answers of teachers, and how to learn them."""

import dataclasses

from base.flags import flag

FLAG = "teacher_answers"


@dataclasses.dataclass(frozen=True)
class DistillationFlags:
    """The answers of teachers, and what is learned from them."""

    teacher_answers: tuple[str, ...] = flag(
        (), needs={"do_train": "answers are for training"}
    )
    """Learn from these answers of a model that was fine-tuned on the same
    labels, the teacher, which may be larger: output_dir of batch_predict.py
    --as_teacher, or its files; several are separated by commas. Training texts
    without an answer are written to unanswered.jsonl in output_dir. From
    several teachers, the mean is learned (docs/distillation.md)."""

    distillation_temperature: float = flag(
        1.0, low=1e-6, needs={"teacher_answers": ""}
    )
    """Divide the logits of teacher and student by this in the soft loss; above
    1 the less likely classes count for more. The loss is multiplied by the
    square."""

    distillation_alpha: float = flag(1.0, 0, 1, needs={"teacher_answers": ""})
    """Weight of the soft loss, from 0 to 1; the loss of the labels has the
    weight 1 - distillation_alpha."""
