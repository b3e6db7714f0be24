"""The flags of distillation (tasks/distillation.py)."""

import math

from base.errors import UserError

from absl import flags, logging

from checkpoints import run_settings
from tasks.distillation import FLAG, Options

flags.disclaim_key_flags()  # --help of a script shows what is defined here


def define_flags(what_is_needed: str) -> None:
    """Define the flags; `what_is_needed` tells what a teacher has to be."""
    flags.DEFINE_list(
        "teacher_checkpoint",
        [],
        "Learn from this fine-tuned model, the teacher, which may be larger: "
        "the output_dir of a run, a checkpoint or hf://owner/name, with "
        "configuration and vocabulary beside the weights. From several, "
        f"separated by commas, the mean is learned. {what_is_needed} Its "
        "outputs are computed once, predict_batch_size rows at a time, and "
        "kept in records_dir.",
    )
    flags.DEFINE_float(
        "distillation_temperature",
        1.0,
        "Divide the logits of teacher and student by this in the soft loss; "
        "above 1 the less likely classes count for more. The loss is "
        "multiplied by the square.",
    )
    flags.DEFINE_float(
        "distillation_alpha",
        1.0,
        "Weight of the soft loss, from 0 to 1; the loss of the labels has the "
        "weight 1 - distillation_alpha.",
    )


def read(f: flags.FlagValues) -> Options | None:
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


def with_commits(f: flags.FlagValues) -> str | None:
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


def check(f: flags.FlagValues, *more: str) -> None:
    """Raise a UserError if flags of distillation, or `more`, do not fit."""
    paths = f.teacher_checkpoint
    if not paths:
        for name in ("distillation_temperature", "distillation_alpha", *more):
            if f[name].present:
                raise UserError(f"--{name} needs --teacher_checkpoint")
        return
    if not f.do_train:
        raise UserError(
            "--teacher_checkpoint needs --do_train: a teacher is for training"
        )
    for path in paths:
        if not path.strip() or paths.count(path) > 1:
            raise UserError(
                f"--teacher_checkpoint={','.join(paths)}: found {path!r} "
                f"{paths.count(path)} times, wanted different paths"
            )
    temperature, alpha = f.distillation_temperature, f.distillation_alpha
    if not 0.0 < temperature < math.inf:
        raise UserError(
            f"--distillation_temperature={temperature:g}: wanted a number "
            "above 0"
        )
    if not 0.0 <= alpha <= 1.0:
        raise UserError(
            f"--distillation_alpha={alpha:g}: wanted a number from 0 to 1"
        )
    if not alpha:
        logging.warning(
            "--distillation_alpha=0: nothing is learned from the teacher"
        )
