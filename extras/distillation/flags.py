"""The flags of distillation: the teachers, and what is learned from them."""

import dataclasses

from base.errors import UserError
from base.flags import flag

from absl import logging
from absl.flags import FlagValues

from checkpoints import run_settings
from extras.distillation.teachers import FLAG, Options


@dataclasses.dataclass(frozen=True)
class DistillationFlags:
    """The teachers, and what is learned from them."""

    teacher_checkpoint: tuple[str, ...] = flag(
        (), needs={"do_train": "a teacher is for training"}
    )
    """Learn from this fine-tuned model, the teacher, which may be larger: the
    output_dir of a run, a checkpoint or hf://owner/name, with configuration and
    vocabulary beside the weights. From several, separated by commas, the mean
    is learned. {what_is_needed} Its outputs are computed once,
    predict_batch_size rows at a time, and kept in records_dir."""

    distillation_temperature: float = flag(
        1.0, low=1e-6, needs={"teacher_checkpoint": ""}
    )
    """Divide the logits of teacher and student by this in the soft loss; above
    1 the less likely classes count for more. The loss is multiplied by the
    square."""

    distillation_alpha: float = flag(
        1.0, 0, 1, needs={"teacher_checkpoint": ""}
    )
    """Weight of the soft loss, from 0 to 1; the loss of the labels has the
    weight 1 - distillation_alpha."""


def read(f: FlagValues) -> Options | None:
    """Return the flags as plain values; None without a teacher.

    A teacher on the hub is read at the commit that output_dir's run recorded.
    """
    if not f.teacher_checkpoint:
        return None
    return Options(
        run_settings.pinned_all(f.teacher_checkpoint, f.output_dir, FLAG),
        f.distillation_temperature,
        f.distillation_alpha,
    )


def with_commits(f: FlagValues) -> str | None:
    """Return --teacher_checkpoint with a commit for each model on the hub.

    For the runs of a sweep; None without a teacher on the hub, or in a script
    without these flags. (run_embeddings.py has a --teacher_checkpoint of its
    own.)
    """
    options = read(f) if "distillation_alpha" in f else None
    commits = options.adjustable() if options else {}
    if not commits:
        return None
    found = zip(commits[FLAG], options.teachers, strict=True)
    return ",".join(commit or path for commit, path in found)


def check(f: FlagValues) -> None:
    """Check that teachers differ; warn if nothing is learned from them.

    Raises:
        UserError: a teacher is given twice, or has no name.
    """
    paths = f.teacher_checkpoint
    for path in paths:
        if not path.strip() or paths.count(path) > 1:
            raise UserError(
                f"--teacher_checkpoint={','.join(paths)}: found {path!r} "
                f"{paths.count(path)} times, wanted different paths"
            )
    if paths and not f.distillation_alpha:
        logging.warning(
            "--distillation_alpha=0: nothing is learned from the teacher"
        )
